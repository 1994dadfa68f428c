"""Algorithm 1: it learns every hop, its stream stays near the ideal one, trained layers stay where they are."""

import math
from dataclasses import dataclass, replace

import jax.numpy as jnp
import numpy as np

from stairwise.config import Config, option, require
from stairwise.lab.contract.checks import at_least, at_most, equal, monomial, row, slope, true, vacuous_if
from stairwise.papers.composition import constructions
from stairwise.papers.composition.claims.gradients import leaky_model
from stairwise.papers.composition.claims.ledger import LEDGER
from stairwise.papers.composition.claims.noise import Leaky
from stairwise.papers.composition.claims.running import (
    AlgorithmRun,
    deviations,
    key_query_steps,
    measured,
    run_of,
    steps_are_gradients,
    theorem_7,
)
from stairwise.papers.composition.claims.sizes import doubling, few_tokens, hidden_of, random_sequences
from stairwise.papers.composition.config import Task
from stairwise.papers.composition.theory import descent, exact, noise, perturbation, population, streams
from stairwise.train.draws import draws_of

PLATEAU = 1e-6  # relative error of a loss
RUNS = (AlgorithmRun(), AlgorithmRun(Task(4, 2), samples=409_600))


# --- Theorem 7 --------------------------------------------------------------------------------------------------------


@LEDGER.exact(
    "alg1",
    statement="Algorithm 1",
    says=(
        r"for $t = 1, \dots, L$: one step $-\eta\nabla$ of loss$^{(t)}$ on all $W_{KQ}$, then one on $\Psi_t$ with "
        r"the same batch"
    ),
    of=(descent.curriculum, descent.key_query_step, descent.readout_step, descent.start),
    seeds=3,
    cases=(
        AlgorithmRun(samples=1000, learning_rate=200.0),
        AlgorithmRun(Task(4, 2), samples=500, learning_rate=300.0, beta0=0.7),
    ),
)
def every_step_is_a_gradient_step(config: AlgorithmRun, seed: int):
    yield from steps_are_gradients(config, seed, "curriculum")


def learns_every_hop(config: AlgorithmRun, seed: int, algorithm: str):
    """Exact match everywhere and a sup error of at most eps, of each head from its readout step on."""
    rows = measured(config, seed, algorithm)
    names = [name.removeprefix("sup error ") for name in rows[0] if name.startswith("sup error")]
    for found in rows:
        yield row({name: value for name, value in found.items() if not name.startswith("accuracy")})
    if algorithm == "curriculum":
        after = {f"Psi{head}": names[:head] for head in range(1, len(names) + 1)}
    else:
        after = {"Psi": names}
    for found in rows:
        for name in after.get(found["step"], []):
            yield at_most(f"sup error, {name}, after {found['step']}", found[f"sup error {name}"], config.epsilon)
            yield true(f"every answer is right, {name}, after {found['step']}", found[f"exact match {name}"] == 1.0)
    for number, found in enumerate(deviations(config, seed, algorithm), start=1):
        leaks = found.leak[:number]
        yield at_most(f"attention off the right keys after step {number}", leaks.max(), config.epsilon / 2)


@LEDGER.bound(
    "thm7",
    statement=("Theorem 7", "Theorem 14"),
    says=r"Algorithm 1 learns every $2^{\ell-1}$-hop with a sup error of at most $\epsilon$ over all inputs",
    of=(descent.curriculum,),
    hypotheses=theorem_7,
    aliases=("thm14",),
    seeds=3,
    cases=RUNS,
)
def the_curriculum_learns_every_hop(config: AlgorithmRun, seed: int):
    yield from learns_every_hop(config, seed, "curriculum")


@dataclass(frozen=True)
class Chances(Config):
    """Many runs of Algorithm 1 at the theorem's sizes, each with hidden permutations and samples of its own."""

    run: AlgorithmRun = option(AlgorithmRun(), "one run")
    repeats: int = option(300, "runs; with 299 or more, none may fail", low=1, high=10_000)
    few: int = option(200, "samples M of runs that should fail", low=1, high=10_000)


