"""Encoding, distribution, activation, network, accuracy and loss: Definitions 3.1 to 3.7 and equation (21)."""

import math
from dataclasses import dataclass

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from stairwise.config import Config, option, require
from stairwise.lab.contract.checks import at_least, equal, note, true
from stairwise.papers.lego import activation
from stairwise.papers.lego import model as models
from stairwise.papers.lego import task as tasks
from stairwise.papers.lego.claims.ledger import LEDGER
from stairwise.papers.lego.claims.networks import drawn, task_of
from stairwise.papers.lego.claims.sizes import Drawn
from stairwise.papers.lego.config.task import Task
from stairwise.papers.lego.theory import chains, literal
from stairwise.train.draws import draws_of
from stairwise.train.keys import role_key


@dataclass(frozen=True)
class RandomChains(Config):
    """Random chains."""

    task: Task = option(Task("S3", 8, 4), "the chains")
    samples: int = option(200, "chains", low=10, high=100_000)


def sampled(config: RandomChains, seed: int):
    """Chains from the sampler itself."""
    task = task_of(config)
    keys = jax.random.split(role_key(seed, "chains"), config.samples)
    return task, jax.jit(jax.vmap(task.sample))(keys)


@LEDGER.exact(
    "def3.1-enc",
    statement=("Definition 3.1", "Definition 2.2"),
    says=r"a sentence is $L$ predicates $x_\ell = g_\ell(x_{\ell-1})$ and $L+1$ answers $x_\ell = y_\ell$ of five"
    " tokens, blanks where they must be; decoding inverts encoding",
    of=(tasks.Lego.predicates, tasks.Lego.answers, tasks.Lego.decode),
    cases=RandomChains(),
    seeds=3,
)
def clauses_have_five_tokens(config: RandomChains, seed: int):
    task, examples = sampled(config, seed)
    told, back = jax.jit(jax.vmap(lambda chain: (task.clauses(chain), task.decode(task.clauses(chain)))))(examples)
    told, L = np.asarray(told), task.length
    for name, found, drawn_ in zip(examples._fields, back, examples, strict=True):
        yield true(f"decoding inverts encoding: {name}", np.asarray(found) == np.asarray(drawn_))
    yield true("clauses as written down in NumPy", told == chains.sentences(task, examples))
    yield true("predicates end in two blanks", told[:, :L, 3:] == tasks.BLANK)
    yield true("answers begin with three blanks", told[:, L:, :3] == tasks.BLANK)


@LEDGER.exact(
    "def3.2-tokens",
    statement=("Definition 3.2", "Definition 3.3"),
    says=r"variables, actions, values and the blank have tokens of their own, $d$ in all; a clause is five one-hot"
    r" vectors side by side, the blank as zero, so $|Z|^2$ is 3 of a predicate and 2 of an answer",
    of=(tasks.Lego.token_kind, tasks.Lego.embed),
    cases=RandomChains(),
    seeds=3,
)
def tokens_are_one_hot(config: RandomChains, seed: int):
    task, examples = sampled(config, seed)
    told, L = np.asarray(jax.jit(jax.vmap(task.clauses))(examples)), task.length
    kinds = [[task.token_kind(int(token)) for token in clause] for clause in told[0]]
    predicate, answer = ["variable", "action", "variable", "blank", "blank"], ["blank"] * 3 + ["variable", "value"]
    yield true("kinds of tokens", kinds == [predicate] * L + [answer] * (L + 1))
    sizes = {"variable": task.variables, "action": task.actions, "value": task.values, "blank": 1}
    every = [task.token_kind(token) for token in range(task.vocabulary)]
    yield true("as many tokens of each kind", {kind: every.count(kind) for kind in sizes} == sizes)
    embedded = np.asarray(jax.jit(jax.vmap(task.embed))(told))
    norms = (embedded**2).sum(axis=2)
    yield equal("embedding", embedded, np.stack([literal.embed(row, task.vocabulary) for row in told]))
    yield true("|Z|^2 = 3 of predicates", norms[:, :L] == 3)
    yield true("|Z|^2 = 2 of answers", norms[:, L:] == 2)


@dataclass(frozen=True)
class Frequencies(Config):
    """Many chains, for the frequencies of what is drawn."""

    task: Task = option(Task("S3", 8, 4), "the chains")
    samples: int = option(20_000, "chains", low=1000, high=1_000_000)
    least: float = option(1e-4, "smallest p-value of a chi-square test that passes", above=0.0, below=0.1)


