"""Encoding, distribution, activation, network, accuracy and loss: Definitions 3.1 to 3.7 and equation (21)."""

import math
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np

from stairwise.lab.checks import exactly, identical
from stairwise.lab.config import Config, option, require
from stairwise.lab.contract import Verdict
from stairwise.papers.lego import activation
from stairwise.papers.lego import model as models
from stairwise.papers.lego import task as tasks
from stairwise.papers.lego.claims.ledger import LEDGER
from stairwise.papers.lego.claims.networks import drawn, task_of
from stairwise.papers.lego.claims.sizes import Drawn
from stairwise.papers.lego.config.task import Task
from stairwise.papers.lego.theory import chains, literal


@dataclass(frozen=True)
class Sentences(Config):
    """Random chains."""

    task: Task = option(Task("S3", 8, 4), "the chains")
    samples: int = option(200, "chains", low=10, high=100_000)


def sampled(config: Sentences, seed: int):
    """Chains from the sampler itself."""
    task = task_of(config)
    keys = jax.random.split(jax.random.key(seed), config.samples)
    return task, jax.jit(jax.vmap(task.sample))(keys)


@LEDGER.theory(
    "def3.1-enc",
    kind="construction",
    says="five-token clauses: decoding inverts encoding, blanks stand where they must, |Z|^2 is 3 or 2",
    cases=Sentences(),
)
def clauses_have_five_tokens(config: Sentences, seed: int) -> Verdict:
    task, examples = sampled(config, seed)
    told, back = jax.jit(jax.vmap(lambda chain: (task.clauses(chain), task.decode(task.clauses(chain)))))(examples)
    told = np.asarray(told)
    L, norms = task.length, np.stack([(literal.embed(row, task.vocabulary) ** 2).sum(axis=1) for row in told])
    kinds = [[task.token_kind(int(token)) for token in clause] for clause in told[0]]
    predicate, answer = ["variable", "action", "variable", "blank", "blank"], ["blank"] * 3 + ["variable", "value"]
    return exactly(
        {
            "decoding inverts encoding": all(np.array_equal(a, b) for a, b in zip(back, examples, strict=True)),
            "written down independently": bool((told == chains.sentences(task, examples)).all()),
            "blanks of predicates": not told[:, :L, 3:].any(),
            "blanks of answers": not told[:, L:, :3].any(),
            "kinds of tokens": kinds == [predicate] * L + [answer] * (L + 1),
            "norms of predicates": bool((norms[:, :L] == 3).all()),
            "norms of answers": bool((norms[:, L:] == 2).all()),
        }
    )


@dataclass(frozen=True)
class Frequencies(Config):
    """Many chains, for the frequencies of what is drawn."""

    task: Task = option(Task("S3", 8, 4), "the chains")
    samples: int = option(20_000, "chains", low=1000, high=1_000_000)
    least: float = option(1e-4, "smallest p-value of a chi-square test that passes", above=0.0, below=0.1)


@LEDGER.theory(
    "ass3.2-dist",
    kind="definition",
    says="variables uniform without replacement, y_0 and actions uniform, y_l = g_l(y_{l-1}); Z^{L,L'} begins Z^L",
    cases=Frequencies(),
)
def chains_are_uniform(config: Frequencies, seed: int) -> Verdict:
    task, examples = sampled(Sentences(config.task, config.samples), seed)
    names, actions, values = (np.asarray(leaf) for leaf in examples)
    table, L = np.asarray(task.table), task.length
    ordered = np.sort(names, axis=1)
    tracked = all((values[:, step + 1] == table[actions[:, step], values[:, step]]).all() for step in range(L))
    one = tasks.Chain(names[0], actions[0], values[0])
    whole = jax.jit(lambda chain: (task.clauses(chain), [task.truncated(chain, n) for n in range(L + 1)]))(one)
    prefixes = all(np.array_equal(part, whole[0][: L + n + 1]) for n, part in enumerate(whole[1]))
    facts = {
        "no variable twice": bool((ordered[:, 1:] != ordered[:, :-1]).all()),
        "values follow": tracked,
        "both oracles agree": _oracles_agree(task, examples),
        "prefixes": prefixes,
    }
    first = names[:, 0] * task.variables + names[:, 1]
    first = np.unique(first, return_counts=True)[1]
    counts = {
        "x_0": np.bincount(names[:, 0], minlength=task.variables),
        "x_L": np.bincount(names[:, -1], minlength=task.variables),
        "y_0": np.bincount(values[:, 0], minlength=task.values),
        "g": np.bincount(actions.reshape(-1), minlength=task.actions),
    }
    if len(first) == task.variables * (task.variables - 1):
        counts["(x_0, x_1)"] = first
    from scipy import stats

    p = {name: float(stats.chisquare(row).pvalue) for name, row in counts.items()}
    rows = tuple({"drawn": name, "p": value} for name, value in p.items())
    uniform = Verdict.at_least(min(p.values()), config.least, details=rows)
    return Verdict.worst({"facts": exactly(facts), "uniform": uniform})


