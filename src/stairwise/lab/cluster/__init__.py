"""The same trials on other processes and machines: Dask, SLURM."""
