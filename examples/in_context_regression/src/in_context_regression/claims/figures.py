"""The empirical claims, with lines written down before the runs."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from stairwise.paper import at_most, row

from in_context_regression import theory
from in_context_regression.claims.ledger import LEDGER

EXCESS, AWAY = 0.05, 0.15


@LEDGER.empirical(
    "fig-training",
    experiment="training",
    statement="ours: training",
    says="trained on batches with all weights free, every seed ends within 5% of the least loss",
)
def training_reaches_the_optimum(records: Sequence[Any]):
    for record in records:
        decay = record.config.prompts.decay
        yield at_most(f"excess loss, decay {decay:g}, seed {record.seed}", record.final("excess"), EXCESS)
        yield row(decay=decay, seed=record.seed, distance=record.final("distance"), outside=record.final("outside"))


@LEDGER.empirical(
    "fig-shift",
    experiment="shift",
    statement="ours: shifts",
    of=(theory.loss,),
    says="on other covariances and lengths every trained layer's loss is within 15% of the optimum's closed form",
)
def trained_layers_break_as_predicted(records: Sequence[Any]):
    for record in records:
        prompts = record.config.training.prompts
        l, N, noise = theory.spectrum(prompts.width, prompts.decay), prompts.length, prompts.noise
        P = np.diag(1 / theory.gamma(l, N, noise))
        for stage in ("scale", "length"):
            for step, loss in zip(*record.series("loss", stage), strict=True):
                test = (step / 100 * l, N) if stage == "scale" else (l, int(step))
                away = abs(loss / theory.loss(P, *test, noise) - 1)
                name = f"relative error of the loss, decay {prompts.decay:g}, seed {record.seed}, {stage} {int(step)}"
                yield at_most(name, away, AWAY)
