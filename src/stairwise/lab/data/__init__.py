"""Data out, and models in: the papers' tasks as files and records, and what a model makes of them."""
