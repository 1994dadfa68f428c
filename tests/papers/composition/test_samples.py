"""Facts about the claim that counts samples: its counts give the attention of the population."""

import numpy as np

from stairwise.papers.composition.claims import samples
from stairwise.papers.composition.theory import noise, population


def test_many_samples_give_the_attention_of_the_population():
    k, N = 2, 5
    rng = np.random.default_rng(2)
    hidden = rng.permuted(np.tile(np.arange(N), (k, 1)), axis=1)
    sequences = rng.permuted(np.broadcast_to(np.arange(N), (8, k, N)), axis=2)
    assert samples.is_right(hidden, sequences, population.key_query_signal(hidden, 2))
    assert not samples.is_right(hidden, sequences, -population.key_query_signal(hidden, 2))
    assert not samples.is_right(hidden, sequences, samples.last_layer(hidden, 5, rng))
    assert samples.samples_needed(k, N, 8, rng) < noise.sample_rule(k, N) * 4
