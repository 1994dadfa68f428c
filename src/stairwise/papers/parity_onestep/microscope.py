"""W as a heat map of the tree: which tokens each node looks at, before and after one step, or step by step."""

from typing import Any

import numpy as np

from stairwise.lab.contract.microscope import (
    Curve,
    Map,
    MapAxis,
    Microscope,
    Overlay,
    frames_of,
    mean_entropy,
    snapshot_ticks,
)

METRICS = ("loss", "root loss", "accuracy", "support", "leakage")


def tree(record: Any) -> Microscope | None:
    """Frames of W and of the attention that it means; circled: the two children of every node."""
    if "descent/children" not in record.arrays():
        return None
    steps, frames = _frames(record)
    height = record.array("descent/height")
    nodes = np.flatnonzero(height > 0)
    children = record.array("descent/children")[nodes]
    seen = visible(record.config, height, int(record.array("descent/inputs")))[:, nodes]
    used = np.flatnonzero(seen.any(axis=1) | np.isin(np.arange(len(seen)), children))
    place = {int(token): column for column, token in enumerate(used)}
    edges = [(row, place[int(child)]) for row, pair in enumerate(children) for child in pair]
    rows, columns = _axes(record, nodes, used, children)
    maps = {
        "W": ("logit of token j (columns) in node m (rows)", lambda W: np.where(seen, W[:, nodes], np.nan)),
        "attention": ("softmax of each row of it", lambda W: attention(W[:, nodes], seen)),
    }
    shown = {name: [read(W)[used].T for W in frames] for name, (_, read) in maps.items()}
    return Microscope(
        says="Node m is the product of two earlier tokens, its children. Every row should single out two columns.",
        axis="gradient step",
        places=steps,
        labels=["before any step", *(f"after step {step}" for step in steps[1:])],
        maps=[
            Map(name, maps[name][0], shown[name], rows, columns, (Overlay("edges of the tree", edges),))
            for name in maps
        ],
        curves=_curves(record, steps, shown["attention"]),
    )


def visible(config: Any, height: np.ndarray, inputs: int) -> np.ndarray:
    """visible[j, m]: whether node m may look at token j, under the config's mask."""
    slots, nodes = config.task.slots, len(height)
    token = np.arange(slots + nodes)[:, None]
    above = np.where(height > 0, height, nodes + 1)
    before = np.arange(nodes) if config.mask == "causal" else np.searchsorted(above, above, side="left")
    return ((token < inputs) | ((token >= slots) & (token < slots + before))) & (height > 0)


def attention(W: np.ndarray, seen: np.ndarray) -> np.ndarray:
    """Softmax over the visible tokens of every node; NaN where it cannot look."""
    logits = np.where(seen, W, -np.inf)
    weights = np.exp(logits - logits.max(axis=0))
    return np.where(seen, weights / weights.sum(axis=0), np.nan)


def _frames(record: Any) -> tuple[list[int], list[np.ndarray]]:
    """Gradient steps and W after each; a trial of one step starts from W = 0."""
    ticks = snapshot_ticks(record, "descent/W")
    if not ticks:
        W = record.array("descent/W")
        return [0, 1], [np.zeros_like(W), W]
    return [tick // record.config.blocks for tick in ticks], frames_of(record, "descent/W")


def _axes(record: Any, nodes: np.ndarray, used: np.ndarray, children: np.ndarray) -> tuple[MapAxis, MapAxis]:
    slots, height = record.config.task.slots, record.array("descent/height")
    secret = {int(child) for child in children.ravel() if child < slots}

    def token(j: int) -> str:
        if j >= slots:
            return f"node {j - slots + 1} (level {height[j - slots]})"
        return f"bit {j + 1}{' (secret)' if j in secret else ''}"

    pairs = zip(nodes.tolist(), children.tolist(), strict=True)
    rows = [f"{token(slots + m)} = {token(a)} x {token(b)}" for m, (a, b) in pairs]
    levels = [k for k in range(1, len(nodes)) if height[nodes[k]] != height[nodes[k - 1]]]
    first_node = int(np.searchsorted(used, slots))
    return MapAxis("node m", rows, levels), MapAxis("token j", [token(j) for j in used.tolist()], (first_node,))


def _curves(record: Any, steps: list[int], attended: list[np.ndarray]) -> list[Curve]:
    """What was measured after every step, and the mean entropy of the nodes' attention."""
    curves = []
    if len(snapshot_ticks(record, "descent/W")):
        for name in METRICS:
            ticks, values = record.series(name)
            curves.append(Curve(name, ticks // record.config.blocks, values))
    return [*curves, Curve("entropy of attention", steps, [mean_entropy(each) for each in attended])]
