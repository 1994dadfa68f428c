"""Algorithm 1: it learns every hop, its stream stays near the ideal one, trained layers stay where they are."""

import dataclasses
from dataclasses import dataclass
from functools import cache
from typing import Any

import equinox
import jax.numpy as jnp
import numpy as np

from stairwise.lab.checks import empty_if, exactly, identical, under
from stairwise.lab.config import Config, option, require
from stairwise.lab.contract import Verdict
from stairwise.papers.composition import constructions, evaluate
from stairwise.papers.composition import task as tasks
from stairwise.papers.composition.claims.gradients import ideal_model
from stairwise.papers.composition.claims.ledger import LEDGER
from stairwise.papers.composition.claims.noise import Leaky
from stairwise.papers.composition.claims.running import Run, deviations, held_out, key_query_steps, run_of
from stairwise.papers.composition.claims.sizes import (
    doubling,
    few_tokens,
    hidden_of,
    random_sequences,
    small_start,
)
from stairwise.papers.composition.config import Task
from stairwise.papers.composition.theory import exact, perturbation, population, streams

SURE = 1e-10  # least mass on the right key is 1 less this: then trained layers must not move by more than
STILL = 1e-6
PLATEAU = 1e-6  # relative error of a loss
FIRST_ORDER = 0.1  # beta eps, and how far the exponent of eps may then be from 1


# --- Theorem 7 --------------------------------------------------------------------------------------------------------


def measured(config: Run, seed: int, algorithm: str) -> list[dict[str, Any]]:
    """Loss, accuracy and sup error of every head after every step, on held-out sequences."""
    hidden, taken = run_of(config, seed, algorithm)
    task = tasks.Composition(jnp.asarray(hidden, dtype=jnp.int32))
    sequences = jnp.asarray(held_out(config, seed), dtype=jnp.int32)
    rows = []
    for step in taken:
        found = _evaluated(step.model, task, sequences)
        rows.append({"step": step.name, **{name: float(value) for name, value in found.items()}})
    return rows


@cache
def _compiled():
    return equinox.filter_jit(evaluate.evaluate)


def _evaluated(network, task, sequences):
    """Compiled once for all steps of all runs of a size."""
    return _compiled()(network, task, sequences)


def learned(config: Run, seed: int, algorithm: str) -> Verdict:
    """Exact match everywhere and a sup error below 1e-3 at the end."""
    rows = measured(config, seed, algorithm)
    last = rows[-1]
    match = min(value for name, value in last.items() if name.startswith("exact match"))
    error = max(value for name, value in last.items() if name.startswith("sup error"))
    pairs = config.sequences * config.task.tokens
    shown = tuple({name: value for name, value in row.items() if not name.startswith("accuracy")} for row in rows)
    verdict = Verdict.worst(
        {
            "sup error": Verdict.at_most(error, 1e-3),
            "exact match": exactly({f"exact match {match:.4f} on {pairs} pairs a head must be 1": match == 1.0}),
        }
    )
    verdict = dataclasses.replace(verdict, details=shown)
    few = () if pairs >= 1000 else (f"sequences={config.sequences} must give at least 1000 pairs, and give {pairs}",)
    return under(config.violated() + few, verdict)


@LEDGER.theory(
    "thm7",
    kind="convergence",
    says="Algorithm 1 (one step a layer, easy to hard) learns every 2^l-hop: exact match 1 and sup error below 1e-3",
    cases=Run(),
    aliases=("thm14",),
)
def the_curriculum_learns_every_hop(config: Run, seed: int) -> Verdict:
    return learned(config, seed, "curriculum")


