"""What an author writes: paper, experiment, claim, verdict, figure style. `stairwise.paper` is its one door."""