@LEDGER.bound(
    "ass3.2-dist",
    statement="Assumption 3.2",
    says=r"variables are uniform without replacement, $y_0$ and the actions uniform, $y_\ell = g_\ell(y_{\ell-1})$, and"
    r" $Z^{L,L'}$ begins $Z^L$",
    of=(tasks.draw_distinct, tasks.Lego.track, tasks.Lego.track_by_products, tasks.Lego.truncated),
    cases=Frequencies(),
    seeds=3,
)
def chains_are_uniform(config: Frequencies, seed: int):
    from scipy import stats

    task, examples = sampled(RandomChains(config.task, config.samples), seed)
    names, actions, values = (np.asarray(leaf) for leaf in examples)
    table, L = np.asarray(task.table), task.length
    ordered = np.sort(names, axis=1)
    yield true("no variable twice", ordered[:, 1:] != ordered[:, :-1])
    for step in range(L):
        yield true(
            f"y_{step + 1} = g_{step + 1}(y_{step})", values[:, step + 1] == table[actions[:, step], values[:, step]]
        )
    few = jax.tree.map(lambda leaf: leaf[:100], examples)
    found = jax.jit(jax.vmap(task.track_by_products))(few.values[:, 0], few.actions)
    yield true("values from parallel products", np.asarray(found) == np.asarray(few.values))
    one = tasks.Chain(names[0], actions[0], values[0])
    whole, parts = jax.jit(lambda chain: (task.clauses(chain), [task.truncated(chain, n) for n in range(L + 1)]))(one)
    yield true("Z^{L,L'} begins Z^L", all(np.array_equal(part, whole[: L + n + 1]) for n, part in enumerate(parts)))
    pairs = names[:, 0] * task.variables + names[:, 1]
    possible = [x * task.variables + z for x in range(task.variables) for z in range(task.variables) if x != z]
    counts = {
        "x_0": np.bincount(names[:, 0], minlength=task.variables),
        "x_L": np.bincount(names[:, -1], minlength=task.variables),
        "(x_0, x_1)": np.bincount(pairs, minlength=task.variables**2)[possible],
        "y_0": np.bincount(values[:, 0], minlength=task.values),
        "g": np.bincount(actions.reshape(-1), minlength=task.actions),
    }
    for name, row in counts.items():
        yield at_least(f"p-value: {name} is uniform", stats.chisquare(row).pvalue, config.least)


# --- the activation ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Knots(Config):
    """The smoothed ReLU."""

    rho: float = option(0.6, "knot rho", above=0.0, high=10.0)
    q: int = option(4, "power q", low=3, high=12)
    slope: float = option(0.05, "slope w of Assumption B.2 on the negative side", above=0.0, below=1.0)
    clip: float = option(5.0, "B of Assumption B.2", above=0.1, high=100.0)


def around(function, knots: tuple[float, ...], step: float = 1e-9) -> tuple[np.ndarray, np.ndarray]:
    """Jumps of a function, and of its derivative, at the knots."""
    points = jnp.asarray([[knot - step, knot + step] for knot in knots], dtype=jnp.float64)
    run = jax.jit(lambda x: (function(x), jax.vmap(jax.vmap(jax.grad(function)))(x)))
    value, derivative = (np.asarray(found) for found in run(points))
    return np.diff(value)[:, 0], np.diff(derivative)[:, 0]


def integral(slope, ends: np.ndarray, knot: float) -> np.ndarray:
    """The integral of a slope from 0 to each end, by Gauss-Legendre on both sides of a knot."""
    nodes, weights = np.polynomial.legendre.leggauss(12)

    def piece(low: np.ndarray, high: np.ndarray) -> np.ndarray:
        middle, half = (low + high) / 2, (high - low) / 2
        return half * (slope(middle[:, None] + half[:, None] * nodes) @ weights)

    inside = np.clip(ends, -np.inf, knot)
    return piece(np.zeros_like(ends), inside) + piece(inside, ends)


@LEDGER.exact(
    "def3.4-srelu",
    statement="Definition 3.4",
    says=r"with its lower knot at 0 (our networks): $C^1$, and the integral of $\min(\max(x,0)/\rho, 1)^{q-1}$",
    of=(activation.smooth_relu, activation.smooth_relu_slope),
    cases=(Knots(), Knots(0.8, 6)),
    search={"rho": (0.05, 5.0, "log")},
)
def the_activation_is_smooth(config: Knots, seed: int):
    rho, q = config.rho, config.q
    function = lambda x: activation.smooth_relu(x, rho, q)  # noqa: E731
    grid = np.linspace(-2 * rho, 4 * rho, 301)
    run = jax.jit(lambda x: (function(x), jax.vmap(jax.grad(function))(x), activation.smooth_relu_slope(x, rho, q)))
    value, slopes, closed = (np.asarray(found) for found in run(grid))
    yield equal("sReLU' by autodiff", slopes, closed)
    yield equal("sReLU", value, integral(lambda x: np.minimum(np.maximum(x, 0) / rho, 1) ** (q - 1), grid, rho))
    jump, bend = around(function, (0.0, rho))
    yield equal("jumps at 0 and rho", jump, 0.0, 1e-8)
    yield equal("jumps of the slope at 0 and rho", bend, 0.0, 1e-6)


