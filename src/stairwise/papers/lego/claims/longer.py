"""What neurons read in chains of L_k > 2, under the attention that a stage of self-training leaves (Appendix F)."""

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from stairwise.config import option, require
from stairwise.lab.contract.checks import at_least, at_most, equal, vacuous_if
from stairwise.papers.lego import algorithms, reduced
from stairwise.papers.lego.claims.descents import clip_of, network_of
from stairwise.papers.lego.claims.dynamics import many_variables, small_branch
from stairwise.papers.lego.claims.ledger import LEDGER
from stairwise.papers.lego.claims.sizes import assumption_c1, both
from stairwise.papers.lego.config.dynamics import Constants, Reduced
from stairwise.papers.lego.theory import lengths, literal, pushes, readings
from stairwise.train import keys


@dataclass(frozen=True)
class Longer(Reduced):
    """Step 2 of random chains at given scores; the default is what stage 3 of Algorithm 2 leaves for S_4."""

    network: Constants = option(Constants(clip_factor=16.0), "clip and activation")
    length: int = option(8, "length L_k of the chains", low=2, high=4096)
    scores: tuple[float, ...] = option((2.94, -0.011, 2.60, -0.013), "a, b, c, e of Q43 and Q44", low=-50.0, high=50.0)
    samples: int = option(200, "chains", low=1, high=10_000)

    def check(self) -> None:
        super().check()
        require(len(self.scores) == 4, f"scores has {len(self.scores)} entries, which must be 4: a, b, c, e")


class Second(NamedTuple):
    """Images of all actions (n, L, Y), y_0, y_1; by the reduced model Lambda (n, Y, Y), F, -log p, pushes (n, 4)."""

    images: Any
    start: Any
    middle: Any
    lam: Any
    F: Any
    loss: Any
    push: Any
    context: Any


@eqx.filter_jit
def _second(network: reduced.IdealValues, table: Any, scores: Any, drawn: Any, length: Any, most: int):
    """`most` is the padding: one compiled program serves every length up to it."""

    def one(key):
        start, actions = reduced.draw_chain(key, table, most)
        middle = table[actions[0], start]
        values = jnp.stack([start, middle, table[actions[1], middle]])
        context = reduced.chain_context(table, actions, values, length, 2, scores.dtype)
        read = network.preactivations(*reduced.matches(scores, context))
        outputs = reduced.logits(network, scores, context)
        loss = reduced.next_token_loss(outputs, context.target, network.others)
        push = -jax.grad(reduced.loss, argnums=1)(network, scores, context)
        return Second(table[actions], start, middle, read, outputs, loss, push, context)

    return jax.vmap(one)(drawn)


@lru_cache(maxsize=24)
def second_steps(config: Longer, seed: int) -> Second:
    """Step 2 of random chains."""
    table = jnp.asarray(config.group.table, dtype=jnp.int32)
    scores = jnp.asarray(config.scores, dtype=algorithms.real())
    drawn = jax.random.split(keys.role_key(seed, "chains"), config.samples)
    most, length = max(16, config.length), jnp.asarray(config.length, dtype=jnp.int32)
    found: Second = jax.tree.map(np.asarray, _second(network_of(config), table, scores, drawn, length, most))
    return found._replace(images=found.images[:, : config.length])


def longer_chains(config: Longer, seed: int, *, same_value: bool):
    """Every neuron of the asked action's classes, g_2(y) at each y, from how many actions agree with g_2 at y."""
    images, start, middle, lam, *_ = second_steps(config, seed)
    network, size = network_of(config), config.group.values
    near, far, own, past = lengths.masses(config.scores, config.length, 2)
    event = (start == middle) == same_value
    if not event.any():
        yield vacuous_if(True, f"none of the {config.samples} chains is in the event")
        return
    images, start, middle, lam = images[event], start[event][:, None], middle[event][:, None], lam[event]
    values = np.arange(size)
    asked = images[:, 1]
    shared = (images == asked[:, None]).sum(axis=1) - 1  # other actions that agree with g_2 at y
    share = far / (config.length - 1)
    agree, others = near + shared * share, far - shared * share
    fitting = own * (values == middle) + past * (values == start)
    found = np.take_along_axis(lam, asked[:, None], axis=1)[:, 0]  # Lambda of (g_2(y), y)
    alpha, beta = float(network.alpha), float(network.beta)
    formula = readings.longer(agree, others, fitting, own + past - fitting, alpha, beta)
    yield equal("Lambda of g2(y), every y", found, formula)
    leading = (agree - (own + past - fitting)) * alpha
    yield at_most("what the terms of order B/n_Y add, over beta", np.abs(found - leading) / beta, 1.0)


