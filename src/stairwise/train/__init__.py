"""The training loop, its keys and schemes, and greedy roll-out."""
