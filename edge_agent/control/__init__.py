"""The control socket of a running agent: status and changes, for whoever its file's mode lets in."""
