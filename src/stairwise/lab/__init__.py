"""The contract between papers and the kernel, presets, planner, executor and store."""