@LEDGER.bound(
    "thm14-chance",
    statement=("Theorem 14, probability", "Theorem 7, probability"),
    says=r"with chance 0.99 over samples and hidden permutations every hop is learnt: 95 % sure from runs that are"
    r" counted; with 200 samples per step most runs fail",
    of=(descent.curriculum,),
    hypotheses=lambda config: {
        **theorem_7(config.run),
        "299 runs: fewer cannot show 0.99 with 95 % certainty": config.repeats >= 299,
        # ours: one block of few letters is learnt from ten samples
        "k >= 2, and 200 samples at most where runs should fail": config.run.task.blocks >= 2 and config.few <= 200,
    },
    cases=Chances(),
    one_seed="it counts 300 runs, each with samples and hidden permutations of its own",
)
def nearly_every_run_learns(config: Chances, seed: int):
    taken: set[int] = set()

    def failures(run: AlgorithmRun, repeats: int) -> int:
        failed = 0
        for each in draws_of(seed, "runs").integers(2**31, size=repeats).tolist():
            steps = measured(run, each, "curriculum")
            taken.add(len(steps))
            failed += any(error > run.epsilon for name, error in steps[-1].items() if name.startswith("sup error"))
        return failed

    failed, repeats = failures(config.run, config.repeats), config.repeats
    yield equal(
        "steps of a run: two in each of log2 k + 1 stages", max(taken), 2 * (1 + math.log2(config.run.task.blocks))
    )
    yield at_most("upper end of the 95 % interval of the share that fails", largest_share(failed, repeats), 0.01)
    fewer = 20
    found = failures(replace(config.run, samples=config.few), fewer)
    yield at_least(f"share that fails with {config.few} samples", found / fewer, 0.5)
    yield row({"runs": repeats, "failed": failed, f"failed of {fewer} with {config.few} samples": found})


def largest_share(count: int, total: int, level: float = 0.05) -> float:
    """The share at which so few or fewer out of `total` have the chance `level` (Clopper and Pearson, one-sided)."""
    low, high = count / total, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        chance = sum(math.comb(total, k) * middle**k * (1 - middle) ** (total - k) for k in range(count + 1))
        low, high = (middle, high) if chance > level else (low, middle)
    return high


@LEDGER.exact(
    "plateau",
    statement="ours",
    says=(
        r"beyond the paper: a head's loss is $\log N$, then $\log(1+(N-1)e^{-\beta_0})$ after its key-query step, "
        r"then 0"
    ),
    of=(population.plateau,),
    seeds=3,
    cases=AlgorithmRun(learning_rate=10_000.0),
)
def losses_fall_in_two_steps(config: AlgorithmRun, seed: int):
    rows, N = measured(config, seed, "curriculum"), config.task.alphabet
    names = [name for name in rows[0] if name.startswith("loss")]
    for head, name in enumerate(names):
        if head:
            yield equal(f"{name} before", rows[2 * head - 1][name], np.log(N), PLATEAU)
        plateau = population.plateau(N, config.beta0)
        yield equal(f"{name} after KQ{head + 1}", rows[2 * head][name], plateau, PLATEAU)
        yield at_most(f"{name} after Psi{head + 1}", rows[2 * head + 1][name], PLATEAU)


# --- the stream -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Rough(Config):
    """Theorem 4's weights at finite beta, with Gaussian errors in every entry."""

    task: Task = option(Task(8, 3), "the composition")
    beta: float = option(9.0, "sharpness beta", above=0.0, high=700.0)
    noise: float = option(0.0, "standard deviation of the errors", low=0.0, high=100.0)
    sequences: int = option(40, "random sequences", low=1, high=10_000)

    def check(self) -> None:
        few_tokens(self.task, 128)
        require(not doubling(self.task), f"task.blocks={self.task.blocks} must be a power of two")


def rough_model(config: Rough, seed: int):
    hidden, rng = hidden_of(config.task, seed), draws_of(seed, "errors of the key-query matrices")
    built = constructions.any_blocks(jnp.asarray(hidden, dtype=jnp.int32), config.beta, dtype="float64")
    matrices = tuple(W + config.noise * jnp.asarray(rng.standard_normal(W.shape)) for W in built.key_query)
    return hidden, exact.with_key_query(built, matrices)


