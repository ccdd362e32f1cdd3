"""The edge agent: runs on a gateway, captures its cameras and streams their frames to the central server."""
