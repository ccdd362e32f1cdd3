"""The one uplink of all cameras: how much it carries, whose frame goes next, and how the frames give way."""
