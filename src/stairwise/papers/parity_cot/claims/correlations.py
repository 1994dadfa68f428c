"""What W has learnt of the secret after the first step: kappa and Delta (Lemmas 18 and 19)."""

import math
from dataclasses import dataclass

import numpy as np

from stairwise.config import Config, option
from stairwise.lab.contract.checks import at_most, equal, hypothesis, row
from stairwise.papers.parity_cot.claims.ledger import LEDGER
from stairwise.papers.parity_cot.claims.running import (
    PROOF,
    SECOND,
    SMALL,
    Ideal,
    Run,
    counts,
    ideal,
    kappa_coefficients,
    kappa_on_atoms,
    needs,
)
from stairwise.papers.parity_cot.config.task import Task
from stairwise.papers.parity_cot.theory import bounds, gradients, hyperparameters, trajectory

# the same d < n and B < nk as Assumption 2, at a width where activations still follow the start
NARROW = Run(Task(500, 2), width=490, batch=992, block=992, neurons=50, scale=5e4)


@LEDGER.exact(
    "lem18",
    statement="Lemma 18",
    says=r"$\kappa_{1,i,b}$ is $\frac{\eta_0}{4Bm^2}$ times sums over $\gamma, \alpha$; a neuron counts where both"
    r" $\nu > 0$: against autodiff",
    of=(gradients.kappa,),
    hypotheses=SECOND,
    cases=(PROOF, SMALL),
    seeds=3,
)
def correlations_after_step_one(config: Run, seed: int):
    run = trajectory.trajectory(config, seed)
    closed = gradients.kappa(counts(run, 0), run.positive, float(run.rates[0]))
    yield equal("kappa", kappa_coefficients(run, 1), closed, 1e-10)


@LEDGER.exact(
    "lem18-mean",
    statement="Lemma 18",
    says=r"in the mean $\kappa_1$ is $\eta_0(-1)^{b_1+b}/(32mi)$ on $e_{S[i],b_1}$ and leaks"
    r" $\eta_0(-1)^{b_1}/(16m(n+1))$ on $e_{S[n+1],b_1}$",
    of=(gradients.kappa_leading,),
    cases=(Ideal(), Ideal(Task(5, 2)), Ideal(Task(6, 3, order="random"))),
    seeds=3,
)
def the_mean_has_a_leak(config: Ideal, seed: int):
    run = ideal(config, seed)
    leading = gradients.kappa_leading(config.task.bits, run.secret, config.neurons, float(run.rates[0]))
    yield equal("kappa over all starts and inputs, by autodiff", kappa_coefficients(run, 1), leading)


@LEDGER.refuted(
    "lem18-printed",
    statement="Lemma 18",
    says=r"as printed: $\bar\alpha$ cancels over $b_2$, so $\kappa_1$ has $\eta_0\bar\alpha/(8Bmi)$ on $e_{S[i]}$,"
    r" $\gamma$ and $\zeta$ terms, no more",
    of=(gradients.kappa_printed,),
    hypotheses=SECOND,
    certificate="certificates/lem18.py",
    corrected="lem18-mean",
    cases=PROOF,
    seeds=3,
)
def the_first_position_leaks(config: Run, seed: int):
    run = trajectory.trajectory(config, seed)
    n, m, rate = config.task.bits, config.neurons, float(run.rates[0])
    printed = gradients.kappa_printed(counts(run, 0), run.positive, run.secret, rate)
    found = kappa_coefficients(run, 1)
    yield equal("kappa (the batch's noise at the targets is below 0.001 of it)", found, printed, 0.01)
    if config.task.size > 1:
        leak = np.abs((found - printed)[1:, :, run.secret[0]]).mean()
        yield row({"leak": leak, "eta0/(16m(n+1))": rate / (16 * m * (n + 1)), "wanted": rate / (32 * m * (n + 2))})


