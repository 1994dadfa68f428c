"""The second step of Theorem 3: from correlations in W to one-hot attention (Lemmas 20, 21, 22, 32)."""

import math
from dataclasses import dataclass

import numpy as np

from stairwise.lab.checks import identical, relative_error, under
from stairwise.lab.config import Config, option
from stairwise.lab.contract import Verdict
from stairwise.papers.parity_cot.claims.correlations import relative_noise
from stairwise.papers.parity_cot.claims.ledger import LEDGER
from stairwise.papers.parity_cot.claims.running import PROOF, Run, as_run, kappa_on_atoms, table_gradient
from stairwise.papers.parity_cot.claims.sizes import all_sequences, cube_fits, random_sequences
from stairwise.papers.parity_cot.config.task import Task
from stairwise.papers.parity_cot.theory import bounds, gradients, trajectory

# (n+1)^3 >= 64 n^2: at i = n+1 the query's own token is always 0, so its key gets twice the mean that others get, minus
# eta0 eta1 / (8 m (n+1)^3), which Lemma 21 wants below eta0 eta1 / (512 m n^2)
SMALLEST_INPUTS = 61
LARGE = Run(task=Task(100, 3), batch=2**17, block=2**12, width=2**20, neurons=200, scale=15_000.0, logit=400.0)


def at_queries(scores: np.ndarray, config: Run) -> np.ndarray:
    """A gradient in A by key, its bit, query, its bit."""
    n, positions = config.task.inputs, config.positions
    return scores.reshape(positions, 2, positions, 2)[:, :, n:]


@LEDGER.theory(
    "lem20",
    kind="identity",
    says="the gradient in A through the softmax, in closed form, against autodiff: at step 2 and at random scores",
    cases=PROOF,
)
def gradient_through_the_softmax(config: Run, seed: int) -> Verdict:
    run = trajectory.trajectory(config, seed)
    delta = kappa_on_atoms(config, seed, 1)
    atoms = 2 * config.positions
    scores = np.random.default_rng(seed).standard_normal((atoms, atoms))
    tokens = random_sequences(config.task, 64, seed, 1)
    tables = run.tables[1]._replace(scores=scores)
    found = np.asarray(table_gradient()("linear", run.setting.positive, tables.tables, tokens).scores)
    random = gradients.attention_gradient(tokens, delta, scores.reshape(config.positions, 2, config.positions, 2))
    step = gradients.attention_gradient(run.batches[1], delta)
    pairs = {
        "step 2": (at_queries(run.gradients[1].scores, config), step),
        "random scores": (at_queries(found, config), random),
    }
    return under(config.violated_rate(), identical(pairs, 1e-11))


@LEDGER.theory(
    "lem21-gradient-printed",
    kind="identity",
    says="as printed: the second line of the gradient in A adds the mean over keys, and only for b2 = 1",
    cases=PROOF,
)
def the_mean_is_subtracted(config: Run, seed: int) -> Verdict:
    run = trajectory.trajectory(config, seed)
    printed = gradients.attention_gradient_printed(run.batches[1], kappa_on_atoms(config, seed, 1))
    return Verdict.at_most(
        relative_error(printed, at_queries(run.gradients[1].scores, config)),
        1e-11,
        otherwise="refuted",
        note="the mean is subtracted, and b2 runs over 0 and 1 (lem20 has the right form)",
    )


@LEDGER.theory(
    "lem21",
    kind="bound",
    says="after step 2 every target logit is at least eta0 eta1/(256mn^2), every other at most half of that",
    cases=PROOF,
)
def targets_stand_out(config: Run, seed: int) -> Verdict:
    run = trajectory.trajectory(config, seed)
    seen, n = trajectory.view(run, 2), config.task.inputs
    unit = float(run.rates[0] * run.rates[1]) / (256 * config.neurons * n**2)
    rows = [
        {"i": n + 1 + q, "target": float(seen.target[q].min()), "other": float(seen.largest_other[q].max())}
        for q in range(config.task.size)
    ]
    small = f"inputs={n} must be at least {SMALLEST_INPUTS} (the mean over the keys of i = n+1)"
    others = Verdict.at_most(float(seen.largest_other.max()), unit / 2)
    far = f"positions n+k={config.positions} must be at most about 1.4 n"
    violated = config.violated_large() + (() if config.positions**2 * 1.1 <= 2 * n**2 else (far,))
    return Verdict.worst(
        {
            "smallest target logit": under(
                violated, Verdict.at_least(float(seen.target.min()), unit, details=tuple(rows))
            ),
            "largest |other logit|": under(
                config.violated_large() + (() if n >= SMALLEST_INPUTS else (small,)), others
            ),
        }
    )


@LEDGER.theory(
    "lem21-large",
    kind="bound",
    tier="minutes",
    says="Lemma 21 at n = 100, where its 'large enough' begins to hold: targets and others as it says",
    cases=LARGE,
)
def targets_stand_out_at_large_sizes(config: Run, seed: int) -> Verdict:
    return targets_stand_out(config, seed)


