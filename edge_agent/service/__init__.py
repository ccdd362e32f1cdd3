"""The agent as a systemd service: what systemd is told, and how the unit is made and installed."""