@LEDGER.bound(
    "lem19",
    statement="Lemma 19",
    says=r"$\Delta$ is its mean (with the leak) within $\frac{10\eta_0}{mn}\sqrt{nk/(Bd)}\ln(300mnB/\delta)$",
    of=(bounds.kappa_deviation, bounds.kappa_parts),
    hypotheses=needs("5.1", "decided", "5.4"),
    cases=NARROW,
    seeds=3,
    optimise=True,
)
def correlations_are_near_their_mean(config: Run, seed: int):
    run = trajectory.trajectory(config, seed)
    n, k, m, rate = config.task.bits, config.task.size, config.neurons, float(run.rates[0])
    sizes = (n, k, config.width, m, config.batch, config.failure, rate)
    yield hypothesis("activations follow the start (Lemma 11)", trajectory.agreement(run, 0) == 1)
    off = np.abs(kappa_on_atoms(run, 1) - gradients.kappa_leading(n, run.secret, m, rate)).max()
    bound, parts = bounds.kappa_deviation(*sizes), bounds.kappa_parts(*sizes)
    yield at_most("largest deviation", off, parts)
    yield at_most("the proof's three parts, added up", parts, bound)
    yield from each_part_alone(config.failure, rate)
    yield row({"leading, smallest": rate / (32 * m * (n + k)), "bound": bound, "deviation": off})


def each_part_alone(failure: float, rate: float):
    """Sizes at which one of the three parts is all there is: what that part is, and how far below the bound."""
    n, k, far = 40, 3, 10**40
    m, log = 7, math.log(200 * n / failure)
    gamma = bounds.kappa_parts(n, k, far, m, far, failure, rate)
    yield equal("the part of gamma, large B and d", gamma, rate * math.sqrt(2 * m * log) / (8 * m**2 * n))
    width = bounds.kappa_parts(n, k, 500, far, far, failure, rate)
    yield equal("the part of the width, large B and m", width, rate * math.sqrt(log / 500) / (4 * far * n))
    sizes = (10**12, k, 100, 10**9, 10**8, failure, rate)
    logs = math.log(300 * 10**29 / failure), math.log(200 * 10**12 / failure)
    ratio = bounds.kappa_deviation(*sizes) / bounds.kappa_parts(*sizes)
    yield equal("the bound over the part of zeta, large n", ratio, 2.5 * math.sqrt(logs[0] / logs[1]), 1e-3)
    zeta = 4 * rate / (1e9 * 1e12) * math.sqrt(1e12 * k / 1e10 * logs[0] * logs[1])
    yield equal("the part of zeta, large n", bounds.kappa_parts(*sizes), zeta, 1e-3)


@dataclass(frozen=True)
class AssumptionTwo(Config):
    """Assumption 2 at one n."""

    digits: int = option(70, "n = 10^digits", low=5, high=100)
    power: float = option(5.0, "p of k = n / ln(n/delta)^p", low=4.0, high=5.0)
    failure: float = option(0.1, "delta", above=0.0, below=1.0)
    scale: float = option(1.0, "eps", low=1e-6, high=1e6)

    @property
    def sizes(self) -> hyperparameters.Literal:
        return hyperparameters.literal(10**self.digits, self.power, self.failure, self.scale)


@LEDGER.refuted(
    "lem19-printed",
    statement="Lemma 19",
    says=r"as printed: $\Delta$ is $\frac{\eta_0}{8Bmi}\bar\alpha 1(j = S[i])$ within"
    r" $\frac{10\eta_0}{mn}\sqrt{nk/(Bd)}\ln(300mnB/\delta)$, also at $j = S[n+1]$",
    of=(bounds.kappa_deviation, gradients.leak),
    hypotheses={
        "d < n (5.1)": lambda config: config.sizes.width < 10.0**config.digits,
        "B < nk (5.1)": lambda config: config.sizes.batch < 10.0**config.digits * config.sizes.size,
    },
    certificate="certificates/lem19.py",
    corrected="lem19",
    cases=(AssumptionTwo(), AssumptionTwo(80, 4.0)),
    search={"digits": (62, 100, "linear")},
)
def the_leak_is_no_noise(config: AssumptionTwo, seed: int):
    n, found = 10**config.digits, config.sizes
    bound = bounds.kappa_deviation(n, found.size, found.width, found.neurons, found.batch, config.failure, found.rate)
    yield at_most("the mean at j = S[n+1], i > n+1", gradients.leak(n, found.neurons, found.rate), bound)
