"""A video file served as a live RTSP camera: to try the agent with, and to test it against bad cameras."""
