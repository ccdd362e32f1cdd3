"""Detectors: what finds objects in an image, behind one small protocol."""