@LEDGER.refuted(
    "def3.4-srelu-printed",
    statement="Definition 3.4",
    says=r"as printed, with the power from $-\rho$ on and constant below: continuously differentiable",
    certificate="certificates/def34.py",
    corrected="def3.4-srelu",
    of=(activation.smooth_relu_printed,),
    hypotheses={"q is even": lambda config: config.q % 2 == 0},
    cases=Knots(),
)
def the_printed_activation_is_not(config: Knots, seed: int):
    """The constant itself is lost in our copy; whatever it is, the slope below -rho is 0."""
    function = lambda x: activation.smooth_relu_printed(x, config.rho, config.q)  # noqa: E731
    jump, bend = around(function, (-config.rho, config.rho))
    yield equal("jumps of the slope at -rho and rho", bend, 0.0, 1e-6)
    slope = float(jax.jit(jax.grad(function))(-config.rho / 2))
    yield note(f"the slope is {slope:.4g} at -rho/2: it falls on (-rho, 0); it jumps by {bend[0]:.4g} at -rho")
    yield equal("jumps of the value, with rho/q below -rho", jump, 0.0, 1e-7)


@LEDGER.exact(
    "assB2-srelu",
    statement="Assumption B.2",
    says=r"Assumption B.2 in a reading that is continuous: the power above 0, $x^2/2$ down to $-w$, slope $-w$ down to"
    r" $-B$, constant below",
    of=(activation.smooth_relu_leaky,),
    cases=Knots(),
    search={"slope": (0.001, 0.5, "log"), "clip": (1.0, 50.0, "log")},
)
def the_leaky_activation_is_continuous(config: Knots, seed: int):
    rho, q, w, B = config.rho, config.q, config.slope, config.clip
    function = lambda x: activation.smooth_relu_leaky(x, rho, q, w, B)  # noqa: E731
    grid = np.concatenate([np.linspace(-2 * B, -B - 1e-3, 20), np.linspace(-B + 1e-3, 3 * rho, 201)])
    slopes = jax.jit(jax.vmap(jax.grad(function)))(grid)
    power = np.minimum(np.maximum(grid, 0) / rho, 1) ** (q - 1)
    yield equal("slope", slopes, np.where(grid < -B, 0.0, np.where(grid < 0, np.maximum(grid, -w), power)))
    jump, bend = around(function, (-B, -w, 0.0, rho))
    yield equal("jumps at the knots", jump, 0.0, 1e-7)
    yield equal("jumps of the slope at the knots", bend, [-w, 0.0, 0.0, 0.0], 1e-5)
    yield equal("value at 0", float(function(jnp.asarray(0.0))), 0.0)


# --- the network ------------------------------------------------------------------------------------------------------


@eqx.filter_jit
def every_output(model: models.ClauseTransformer, clauses: jax.Array, predicates: int) -> jax.Array:
    return jax.vmap(lambda row: model.logits(row, predicates))(clauses)


@LEDGER.exact(
    "def3.5-model",
    statement=("Definition 3.5", "Assumption 3.4"),
    says=r"$F = \mathrm{FFN} \circ \mathrm{Attention}$ with all of $Q$: gathers equal products of $5d$-wide vectors",
    of=(
        models.ClauseTransformer.read,
        models.ClauseTransformer.pre_activations,
        models.ClauseTransformer.output,
        models.FullScores.__call__,
    ),
    cases=(Drawn(), Drawn(Task("S3", 4, 2), clip=1.0)),
    seeds=3,
)
def gathers_equal_products(config: Drawn, seed: int):
    steps = tuple(range(1, config.task.length + 1))
    case = drawn(config, seed, steps)
    told = jnp.asarray(chains.sentences(case.task, case.chains), dtype=jnp.int32)
    for index, step in enumerate(steps):
        size = config.task.length + step
        found = every_output(case.model, told[:, :size], config.task.length)
        yield equal(f"F at step {step}", found, np.stack([row[index].F for row in case.found]))


