"""What papers share of their problems."""
