"""The first two steps of Theorem 3 in W: Lemmas 8 to 17, with the linear loss, as the paper's analysis has it."""

import math
from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np

from stairwise.config import Config, option
from stairwise.lab.contract.checks import at_least, at_most, equal, row, true
from stairwise.papers.parity_cot import simplified
from stairwise.papers.parity_cot.claims.ledger import LEDGER
from stairwise.papers.parity_cot.claims.running import (
    FIRST,
    PROOF,
    SECOND,
    SMALL,
    Ideal,
    Run,
    counts,
    ideal,
    needs,
    shaped,
)
from stairwise.papers.parity_cot.claims.sizes import random_gram, random_positive, sign_tail
from stairwise.papers.parity_cot.config.task import Task
from stairwise.papers.parity_cot.theory import bounds, gradients, statistics, trajectory
from stairwise.train.draws import draws_of

ROUNDING = 1e-9  # of sums of 2^n terms that nearly cancel


@LEDGER.exact(
    "lem8",
    statement="Lemma 8",
    says=r"attention stays constant in step 1: $A^{(1)} = A^{(0)} = 0$, since its gradient at the start is exactly 0",
    of=(simplified.start,),
    cases=(PROOF, SMALL),
    seeds=3,
)
def attention_waits(config: Run, seed: int):
    run = trajectory.trajectory(config, seed)
    yield true("gradient in A at the start is 0", run.gradients[0].scores == 0)
    yield true("A after step 1 is 0", run.weights[1].scores == 0)
    yield equal("share of activations that are as nu says", trajectory.agreement(run, 0), 1.0)
    yield at_least("largest gradient in W[:, d:]", np.abs(run.gradients[0].seen).max(), 1e-9)


