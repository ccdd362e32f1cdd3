"""The central server: frames of many cameras in, detections out."""
