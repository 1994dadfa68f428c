"""Theorem 3: three steps give perfect accuracy and one-hot attention; with few bits; and what it prints."""

import math
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from stairwise.config import Config, option, require
from stairwise.lab.contract.checks import at_least, at_most, equal, hypothesis, measured, row, skip_if, slope, true
from stairwise.papers.parity_cot import dense, simplified, steps
from stairwise.papers.parity_cot.claims.ledger import LEDGER
from stairwise.papers.parity_cot.claims.running import PROOF, Run
from stairwise.papers.parity_cot.claims.sizes import all_sequences, cube_fits
from stairwise.papers.parity_cot.claims.third_step import MANY, SIGN, by_query, lemma26
from stairwise.papers.parity_cot.config.task import Task
from stairwise.papers.parity_cot.config.theorem3 import ThreeSteps
from stairwise.papers.parity_cot.theory import hyperparameters, precision, trajectory
from stairwise.train import keys
from stairwise.train.loop import RunningTrial

# --- the algorithm ----------------------------------------------------------------------------------------------------

TINY = ThreeSteps(
    Task(5, 2), width=60, neurons=6, batch=12, block=4, scale=0.5, logit=2e-3, shift=0.7, loss="hinge", test_examples=4
)  # fmt: skip


@LEDGER.exact(
    "eq2",
    statement=("Equation (2)", "Assumption 1"),
    says=r"three steps $w - \eta_t\frac{1}{B}\sum_s\sum_i\nabla\ell$ from the start: in the span of the embeddings"
    " as with dense matrices",
    of=(steps.moved, steps.gradient, steps.tick, steps.rates),
    cases=(
        TINY,
        ThreeSteps(
            Task(4, 3), width=200, neurons=5, batch=6, block=6, scale=2.0, logit=1e-3, loss="linear", test_examples=4
        ),
    ),
    seeds=3,
)
def three_steps_of_descent(config: ThreeSteps, seed: int):
    trial = RunningTrial(jax.tree.map(jnp.asarray, config), jnp.uint32(seed))
    state = _start(trial)
    E = np.asarray(_embeddings(2 * config.positions, config.width, keys.role_key(seed, "embedding")))
    h = np.repeat([1.0, -1.0], config.neurons) / (2 * config.neurons)
    n, m, T = config.task.bits, config.neurons, config.positions
    nu = np.where(np.asarray(state.setting.positive), 1.0, -1.0) * config.scale
    own = np.einsum("rqb,qbd->rd", nu, E.reshape(T, 2, -1)[n:])
    A, W = np.zeros((config.width, config.width)), np.concatenate([own, 0 * own], axis=1)
    rates = (T * math.sqrt(128 * m * config.logit),) * 2 + (config.shift * m * config.scale,)
    tick = jax.jit(steps.tick)
    for step, rate in enumerate(rates):
        tokens = []
        for part in range(config.blocks):
            t = step * config.blocks + part
            key = keys.at(keys.role_key(seed, "batches"), t)
            tokens.append(np.asarray(_draw(config, state.setting.problem, key)))
            state = tick(trial, state, key, jnp.int32(t))
        down = jax.tree.map(np.asarray, _dense_gradient(config.loss, n, E, h, np.concatenate(tokens), A, W))
        A, W = A - rate * down[0], W - rate * down[1]
        found = jax.tree.map(np.asarray, state.weights)
        yield equal(f"W after step {step + 1}", np.concatenate([found.first @ E, found.second @ E], axis=1), W, 1e-11)
        yield equal(f"A after step {step + 1}", E.T @ found.attention @ E, A, 1e-11)
    literal = RunningTrial(jax.tree.map(jnp.asarray, ThreeSteps(config.task, rates="literal")), jnp.uint32(seed))
    sizes, k, eps = literal.config, config.task.size, 4.0
    eta = 750 * eps * math.sqrt(sizes.batch) / (100 * math.log(n / 0.1))
    yield equal("Assumption 2's rates", jax.jit(steps.rates)(literal), [eta, eta, 4 * k * eps / 3])


@jax.jit
def _start(trial: RunningTrial):
    return steps.init(trial, None, trial.key("start"))


@partial(jax.jit, static_argnums=0)
def _draw(config: ThreeSteps, problem, key):
    return steps.draw_tokens(config, problem, 0.0, config.block, key)


