"""What we look at: attention, accuracy, sample complexity, exact population quantities, fits."""
