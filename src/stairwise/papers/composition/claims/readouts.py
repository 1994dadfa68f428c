"""The population gradient of the readouts, and the answers after one step on them (Lemmas 18, 23, 28, 36)."""

import math

import jax
import jax.numpy as jnp
import numpy as np

from stairwise.config import require
from stairwise.lab.contract.checks import at_most, equal, note, row
from stairwise.papers.composition import task as tasks
from stairwise.papers.composition.claims.gradients import (
    SIZES,
    SMALL_START,
    OneStep,
    enumerated,
    ideal_model,
    leaky_model,
)
from stairwise.papers.composition.claims.ledger import LEDGER
from stairwise.papers.composition.claims.sizes import Start, doubling, random_sequences, with_fixed_points
from stairwise.papers.composition.config import Task
from stairwise.papers.composition.theory import descent, exact, noise, population
from stairwise.train.draws import draws_of


def padded(part: np.ndarray, stream: int) -> np.ndarray:
    """A gradient on the first blocks as one on all of them."""
    return np.concatenate([part, np.zeros((stream - len(part), *part.shape[1:]))])


@jax.jit
def _gaps(model, hidden, sequences):
    task = tasks.Composition(hidden)

    def gaps(sequence):
        logits = model.heads(sequence)
        labels = jnp.stack([task.hop(sequence, layer.hops).reshape(-1) for layer in model.plan])
        right = jnp.take_along_axis(logits, labels[:, :, None], axis=2)
        wrong = jnp.where(jax.nn.one_hot(labels, hidden.shape[1], dtype=bool), -jnp.inf, logits)
        return jnp.min(right[:, :, 0] - jnp.max(wrong, axis=2), axis=1)

    return jnp.min(jax.vmap(gaps)(sequences), axis=0)


def least_gaps(model, hidden: np.ndarray, sequences: np.ndarray) -> np.ndarray:
    """The smallest logit of a right answer over a wrong one, for each head."""
    pi, sigma = (jnp.asarray(part, dtype=jnp.int32) for part in (hidden, sequences))
    return np.asarray(_gaps(model, pi, sigma))


def one_step(config: OneStep, seed: int, first: int, last: int, together: bool = False):
    """The gradients, and the gap that a step leaves: of the population, and of samples with layers that leak eps/2.

    One head after another, with the layers up to its own trained; or all of them `together` on a trained network.
    """
    task, eps = config.task, config.epsilon
    k, N, L = task.blocks, task.alphabet, task.layers
    require(not doubling(task), f"task.blocks={task.blocks} must be a power of two")
    require(first <= L, f"task.blocks={task.blocks} must be at least {2 ** (first - 1)} for head {first}")
    hidden, sequences = with_fixed_points(task, seed), random_sequences(task, 50, seed)
    rate = noise.learning_rate_theorem(k, N, config.beta0, eps)
    for head in range(first, min(last, L) + 1):
        heads, trained = (tuple(range(1, L + 1)), L) if together else ((head,), head)
        network = ideal_model(hidden, config.beta0, trained)
        gradient = enumerated(hidden, config.beta0, trained, *heads).readout[head - 1]
        formula = padded(population.readout_gradient(hidden, head, config.beta0), L + 2)
        yield equal(f"gradient of head {head}", gradient, formula)
        stepped = exact.with_readout(network, network.readout.at[head - 1].add(-rate * jnp.asarray(formula)))
        gap = population.readout_separation(hidden, head, config.beta0, rate)
        yield equal(
            f"least lead of the right answer, head {head}", least_gaps(stepped, hidden, sequences)[head - 1], gap
        )
        leaky = leaky_model(hidden, config.beta0, math.log(2 * k * N / eps), trained)
        batch = exact.batch(hidden, L, noise.samples_lemmas(k, N), draws_of(seed, "batch", head))
        # a lead is beta0 and a share of the rate: as small a step as leaves eps/10, for the noise of the samples
        enough = rate * max(0.0, math.log(10 * (N - 1) / eps) - config.beta0) / (gap - config.beta0)
        sampled = descent.readout_step(leaky, batch, enough, *heads)
        error = (N - 1) * math.exp(-least_gaps(sampled, hidden, sequences)[head - 1])
        yield at_most(f"sup error of head {head} after a small step of samples", error, eps)


