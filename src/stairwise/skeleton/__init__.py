"""What `stairwise new-paper` copies: a small paper that works as it stands (`paper`), its tests, its project file."""
