"""W and V turning into the identity blocks, frame by frame."""

from functools import lru_cache
from typing import Any

import numpy as np

from stairwise.lab.contract.microscope import (
    Curve,
    Map,
    MapAxis,
    Microscope,
    Overlay,
    curves_of,
    frames_of,
    mean_entropy,
    snapshot_ticks,
)

QUERIES = 200  # random encodings and subsets over which the entropy is averaged


def weights(record: Any) -> Microscope | None:
    """Of a trial that kept snapshots: W with the ideal C x identity on positions, V with alpha x identity on tokens."""
    steps = snapshot_ticks(record, "train/W")
    if not steps:
        return None
    config = record.config
    d, width = config.task.width, config.encoding.width
    joint = [f"token coordinate {i + 1}" for i in range(d)] + [f"position coordinate {i + 1}" for i in range(width)]
    W = frames_of(record, "train/W")
    entropy = Curve("attention entropy", steps, [attention_entropy(each[d:, d:], config) for each in W])
    return Microscope(
        says="Attention scores are z_i' W z_query, the output is V Z softmax. The theory says that only the position"
        " block of W and the token block of V survive, each as a multiple of the identity.",
        axis="SGD step",
        places=steps,
        labels=[f"step {step:,}" for step in steps],
        maps=(
            Map(
                "W",
                "scores of a key (rows) for a query (columns)",
                W,
                MapAxis("key", joint, (d,)),
                MapAxis("query", joint, (d,)),
                (Overlay("ideal: C x identity on positions", [(d + i, d + i) for i in range(width)]),),
            ),
            Map(
                "V",
                "what a selected column (columns) adds to the output (rows)",
                frames_of(record, "train/V"),
                MapAxis("output", joint[:d]),
                MapAxis("input", joint, (d,)),
                (Overlay("ideal: alpha x identity on tokens", [(i, i) for i in range(d)]),),
            ),
        ),
        curves=[*curves_of(record, ["train_loss", "loss in", "cosine W", "cosine V"]), entropy],
    )


def attention_entropy(W: np.ndarray, config: Any) -> float:
    """Mean entropy, in nats, of attention by position alone: random sign encodings E and subsets y, e_y as the task's.

    Where all is well it is log q; attention that has learned nothing has log T.
    """
    rows = []
    for E, query in _queries(len(W), config.task.length, config.task.sparsity):
        scores = config.beta * (E.T @ W @ query)
        p = np.exp(scores - scores.max())
        rows.append(p / p.sum())
    return mean_entropy(np.array(rows))


@lru_cache(maxsize=1)  # all frames of a trial are looked at with the same ones
def _queries(width: int, T: int, q: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """Encodings E of T positions, and e_y of a random subset."""
    rng = np.random.default_rng(0)
    found = []
    for _ in range(QUERIES):
        E = rng.choice([-1.0, 1.0], (width, T)) / np.sqrt(width)
        chosen = E[:, rng.choice(T, q, replace=False)]
        found.append((E, chosen @ np.linalg.pinv(chosen.T @ chosen) @ np.ones(q)))
    return found
