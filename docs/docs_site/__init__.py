"""The code behind the documentation site; docs/hooks.py calls it."""
