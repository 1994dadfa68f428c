"""One folder per paper. Nothing outside this package imports a paper by name: see `stairwise.lab.registry`."""
