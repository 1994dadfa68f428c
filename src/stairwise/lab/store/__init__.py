"""Files, trials, the index over them, queries: everything in it is complete or absent."""