@LEDGER.exact(
    "eq21-score",
    statement=("Eq. (21)", "Assumption 3.5"),
    says=r"with block-sparse $Q$ a predicate is scored by $Q_{4,3}$ alone and an answer by $Q_{4,4}$ alone",
    of=(models.SparseScores.__call__, models.FullScores.of, models.FullScores.__call__),
    cases=Drawn(),
    seeds=3,
)
def two_blocks_score_everything(config: Drawn, seed: int):
    case = drawn(config, seed, (config.task.length,), value_only=True)
    network, L, d = literal.network_of(case.model), config.task.length, case.task.vocabulary
    blocks = np.array(models.FullScores.of(case.model.scores).blocks)
    for place, told in enumerate(chains.sentences(case.task, case.chains)[:3]):
        Z, clauses = literal.embed(told, d), jnp.asarray(told, dtype=jnp.int32)
        products = Z[-1] @ network.scores @ Z.T
        yield equal(f"two blocks, chain {place}", case.model.scores(clauses, L), products)
        yield equal(f"all of Q, chain {place}", models.FullScores(jnp.asarray(blocks))(clauses, L), products)
    blocks[3, :, 2], blocks[3, :, 3] = 0, 0
    yield equal("all other blocks", blocks, 0.0)


# --- accuracy and loss ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Enumerated(Config):
    """Few enough chains to list."""

    task: Task = option(Task("C2", 3, 1), "the chains")
    neurons: int = option(2, "neurons m", low=1, high=32)
    sigma0: float = option(1.0, "standard deviation of W", above=0.0, high=10.0)

    def check(self) -> None:
        group = self.task.group
        number = chains.count(self.task.variables, group.actions, group.values, self.task.length)
        require(number <= 20_000, f"task: {number} chains must be at most 20000 to be listed")


def listed(config: Enumerated, seed: int):
    """The task, a random network, every chain, and the log of p of each token at each step, by 5d-wide products."""
    task = task_of(config)
    rng, d = draws_of(seed, "weights and scores"), task.vocabulary
    W = jnp.asarray(config.sigma0 * rng.standard_normal((5, d, 5, d, config.neurons)))
    scores = models.FullScores(jnp.asarray(rng.standard_normal((5, d, 5, d))))
    network = models.ClauseTransformer(W, scores, 0.1, 50.0, 0.5, 4)
    examples, L = chains.every_chain(task).examples, task.length
    dense, logs = literal.network_of(network), []
    for told in chains.sentences(task, examples):
        steps = [literal.step_of(dense, told[: L + step], L, told[L + step]) for step in range(1, L + 1)]
        logs.append([np.log(step.logit[np.arange(5), step.target]) for step in steps])
    return task, network, examples, np.array(logs)


@eqx.filter_jit
def every_accuracy(model: models.ClauseTransformer, task: tasks.Lego, examples: tasks.Chain) -> jax.Array:
    return jax.vmap(lambda chain: models.accuracy(model, task, chain))(examples)


@eqx.filter_jit
def every_loss(
    model: models.ClauseTransformer, task: tasks.Lego, examples: tasks.Chain, steps: tuple[int, ...]
) -> jax.Array:
    return jax.vmap(lambda chain: models.loss(model, task, chain, steps))(examples)


@LEDGER.exact(
    "eq5-acc",
    statement=("Eq. (5)", "Definition 3.6"),
    says=r"$\mathrm{Acc}_L$ is the probability of the true next clause, averaged over $L$ teacher-forced steps and all"
    " chains",
    of=(models.accuracy,),
    cases=(Enumerated(), Enumerated(Task("C2", 3, 2))),
    seeds=3,
)
def accuracy_over_every_chain(config: Enumerated, seed: int):
    task, network, examples, logs = listed(config, seed)
    yield equal("Acc of each chain", every_accuracy(network, task, examples), np.exp(logs.sum(axis=2)).mean(axis=1))


@LEDGER.exact(
    "eq6-loss",
    statement=("Eq. (6)", "Definition 3.7"),
    says=r"$\mathrm{Loss}^L$ is the sum over steps and over the five tokens; a network without weights has exactly"
    r" $5 L \log d$",
    of=(models.loss, models.token_losses, models.surprise),
    cases=(Enumerated(), Enumerated(Task("C2", 3, 2))),
    seeds=3,
)
def loss_over_every_chain(config: Enumerated, seed: int):
    task, network, examples, logs = listed(config, seed)
    steps = tuple(range(1, task.length + 1))
    yield equal("loss of each chain", every_loss(network, task, examples, steps), -logs.sum(axis=(1, 2)))
    of_value = every_loss(network.only(models.VALUE), task, examples, steps)
    yield equal("loss of each chain, of a network for the value alone", of_value, -logs[:, :, models.VALUE].sum(axis=1))
    empty = models.ClauseTransformer(0 * network.weights, network.scores, 0.0, 50.0, 0.5, 4)
    yield equal("5 L log d", every_loss(empty, task, examples, steps), 5 * task.length * math.log(task.vocabulary))
