"""How `falsify` searches: the space of a claim, points of it, which to propose next, and what was found."""
