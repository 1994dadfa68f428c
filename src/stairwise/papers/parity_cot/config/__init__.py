"""The configs of the experiments."""