LEDGER.family(
    longer_chains,
    {
        "lemF10": {
            "statement": "Lemma F.10",
            "says": r"chains of $L_k$, $y_0 \ne y_1$: $\Lambda$ of $g_2(y)$ is $\alpha$ times the attention to"
            r" predicates that agree with $g_2$ at $y$ less that to answers that are not $y$, up to $O(B/n_Y)$",
            "given": {"same_value": False},
        },
        "lemF11": {
            "statement": "Lemma F.11",
            "says": r"the same where $y_0 = y_1$: both answers fit the asked value, and none another one",
            "given": {"same_value": True},
        },
    },
    form="exact",
    of=(readings.longer,),
    hypotheses=assumption_c1,
    cases=(Longer(), Longer(length=16, scores=(3.54, -0.014, 3.15, -0.017))),
    seeds=3,
)


# --- gradients --------------------------------------------------------------------------------------------------------


def split_pushes(config: Longer, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """(N_i, N_ii) of Lemma F.8 in each context, (n, 4), from the lemmas' formula."""
    seen, network, constants = second_steps(config, seed), network_of(config), config.network
    powers = np.exp(seen.F)
    error = -powers / (powers.sum(axis=1, keepdims=True) + float(network.others))
    np.put_along_axis(error, seen.context.target[:, None], -np.expm1(-seen.loss)[:, None], axis=1)
    error = error * (float(network.clip) > seen.F)
    V = pushes.features(pushes.Clauses(*seen.context[:4]), float(network.alpha), float(network.beta))
    slope = literal.slope(seen.lam, constants.rho, constants.power)
    masses = lengths.masses(config.scores, config.length, 2)[None]
    right, wrong = pushes.split(seen.lam[None], slope[None], error[None], V, masses, seen.context.target)
    return right[0], wrong[0]


def pushes_of_longer_chains(config: Longer, seed: int, *, off: bool):
    """The split against autodiff in every chain; then the sum of the diagonals, or what is off them."""
    seen, (right, wrong) = second_steps(config, seed), split_pushes(config, seed)
    scale = np.abs(seen.push).max()
    yield equal("N_i + N_ii against autodiff, over the largest", (right + wrong) / scale, seen.push / scale, 1e-10)
    a, b, c, e = seen.push.mean(axis=0) / clip_of(config)
    others = (seen.images[:, 2:] == seen.images[:, 1:2]).sum(axis=1)
    agreeing = np.take_along_axis(others, seen.middle[:, None], axis=1)[:, 0]
    agreeing = agreeing + (
        np.take_along_axis(seen.images[:, 0], seen.middle[:, None], axis=1)[:, 0] == seen.context.target
    )
    main = (seen.start != seen.middle) & (agreeing <= 1 + config.length / 4)
    eps = lengths.concentration(config.scores, config.length, 2)
    if off:
        entries = np.abs([b, e]) / np.maximum(abs(a), abs(c)) * config.vocabulary / (config.variables - 1)
        yield at_most("an entry off the diagonal, times d, over the larger one on it", entries, 2.0)
        return
    if not main.any():
        yield vacuous_if(True, f"none of the {config.samples} chains is in the main event")
        return
    missed = -np.expm1(-seen.loss)[main].mean()
    yield at_least("push on a + c over B eps E[1 - logit | main event]", (a + c) / (eps * missed), 0.25)


LEDGER.family(
    pushes_of_longer_chains,
    {
        "lemF12": {
            "statement": "Lemma F.12",
            "says": r"chains of $L_k$: $a + c$ is pushed by $\Omega(B)\,\varepsilon\,E[1 - \mathrm{logit}]$ on the"
            r" event that $y_0 \ne y_1$ and few actions agree with $g_2$ at $y_1$ (a quarter)",
            "given": {"off": False},
        },
        "lemF13": {
            "statement": "Lemma F.13",
            "says": r"chains of $L_k$: an entry of $Q$ off the diagonal has $O(1/d)$ of the gradient on it (of the"
            " larger of the two blocks)",
            "given": {"off": True},
        },
    },
    form="bound",
    of=(pushes.split, pushes.features),
    hypotheses=both(assumption_c1, many_variables, small_branch),
    cases=(Longer(), Longer(length=16, scores=(3.54, -0.014, 3.15, -0.017))),
    seeds=3,
)