@partial(jax.jit, static_argnums=(0, 1))
def _embeddings(atoms: int, width: int, key):
    return simplified.vectors(simplified.draw_signs(key, atoms, width), width)


@partial(jax.jit, static_argnums=(0, 1))
def _dense_gradient(loss: str, n: int, E, h, tokens, A, W):
    """The gradient of the mean loss by autodiff of the dense network."""

    def mean_loss(weights):
        model = dense.SimplifiedTransformer(E, weights[0], weights[1], h)
        outputs = jax.vmap(model)(tokens[:, :-1])[:, n:]
        signed = jnp.where(tokens[:, n + 1 :] == 1, -outputs, outputs)
        return jnp.sum(jnp.maximum(signed + 1, 0) if loss == "hinge" else signed) / len(tokens)

    return jax.grad(mean_loss)((A, W))


@LEDGER.bound(
    "thm3-proof",
    argument="the proof cites Lemma 18, which is false as printed, for what Lemmas 21 to 24 show",
    statement="Theorem 3",
    says=r"where Lemma 5's inequalities hold but 5.1, three steps get every input right, attention within $n^{-8}$"
    " of one-hot",
    of=(steps.moved, trajectory.descend),
    hypotheses=lemma26,
    cases=MANY,
    seeds=3,
    optimise=True,
)
def three_steps_are_enough_for_all_inputs(config: Run, seed: int):
    run, n = trajectory.trajectory(config, seed), config.task.bits
    for step, (gradient, rate) in enumerate(zip(run.gradients, run.rates, strict=True)):
        moved = zip(gradient._fields, run.weights[step], run.weights[step + 1], gradient, strict=True)
        for name, before, after, down in moved:
            yield equal(f"{name} after step {step + 1}", after, before - float(rate) * down)
    outputs, labels = trajectory.outputs(run, 3, 2), run.batches[2].tokens[:, n + 1 :]
    yield true("the sign is right on every input, at every step of the chain", (outputs > 0) == (labels == 1))
    weights = trajectory.attention_on_atoms(run, 3, run.batches[2].tokens[:, :-1])
    by_position = weights.reshape(*weights.shape[:2], -1, 2).sum(axis=3)
    target = np.arange(by_position.shape[2]) == run.secret[:, None]
    yield at_most("|attention - 1(j = S[i])|, all inputs", np.abs(by_position - target).max(), n**-8.0)
    yield at_least("smallest margin / eps", np.where(labels == 1, outputs, -outputs).min() / config.scale, 1e-3)


@dataclass(frozen=True)
class GrowingInputs(Config):
    """Assumption 2 along a sweep of n."""

    power: float = option(5.0, "p of k = n / ln(n/delta)^p", low=4.0, high=5.0)
    failure: float = option(0.1, "delta", above=0.0, below=1.0)
    digits: tuple[int, ...] = option((20, 40, 80, 140, 200), "n = 10^digits", low=5, high=200)


@LEDGER.rate(
    "thm3-size",
    statement="Theorem 3",
    says=r"Assumption 2 has $o(nk)$ parameters, $\sim nk\ln^{2.2-p}(n/\delta)$ at $k = n/\ln^p$, and $\tilde O(n)$"
    r" samples, $\sim n\ln^{20}$",
    of=(hyperparameters.literal,),
    cases=(GrowingInputs(), GrowingInputs(4.0)),
)
def parameters_and_samples(config: GrowingInputs, seed: int):
    logs, parameters, samples = [], [], []
    for digits in config.digits:
        found = hyperparameters.literal(10.0**digits, config.power, config.failure, 1.0)
        logs.append(digits * math.log(10) - math.log(config.failure))
        k, d, m = found.size / 10.0**digits, found.width / 10.0**digits, found.neurons / 10.0**digits
        parameters.append((d**2 + 4 * m * d) / k)
        samples.append(3 * found.batch / 10.0**digits)
    yield slope("parameters / (nk)", logs, parameters, 2.2 - config.power, within=0.1, against="ln(n/delta)")
    yield slope("samples / n", logs, samples, 20, within=0.01, against="ln(n/delta)")
    # the rates, from the conditions that Lemma 5 puts on them
    n, eps = 1e60, 0.5
    found = hyperparameters.literal(n, config.power, config.failure, eps)
    ratios = {
        "5.4": found.neurons * n * eps / 120 / found.rate,
        "5.6": found.rate / (256 * found.neurons) * found.rate / n**2 / (40 * math.log(n)),
        "5.8": 5 * n * found.last_rate / (2 * found.rate),
    }
    gaps = [hyperparameters.gap(name, math.log(n), config.power, config.failure, eps) for name in ratios]
    yield equal("ln(larger / smaller) of 5.4, 5.6, 5.8 at n = 10^60", [math.log(r) for r in ratios.values()], gaps)