def stream_is_near(config: Rough, seed: int, first: int, last: int):
    """sup |X-hat - X| <= l eps after each of these layers, eps/2 the largest leak so far; and what the leaks add up to.

    With Theorem 4's own weights every wrong key shows another letter, so that errors add up and half of the bound is
    reached at every layer.
    """
    task = config.task
    require(task.layers >= first, f"task.blocks={task.blocks} must be at least {2 ** (first - 1)}")
    hidden, network = rough_model(config, seed)
    found = streams.deviation(network, hidden, random_sequences(task, config.sequences, seed))
    errors = np.maximum.accumulate(found.trained)
    for layer in range(first, min(last, task.layers) + 1):
        leaks, error = found.leak[:layer].tolist(), float(errors[layer - 1])
        epsilon = 2 * max(leaks)
        sharp = perturbation.stream_error_sharp(leaks)
        yield at_most(f"stream after layer {layer}", error, perturbation.stream_error(layer, epsilon))
        yield monomial(f"bound after layer {layer}", perturbation.stream_error, 1, layer=1, epsilon=1)
        yield at_most(f"stream after layer {layer}, sum of leaks", error, sharp, rounding=1e-12)
        if not config.noise:  # errors are those of one wrong letter per leak: products of leaks aside they add up
            yield equal(f"stream after layer {layer} is the sum of leaks", error, sharp, 2 * layer * epsilon)
        yield row(layer=layer, eps=epsilon, error=error)
        yield vacuous_if(epsilon >= 1, "half of the attention or more is off the right keys")


LEDGER.family(
    stream_is_near,
    {
        "lem17": {
            "statement": "Lemma 17",
            "says": r"after layer 1 the stream is within $\epsilon$ of the ideal one, $\epsilon/2$ its largest leak",
            "given": {"first": 1, "last": 1},
        },
        "lem22": {
            "statement": "Lemma 22",
            "says": r"after layer 2 the stream is within $2\epsilon$ of the ideal one",
            "given": {"first": 2, "last": 2},
        },
        "lem27": {
            "statement": "Lemma 27",
            "says": r"after layer $\ell$ the stream is within $\ell\epsilon$ of the ideal one",
            "given": {"first": 3, "last": 20},
        },
    },
    form="bound",
    of=(perturbation.stream_error, perturbation.stream_error_sharp),
    seeds=3,
    cases=(Rough(), Rough(beta=14.0), Rough(beta=14.0, noise=0.2)),
)


# --- trained layers ---------------------------------------------------------------------------------------------------


# the largest eps and nearly the least eta that the lemmas allow, so that leaks come near eps/2
EDGES = (
    AlgorithmRun(Task(2, 2), samples=16_384, learning_rate=178.0, epsilon=1 / 32),
    AlgorithmRun(Task(4, 2), samples=409_600, learning_rate=976.0, epsilon=1 / 128),
)


def least_rate(config: AlgorithmRun) -> dict[str, bool]:
    """Theorem 7's hypotheses with 1 for the constant of eta, as in the last display of the proof of Lemma 19."""
    k, N, eps = config.task.blocks, config.task.alphabet, config.epsilon
    *others, _ = theorem_7(config).items()
    least = noise.learning_rate_theorem(k, N, config.beta0, eps / 2)
    return {**dict(others), "eta >= k^2 N^3 log(2kN/eps)/beta0": config.learning_rate >= least}


def trained_layers_stay(config: AlgorithmRun, seed: int, first: int, last: int):
    """Stages `first` to `last`: leaks of the layers below stay at most eps/2, updates below eta times Lemma 29's.

    The updates are far below: single samples come near the sharper bound (`lem29`), but in the mean over a batch their
    gradients cancel, since an untrained layer reads the mean of all tokens.
    """
    task, L = config.task, config.task.layers
    require(first <= L, f"task.blocks={task.blocks} must be at least {2 ** (first - 1)} for stage {first}")
    steps, after = key_query_steps(run_of(config, seed, "curriculum")[1]), deviations(config, seed, "curriculum")
    for stage in range(first, min(last, L) + 1):
        before, now = after[stage - 2].leak[: stage - 1], after[stage - 1].leak[: stage - 1]
        epsilon, moved = 2 * float(before.max()), float(steps[stage - 1].moved[: stage - 1].max())
        gradient = perturbation.trained_gradient(task.blocks, task.alphabet, L, config.beta0, epsilon)
        yield at_most(f"attention off the right keys after stage {stage}", now.max(), config.epsilon / 2)
        yield at_most(f"update of trained layers at stage {stage}", moved, config.learning_rate * gradient)
        sharp = config.learning_rate * perturbation.trained_gradient_sharp(config.beta0, epsilon)
        yield at_most(f"update of trained layers at stage {stage}, sharper", moved, sharp)
        yield row(
            {
                "stage": stage,
                "eps before": epsilon,
                "largest update": moved,
                "of the stage's layer": float(steps[stage - 1].moved[stage - 1]),
            }
        )


