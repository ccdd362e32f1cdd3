"""Store and forward: records wait on disk, bounded, until the central server has them."""