@LEDGER.theory(
    "plateau",
    kind="identity",
    says="beyond the paper: a head's loss is log N, then log(1+(N-1)e^-beta0) after its key-query step, then 0",
    cases=Run(),
)
def losses_fall_in_two_steps(config: Run, seed: int) -> Verdict:
    rows, N = measured(config, seed, "curriculum"), config.task.alphabet
    names = [name for name in rows[0] if name.startswith("loss")]
    pairs = {}
    for head, name in enumerate(names):
        if head:
            pairs[f"{name} before"] = (rows[2 * head - 1][name], np.log(N))
        pairs[f"{name} after KQ{head + 1}"] = (rows[2 * head][name], population.plateau(N, config.beta0))
        pairs[f"{name} after Psi{head + 1}"] = (1 + rows[2 * head + 1][name], 1.0)
    return under(unsaturated(config, seed), identical(pairs, tolerance=PLATEAU))


def unsaturated(config: Run, seed: int) -> tuple[str, ...]:
    """Steps too small, or of too few samples, for the plateaus: attention is not sharp, or logits are still close."""
    hidden, N = hidden_of(config.task, seed), config.task.alphabet
    after = deviations(config, seed, "curriculum")
    leak = max(float(found.leak[: stage + 1].max()) for stage, found in enumerate(after))
    heads = range(1, len(after) + 1)
    lead = min(population.readout_separation(hidden, head, config.beta0, config.rate) for head in heads)
    least, named = float(np.log((N - 1) / PLATEAU)), ()
    if leak > SURE:
        named += (
            f"rate={config.rate:g}, samples={config.samples} leave {leak:.2g} off the right keys, above {SURE:g}",
        )
    if lead < least:
        named += (f"rate={config.rate:g} must be larger: right answers lead by {lead:.3g}, below {least:.3g}",)
    return named


# --- the stream -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Rough(Config):
    """Theorem 4's weights at finite beta, with Gaussian errors in every entry."""

    task: Task = option(Task(8, 3), "the composition")
    beta: float = option(9.0, "sharpness beta", above=0.0, high=700.0)
    noise: float = option(0.2, "standard deviation of the errors", low=0.0, high=100.0)
    sequences: int = option(40, "random sequences", low=1, high=10_000)

    def check(self) -> None:
        few_tokens(self.task, 128)
        require(not doubling(self.task), f"task.blocks={self.task.blocks} must be a power of two")


def rough_model(config: Rough, seed: int):
    hidden, rng = hidden_of(config.task, seed), np.random.default_rng([seed, 60])
    built = constructions.any_blocks(jnp.asarray(hidden, dtype=jnp.int32), config.beta, dtype="float64")
    matrices = tuple(W + config.noise * jnp.asarray(rng.standard_normal(W.shape)) for W in built.key_query)
    return hidden, exact.with_key_query(built, matrices)


def stream_bound(config: Rough, seed: int, layers: range) -> Verdict:
    """sup |X-hat - X| <= l eps after each of these layers, eps/2 the largest leak so far; and half of that."""
    task = config.task
    require(task.layers >= layers[0], f"task.blocks={task.blocks} must be at least {2 ** (layers[0] - 1)}")
    hidden, network = rough_model(config, seed)
    found = streams.deviation(network, hidden, random_sequences(task, config.sequences, seed))
    errors, rows, verdicts = np.maximum.accumulate(found.trained), [], {}
    for layer in layers:
        epsilon = 2 * float(found.leak[:layer].max())
        sharp = perturbation.stream_error_sharp(found.leak[:layer].tolist())
        rows.append({"layer": layer, "eps": epsilon, "error": float(errors[layer - 1]), "sum of leaks": sharp})
        bound = perturbation.stream_error(layer, epsilon)
        verdicts[f"layer {layer}"] = Verdict.at_most(float(errors[layer - 1]), bound)
        verdicts[f"layer {layer}, sharper"] = exactly(
            {"the sum of leaks is enough": bool(errors[layer - 1] <= sharp * (1 + 1e-12))}
        )
    verdict = Verdict.worst(verdicts)
    verdict = dataclasses.replace(verdict, details=tuple(rows))
    return empty_if(rows[-1]["eps"] >= 1, verdict, "half of the attention or more is off the right keys")