# with no fixed point other letters come nearest to a right answer, with two out of four the token's own value does
ONE_BLOCK = tuple(OneStep(Task(1, len(pi), hidden=pi)) for pi in ((1, 2, 0), (0, 1, 3, 2)))

BOTH = (population.readout_scale, population.readout_separation)
FIRST = (population.readout_gradient, population.first_separation)
LATER = (population.readout_gradient_printed, population.later_separation)

LEDGER.family(
    one_step,
    {
        "lem18": {
            "statement": "Lemma 18",
            "says": (
                r"corrected: the gradient of $\Psi_1$ is $-\frac{1}{Zk}[1_k \otimes (I-U)$ in block 3, $c_i(I-U)$ in "
                r"block 2$]$, $Z = e^{\beta_0}+N-1$; one step answers every 1-hop"
            ),
            "of": (*FIRST, *BOTH),
            "cases": (*(OneStep(Task(k, N)) for k, N in SIZES), *ONE_BLOCK),
            "given": {"first": 1, "last": 1},
        },
        "lem23": {
            "statement": "Lemma 23",
            "says": (
                r"the gradient of $\Psi_2$ is $-\frac{1}{Zk}1_k \otimes (I-U)$ in block 4; one step answers every "
                r"2-hop"
            ),
            "of": (*LATER, *BOTH),
            "cases": tuple(OneStep(Task(k, N)) for k, N in SIZES),
            "given": {"first": 2, "last": 2},
        },
        "lem28": {
            "statement": "Lemma 28",
            "says": (
                r"the gradient of $\Psi_\ell$, $\ell \ge 3$, is $-\frac{1}{Zk}1_k \otimes (I-U)$ in block $\ell+2$; "
                r"one step answers every $2^{\ell-1}$-hop"
            ),
            "of": (*LATER, *BOTH),
            "cases": (OneStep(Task(4, 2)), OneStep(Task(4, 3))),
            "given": {"first": 3, "last": 20},
        },
        "lem36": {
            "statement": "Lemma 36",
            "says": r"after mixture training one step on all readouts at once answers every hop",
            "of": (*FIRST, *LATER, *BOTH),
            "cases": (*(OneStep(Task(k, N)) for k, N in SIZES), *ONE_BLOCK),
            "given": {"first": 1, "last": 20, "together": True},
        },
    },
    form="exact",
    hypotheses=SMALL_START,
    seeds=3,
)


@LEDGER.refuted(
    "lem18-printed",
    statement=("Lemma 18, proof", "Lemma 36, proof"),
    says=r"as printed: the gradient of $\Psi_1$ is $-\frac{1}{Zk}1_k \otimes (I-U)$ in block 3 and nothing else",
    of=(population.readout_gradient_printed,),
    certificate="certificates/lem18.py",
    corrected="lem18",
    cases=(Start(Task(2, 3)), Start(Task(4, 3))),
    seeds=3,
)
def the_printed_first_readout_lacks_a_block(config: Start, seed: int):
    task, hidden = config.task, with_fixed_points(config.task, seed)
    require(not doubling(task), f"task.blocks={task.blocks} must be a power of two")
    found = np.asarray(enumerated(hidden, config.beta0, 1, 1).readout[0])
    yield equal(
        "gradient", found, padded(population.readout_gradient_printed(hidden, 1, config.beta0), task.layers + 2)
    )
    yield row({"hidden": str(hidden.tolist()), "block 2, largest": float(np.abs(found[1]).max())})
    yield note(
        "the residual stream still holds sigma_i(j); harmless to the argmax, since c_i < 1 unless pi_i is the identity"
    )
