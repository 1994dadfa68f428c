"""The first two steps of Theorem 3 in W: Lemmas 8 to 17, with the linear loss, as the paper's analysis has it."""

from dataclasses import dataclass

import numpy as np

from stairwise.lab.checks import identical, relative_error, under
from stairwise.lab.config import Config, option
from stairwise.lab.contract import Verdict
from stairwise.papers.parity_cot.claims.ledger import LEDGER
from stairwise.papers.parity_cot.claims.running import PROOF, Run, counts, shaped
from stairwise.papers.parity_cot.claims.sizes import random_gram, random_positive
from stairwise.papers.parity_cot.config.task import Task
from stairwise.papers.parity_cot.theory import bounds, gradients, trajectory


@LEDGER.theory(
    "lem8",
    kind="identity",
    says="A stays 0 in step 1: its gradient at the start is exactly 0",
    cases=PROOF,
)
def attention_waits(config: Run, seed: int) -> Verdict:
    run = trajectory.trajectory(config, seed)
    largest = float(np.abs(run.gradients[0].scores).max())
    after = float(np.abs(run.weights[1].scores).max())
    return Verdict.worst({"gradient": Verdict.at_most(largest, 0), "A after step 1": Verdict.at_most(after, 0)})


@LEDGER.theory(
    "lem9",
    kind="identity",
    says="attention is uniform before and after step 1: the output at i is (1/i) sum_{j<=i} e_{j,b[j]}",
    cases=PROOF,
)
def attention_is_uniform(config: Run, seed: int) -> Verdict:
    return identical({f"t={t}": attention_outputs(config, seed, t, "right") for t in (0, 1)}, 1e-14)


@LEDGER.theory(
    "lem9-printed",
    kind="identity",
    says="as printed: the attention output at i is (1/i) sum_{j<=i} e_{i,b[i]}",
    cases=PROOF,
)
def the_summand_is_another(config: Run, seed: int) -> Verdict:
    found, printed = attention_outputs(config, seed, 0, "printed")
    return Verdict.at_most(
        relative_error(found, printed), 1e-12, otherwise="refuted", note="the summand must be e_{j,b[j]}"
    )


def attention_outputs(config: Run, seed: int, t: int, form: str) -> tuple[np.ndarray, np.ndarray]:
    """Weights on atoms of the attention outputs of some sequences, and the lemma's."""
    run = trajectory.trajectory(config, seed)
    tokens = run.batches[0][:50, :-1]
    found = trajectory.attention_on_atoms(run, t, tokens)
    samples, positions = tokens.shape
    shown = np.stack([1.0 - tokens, tokens], axis=-1).reshape(samples, 2 * positions)
    said = np.zeros_like(found)
    for q, i in enumerate(range(positions - found.shape[1], positions)):
        own = slice(2 * i, 2 * i + 2) if form == "printed" else slice(0, 2 * i + 2)
        said[:, q, own] = shown[:, own] / (1 if form == "printed" else i + 1)
    return found, said


# --- the activation pattern at the start ------------------------------------------------------------------------------


@dataclass(frozen=True)
class Start(Config):
    """The start of Assumption 1 at a width where Lemma 5.2's constant is met; B enters its logarithm only."""

    task: Task = option(Task(12, 3), "the parity")
    width: int = option(2**22, "width d", low=1, high=2**26)
    neurons: int = option(400, "m: half the number of hidden neurons", low=1, high=10**5)
    samples: int = option(8000, "samples B", low=1, high=10**12)
    failure: float = option(0.1, "delta", above=0.0, below=1.0)

    def violated(self) -> tuple[str, ...]:
        bound = bounds.start_deviation(self.task.size, self.width, self.neurons, self.samples, self.failure)
        short = f"sqrt(4k/d ln(100Bm/delta))={bound:.3g} must be below 0.01 (5.2): width={self.width} is too small"
        return () if bound < 0.01 else (short,)