@LEDGER.theory(
    "lem17",
    kind="bound",
    says="after layer 1 the stream is within eps of the ideal one, eps/2 its largest leak (in fact within eps/2)",
    cases=(Rough(), Rough(beta=14.0)),
)
def one_leaky_layer_costs_eps(config: Rough, seed: int) -> Verdict:
    return stream_bound(config, seed, range(1, 2))


@LEDGER.theory(
    "lem22",
    kind="bound",
    says="after layer 2 the stream is within 2 eps of the ideal one",
    cases=(Rough(), Rough(beta=14.0)),
)
def two_leaky_layers_cost_two_eps(config: Rough, seed: int) -> Verdict:
    return stream_bound(config, seed, range(2, 3))


@LEDGER.theory(
    "lem27",
    kind="bound",
    says="after layer l the stream is within l eps of the ideal one",
    cases=(Rough(), Rough(beta=14.0)),
)
def leaks_add_up(config: Rough, seed: int) -> Verdict:
    return stream_bound(config, seed, range(3, max(3, config.task.layers) + 1))


# --- trained layers ---------------------------------------------------------------------------------------------------


def stillness(config: Run, seed: int, algorithm: str, wanted) -> Verdict:
    """max |eta grad| of the (step, layer) pairs that `wanted` picks, where the trained layers are saturated."""
    _, taken = run_of(config, seed, algorithm)
    steps, rows, found, unsure = key_query_steps(taken), [], [], []
    for number, (step, deviation) in enumerate(zip(steps, deviations(config, seed, algorithm), strict=True), start=1):
        leak = float(deviation.leak[:number].max())
        rows.append({"step": step.name, "largest leak": leak, "moved": str([f"{value:.2g}" for value in step.moved])})
        chosen = [step.moved[layer - 1] for layer in range(1, len(steps) + 1) if wanted(number, layer)]
        found += chosen
        if leak > SURE and chosen:
            unsure.append(
                f"rate={config.rate:g} leaves {leak:.2g} off the right keys after {step.name}, above {SURE:g}"
            )
    require(bool(found), f"task.blocks={config.task.blocks} has no such layer; it must be larger")
    verdict = Verdict.at_most(float(max(found)), STILL, details=tuple(rows))
    return under(tuple(unsure), verdict)


def still_right(config: Run, seed: int, layers: range) -> Verdict:
    """The leak of layers at the end of the run; one that was large after their own stage is no evidence."""
    after, rows = deviations(config, seed, "curriculum"), []
    for layer in layers:
        first, last = float(after[layer - 1].leak[layer - 1]), float(after[-1].leak[layer - 1])
        rows.append({"layer": layer, "leak at first": first, "at the end": last})
    worst = max(row["leak at first"] for row in rows)
    unsure = () if worst <= SURE else (f"rate={config.rate:g} leaves {worst:.2g} off the right keys, above {SURE:g}",)
    return under(unsure, Verdict.at_most(max(row["at the end"] for row in rows), SURE, details=tuple(rows)))


@LEDGER.theory(
    "lem21",
    kind="bound",
    says="after stage 2 the first layer is where it was: max |eta grad| < 1e-6 where attention is saturated to 1e-10",
    cases=Run(),
)
def the_first_layer_stays(config: Run, seed: int) -> Verdict:
    return Verdict.worst(
        {
            "moved at stage 2": stillness(config, seed, "curriculum", lambda step, layer: step == 2 and layer == 1),
            "still attends rightly": still_right(config, seed, range(1, 2)),
        }
    )


@LEDGER.theory(
    "lem26",
    kind="bound",
    says="after stage l all earlier layers are where they were: max |eta grad| < 1e-6 where attention is saturated",
    cases=Run(),
)
def earlier_layers_stay(config: Run, seed: int) -> Verdict:
    return Verdict.worst(
        {
            "moved later": stillness(config, seed, "curriculum", lambda step, layer: step >= 3 and layer < step),
            "still attend rightly": still_right(config, seed, range(1, config.task.layers)),
        }
    )


