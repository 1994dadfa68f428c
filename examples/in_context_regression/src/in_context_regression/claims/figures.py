"""The empirical claims, with lines written down before the runs."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from stairwise.lab.contract import Verdict

from in_context_regression import theory
from in_context_regression.claims.ledger import LEDGER

EXCESS, AWAY = 0.05, 0.15


@LEDGER.empirical(
    "fig-training",
    experiment="training",
    says="trained on batches with all weights free, every seed ends within 5% of the least loss",
)
def training_reaches_the_optimum(records: Sequence[Any]) -> Verdict:
    rows = [
        {"decay": record.config.prompts.decay, "seed": record.seed}
        | {name: record.final(name) for name in ("excess", "distance", "outside")}
        for record in records
    ]
    return Verdict.at_most(max(row["excess"] for row in rows), EXCESS, otherwise="not-reproduced", details=tuple(rows))


@LEDGER.empirical(
    "fig-shift",
    experiment="shift",
    says="on other covariances and lengths every trained layer's loss is within 15% of the optimum's closed form",
)
def trained_layers_break_as_predicted(records: Sequence[Any]) -> Verdict:
    rows = []
    for record in records:
        prompts = record.config.training.prompts
        l, N, noise = theory.spectrum(prompts.width, prompts.decay), prompts.length, prompts.noise
        P = np.diag(1 / theory.gamma(l, N, noise))
        for stage in ("scale", "length"):
            for step, loss in zip(*record.series("loss", stage), strict=True):
                test = (step / 100 * l, N) if stage == "scale" else (l, int(step))
                predicted = theory.loss(P, *test, noise)
                row = {"decay": prompts.decay, "seed": record.seed, stage: int(step), "loss": loss}
                rows.append(row | {"closed form": predicted, "away": abs(loss / predicted - 1)})
    return Verdict.at_most(max(row["away"] for row in rows), AWAY, otherwise="not-reproduced", details=tuple(rows))