def start_deviation(config: Start, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """(<W0, e_{i,b}> - nu) / eps for every neuron, position and bit, and the signs of nu."""
    k = config.task.size
    gram = random_gram(2 * k, config.width, np.random.default_rng(seed))
    positive = random_positive(config.neurons, k, seed)
    nu = np.where(positive, 1.0, -1.0).reshape(len(positive), -1)
    return (nu @ gram - nu).reshape(positive.shape), positive


@LEDGER.theory(
    "lem10",
    kind="bound",
    says="at the start |<W, e> - nu| <= sqrt(4k ln(100Bm/delta)/d) eps < eps/100 with chance 1 - delta/(50Bm) a neuron",
    cases=Start(),
)
def the_start_decides_activations(config: Start, seed: int) -> Verdict:
    off, _ = start_deviation(config, seed)
    bound = bounds.start_deviation(config.task.size, config.width, config.neurons, config.samples, config.failure)
    share = float(np.mean(np.abs(off) > bound))
    row = {"largest / eps": float(np.abs(off).max()), "sqrt form": bound}
    verdict = Verdict.at_most(float(np.abs(off).max()), 0.01, details=(row,))
    return Verdict.worst(
        {
            "share above the sqrt form": Verdict.at_most(share, config.failure / 50),
            "largest / eps": under(config.violated(), verdict),
        }
    )


@LEDGER.theory(
    "lem11",
    kind="bound",
    says="at the start every neuron at every position and bit is active exactly where nu > 0, whatever the input",
    cases=(Start(), Start(width=4096)),
)
def all_activations_follow_the_start(config: Start, seed: int) -> Verdict:
    off, positive = start_deviation(config, seed)
    nu = np.where(positive, 1.0, -1.0)
    agreeing = float(np.mean((nu + off > 0) == positive))
    return under(config.violated() if agreeing < 1 else (), Verdict.at_least(agreeing, 1.0))


# --- gradients --------------------------------------------------------------------------------------------------------


@LEDGER.theory(
    "lem12",
    kind="identity",
    says="dL/dW[r, :d] at the start = (h_r/B) sum 1(nu_{r,i,b} > 0) delta_{i,b} e_{i,b}, against autodiff",
    cases=PROOF,
)
def gradient_of_the_own_part(config: Run, seed: int) -> Verdict:
    run = trajectory.trajectory(config, seed)
    closed = gradients.own_gradient(counts(config, seed, 0), run.positive, config.task.inputs)
    return identical({"coefficients": (shaped(run.gradients[0].own), closed)})


@LEDGER.theory(
    "lem14",
    kind="identity",
    says="dL/dW[r, d:] at the start, exactly with the batch's own alpha for every j, against autodiff",
    cases=PROOF,
)
def gradient_of_the_attention_part(config: Run, seed: int) -> Verdict:
    run = trajectory.trajectory(config, seed)
    closed = gradients.seen_gradient(counts(config, seed, 0), run.positive)
    return identical({"coefficients": (shaped(run.gradients[0].seen), closed)})


@LEDGER.theory(
    "lem14-printed",
    kind="identity",
    says="as printed: with the mean alpha-bar at j = S[i] the formula of Lemma 14 is an equality",
    cases=PROOF,
)
def the_mean_is_not_the_batch(config: Run, seed: int) -> Verdict:
    run = trajectory.trajectory(config, seed)
    printed = gradients.seen_gradient_printed(counts(config, seed, 0), run.positive, run.secret)
    return Verdict.at_most(
        relative_error(shaped(run.gradients[0].seen), printed),
        1e-12,
        otherwise="refuted",
        note="alpha is meant, which is noisy at the target too; with alpha-bar it holds up to order 1/sqrt(B)",
        details=({"1/sqrt(B)": config.batch**-0.5},),
    )


@LEDGER.theory(
    "lem13",
    kind="bound",
    says="|<dL/dW[r, :d], e>| <= sqrt(ln(300nB/delta)) / (m sqrt B) in step 1",
    cases=PROOF,
)
def the_own_gradient_is_small(config: Run, seed: int) -> Verdict:
    run = trajectory.trajectory(config, seed)
    largest = float(np.abs(run.gradients[0].own @ run.gram).max())
    bound = bounds.own_gradient(config.task.inputs, config.neurons, config.batch, config.failure)
    return under(config.violated_large(), Verdict.at_most(largest, bound))


@LEDGER.theory(
    "lem15",
    kind="bound",
    says="|<dL/dW[r, d:], e>| <= 3/(2mn) in step 1",
    cases=PROOF,
)
def the_attention_gradient_is_small(config: Run, seed: int) -> Verdict:
    run = trajectory.trajectory(config, seed)
    largest = float(np.abs(run.gradients[0].seen @ run.gram).max())
    bound = bounds.seen_gradient(config.task.inputs, config.neurons)
    return under(config.violated_large(), Verdict.at_most(largest, bound))


def neuron_shift(config: Run, seed: int, steps: int) -> float:
    """sup over neurons and inputs of |<W_t - W_0, [x_i; attention output]>| / eta after `steps` steps of one rate,
    bounded by the sum of the suprema of the two parts."""
    run = trajectory.trajectory(config, seed)
    n = config.task.inputs
    own = sum(shaped(run.gradients[t].own @ run.gram)[:, n:] for t in range(steps))
    seen = sum(run.gradients[t].seen @ run.gram for t in range(steps))
    reach = np.abs(seen).max(axis=1)  # attention outputs are convex combinations
    return float(np.max(np.abs(own).max(axis=(1, 2)) + reach))


@LEDGER.theory(
    "lem16",
    kind="bound",
    says="one step of the largest rate that 5.4 allows moves no preactivation by 3 eps/80; activations stay",
    cases=PROOF,
)
def one_step_changes_no_activation(config: Run, seed: int) -> Verdict:
    rate = bounds.largest_rate(config.task.inputs, config.neurons, config.batch, config.failure, config.scale)
    moved = rate * neuron_shift(config, seed, 1)
    return Verdict.worst(
        {
            "shift / eps": under(config.violated_large(), Verdict.at_most(moved / config.scale, 3 / 80)),
            "agreement in step 2": Verdict.at_least(
                trajectory.agreement(trajectory.trajectory(config, seed), 1), 0.999
            ),
        }
    )


@LEDGER.theory(
    "lem17",
    kind="bound",
    says="step 2 has step 1's gradient formulas on its own batch, |<., e>| <= 3/(2mn), total shift below 3 eps/40",
    cases=PROOF,
)
def the_second_step_is_like_the_first(config: Run, seed: int) -> Verdict:
    run, batch = trajectory.trajectory(config, seed), counts(config, seed, 1)
    n, m = config.task.inputs, config.neurons
    rate = bounds.largest_rate(n, m, config.batch, config.failure, config.scale)
    pairs = {
        "W[:, :d]": (shaped(run.gradients[1].own), gradients.own_gradient(batch, run.positive, n)),
        "W[:, d:]": (shaped(run.gradients[1].seen), gradients.seen_gradient(batch, run.positive)),
    }
    size = Verdict.at_most(float(np.abs(run.gradients[1].seen @ run.gram).max()), bounds.seen_gradient(n, m))
    shift = Verdict.at_most(rate * neuron_shift(config, seed, 2) / config.scale, 3 / 40)
    return Verdict.worst(
        {
            "closed forms": under(config.violated_rate(), identical(pairs)),
            "size": under(config.violated_large(), size),
            "shift / eps": under(config.violated_large(), shift),
        }
    )