def _oracles_agree(task, examples) -> bool:
    """The scan against products found in parallel, on a few of the chains."""
    few = jax.tree.map(lambda leaf: leaf[:100], examples)
    found = jax.jit(jax.vmap(task.track_by_products))(few.values[:, 0], few.actions)
    return bool((np.asarray(found) == np.asarray(few.values)).all())


# --- the activation ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Knots(Config):
    """The smoothed ReLU."""

    rho: float = option(0.6, "knot rho", above=0.0, high=10.0)
    q: int = option(4, "power q", low=3, high=12)
    slope: float = option(0.05, "slope w of Assumption B.2 on the negative side", above=0.0, below=1.0)
    clip: float = option(5.0, "B of Assumption B.2", above=0.1, high=100.0)


def jumps(function, knots: tuple[float, ...], step: float = 1e-7) -> tuple[float, float]:
    """The largest jump of a function, and of its derivative, at the knots."""
    around = jnp.asarray([[knot - step, knot + step] for knot in knots], dtype=jnp.float64)
    run = jax.jit(lambda x: (function(x), jax.vmap(jax.vmap(jax.grad(function)))(x)))
    value, derivative = (np.asarray(found) for found in run(around))
    return float(np.abs(np.diff(value)).max()), float(np.abs(np.diff(derivative)).max())


@LEDGER.theory(
    "def3.4-srelu",
    kind="definition",
    says="corrected (lower knot at 0): value and derivative continuous, 0 <= sReLU' <= 1, never decreasing",
    cases=(Knots(), Knots(0.8, 6)),
)
def the_activation_is_smooth(config: Knots, seed: int) -> Verdict:
    function = lambda x: activation.smooth_relu(x, config.rho, config.q)  # noqa: E731
    value, derivative = jumps(function, (0.0, config.rho))
    grid = np.linspace(-2 * config.rho, 4 * config.rho, 1001)
    closed_form = lambda x: activation.smooth_relu_slope(x, config.rho, config.q)  # noqa: E731
    run = jax.jit(lambda grid: (jax.vmap(jax.grad(function))(grid), closed_form(grid)))
    slopes, closed = (np.asarray(found) for found in run(grid))
    facts = {"0 <= slope <= 1": bool(((slopes >= 0) & (slopes <= 1 + 1e-12)).all())}
    return Verdict.worst(
        {
            "jump": Verdict.at_most(value, 1e-6),
            "jump of the derivative": Verdict.at_most(derivative, 1e-6 * max(1.0, (config.q - 1) / config.rho)),
            "slope": identical({"slope": (slopes, closed)}),
            "range": exactly(facts),
        }
    )


@LEDGER.theory(
    "def3.4-srelu-printed",
    kind="definition",
    says="as printed: the power from -rho on; with even q it jumps by rho/q at -rho and decreases on (-rho, 0)",
    cases=Knots(),
)
def the_printed_activation_is_not(config: Knots, seed: int) -> Verdict:
    function = lambda x: activation.smooth_relu_printed(x, config.rho, config.q)  # noqa: E731
    value, _ = jumps(function, (-config.rho, config.rho))
    slope = float(jax.jit(jax.grad(function))(-config.rho / 2))
    note = f"jump {value:.4g} = rho/q = {config.rho / config.q:.4g} at -rho, slope {slope:.4g} at -rho/2"
    return Verdict.at_most(value, 1e-6, otherwise="refuted", note=note)


@LEDGER.theory(
    "assB2-srelu",
    kind="definition",
    says="Assumption B.2 made continuous: slope -w on the negative side, constant below -B, where the slope jumps",
    cases=Knots(),
)
def the_leaky_activation_is_continuous(config: Knots, seed: int) -> Verdict:
    function = lambda x: activation.smooth_relu_leaky(x, config.rho, config.q, config.slope, config.clip)  # noqa: E731
    value, derivative = jumps(function, (-config.slope, 0.0, config.rho))
    at_clip = jumps(function, (-config.clip,))
    note = f"slope jumps by {at_clip[1]:.4g} = w at -B"
    smooth = Verdict.at_most(max(value, at_clip[0]), 1e-6, note=note)
    bend = 1e-6 * max(1.0, (config.q - 1) / config.rho)
    return Verdict.worst({"value": smooth, "derivative above -B": Verdict.at_most(derivative, bend)})


# --- the network ------------------------------------------------------------------------------------------------------