# --- the experiment ---------------------------------------------------------------------------------------------------


def arms(records: list[Any], keep) -> dict[str, list[Any]]:
    """Records by their sizes, of those configs that `keep` wants."""
    found: dict[str, list[Any]] = {}
    for record in records:
        config = record.config
        if keep(config):
            noise = f", noise {config.task.noise:g}" if config.task.noise else ""
            name = f"n={config.task.bits}, k={config.task.size}, B={config.batch}, {config.loss} loss{noise}"
            found.setdefault(name, []).append(record)
    return found


def practical(config: Any) -> bool:
    return config.task.cot and config.rates == "practical"


@LEDGER.empirical(
    "thm3",
    experiment="theorem3",
    statement="Theorem 3",
    says="three steps at rates of ours: exact match 1 in 4 of 5 seeds, attention's argmax the secret everywhere",
)
def three_steps_are_enough(records: list[Any]):
    found = arms(records, practical)
    yield skip_if(not found, "no arm of this preset is practical")
    for name, chosen in found.items():
        rows = [
            {
                "seed": record.seed,
                "exact match": record.final("exact match"),
                "argmax on the secret": record.final("argmax on the secret"),
                "certified margin, all inputs": record.final("certified margin"),
                "attention error, all inputs": record.final("worst attention error"),
                "n^-8": record.config.task.bits**-8.0,
            }
            for record in chosen
        ]
        good = sum(each["exact match"] == 1 and each["argmax on the secret"] == 1 for each in rows)
        yield at_least(f"seeds that learn, {name}", good, math.ceil(0.8 * len(rows)))
        yield from map(row, rows)


@LEDGER.empirical(
    "thm3-attention",
    experiment="theorem3",
    statement="Theorem 3",
    says=r"after three steps at rates of ours attention is one-hot within $n^{-8}$ on all inputs: in how many seeds",
)
def attention_error_against_the_eighth_power(records: list[Any]):
    found = arms(records, practical)
    yield skip_if(not found, "no arm of this preset is practical")
    for name, chosen in found.items():
        errors = np.array([record.final("worst attention error") for record in chosen])
        limit = chosen[0].config.task.bits ** -8.0
        yield measured(f"share of seeds below n^-8, {name}", np.mean(errors < limit))
        yield row({"arm": name, "median error": float(np.median(errors)), "n^-8": limit})


@LEDGER.empirical(
    "thm3-literal",
    experiment="theorem3",
    statement="Assumption 2",
    says="the rates of Assumption 2 at sizes that can be run, which are far below those of `lem5`: what they reach",
)
def literal_rates_do_little(records: list[Any]):
    found = arms(records, lambda config: config.task.cot and config.rates == "literal")
    yield skip_if(not found, "no arm of this preset is run at the literal rates")
    for name, chosen in found.items():
        yield measured(f"exact match, median, {name}", np.median([r.final("exact match") for r in chosen]))
        yield measured(f"target logit, median, {name}", np.median([r.final("smallest target logit") for r in chosen]))


@LEDGER.empirical(
    "thm3-no-chain",
    experiment="theorem3",
    statement="ours",
    says=r"the same three steps without the chain stay at chance for $k \ge 2$ (5 deviations of the test set)",
)
def without_chain_nothing_is_learnt(records: list[Any]):
    found = arms(records, lambda config: not config.task.cot and config.task.size > 1)
    yield skip_if(not found, "no arm of this preset is without chain")
    for name, chosen in found.items():
        off = [abs(record.final("exact match") - 0.5) for record in chosen]
        yield at_most(f"|exact match - 1/2|, {name}", off, 2.5 / math.sqrt(chosen[0].config.test_examples))


# --- what is printed --------------------------------------------------------------------------------------------------