@LEDGER.exact(
    "lem9",
    statement="Lemma 9",
    says=r"before and after step 1 the attention output at $i$ is $\frac{1}{i}\sum_{j \le i} e_{j,b[j]}$",
    of=(simplified.attention,),
    cases=(PROOF, SMALL),
    seeds=3,
)
def attention_is_uniform(config: Run, seed: int):
    for t in (0, 1):
        found, shown, i = attention_outputs(config, seed, t)
        mean = np.where(np.arange(found.shape[2]) // 2 < i[:, None], shown[:, None], 0) / i[:, None]
        yield equal(f"weights on the embeddings, t={t}", found, mean, 1e-14)


@LEDGER.misprint(
    "lem9-printed",
    statement="Lemma 9",
    says=r"as printed: the attention output at $i$ is $\frac{1}{i}\sum_{j \le i} e_{i,b[i]}$",
    means=r"the summand is $e_{j,b[j]}$",
    corrected="lem9",
    cases=PROOF,
    seeds=3,
)
def the_summand_is_another(config: Run, seed: int):
    found, shown, i = attention_outputs(config, seed, 0)
    own = np.where(np.arange(found.shape[2]) // 2 == i[:, None] - 1, shown[:, None], 0)
    yield equal("weights on the embeddings", found, own)


def attention_outputs(config: Run, seed: int, t: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Weights on atoms of the attention outputs of some sequences, the atoms they show, and the paper's i."""
    run = trajectory.trajectory(config, seed)
    tokens = run.batches[0].tokens[:: max(1, len(run.batches[0].tokens) // 50), :-1]
    found = trajectory.attention_on_atoms(run, t, tokens)
    shown = np.stack([1.0 - tokens, tokens], axis=-1).reshape(len(tokens), -1)
    return found, shown, np.arange(config.task.bits, config.positions) + 1


# --- the activation pattern at the start ------------------------------------------------------------------------------


@dataclass(frozen=True)
class Start(Config):
    """The start of Assumption 1 at a width where Lemma 5.2's constant is met; B enters its logarithm only."""

    task: Task = option(Task(12, 3), "the parity")
    width: int = option(2**23, "width d", low=1, high=2**26)
    neurons: int = option(400, "m: half the number of hidden neurons", low=1, high=10**5)
    batch: int = option(8000, "samples B", low=1, high=10**12)
    failure: float = option(0.1, "delta", above=0.0, below=1.0)

    embedding = "random"


def start_deviation(config: Start, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """(<W0, e_{i,b}> - nu) / eps for every neuron, position and bit, and the signs of nu."""
    k = config.task.size
    gram = random_gram(2 * k, config.width, draws_of(seed, "embeddings"))
    positive = random_positive(config.neurons, k, seed)
    nu = np.where(positive, 1.0, -1.0).reshape(len(positive), -1)
    return (nu @ gram - nu).reshape(positive.shape), positive


MANY = Start(Task(60, 40), width=2**26, batch=50, neurons=80, failure=0.9)


@LEDGER.bound(
    "lem10",
    argument=r"the proof needs $\ln(100Bm/\delta)$ where 5.2 has $\ln(Bmn/\delta)$",
    statement="Lemma 10",
    says=r"at the start $|\langle W, e\rangle - \nu| \le \epsilon\sqrt{4k\ln(100Bm/\delta)/d} < \epsilon/100$"
    r" but for a chance $\delta/(50Bm)$",
    of=(bounds.start_deviation,),
    hypotheses=needs("5.2"),
    cases=(Start(), MANY),
)
def the_start_decides_activations(config: Start, seed: int):
    """Given nu and e_{i,b}, d/eps times the deviation is a sum of (2k-1)d independent signs: its tail is known."""
    k, d, m, B = config.task.size, config.width, config.neurons, config.batch
    bound = bounds.start_deviation(k, d, m, B, config.failure)
    chance = sign_tail((2 * k - 1) * d, bound * d)
    yield at_most("chance of a larger deviation, exactly", chance, config.failure / (50 * B * m))
    hoeffding = 2 * math.exp(-(bound**2) * d / (4 * k))  # for 2kd signs
    yield equal("Hoeffding's bound on that chance", hoeffding, config.failure / (50 * B * m))
    yield at_most("deviation bound / eps", bound, 0.01)
    yield row(chance=chance, bound=bound)


@LEDGER.bound(
    "lem11",
    statement="Lemma 11",
    says=r"at the start a neuron is active exactly where $\nu > 0$, and $|\langle W, e\rangle - \nu| < \epsilon/100$",
    of=(simplified.start,),
    hypotheses=needs("5.2"),
    cases=(Start(), Start(width=4096)),
    seeds=3,
    search={"width": (2**22, 2**26, "log")},
)
def all_activations_follow_the_start(config: Start, seed: int):
    off, positive = start_deviation(config, seed)
    k, m = config.task.size, config.neurons
    own = np.asarray(simplified.start(jnp.asarray(positive), 2 * k, 1.0).first).reshape(2 * m, 2 * k, 2)
    nu = own[:, k:]
    yield equal("nu", nu, np.where(positive, 1.0, -1.0))
    yield true("W at other positions is 0", own[:, :k] == 0)
    yield true("activations are as nu", ((nu + off) > 0) == positive)
    yield at_most("largest deviation / eps", np.abs(off).max(), 0.01)
    bound = bounds.start_deviation(k, config.width, m, config.batch, config.failure)
    yield at_most("largest deviation / its bound", np.abs(off).max(), bound)


# --- gradients --------------------------------------------------------------------------------------------------------


@LEDGER.exact(
    "lem12",
    statement="Lemma 12",
    says=r"at the start $dL/dW_{r,1:d} = \frac{h_r}{B}\sum_{i,b} 1(\nu_{r,i,b} > 0)\,\delta_{i,b}\,e_{i,b}$,"
    " against autodiff",
    of=(gradients.own_gradient,),
    hypotheses=needs("5.2"),
    cases=(PROOF, SMALL),
    seeds=3,
)
def gradient_of_the_own_part(config: Run, seed: int):
    run = trajectory.trajectory(config, seed)
    closed = gradients.own_gradient(counts(run, 0), run.positive, config.task.bits)
    yield equal("coefficients", shaped(run.gradients[0].own), closed, ROUNDING)


@LEDGER.exact(
    "lem14",
    statement="Lemma 14",
    says=r"at the start $dL/dW_{r,d+1:2d} = \frac{h_r}{B}\sum e_{j,b_1} \frac{1}{i} 1(\nu_{r,i,b_2} > 0)"
    r"\,\alpha_{i,j,b_1,b_2}$, against autodiff",
    of=(gradients.seen_gradient,),
    hypotheses=needs("5.2"),
    cases=(PROOF, SMALL),
    seeds=3,
)
def gradient_of_the_attention_part(config: Run, seed: int):
    run = trajectory.trajectory(config, seed)
    yield equal("coefficients", shaped(run.gradients[0].seen), gradients.seen_gradient(counts(run, 0), run.positive))


@LEDGER.misprint(
    "lem14-printed",
    statement="Lemma 14",
    says=r"as printed: the formula is an equality with the mean $\bar\alpha$ at $j = S[i]$",
    means=r"$\alpha$, as two lines before; with $\bar\alpha$ it holds up to order $1/\sqrt{B}$",
    of=(gradients.seen_gradient_printed,),
    hypotheses=needs("5.2"),
    corrected="lem14",
    cases=PROOF,
    seeds=3,
)
def the_mean_is_not_the_batch(config: Run, seed: int):
    run = trajectory.trajectory(config, seed)
    printed = gradients.seen_gradient_printed(counts(run, 0), run.positive, run.secret)
    yield equal("coefficients", shaped(run.gradients[0].seen), printed, ROUNDING)
    yield row({"1/sqrt(B)": config.batch**-0.5})


@LEDGER.bound(
    "lem13",
    statement="Lemma 13",
    says=r"$|\langle dL/dW_{r,1:d}, e\rangle| \le \sqrt{\ln(300nB/\delta)}/(m\sqrt{B})$ in step 1",
    of=(bounds.own_gradient,),
    hypotheses=FIRST,
    cases=(PROOF, SMALL),
    seeds=3,
)
def the_own_gradient_is_small(config: Run, seed: int):
    run = trajectory.trajectory(config, seed)
    n, m, B = config.task.bits, config.neurons, config.batch
    largest = np.abs(run.gradients[0].own @ run.gram).max()
    bound = bounds.own_gradient(n, m, B, config.failure)
    yield at_most("largest inner product", largest, bound)
    of_delta = statistics.lemma7(n, config.task.size, m, B, config.failure)["delta"]
    yield equal("the bound over that of Lemma 7 on |delta| / (2mB)", bound / (of_delta / (2 * m * B)), 2.0)
    # the proof: sup |delta| / (2mB) times 1 and a hundredth, where a neuron is active
    delta = np.abs(counts(run, 0).delta)[run.positive.any(axis=0)].max(initial=0.0)
    yield at_most("sup |delta| / (2mB)", delta / (2 * m * B), largest * 1.01)


@LEDGER.bound(
    "lem15",
    statement="Lemma 15",
    says=r"$|\langle dL/dW_{r,d+1:2d}, e\rangle| \le 3/(2mn)$ in step 1; its mean is at most $1/(4m(n+1))$",
    of=(bounds.seen_gradient, gradients.two_steps),
    hypotheses=FIRST,
    cases=(PROOF, SMALL),
    seeds=3,
)
def the_attention_gradient_is_small(config: Run, seed: int):
    run = trajectory.trajectory(config, seed)
    n, m = config.task.bits, config.neurons
    largest = np.abs(run.gradients[0].seen @ run.gram).max()
    yield at_most("largest inner product", largest, bounds.seen_gradient(n, m))
    mean = gradients.two_steps(n, config.task.size, m, 0.5, 0.5)[0]
    yield equal("largest inner product over its mean", largest / mean, 1.0, 0.02)
    yield equal("the bound over the mean", bounds.seen_gradient(n, m) / mean, 6 * (n + 1) / n)


def neuron_shift(config: Run, seed: int, steps: int) -> float:
    """sup over neurons and inputs of |<W_t - W_0, [x_i; attention output]>| / eta after `steps` steps of one rate,
    bounded by the sum of the suprema of the two parts."""
    run = trajectory.trajectory(config, seed)
    n = config.task.bits
    own = sum(shaped(run.gradients[t].own @ run.gram)[:, n:] for t in range(steps))
    seen = sum(run.gradients[t].seen @ run.gram for t in range(steps))
    reach = np.abs(seen).max(axis=1)  # attention outputs are convex combinations
    return float(np.max(np.abs(own).max(axis=(1, 2)) + reach))


@LEDGER.bound(
    "lem16",
    argument=r"the proof cites 5.3 for 5.4, and adds $3\epsilon/80$ and $\epsilon/80$ to less than $3\epsilon/80$",
    statement="Lemma 16",
    says=r"one step, of the largest rate that 5.4 allows, moves no preactivation by $3\epsilon/80$; activations stay",
    of=(bounds.largest_rate, bounds.neuron_shift),
    hypotheses=SECOND,
    cases=(PROOF, SMALL),
    seeds=3,
)
def one_step_changes_no_activation(config: Run, seed: int):
    n, m, B, failure, eps = config.task.bits, config.neurons, config.batch, config.failure, config.scale
    rate = bounds.largest_rate(n, m, B, failure, eps)
    yield at_most("shift / eps", rate * neuron_shift(config, seed, 1) / eps, bounds.neuron_shift(1))
    # Lemma 16 adds the bounds of Lemmas 13 and 15 at that rate: each of them takes its whole share where it decides
    far = 10**30
    by_noise = bounds.largest_rate(far, m, B, failure, eps) * bounds.own_gradient(far, m, B, failure) / eps
    yield equal("by Lemma 13 / eps, where B decides", by_noise, bounds.neuron_shift(1))
    by_length = bounds.largest_rate(n, m, far, failure, eps) * bounds.seen_gradient(n, m) / eps
    yield equal("by Lemma 15 / eps, where n decides", by_length, 1 / 80)
    yield at_least("agreement in step 2", trajectory.agreement(trajectory.trajectory(config, seed), 1), 1.0)


@LEDGER.bound(
    "lem17",
    statement="Lemma 17",
    says=r"step 2 has step 1's gradient formulas on its own batch, $|\langle\cdot, e\rangle| \le 3/(2mn)$,"
    r" and in all a shift below $3\epsilon/40$",
    of=(gradients.own_gradient, gradients.seen_gradient),
    hypotheses=SECOND,
    cases=(PROOF, SMALL),
    seeds=3,
)
def the_second_step_is_like_the_first(config: Run, seed: int):
    run = trajectory.trajectory(config, seed)
    n, m, batch = config.task.bits, config.neurons, counts(run, 1)
    rate = bounds.largest_rate(n, m, config.batch, config.failure, config.scale)
    yield equal("W[:, :d]", shaped(run.gradients[1].own), gradients.own_gradient(batch, run.positive, n), ROUNDING)
    yield equal("W[:, d:]", shaped(run.gradients[1].seen), gradients.seen_gradient(batch, run.positive), ROUNDING)
    yield at_most("largest inner product", np.abs(run.gradients[1].seen @ run.gram).max(), bounds.seen_gradient(n, m))
    yield at_most("shift / eps", rate * neuron_shift(config, seed, 2) / config.scale, bounds.neuron_shift(2))


@LEDGER.exact(
    "lem15-mean",
    statement="ours",
    says=r"in the mean, two steps leave $|\langle W_{r,d+1:2d}, e_{S[i],b}\rangle| = (\eta_0+\eta_1)/(8mi)$ at most,"
    r" at $i = n+1$ twice that",
    of=(gradients.two_steps, gradients.step2_margin),
    cases=(Ideal(), Ideal(Task(5, 2))),
    seeds=3,
)
def what_two_steps_leave(config: Ideal, seed: int):
    run = ideal(config, seed)
    n, k, m = config.task.bits, config.task.size, config.neurons
    found = np.abs(shaped(run.tables[2].seen)[:, run.secret]).max(axis=(0, 2))
    yield equal("largest of a neuron, by step of the chain", found, gradients.two_steps(n, k, m, *run.rates[:2]))
    margins = trajectory.view(run, 2).ideal * np.array([[-1.0, 1.0], [1.0, -1.0]])
    expected = gradients.step2_margin(n, k, m, *run.rates[:2])
    yield equal("output margin at i = n+1", margins[0, 0], np.full(2, expected[0]), ROUNDING)
    if k > 1:
        # the leak on the first secret bit is no part of it: its key differs
        yield equal(
            "output margin at i > n+1",
            margins[1:],
            np.broadcast_to(expected[1:, None, None], margins[1:].shape),
            ROUNDING,
        )