LEDGER.family(
    trained_layers_stay,
    {
        "lem21": {
            "statement": "Lemma 21",
            "says": (
                r"after stage 2 the first layer still has $\mathcal{S}^{(1)} \ge 1-\epsilon/2$: its update is $\eta$ "
                r"times Lemma 29's bound at most"
            ),
            "cases": (RUNS[0], EDGES[0]),
            "given": {"first": 2, "last": 2},
        },
        "lem26": {
            "statement": "Lemma 26",
            "says": (
                r"after stage $\ell \ge 3$ all earlier layers still have $\mathcal{S} \ge 1-\epsilon/2$, and hardly "
                r"move"
            ),
            "cases": (RUNS[1], EDGES[1]),
            "given": {"first": 3, "last": 20},
        },
    },
    form="bound",
    of=(descent.key_query_step,),
    hypotheses=least_rate,
    seeds=3,
)


def lemma_29(config: Leaky) -> dict[str, bool]:
    task = config.task
    eps = 2 * (task.tokens - 1) * math.exp(-min(config.betas))
    ceiling = perturbation.trained_gradient_ceiling(task.blocks, task.alphabet, task.layers)
    return {"eps log(1/eps) <= 1/(kNL)^6": eps < 1 and eps * math.log(1 / eps) <= ceiling}


@LEDGER.bound(
    "lem29",
    statement="Lemma 29",
    says=(
        r"$\|\nabla_{W_{KQ}^{(\ell')}}\mathcal{L}^{(\ell)}\|_\infty \le 6\beta_0 k(kNL)^{3/2}\epsilon$ for trained "
        r"layers $\ell'$, sample by sample, and it falls like $\epsilon$"
    ),
    of=(perturbation.trained_gradient, perturbation.trained_gradient_sharp),
    hypotheses=lemma_29,
    aliases=("lem29-const",),
    seeds=3,
    cases=(Leaky(Task(4, 2), betas=(26.0, 27.0, 28.0, 29.0), samples=64),),
)
def trained_layers_feel_the_leak_only(config: Leaky, seed: int):
    task, hidden = config.task, hidden_of(config.task, seed)
    k, N, L = task.blocks, task.alphabet, task.layers
    require(L >= 2, f"task.blocks={task.blocks} must be at least 2 to have a trained layer")
    require(len(set(config.betas)) > 2, f"betas={config.betas} must be at least three sharpnesses")
    examples = exact.drawn(hidden, L, config.samples, draws_of(seed, "examples"))
    for stage in range(2, L + 1):
        leaks, gradients = [], []
        for beta in config.betas:
            network = leaky_model(hidden, config.beta0, beta, stage - 1)
            found = streams.deviation(network, hidden, random_sequences(task, 40, seed))
            leaks.append(2 * float(found.leak[: stage - 1].max()))
            each = [
                largest(network, examples, head, layer) for layer in range(1, stage) for head in range(layer + 1, L + 1)
            ]
            gradients.append(max(each))
            yield row({"stage": stage, "beta": beta, "eps": leaks[-1], "gradient": gradients[-1]})
        bounds = [perturbation.trained_gradient(k, N, L, config.beta0, epsilon) for epsilon in leaks]
        yield at_most(f"gradient of trained layers in stage {stage}", gradients, bounds)
        powers = {"blocks": 2.5, "alphabet": 1.5, "layers": 1.5, "beta0": 1, "epsilon": 1}
        yield monomial(f"bound in stage {stage}", perturbation.trained_gradient, 6, **powers)
        yield monomial(f"sharper bound in stage {stage}", perturbation.trained_gradient_sharp, 0.5, beta0=1, epsilon=1)
        sharp = [perturbation.trained_gradient_sharp(config.beta0, epsilon) for epsilon in leaks]
        yield at_most(f"gradient of trained layers in stage {stage}, sharper", gradients, sharp)
        yield slope(f"exponent of eps in stage {stage}", leaks, gradients, 1.0)


def largest(network, examples: exact.Examples, head: int, layer: int) -> float:
    """The largest entry of the gradient of one layer under one loss, over single examples."""
    return float(np.asarray(exact.largest_gradients(network, exact.of_heads(examples, head)))[:, layer - 1].max())