@dataclass(frozen=True)
class Enumerated(Run):
    """A run whose mean gradient is known by enumeration."""

    def check(self) -> None:
        super().check()
        cube_fits(self.task, 14)


@LEDGER.theory(
    "lem21-logits",
    kind="identity",
    says="ours: target logits are those of the mean gradient, about eta0 eta1/(128mi^2) and 8 times that at i = n+1",
    cases=Enumerated(),
)
def logits_are_as_predicted(config: Enumerated, seed: int) -> Verdict:
    run, n, m = trajectory.trajectory(as_run(config), seed), config.task.inputs, config.neurons
    leading = gradients.kappa_leading(n, run.secret, m, float(run.rates[0]))
    mean = -float(run.rates[1]) * gradients.attention_gradient(all_sequences(config.task, seed), leading)
    found = run.tables[2].scores.reshape(config.positions, 2, config.positions, 2)[:, :, n:]
    ratios, rows = [], []
    closed = gradients.target_logit(n, config.task.size, m, *map(float, run.rates[:2]))
    for q, j in enumerate(run.secret):
        bits = (0, 1) if q else (0,)
        ratio = np.array([found[j, :, q, b] / mean[j, :, q, b] for b in bits])
        ratios.append(ratio.ravel())
        rows.append(
            {
                "i": n + 1 + q,
                "measured/predicted": f"{ratio.min():.3g}..{ratio.max():.3g}",
                "predicted/leading": f"{(mean[j, :, q, 0] / closed[q]).min():.3g}",
            }
        )
    off = float(np.max(np.abs(np.concatenate(ratios) - 1)))
    return Verdict.at_most(off, 5 * relative_noise(config), details=tuple(rows))


@LEDGER.theory(
    "lem21-printed",
    kind="identity",
    says="as printed: the target logit is eta0 eta1 alpha-bar^2/(8B^2mi'), and that is at least eta0 eta1/(128mn^2)",
    cases=PROOF,
)
def the_position_is_squared(config: Run, seed: int) -> Verdict:
    n, k, m = config.task.inputs, config.task.size, config.neurons
    run = trajectory.trajectory(config, seed)
    rates = tuple(map(float, run.rates[:2]))
    printed, right = (form(n, k, m, *rates) for form in (gradients.target_logit_printed, gradients.target_logit))
    found = trajectory.view(run, 2).target
    at_least = rates[0] * rates[1] / (128 * m * n**2)
    rows = [
        {"i": n + 1 + q, "measured": float(found[q].min()), "printed": printed[q], "with i'^2": right[q]}
        for q in range(k)
    ]
    return Verdict.at_most(
        float(np.max(np.abs(found.min(axis=1) / printed - 1))),
        0.5,
        otherwise="refuted",
        note=f"i' must be squared; for i > n+1 the value then lies below eta0 eta1/(128mn^2)={at_least:.4g}, not above",
        details=tuple(rows),
    )


@LEDGER.theory(
    "lem22",
    kind="bound",
    says="after step 2 the attention output is e_{S[i],b[S[i]]} within n^-10, on all inputs",
    cases=PROOF,
)
def attention_is_one_hot(config: Run, seed: int) -> Verdict:
    seen = trajectory.view(trajectory.trajectory(config, seed), 2)
    gap = float(np.min(seen.target - seen.other))
    limit = bounds.one_hot_error(config.positions - 1, gap)
    return Verdict.worst(
        {
            "2 (attention on other keys)": under(
                config.violated_logit(), Verdict.at_most(2 * seen.error, config.task.inputs**-10.0)
            ),
            "error against (T-1) e^-gap": Verdict.at_most(seen.error, limit * (1 + 1e-9), details=({"gap": gap},)),
        }
    )


@dataclass(frozen=True)
class Scores(Config):
    """Scores at the limits that Lemma 32 allows."""

    inputs: tuple[int, ...] = option((2, 5, 12, 100, 10_000), "input bits n", low=2, high=10**9)
    constants: tuple[float, ...] = option((1.5, 2.0, 4.0, 9.0, 20.0), "C", above=1.0, high=30.0)


@LEDGER.theory(
    "lem32",
    kind="bound",
    says="target scores >= 2C ln n and others <= C ln n give an attention output within 4/n^(C-1) of one-hot",
    cases=Scores(),
)
def large_gaps_give_one_hot_attention(config: Scores, seed: int) -> Verdict:
    rows = []
    for n in config.inputs:
        others = 2 * n - 1  # k = n: the last query sees 2n keys
        for C in config.constants:
            error = 2 * bounds.one_hot_error(others, C * math.log(n))  # ||e_j - e_S|| <= 2
            rows.append({"n": n, "C": C, "error": error, "bound": bounds.lemma32(n, C)})
    worst = max(rows, key=lambda row: row["error"] / row["bound"])
    return Verdict.at_most(worst["error"] / worst["bound"], 1.0, details=(worst,))
