"""What is wrong with a camera, the network, the clock, the disk or the server, in words, and what to do."""
