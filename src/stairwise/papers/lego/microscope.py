"""The two diagonals of LEGO, and how they dilute with length: attention of answers to clauses at every kept length.

Answer l should look at predicate l+1, which is column l, and at itself, column L+l.
"""

from typing import Any

import numpy as np

from stairwise.lab.contract.microscope import Curve, Map, MapAxis, Microscope, Overlay, mean_entropy


def kept_lengths(record: Any) -> list[int]:
    """The lengths at which a trial has kept its attention: none where its mixer, or a model of one's own, has none."""
    kept = set(record.arrays())
    return sorted(length for length in record.config.map_lengths if f"train/attention {length}" in kept)


def diagonals(record: Any) -> Microscope | None:
    """Of a trained decoder that kept its mean attention at some lengths: a frame a length."""
    lengths = kept_lengths(record)
    if not lengths:
        return None
    kept = {length: record.array(f"train/attention {length}").astype(np.float64) for length in lengths}
    mean = [kept[length].mean(axis=0) for length in lengths]
    views = {"mean over heads": mean}
    views |= {f"head {k + 1}": [kept[length][k] for length in lengths] for k in range(len(kept[lengths[0]]))}
    overlays = (
        Overlay("the right predicate", [[(l, l) for l in range(length)] for length in lengths], by_frame=True),
        Overlay("itself", [[(l, length + l) for l in range(length)] for length in lengths], by_frame=True),
    )
    maps = [
        Map(name, "attention of answers (rows) to clauses (columns)", frames, *_axes(lengths), overlays)
        for name, frames in views.items()
    ]
    on_predicate = [float(np.diagonal(each[:, :length]).mean()) for each, length in zip(mean, lengths, strict=True)]
    on_itself = [float(np.diagonal(each[:, length:]).mean()) for each, length in zip(mean, lengths, strict=True)]
    return Microscope(
        says="Trained at one length and looked at in longer sentences. An answer needs two clauses, the next predicate"
        " and itself; the longer the sentence, the more other clauses share the attention.",
        axis="length L",
        places=lengths,
        labels=[f"length {length}" for length in lengths],
        maps=maps,
        curves=(
            Curve("on the right predicate", lengths, on_predicate),
            Curve("on itself", lengths, on_itself),
            Curve("entropy of attention", lengths, [mean_entropy(each) for each in mean]),
        ),
    )


def _axes(lengths: list[int]) -> tuple[list[MapAxis], list[MapAxis]]:
    rows = [MapAxis("answer", [f"answer {l}" for l in range(length)]) for length in lengths]
    columns = [
        MapAxis(
            "clause",
            [f"predicate {l + 1}" for l in range(length)] + [f"answer {l}" for l in range(length)],
            (length,),
        )
        for length in lengths
    ]
    return rows, columns