@LEDGER.theory(
    "def3.5-model",
    kind="construction",
    says="F = FFN o Attention: gathers equal 5d-wide products, all of Q in use; five distributions that sum to 1",
    cases=(Drawn(), Drawn(Task("S3", 4, 2), clip=1.0)),
)
def gathers_equal_products(config: Drawn, seed: int) -> Verdict:
    steps = tuple(range(1, config.task.length + 1))
    case = drawn(config, seed, steps)
    told = jnp.asarray(chains.sentences(case.task, case.chains), dtype=jnp.int32)
    pairs = {}
    for index, step in enumerate(steps):
        size = config.task.length + step
        found = jax.jit(jax.vmap(lambda row: case.model.logits(row, config.task.length)))(told[:, :size])
        dense = np.stack([row[index].F for row in case.found])
        pairs[f"F at step {step}"] = (np.asarray(found), dense)
        mass = np.asarray(jax.nn.softmax(found)).sum(axis=-1)
        pairs[f"mass at step {step}"] = (mass, np.ones_like(mass))
    return identical(pairs)


@LEDGER.theory(
    "eq21-score",
    kind="identity",
    says="with block-sparse Q a predicate is scored by Q43 alone and an answer by Q44 alone",
    cases=Drawn(),
)
def two_blocks_score_everything(config: Drawn, seed: int) -> Verdict:
    case = drawn(config, seed, (config.task.length,), value_only=True)
    network, L, pairs = literal.network_of(case.model), config.task.length, {}
    full, d = network.scores.reshape(5, case.task.vocabulary, 5, case.task.vocabulary), case.task.vocabulary
    for row in chains.sentences(case.task, case.chains)[:3]:
        Z = literal.embed(row, d)
        products, query = Z[-1] @ network.scores @ Z.T, row[-1, 3]
        by_rule = np.concatenate([full[3, query, 2, row[:L, 2]], full[3, query, 3, row[L:, 3]]])
        gathered = case.model.scores(jnp.asarray(row, dtype=jnp.int32), L)
        pairs[f"query {query}, rule"] = (products, by_rule)
        pairs[f"query {query}, gathers"] = (np.asarray(gathered), by_rule)
    others = full.copy()
    others[3, :, 2], others[3, :, 3] = 0, 0
    return Verdict.worst({"scores": identical(pairs), "other blocks": Verdict.at_most(np.abs(others).max(), 0.0)})


# --- accuracy and loss ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Enumerated(Config):
    """Few enough chains to list, and draws of them."""

    task: Task = option(Task("C2", 3, 1), "the chains")
    neurons: int = option(2, "neurons m", low=1, high=32)
    sigma0: float = option(1.0, "standard deviation of W", above=0.0, high=10.0)
    draws: int = option(4000, "chains drawn", low=100, high=200_000)

    def check(self) -> None:
        group = self.task.group
        number = chains_of(self.task.variables, group.actions, group.values, self.task.length)
        require(number <= 20_000, f"task: {number} chains must be at most 20000 to be listed")


def chains_of(variables: int, actions: int, values: int, length: int) -> int:
    return math.perm(variables, length + 1) * values * actions**length


@LEDGER.theory(
    "eq5-acc",
    kind="definition",
    says="Acc_L, the expected probability of the true next clause over L teacher-forced steps: all chains, and draws",
    cases=Enumerated(),
)
def accuracy_by_enumeration_and_by_sampling(config: Enumerated, seed: int) -> Verdict:
    task = task_of(config)
    settings = {"sigma0": config.sigma0, "bias": 0.1, "clip": 50.0, "rho": 0.5, "q": 4}
    network = models.initial(jax.random.key(seed), task.vocabulary, config.neurons, dtype=jnp.float64, **settings)
    accuracy = jax.jit(jax.vmap(lambda chain: models.accuracy(network, task, chain)))
    exact = float(accuracy(chains.every_chain(task).examples).mean())
    draws = np.asarray(accuracy(chains.drawn(task, seed, config.draws)))
    deviation = abs(draws.mean() - exact) / (draws.std() / math.sqrt(config.draws))
    return Verdict.at_most(deviation, 4.0, note=f"Acc = {exact:.6g}, drawn {draws.mean():.6g}; in standard errors")


@dataclass(frozen=True)
class Uniform(Config):
    """A network whose logits are all zero."""

    task: Task = option(Task("S3", 6, 3), "the chains")


@LEDGER.theory(
    "eq6-loss",
    kind="definition",
    says="Loss^L is the sum over steps and over the five tokens: a network without weights has exactly 5 L log d",
    cases=(Uniform(), Uniform(Task("C2", 3, 1))),
)
def an_empty_network_is_uniform(config: Uniform, seed: int) -> Verdict:
    task = task_of(config)
    W = jnp.zeros((5, task.vocabulary, 5, task.vocabulary, 1), dtype=jnp.float64)
    scores = models.SparseScores.zero(task.vocabulary, jnp.float64)
    network = models.Transformer(W, scores, 0.0, 10.0, 0.5, 4)
    examples, steps = chains.drawn(task, seed, 3), tuple(range(1, task.length + 1))
    found = jax.jit(jax.vmap(lambda chain: models.loss(network, task, chain, steps)))(examples)
    expected = np.full(3, 5 * task.length * math.log(task.vocabulary))
    return identical({"loss": (np.asarray(found), expected)})