@LEDGER.misprint(
    "thm3-printed",
    statement="Theorem 3",
    says=r"as printed: $\mathrm{sgn}\,T(b)[i] = b[i+1]$ for all $b$ and $i$",
    means=r"$\mathrm{sgn}\,T(b)[i] = (-1)^{b[i+1]+1}$, as in Theorem 1 and in the hinge loss",
    corrected="thm3-proof",
    cases=PROOF,
    seeds=3,
)
def signs_are_not_bits(config: Run, seed: int):
    outputs = trajectory.view(trajectory.trajectory(config, seed), 3).ideal
    labels = by_query(np.broadcast_to((SIGN + 1) / 2, outputs.shape))
    yield true("sgn T = b[i+1]", np.sign(by_query(outputs)) == labels)


# --- few bits ---------------------------------------------------------------------------------------------------------


EVERY_BIT = 50  # of float64's 53, so that rounding changes next to nothing


@dataclass(frozen=True)
class RoundedSteps(Run):
    """Three steps with weights rounded to p bits at the start and after each, then evaluated in p bits throughout."""

    task: Task = option(Task(8, 2), "the parity")
    width: int = option(512, "width d of the embeddings", low=1, high=4096)
    neurons: int = option(200, "m: half the number of hidden neurons", low=1, high=4096)
    batch: int = option(4000, "fresh samples B of each step", low=1, high=2**20)
    block: int = option(4000, "not used here; a divisor of batch", low=1, high=2**20)
    scale: float = option(500.0, "eps: size of the coefficients nu at the start", above=0.0, numeric=True)
    logit: float = option(60.0, "attention logit Lambda that the last step should get", above=0.0, numeric=True)
    shift: float = option(3.0, "eta2 = shift m eps", above=0.0, numeric=True)
    factor: float = option(3.0, "c: what c log2 n bits must be enough", above=0.0, high=20.0)
    most: int = option(14, "most bits that are tried", low=3, high=40)

    def check(self) -> None:
        super().check()
        cube_fits(self.task, 12)
        require(self.embedding == "random", f"embedding={self.embedding} must be random")


@LEDGER.bound(
    "thm3-precision",
    statement="Theorem 3",
    tier="minutes",
    says=r"weights rounded in training and all activations after it to $c\log_2 n$ bits, $c \le 3$, still learn"
    r" ($\Theta(\log n)$ in print)",
    of=(precision.rounded, precision.rounded_outputs, precision.few_bits),
    cases=(RoundedSteps(), RoundedSteps(Task(6, 2)), RoundedSteps(Task(10, 2))),
    seeds=3,
)
def few_bits_learn_parity(config: RoundedSteps, seed: int):
    sequences = all_sequences(config.task, seed)

    def exact_match(bits: int) -> float:
        model = rounded_training(config, seed, bits)
        outputs = precision.rounded_outputs(model, sequences[:, :-1], config.task.bits, bits)
        return float(np.mean(np.all((outputs > 0) == (sequences[:, config.task.bits + 1 :] == 1), axis=1)))

    # a batch far below the theorem's can miss the secret, and then no number of bits would help
    yield hypothesis("the three steps learn without rounding", exact_match(EVERY_BIT) == 1)
    works = {}
    for bits in range(2, config.most + 1):
        match = exact_match(bits)
        works[bits] = match == 1
        yield row(bits=bits, c=bits / math.log2(config.task.bits), match=match)
    fewest = precision.fewest_bits(works)
    found = math.inf if fewest is None else fewest / math.log2(config.task.bits)
    yield at_most("c = bits / log2 n", found, config.factor)
    yield at_least("bits that are needed", math.inf if fewest is None else fewest, 3)


def rounded_training(config: RoundedSteps, seed: int, bits: int):
    """The dense model after three steps on the batches of the exact run, its weights rounded before each use."""
    run = trajectory.trajectory(config, seed)
    signs = simplified.draw_signs(keys.role_key(seed, "embedding"), 2 * config.positions, config.width)
    E = np.asarray(simplified.vectors(signs, config.width))
    readout = np.asarray(simplified.readout(config.neurons))
    start = run.weights[0]
    model = precision.Dense(E, E.T @ start.scores @ E, start.own @ E, start.seen @ E, readout)
    model = precision.few_bits(model, bits)
    for batch, rate in zip(run.batches, run.rates, strict=True):
        tables = trajectory.Kept(model.own @ E.T, model.seen @ E.T, E @ model.A @ E.T)
        change = trajectory.gradient(config.loss, run.setting, tables, batch)
        moved = model._replace(
            own=model.own - rate * change.own @ E,
            seen=model.seen - rate * change.seen @ E,
            A=model.A - rate * E.T @ change.scores @ E,
        )
        model = precision.few_bits(moved, bits)
    return model
