"""The two devices of Theorem 7: the filter on unlabelled inputs, and the rounding of weights."""

from dataclasses import dataclass
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np

from stairwise.lab.checks import under
from stairwise.lab.config import Config, option
from stairwise.lab.contract import Verdict
from stairwise.papers.parity_onestep import model, quantise
from stairwise.papers.parity_onestep.claims.ledger import LEDGER
from stairwise.papers.parity_onestep.claims.sizes import bits_of, link_of, tokens_of, tree_of
from stairwise.papers.parity_onestep.config import LinkFunction, Task
from stairwise.papers.parity_onestep.theory import links as theory

# --- the filter -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Filtered(Config):
    """Weights of equation (11) at every t, and the filter on them."""

    task: Task = option(Task(256, 32), "the parity")
    link: LinkFunction = option(LinkFunction(), "the link function")
    lam: float = option(12.0, "weight of the children of solved levels", above=0.0, high=700.0)
    inputs: int = option(64, "unlabelled inputs n'", low=1, high=2**14)
    eps0: float = option(1.5, "threshold of the filter", above=0.0, high=4.0)
    reading: str = option("exists", "when the filter fires", choices=("exists", "forall"))


def gates_by_step(config: Filtered, seed: int) -> np.ndarray:
    """The open levels at t = 0..v-1."""
    tree, link = tree_of(config.task, seed), link_of(config.link)
    children, height = np.asarray(tree.children), np.asarray(tree.height)
    U = bits_of(config.task, config.inputs, seed).astype(np.float64)
    rows = []
    for t in range(int(height.max())):
        W = np.zeros((tree.tokens, tree.nodes))
        for i in np.flatnonzero(height <= t):
            W[children[i], i] = config.lam
        net = model.PositionalAttention(jnp.asarray(W), tree, link, "block")
        rows.append(np.asarray(_gates()(net, jnp.asarray(U), config.eps0, config.reading)))
    return np.array(rows)[:, : int(height.max())]


@cache
def _gates():
    return jax.jit(lambda net, U, eps0, reading: net.gates(U, model.Filter(eps0, reading)), static_argnums=3)


def filtered(config: Filtered, seed: int, otherwise: str, note: str) -> Verdict:
    gates = gates_by_step(config, seed)
    steps, levels = gates.shape
    expected = np.arange(1, levels + 1)[None, :] <= np.arange(steps)[:, None] + 1
    rows = tuple({"t": t, "gates": "".join(str(int(g)) for g in row)} for t, row in enumerate(gates))
    return Verdict.at_most(int(np.sum(gates != expected)), 0, otherwise=otherwise, note=note, details=rows)


@LEDGER.theory(
    "filter",
    kind="construction",
    says="with 1 < eps0 < 2 the filter leaves exactly the levels up to t+1 open at step t",
    cases=(Filtered(), Filtered(reading="forall"), Filtered(Task(256, 12))),
)
def the_filter_closes_all_levels_above_the_next(config: Filtered, seed: int) -> Verdict:
    violated = () if 1 < config.eps0 < 2 else (f"eps0={config.eps0:g} must lie in (1, 2)",)
    return under(violated + uninformative(config, seed), filtered(config, seed, "fails", ""))


def uninformative(config: Filtered, seed: int) -> tuple[str, ...]:
    """What Lemma 10 grants at large d: means near 0 on all unlabelled inputs, and a +1 among them for every token."""
    tree, link = tree_of(config.task, seed), link_of(config.link)
    tokens = tokens_of(tree, bits_of(config.task, config.inputs, seed))
    means = np.cumsum(tokens, axis=1)[:, tree.level_ends()[:-1] - 1] / tree.level_ends()[:-1]
    above = float(np.max(theory.on(link.value, means) + 1))
    violated = ()
    if above >= config.eps0:
        violated += (f"task.bits={config.task.bits} must be large: untrained tokens reach {above:.2g} above -1",)
    if np.any(np.all(tokens < 0, axis=0)):
        violated += (f"inputs={config.inputs} must be more: some token is -1 on all of them",)
    return violated


@LEDGER.theory(
    "filter-printed",
    kind="construction",
    says="as printed: any eps0 above O(d^-1/2) does, because a zeroed level again activates the filter",
    cases=Filtered(eps0=0.9),
)
def a_zeroed_level_opens_the_next(config: Filtered, seed: int) -> Verdict:
    note = (
        "a zeroed token is at distance |0 + 1| = 1 from -1, so with eps0 <= 1 the level after a closed one is open;"
        " 1 < eps0 < 2, or closing what lies above a closed level, is needed"
    )
    return filtered(config, seed, "refuted", note)


# --- rounding ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Rounding(Config):
    """Integer weights and updates to them."""

    entries: int = option(100_000, "weights to try", low=1, high=10**7)
    scale: float = option(20.0, "standard deviation of weights and updates", above=0.0, high=1e6)


@LEDGER.theory(
    "rem-quant",
    kind="identity",
    says="rounding weights after an update is the same as rounding the update, away from ties",
    cases=Rounding(),
)
def rounding_weights_is_rounding_updates(config: Rounding, seed: int) -> Verdict:
    random = np.random.default_rng(seed)
    W = np.round(config.scale * random.standard_normal(config.entries))
    update = config.scale * random.standard_normal(config.entries)
    update = update[np.abs(update % 1 - 0.5) > 1e-6]
    W = W[: len(update)]
    together = np.asarray(quantise.integer(jnp.asarray(W + update)))
    return Verdict.at_most(int(np.sum(together != W + np.asarray(quantise.integer(jnp.asarray(update))))), 0)


@LEDGER.theory(
    "rem-quant-printed",
    kind="identity",
    says="as printed: the two are equivalent, ties included",
    cases=Rounding(),
)
def ties_break_the_equivalence(config: Rounding, seed: int) -> Verdict:
    random = np.random.default_rng(seed)
    W = np.round(config.scale * random.standard_normal(config.entries))
    update = np.round(config.scale * random.standard_normal(config.entries)) + 0.5
    apart = np.asarray(quantise.integer(jnp.asarray(W + update))) != W + np.asarray(
        quantise.integer(jnp.asarray(update))
    )
    upward = np.floor(W + update + 0.5) != W + np.floor(update + 0.5)
    row = {"differing at ties, half to even": float(np.mean(apart)), "differing, half up": float(np.mean(upward))}
    return Verdict.at_most(
        float(np.mean(apart)),
        0.0,
        otherwise="refuted",
        note="with ties to even r[1 + 1/2] = 2 but 1 + r[1/2] = 1; with ties upward the two agree",
        details=(row,),
    )
