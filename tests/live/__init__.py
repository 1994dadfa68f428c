"""The page of a run that trains."""
