"""The population gradient of the readouts, and the answers after one step on them (Lemmas 18, 23, 28, 36)."""

import math

import jax
import jax.numpy as jnp
import numpy as np

from stairwise.lab.checks import identical
from stairwise.lab.config import require
from stairwise.lab.contract import Verdict
from stairwise.papers.composition import task as tasks
from stairwise.papers.composition.claims.gradients import SIZES, OneStep, enumerated, ideal_model
from stairwise.papers.composition.claims.ledger import LEDGER
from stairwise.papers.composition.claims.sizes import Start, doubling, random_sequences, with_fixed_points
from stairwise.papers.composition.config import Task
from stairwise.papers.composition.theory import exact, noise, population


def padded(part: np.ndarray, stream: int) -> np.ndarray:
    """A gradient on the first blocks as one on all of them."""
    return np.concatenate([part, np.zeros((stream - len(part), *part.shape[1:]))])


def readout_pairs(task: Task, hidden: np.ndarray, beta0: float, trained: int, heads: range):
    """(enumerated, closed form) of each head's gradient, over all blocks of the stream."""
    gradient = enumerated(hidden, beta0, trained, *heads).readout
    return {
        f"head {head}": (gradient[head - 1], padded(population.readout_gradient(hidden, head, beta0), task.layers + 2))
        for head in heads
    }


def least_gap(model, hidden: np.ndarray, heads: range, sequences: np.ndarray) -> dict[int, float]:
    """The smallest logit of a right answer over a wrong one, for each head."""
    task = tasks.Composition(jnp.asarray(hidden, dtype=jnp.int32))

    def gaps(sequence):
        logits = model.heads(sequence)
        labels = jnp.stack([task.hop(sequence, layer.hops).reshape(-1) for layer in model.plan])
        right = jnp.take_along_axis(logits, labels[:, :, None], axis=2)
        wrong = jnp.where(jax.nn.one_hot(labels, hidden.shape[1], dtype=bool), -jnp.inf, logits)
        return jnp.min(right[:, :, 0] - jnp.max(wrong, axis=2), axis=1)

    found = np.asarray(jax.jit(jax.vmap(gaps))(jnp.asarray(sequences, dtype=jnp.int32))).min(axis=0)
    return {head: float(found[head - 1]) for head in heads}


def stepped(config: OneStep, seed: int, heads: range, trained: int) -> Verdict:
    """The gradients, and the gap that a step of the lemma's size leaves."""
    task = config.task
    require(not doubling(task), f"task.blocks={task.blocks} must be a power of two")
    require(
        task.layers >= heads[0], f"task.blocks={task.blocks} must be at least {2 ** (heads[0] - 1)} for head {heads[0]}"
    )
    hidden = with_fixed_points(task, seed)
    pairs = readout_pairs(task, hidden, config.beta0, trained, heads)
    rate = noise.learning_rate_theorem(task.blocks, task.alphabet, config.beta0, config.epsilon)
    network = ideal_model(hidden, config.beta0, trained)
    readout = network.readout
    for head in heads:
        readout = readout.at[head - 1].add(-rate * jnp.asarray(pairs[f"head {head}"][1]))
    gaps = least_gap(exact.with_readout(network, readout), hidden, heads, random_sequences(task, 50, seed))
    formulas = {head: population.readout_separation(hidden, head, config.beta0, rate) for head in heads}
    error = max((task.alphabet - 1) * math.exp(-gap) for gap in gaps.values())
    return Verdict.worst(
        {
            "gradient": identical(pairs),
            "least gap after the step": identical({f"head {h}": (gaps[h], formulas[h]) for h in heads}),
            "sup error": Verdict.at_most(error, config.epsilon),
        }
    )


@LEDGER.theory(
    "lem18",
    kind="identity",
    says="Lemma 18, corrected: the gradient of Psi_1 is -(1/(Zk)) [1_k (x) (I-U) in block 3, c_i (I-U) in block 2]",
    cases=tuple(OneStep(Task(k, N)) for k, N in SIZES),
)
def the_first_readout_also_sees_the_value(config: OneStep, seed: int) -> Verdict:
    return stepped(config, seed, range(1, 2), 1)


@LEDGER.theory(
    "lem18-printed",
    kind="identity",
    says="as printed: the gradient of Psi_1 is -(1/(Zk)) 1_k (x) (I-U) in block 3 and nothing else",
    cases=(Start(Task(2, 3)), Start(Task(4, 3))),
)
def the_printed_first_readout_lacks_a_block(config: Start, seed: int) -> Verdict:
    task, hidden = config.task, with_fixed_points(config.task, seed)
    found = np.asarray(enumerated(hidden, config.beta0, 1, 1).readout[0])
    printed = padded(population.readout_gradient_printed(hidden, 1, config.beta0), task.layers + 2)
    error = float(np.abs(found - printed).max() / np.abs(printed).max())
    row = {"hidden": str(hidden.tolist()), "block 2, largest": float(np.abs(found[1]).max())}
    note = (
        "the residual stream still holds sigma_i(j); harmless to the argmax, since c_i < 1 unless pi_i is the identity"
    )
    return Verdict.at_most(error, 1e-12, otherwise="refuted", details=(row,), note=note)


@LEDGER.theory(
    "lem23",
    kind="identity",
    says="the gradient of Psi_2 is -(1/(Zk)) 1_k (x) (I-U) in block 4; one step answers every 2-hop",
    cases=tuple(OneStep(Task(k, N)) for k, N in SIZES),
)
def the_second_readout_has_one_block(config: OneStep, seed: int) -> Verdict:
    return stepped(config, seed, range(2, 3), 2)


@LEDGER.theory(
    "lem28",
    kind="identity",
    says="the gradient of Psi_l, l >= 3, is -(1/(Zk)) 1_k (x) (I-U) in block l+2; one step answers every 2^{l-1}-hop",
    cases=OneStep(Task(4, 3)),
)
def later_readouts_have_one_block(config: OneStep, seed: int) -> Verdict:
    heads = range(3, max(3, config.task.layers) + 1)
    return Verdict.worst({f"head {head}": stepped(config, seed, range(head, head + 1), head) for head in heads})


@LEDGER.theory(
    "lem36",
    kind="identity",
    says="Lemma 36: after mixture training one step on all readouts at once answers every hop",
    cases=tuple(OneStep(Task(k, N)) for k, N in SIZES),
)
def all_readouts_learn_at_once(config: OneStep, seed: int) -> Verdict:
    return stepped(config, seed, range(1, config.task.layers + 1), config.task.layers)
