"""What W has learnt of the secret after the first step: kappa and Delta (Lemmas 18 and 19)."""

from dataclasses import dataclass

import numpy as np

from stairwise.lab.checks import identical, relative_error, under
from stairwise.lab.config import Config, option
from stairwise.lab.contract import Verdict
from stairwise.papers.parity_cot.claims.ledger import LEDGER
from stairwise.papers.parity_cot.claims.running import PROOF, Run, counts, kappa_coefficients, kappa_on_atoms
from stairwise.papers.parity_cot.theory import bounds, gradients, trajectory


def relative_noise(config: Run) -> float:
    """Standard deviation of a wanted entry of kappa over its mean: m/2 of 2m neurons count, and B samples."""
    return float(np.sqrt(1.5 / config.neurons + 10 * config.task.size / config.batch))


@LEDGER.theory(
    "lem18",
    kind="identity",
    says="kappa_1 in closed form; its mean: eta0 (-1)^(b1+b)/(32mi) on e_{S[i]}, a leak eta0 (-1)^b1/(16m(n+1)) on"
    " e_{S[n+1]}",
    cases=PROOF,
)
def correlations_after_step_one(config: Run, seed: int) -> Verdict:
    run, batch = trajectory.trajectory(config, seed), counts(config, seed, 0)
    rate, n, m = float(run.rates[0]), config.task.inputs, config.neurons
    found = kappa_coefficients(config, seed, 1)
    leading = gradients.kappa_leading(n, run.secret, m, rate)
    at = leading != 0
    ratio = found[at] / leading[at]
    allowed = 5 * relative_noise(config)
    row = {"smallest ratio": float(ratio.min()), "largest ratio": float(ratio.max())}
    row["correlation with the leading term"] = float(np.corrcoef(found.ravel(), leading.ravel())[0, 1])
    return Verdict.worst(
        {
            "closed form": identical({"kappa": (found, gradients.kappa(batch, run.positive, rate))}, 1e-11),
            "|measured/predicted - 1|": Verdict.at_most(float(np.abs(ratio - 1).max()), float(allowed), details=(row,)),
        }
    )


@LEDGER.theory(
    "lem18-printed",
    kind="identity",
    says="as printed: alpha-bar cancels over b2, so kappa_1 has eta0/(8Bmi) alpha-bar on e_{S[i]}, noise elsewhere",
    cases=PROOF,
)
def the_first_position_leaks(config: Run, seed: int) -> Verdict:
    run = trajectory.trajectory(config, seed)
    printed = gradients.kappa_printed(counts(config, seed, 0), run.positive, run.secret, float(run.rates[0]))
    found = kappa_coefficients(config, seed, 1)
    n, m, rate = config.task.inputs, config.neurons, float(run.rates[0])
    row = {}
    if config.task.size > 1:
        leak = np.abs((found - printed)[1:, :, run.secret[0]]).mean()
        row = {"leak": float(leak), "eta0/(16m(n+1))": rate / (16 * m * (n + 1)), "wanted": rate / (32 * m * (n + 2))}
    return Verdict.at_most(
        relative_error(printed, found),
        0.05,
        otherwise="refuted",
        note="at i = n+1 only b2 = 0 occurs and nothing cancels: a leak twice the wanted size, and 1/4, not 1/8, there",
        details=(row,) if row else (),
    )


@LEDGER.theory(
    "lem19",
    kind="bound",
    says="Delta is its leading term (with the leak) within 10 eta0/(mn) sqrt(nk/(Bd)) ln(300mnB/delta)",
    cases=PROOF,
)
def correlations_are_near_their_mean(config: Run, seed: int) -> Verdict:
    run = trajectory.trajectory(config, seed)
    n, k, m, rate = config.task.inputs, config.task.size, config.neurons, float(run.rates[0])
    off = np.abs(kappa_on_atoms(config, seed, 1) - gradients.kappa_leading(n, run.secret, m, rate)).max()
    bound = bounds.kappa_deviation(n, k, config.width, m, config.batch, config.failure, rate)
    violated = () if config.width < n else (f"width={config.width} must be below inputs={n} (5.1)",)
    row = {"leading, smallest": rate / (32 * m * (n + k)), "bound over that": bound / (rate / (32 * m * (n + k)))}
    return under(violated, Verdict.at_most(float(off), bound, details=(row,)))


@dataclass(frozen=True)
class Limit(Config):
    """The mean over batch and start; the sizes enter the right-hand side of Lemma 19."""

    inputs: int = option(12, "input bits n", low=2, high=10_000)
    size: int = option(3, "secret bits k", low=2, high=10_000)
    width: int = option(10**12, "width d", low=1, high=10**18)
    neurons: int = option(10**6, "m", low=1, high=10**12)
    samples: int = option(10**12, "samples B", low=1, high=10**18)
    failure: float = option(0.1, "delta", above=0.0, below=1.0)


@LEDGER.theory(
    "lem19-printed",
    kind="bound",
    says="as printed: Delta is eta0/(8Bmi) alpha-bar 1(j = S[i]) within that bound, also at j = S[n+1]",
    cases=Limit(),
)
def the_leak_is_no_noise(config: Limit, seed: int) -> Verdict:
    n, k, m = config.inputs, config.size, config.neurons
    secret = np.arange(k)
    right, printed = (form(n, secret, m, 1.0) for form in (gradients.kappa_leading, gradients.kappa_leading_printed))
    off = float(np.abs(right - printed).max())
    bound = bounds.kappa_deviation(n, k, config.width, m, config.samples, config.failure, 1.0)
    return Verdict.at_most(
        off,
        bound,
        otherwise="refuted",
        note="the mean itself is off by eta0/(16m(n+1)) at j = S[n+1], whatever batch, width and number of neurons",
        details=({"off / eta0": off, "1/(16m(n+1))": 1 / (16 * m * (n + 1))},),
    )
