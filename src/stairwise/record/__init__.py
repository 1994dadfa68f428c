"""The record: what was measured on large machines, published with the package, and how it is read.

`measurements/PAPER/EXPERIMENT/RUN.parquet` holds every trial of a run (config, seed, status, every metric, how it was
made), `RUN.safetensors.gz` the arrays that figures show and claims read. Files are added, never changed.
"""
