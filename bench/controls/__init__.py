"""Servers as people write them: gRPC's generated classes, work in Python. What ours is compared with."""
