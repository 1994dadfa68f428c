"""Pages and figures made from the store."""
