"""What a stored run of several steps says: which level was solved when, and the shape of its weights. NumPy only."""

from typing import Any

import numpy as np
from jaxtyping import Bool, Float

SOLVED = 0.5


def levels_of(config: Any) -> int:
    """The height of the task's tree."""
    return config.task.size - 1 if config.task.tree == "chain" else (config.task.size - 1).bit_length()


def level_errors(record: Any) -> Float[np.ndarray, "levels steps"]:
    """Sup error of level l (row l-1) after step t (column t)."""
    return np.array([record.series(f"sup level {l}")[1] for l in range(1, levels_of(record.config) + 1)])


def is_staircase(record: Any) -> bool:
    """Level l is solved after step t exactly when t >= l."""
    solved = level_errors(record) < SOLVED
    level = np.arange(1, len(solved) + 1)[:, None]
    return bool(np.all(solved == (np.arange(solved.shape[1]) >= level)))


def solved_at(record: Any) -> int | None:
    """The step from which on every fresh input is answered right at the root; none where there is no such step."""
    wrong = np.flatnonzero(record.series("success")[1] < 1)
    steps = len(record.series("success")[1])
    first = int(wrong[-1]) + 1 if len(wrong) else 0
    return None if first == steps else first


def gates_text(record: Any) -> str:
    """The gates after every step: "1000 1100 ..."."""
    rows = np.array([record.series(f"gate level {l}")[1] for l in range(1, levels_of(record.config) + 1)])
    return " ".join("".join(str(int(gate)) for gate in column) for column in rows.T)


def snapshots(record: Any) -> list[Float[np.ndarray, "tokens nodes"]]:
    """W after every step that was measured, the start included."""
    names = [name for name in record.arrays() if name.startswith("descent/W@")]
    return [record.array(name) for name in sorted(names, key=lambda name: int(name.partition("@")[2]))]


def child_weights(record: Any, W: Float[np.ndarray, "tokens nodes"]) -> Float[np.ndarray, "nodes 2"]:
    children = record.array("descent/children")
    return W[children, np.arange(len(children))[:, None]]


def other_weights(record: Any, W: Float[np.ndarray, "tokens nodes"]) -> Float[np.ndarray, " others"]:
    """All weights of visible tokens (block mask) that are not children of their node."""
    children, height = record.array("descent/children"), record.array("descent/height")
    other = visible(record)
    other[children, np.arange(len(height))[:, None]] = False
    return W[other]


def visible(record: Any) -> Bool[np.ndarray, "tokens nodes"]:
    """The block mask: inputs, and nodes of lower height."""
    height, slots = record.array("descent/height"), record.config.task.slots
    node = np.concatenate([np.zeros(slots, dtype=height.dtype), height])
    return node[:, None] < height


def follows_eq11(record: Any) -> bool:
    """Eq. (11) at every step t: equal positive weights at the children of levels <= t, zero everywhere else."""
    height = record.array("descent/height")
    for t, W in enumerate(snapshots(record)):
        children, solved = child_weights(record, W), height <= t
        equal = np.all(children[:, 0] == children[:, 1]) and np.all((children[:, 0] > 0) == solved)
        if not equal or np.any(other_weights(record, W) != 0) or np.any(children[~solved] != 0):
            return False
    return True
