"""From a camera to frames: one thread per camera that opens its source, decodes, thins and encodes."""
