"""The two devices of Theorem 7: the filter on unlabelled inputs, and the rounding of weights."""

from dataclasses import dataclass
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np

from stairwise.config import Config, option
from stairwise.lab.contract.checks import at_most, equal, hypothesis, note, row, true
from stairwise.papers.parity_onestep import model, quantise
from stairwise.papers.parity_onestep.claims.ledger import LEDGER
from stairwise.papers.parity_onestep.claims.sizes import bits_of, link_of, tokens_of, tree_of
from stairwise.papers.parity_onestep.config import LinkFunction, Task
from stairwise.papers.parity_onestep.theory import links as theory
from stairwise.train.draws import draws_of

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


def filtered(config: Filtered, seed: int):
    """Levels up to t+1 are open at step t, and no others."""
    gates, levels = gates_by_step(config, seed), tree_of(config.task, seed).levels
    steps = len(gates)
    yield true("there is a gate for every level", gates.shape[1] == levels)
    if gates.shape[1] != levels:
        return
    expected = np.arange(1, levels + 1)[None, :] <= np.arange(steps)[:, None] + 1
    for t, found in enumerate(gates):
        yield true(f"levels up to {t + 1} are open at t = {t}, and no others", found == expected[t])
        yield row({"t": t, "gates": "".join(str(int(gate)) for gate in found)})


@LEDGER.exact(
    "filter",
    statement=("Section 3.3, filter", "Equation 3"),
    says=r"with $1 < \varepsilon_0 < 2$ the filter leaves exactly the levels up to $t+1$ open at step $t$",
    of=(model.PositionalAttention.gates,),
    hypotheses={"1 < eps0 < 2": lambda config: 1 < config.eps0 < 2},
    cases=(
        Filtered(),
        Filtered(reading="forall"),
        Filtered(Task(256, 12)),
        Filtered(eps0=1.01),
        Filtered(eps0=1.99, lam=16.0),
    ),
    seeds=3,
)
def the_filter_closes_all_levels_above_the_next(config: Filtered, seed: int):
    above, informative = drawn(config, seed)
    yield hypothesis(f"untrained tokens, {above:.2g} above -1, must be below eps0 (Lemma 10)", above < config.eps0)
    yield hypothesis("every token must be 1 on some unlabelled input (Lemma 10)", informative)
    yield from filtered(config, seed)


def drawn(config: Filtered, seed: int) -> tuple[float, bool]:
    """How far untrained tokens come above -1 on the unlabelled inputs, and whether every true token has a +1 there."""
    tree, link = tree_of(config.task, seed), link_of(config.link)
    tokens = tokens_of(tree, bits_of(config.task, config.inputs, seed))
    means = np.cumsum(tokens, axis=1)[:, tree.level_ends()[:-1] - 1] / tree.level_ends()[:-1]
    return float(np.max(theory.on(link.value, means) + 1)), not np.any(np.all(tokens < 0, axis=0))


@LEDGER.refuted(
    "filter-printed",
    statement=("Section 3.3, filter", "Appendix C, filter"),
    says=r"as printed: any $\varepsilon_0$ above $O(d^{-1/2})$ does, because a zeroed level again activates the filter",
    of=(model.PositionalAttention.gates,),
    certificate="certificates/filter.py",
    corrected="filter",
    hypotheses={"eps0 > 0": lambda config: config.eps0 > 0},
    cases=Filtered(eps0=0.9),
    seeds=3,
)
def a_zeroed_level_opens_the_next(config: Filtered, seed: int):
    above, informative = drawn(config, seed)
    yield hypothesis(f"untrained tokens, {above:.2g} above -1, must be below eps0 (Lemma 10)", above < config.eps0)
    yield hypothesis("every token must be 1 on some unlabelled input (Lemma 10)", informative)
    yield from filtered(config, seed)
    yield note(
        "a zeroed token is at distance |0 + 1| = 1 from -1, so with eps0 <= 1 the level after a closed one is open;"
        " 1 < eps0 < 2, or closing what lies above a closed level, is needed"
    )


# --- rounding ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Rounding(Config):
    """Integer weights and updates to them."""

    entries: int = option(100_000, "weights to try", low=1, high=10**7)
    scale: float = option(20.0, "standard deviation of weights and updates", above=0.0, high=1e6)


@LEDGER.exact(
    "rem-quant",
    statement=("Section 3.3, quantisation", "Section 3.3"),
    says=r"$r[W + u] = W + r[u]$ for integer $W$: rounding the weights is rounding the updates; $r$ is the"
    r" nearest integer,"
    r" whatever is done with ties",
    of=(quantise.integer, quantise.quantise),
    cases=(Rounding(), Rounding(1000, 0.7)),
    seeds=3,
)
def rounding_weights_is_rounding_updates(config: Rounding, seed: int):
    random = draws_of(seed, "weights and updates")
    W = np.floor(config.scale * random.standard_normal(config.entries))
    update = config.scale * random.standard_normal(config.entries)
    update = update[np.abs(update % 1 - 0.5) > 1e-6]
    W = W[: len(update)]
    rounded = np.asarray(quantise.integer(jnp.asarray(update)))
    yield true("weights and updates", np.asarray(quantise.integer(jnp.asarray(W + update))) == W + rounded)
    yield true("as training rounds", np.asarray(quantise.quantise(jnp.asarray(W + update), 1.0, 0.0)) == W + rounded)
    yield at_most("distance to the nearest integer", np.abs(rounded - update), 0.5)
    yield equal("half up, away from ties", rounded, np.floor(update + 0.5))
    ties = np.floor(update) + 0.5
    yield at_most("distance at ties", np.abs(np.asarray(quantise.integer(jnp.asarray(ties))) - ties), 0.5)
    spaced = np.asarray(quantise.quantise(jnp.asarray(update), 4.0, 2.0))
    yield equal("a grid that saturates", spaced, np.clip(4 * np.floor(update / 4 + 0.5), -8, 8))
    yield note(
        "the paper leaves ties open; with ties upward the identity holds there too, with ties to even it does not"
    )