@LEDGER.theory(
    "lem29",
    kind="bound",
    says="gradients of trained layers are O(eps): they fall in proportion to the leak as attention sharpens",
    cases=Leaky(Task(4, 3), betas=(10.0, 14.0, 18.0), samples=64),
)
def trained_layers_feel_the_leak_only(config: Leaky, seed: int) -> Verdict:
    require(len(set(config.betas)) > 1, f"betas={config.betas} must be at least two sharpnesses")
    rows = trained_gradients(config, seed)
    ratios = [row["gradient / eps"] for row in rows]
    exponent = np.polyfit(np.log([row["eps"] for row in rows]), np.log([row["gradient"] for row in rows]), 1)[0]
    ratio = f"{min(ratios):.3g} to {max(ratios):.3g}"
    note = f"gradient ~ eps^{exponent:.3f} (measured is its distance from 1); gradient/eps {ratio}"
    verdict = Verdict.at_most(abs(float(exponent) - 1), FIRST_ORDER, details=tuple(rows), note=note)
    # a leak of eps takes beta eps from the lead of the next layer's right key: the law is that of small beta eps
    high = max(row["beta"] * row["eps"] for row in rows)
    large = f"betas={config.betas} must be larger: beta eps={high:.2g} must be at most {FIRST_ORDER:g}"
    return under(() if high <= FIRST_ORDER else (large,), verdict)


@LEDGER.theory(
    "lem29-const",
    kind="bound",
    says="sup |grad of a trained layer| <= 6 beta0 k (kNL)^{3/2} eps, sample by sample",
    cases=Leaky(Task(4, 3), betas=(8.0, 10.0, 14.0), samples=64),
)
def trained_layers_keep_the_printed_bound(config: Leaky, seed: int) -> Verdict:
    rows = trained_gradients(config, seed)
    worst = max(rows, key=lambda row: row["gradient"] / row["bound"])
    verdict = Verdict.at_most(worst["gradient"], worst["bound"], details=tuple(rows))
    k, N, L = config.task.blocks, config.task.alphabet, config.task.layers
    ceiling = 1 / perturbation.trained_gradient_ceiling_printed(k, N, L)
    high = max(row["eps"] * np.log(1 / row["eps"]) for row in rows)
    violated = () if high <= ceiling else (f"eps log(1/eps)={high:.2g} must be at most 1/(kNL)^6={ceiling:.2g}",)
    return under(small_start(config.beta0) + violated, verdict)


def trained_gradients(config: Leaky, seed: int) -> list[dict[str, float]]:
    """The largest gradient of layers below the last one under the last loss, over examples, at each sharpness."""
    task, hidden = config.task, hidden_of(config.task, seed)
    L = task.layers
    require(L >= 2, f"task.blocks={task.blocks} must be at least 2 to have a trained layer")
    examples = exact.of_heads(exact.drawn(hidden, L, config.samples, np.random.default_rng([seed, 61])), L)
    readout, rows = ideal_model(hidden, config.beta0, 0).readout, []
    for beta in config.betas:
        built = constructions.any_blocks(jnp.asarray(hidden, dtype=jnp.int32), beta, dtype="float64")
        network = exact.with_readout(exact.only_layers(built, L - 1), readout)
        epsilon = 2 * float(streams.deviation(network, hidden, random_sequences(task, 40, seed)).leak[: L - 1].max())
        gradient = float(np.asarray(exact.largest_gradients(network, examples))[:, : L - 1].max())
        bound = perturbation.trained_gradient(task.blocks, task.alphabet, L, config.beta0, epsilon)
        rows.append(
            {"beta": beta, "eps": epsilon, "gradient": gradient, "bound": bound, "gradient / eps": gradient / epsilon}
        )
    return rows
