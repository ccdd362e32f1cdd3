"""How many cameras a server holds: the load generator, the search, the cost of a frame, the report."""
