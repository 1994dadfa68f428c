"""What the FFN has learned on one-step chains: Theorems B.1 and C.1, the conserved sum, the curriculum."""

import dataclasses
from functools import lru_cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from stairwise.lab.contract.checks import at_least, at_most, equal, hypothesis, measured, note, row, true
from stairwise.papers.lego import activation, ffn
from stairwise.papers.lego import model as models
from stairwise.papers.lego.claims.ledger import LEDGER
from stairwise.papers.lego.claims.sizes import (
    assumption_4_1,
    assumption_5_1,
    assumption_c1,
    both,
    transitive_group,
)
from stairwise.papers.lego.claims.training import (
    FIBERS,
    FREE,
    Resolved,
    Seen,
    Trained,
    at_rest,
    begun,
    carried,
    ended,
    enough_neurons,
    predicted,
    regime,
    seen,
    small_start,
)
from stairwise.papers.lego.theory import features, phases

CLOSE = 0.003  # of the largest feature: b, the last steps, and what is still moving
DRAWS = 4
SMALL = Resolved()  # d = 256, sigma_0 = 1e-4, the flat activation


def table(config: Trained, found: Seen) -> dict[str, Any]:
    """One line of the feature table."""
    shape, clip = found.shape, config.clip
    return {
        "action": config.action,
        "V(g)/B": float(shape.action.mean() / clip),
        "V(y)/B": float(shape.value.mean() / clip),
        "V(g')/B": float(shape.other_action.mean() / clip),
        "V(y')/B": float(shape.other_value.mean() / clip),
        "cancellation/B": float(shape.cancellation.max() / clip),
        "ratio": float(shape.ratio()),
        "least share": float(shape.share.min()),
        "loss/floor": float(found.token.loss(found.end()) / found.token.floor()),
    }


def confounders(config: Trained, of_action: np.ndarray, of_value: np.ndarray) -> float:
    """The median of V(g) + V(y') over pairs that share only g or only y with the neuron's own."""
    own = np.eye(config.group.values, dtype=bool)[None, :, None, :]
    one_sided = config.group.fibers[:, :, :, None] ^ own
    return float(np.median((of_action[..., None] + of_value[:, :, None, :])[one_sided]))


def features_at_the_end(config: Trained, seed: int):
    """Parts A to E as one comparison: the winners' features are those that cancellation and the kept sum leave.

    The theorems hold with probability 1 - o(1): a near tie at the start leaves a pair to two neurons.
    """
    draws = [seen(config, DRAWS * seed + i) for i in range(DRAWS)]
    alone = [one for one in draws if one.shape.share.min() > 0.99]
    yield at_least("draws in which each pair has one neuron", len(alone) / DRAWS, 0.75)
    for place, one in enumerate(draws):
        yield from at_rest(config, one)
        yield equal(f"accuracy, draw {place}", float(one.token.accuracy(one.end())), 1.0)
        yield row(table(config, one))
    action, value = predicted(config)
    # b is far below what descent resolves, so where confounders rest is asked of the prediction itself
    sums, own = action[..., None] + value[:, :, None, :], np.eye(config.group.values, dtype=bool)[None, :, None, :]
    pairs = config.group.fibers[:, :, :, None]
    yield equal("V(g) + V(y') of predicted confounders, over b", sums[pairs ^ own] / config.bias, -2.0, 1e-9)
    yield equal("V(g) + V(y) of predicted own pairs, over 2B'", sums[pairs & own] / (2 * config.height), 1.0)
    for place, one in enumerate(alone):
        of_action, of_value = one.won()
        yield equal(f"neurons that win, draw {place}", int(one.shape.distinct()), config.group.values**2)
        yield equal(f"V(g) of the winners, draw {place}", of_action, action, CLOSE)
        yield equal(f"V(y) of the winners, draw {place}", of_value, value, CLOSE)
        found, expected = (confounders(config, *pair) for pair in ((of_action, of_value), (action, value)))
        yield equal(f"median confounder (part B), draw {place}", found, expected, 0.25)
        others = one.V[-1].copy()
        j, y = np.indices(one.winner.shape)
        others[j, one.winner, y] = -np.inf
        yield at_most(f"V_psi of all other neurons / mu (part D), draw {place}", others.max() / config.bias, 2.0)


END = (features.learned, features.magnitudes, models.feature_ratio, ffn.ValueToken.logits)  # heights: thmB1-scale

LEDGER.family(
    features_at_the_end,
    {
        "thmB1": {
            "statement": ("Theorem B.1", "Eq. (17)", "Definition B.4"),
            "says": r"simply transitive: one neuron per pair, $V(g) = V(y)$, $V(g') = V(y') = -V(g)$, all confounders"
            r" cancel, within 0.3 %; $V = B$ up to the activation's offset (`thmB1-scale`)",
            "hypotheses": both(assumption_4_1, regime),
            "cases": FREE,
            "aliases": ("eq17",),
        },
        "thmC1": {
            "statement": ("Theorem C.1", "Eq. (18)", "Definition C.6"),
            "says": r"transitive, not free: one neuron per $(j, y)$, $V(g) = C V(y)$ with"
            r" $C = (1 + n_G(n_Y-1)/n_Y)/(n_Y-1 + n_G/n_Y)$, confounders cancel, within 0.3 %",
            "hypotheses": both(assumption_c1, assumption_5_1, regime),
            "cases": FIBERS,
            "aliases": ("eq18",),
        },
        "thmC1-general": {
            "statement": "Theorem C.1",
            "says": r"the same for $S_4$; $D_4$ and $A_4$, which are no symmetric groups, do not keep to $V = B$"
            r" (`thmC1-lift`)",
            "hypotheses": both(assumption_c1, assumption_5_1, regime),
            "cases": dataclasses.replace(FIBERS, action="S4", neurons=12, steps=150_000, points=100),
            "tier": "minutes",
        },
    },
    form="bound",
    of=END,
    one_seed="it looks at four draws of the start, and at how many of them have one neuron per pair",
    optimise=True,
)


@LEDGER.bound(
    "thmC1-lift",
    statement="ours",
    says=r"not all permutations, as $D_4$: $V(g) = C V(y)$ and confounders cancel within 0.3 %, but $V$ may pass $B$:"
    r" confounders that were dragged below zero lift it as they return, and nothing pulls it back; lifts and pushes add"
    r" up to what it moves by",
    of=(features.lift, features.learned),
    hypotheses=both(assumption_c1, regime),
    cases=dataclasses.replace(FIBERS, action="D4", neurons=12, points=600),
    tier="minutes",
    seeds=3,
)
def confounders_lift_their_pair(config: Trained, seed: int):
    one, group = seen(config, seed), config.group
    yield carried(one)
    yield ended(config, one)
    classes, rows = np.arange(group.values)[:, None], one.history
    action = np.asarray(rows.features.action)[:, classes, one.winner]  # (points, j, y, g)
    value = np.asarray(rows.features.value)[:, classes, one.winner]  # (points, j, y, y')
    on, own = group.fibers[..., None], np.eye(group.values, dtype=bool)[:, None]
    sums = action[..., None] + value[..., None, :]
    # from here on pairs that share nothing with the neuron's own lie below -B, where the activation is constant
    idle = (np.where(~on & ~own, sums / 2 + config.bias, -np.inf) < -config.clip).all(axis=(1, 2, 3, 4))
    last = len(sums) - 1
    begin = min(int(np.flatnonzero(~idle).max(initial=-1)) + 1, last)
    yield hypothesis("pairs that share nothing with a neuron's own come to rest", begin < last)
    moved = sums[last] - sums[begin]
    V, push = one.of_winners(one.V), one.of_winners(np.asarray(rows.pushed))
    off_sum, on_sum = (np.where(kind, moved, 0).sum(axis=(2, 3)) for kind in (~on & own, on & ~own))
    expected = features.lift(group, push[-1] - push[begin], off_sum, on_sum)
    yield equal("what V_psi has moved by", V[-1] - V[begin], expected, 1e-3)
    yield at_least("V_psi over B'", V[-1] / config.height, 1 - CLOSE)
    for name, found, shape in zip(
        ("V(g)", "V(y)"), one.won(), features.learned(group, V[-1][..., None], config.bias), strict=True
    ):
        yield equal(f"{name} of the winners, at the height of each", found, shape, CLOSE)
    lowest = np.where(on ^ own, sums, np.inf)[begin:].min()
    yield measured("how far V_psi has passed B', over B'", float(V[-1].max() / config.height) - 1)
    yield row(
        {"action": config.action, "lowest confounder": float(lowest), "largest V - B'": V[-1].max() - config.height}
    )


@LEDGER.exact(
    "thmB1-scale",
    statement="Theorem B.1",
    says=r"corrected: a pair carried by one neuron ends at $V = B + \rho(1 - (k+1)/q) - b$, where $k$ other neurons of"
    r" the class rest on the flat branch $\rho/q$ of Definition 3.4; at $V = B + \rho(1 - 1/q) - b$ up to $O(w)$ under"
    " Assumption B.2, and in our networks",
    of=(models.feature_scale, activation.smooth_relu_printed),
    hypotheses=both(assumption_4_1, small_start),
    cases=(FREE, *(dataclasses.replace(FREE, activation=name) for name in ("definition", "flat"))),
    seeds=3,
    optimise=True,
)
def offset_of_the_features(config: Trained, seed: int):
    one = seen(config, seed)
    _, height = one.won()
    V = one.of_winners(one.V)[-1]
    yield ended(config, one)
    yield at_least("V_psi, less than a step below", V, config.height - config.learning_rate)
    yield at_most("V_psi, at most three steps above", V, config.height + 3 * config.learning_rate)
    # F of a class at that height, one winner active and the others at the negative end
    resting = np.full(config.group.values - 1, -config.clip)
    Lambda = np.concatenate([[config.height + config.bias], resting])
    F = float(np.sum(one.token.activation(Lambda, config.network.rho, config.network.power)))
    yield equal("F at that height", F, config.clip, 1e-5 if config.activation == "leaky" else 1e-12)
    offset = (config.height - config.clip) / config.clip
    yield row({"activation": config.activation, "V/B": float(V.mean() / config.clip), "predicted": 1 + offset})
    yield row({"largest V(y)/B": float(height.max() / config.clip)})


def emergence_is_a_mean(config: Trained, one: Seen):
    """Definition C.3 by its words: V_psi is the mean of V_{j,r}(g, y) over the actions g that send y to j."""
    fibers, pairs = config.group.fibers, np.asarray(one.end().pairs())  # fibers: [class, value, action]
    literal = [
        [pairs[j, :, np.flatnonzero(sends), y].mean(axis=0) for y, sends in enumerate(fibers[j])]
        for j in range(len(fibers))
    ]
    found = np.asarray(ffn.emergence(one.end(), jnp.asarray(fibers.swapaxes(1, 2)))).swapaxes(1, 2)
    return equal("V_psi as a mean over actions", found, np.array(literal), 1e-12)


@LEDGER.bound(
    "thmB1-flow",
    statement="ours",
    says=r"from a start of $10^{-4}$ and with the flat activation exactly one neuron carries each pair (share above"
    r" 0.99), and no confounder ends above zero; those that were pulled below stay there",
    of=(ffn.ValueToken.logits, ffn.emergence, phases.descended),
    hypotheses=both(transitive_group, small_start),
    cases=(SMALL, dataclasses.replace(SMALL, action="S3", steps=30_000)),
    seeds=3,
)
def one_neuron_per_pair(config: Resolved, seed: int):
    one = seen(config, seed)
    yield ended(config, one)
    yield at_least("least share", one.shape.share.min(), 0.99)
    yield equal("neurons that win", int(one.shape.distinct()), config.group.values**2)
    yield emergence_is_a_mean(config, one)
    pairs = 2 * np.asarray(one.end().pairs())
    confounders = np.where(np.asarray(one.token.fibers)[:, None], -np.inf, pairs).max()
    yield at_most("largest confounder / B", confounders / config.clip, 1e-3)
    yield at_least("largest |confounder| / B", one.shape.cancellation.max() / config.clip, 0.02)
    yield row(table(config, one))


@LEDGER.reported(
    "thmC1-printed",
    statement="Eq. (18)",
    says=r"eq. (18) of the overview, $V(g) \approx 2B$ and $V(y) \approx 2B/n_Y$, is the limit of large $n_Y$: the"
    r" ratio $C$ of Theorem C.1 over $n_Y$, measured and for larger $S_n$",
    of=(features.magnitudes_printed,),
    hypotheses=both(assumption_c1, regime),
    cases=FIBERS,
    seeds=3,
)
def printed_magnitudes(config: Trained, seed: int):
    one = seen(config, seed)
    yield measured("V(g)/V(y) over nY", float(one.shape.ratio()) / config.group.values)
    for n, size in ((3, 6), (4, 24), (5, 120), (6, 720), (10, 3_628_800)):
        g, y = features.magnitudes_printed(n, 1.0)
        yield row({"S_n": n, "C/nY": models.feature_ratio(size, n) / n, "printed V(g)/B": g, "printed V(y)/B": y})


def bounded_imbalance(config: Trained, seed: int):
    """Exact: the conserved sum and the residuals leave V(g) and V(y) no other freedom; attained at the worst signs."""
    group, one = config.group, seen(config, seed)
    C = models.feature_ratio(group.actions, group.values)
    of_action, of_value = one.won()
    own = np.einsum("jyy->jy", of_value)
    on = (of_action * group.fibers).sum(axis=2) / group.fibers.sum(axis=2)
    kept = np.take_along_axis(np.asarray(one.moment(0).conserved()), one.winner, axis=1)
    yield at_most("|V(g) - C V(y)|", np.abs(on - C * own), features.imbalance(group, one.shape.cancellation, kept))
    # the worst case: every residual as large as it may be, and of the sign that adds up
    delta, beta = 0.1, 1.0
    fiber = group.actions / group.values
    g_off, alpha = -beta - delta, 0.0
    alpha = (beta - (group.actions - fiber) * g_off + (group.values - 1) * delta) / (fiber + group.values - 1)
    sums = fiber * alpha + (group.actions - fiber) * g_off, beta + (group.values - 1) * (delta - alpha)
    yield equal("both sums in the worst case", sums[0], sums[1])
    yield equal("|V(g) - C V(y)| in the worst case", abs(alpha - C * beta), features.imbalance(group, delta, 0.0))
    # and where the two sums differ by s_0 from the start: V(g) takes all of it
    s0 = 0.3
    further = alpha + s0 / (fiber + group.values - 1)
    sums = fiber * further + (group.actions - fiber) * g_off, beta + (group.values - 1) * (delta - further)
    yield equal("the two sums less s_0", sums[0] - s0, sums[1])
    yield equal("|V(g) - C V(y)| with s_0", abs(further - C * beta), features.imbalance(group, delta, s0))


LEDGER.family(
    bounded_imbalance,
    {
        "lemB7": {
            "statement": "Lemma B.7",
            "says": r"where confounders are within $\delta$ of cancelling, $|V(g) - V(y)| \le"
            r" ((2 n_Y - 2)\delta + |s_0|)/n_Y$ with the conserved sum $s_0$; attained",
            "hypotheses": both(assumption_4_1, regime),
            "cases": FREE,
        },
        "lemC7": {
            "statement": "Lemma C.7",
            "says": r"the same with fibers: $|V(g) - C V(y)| \le (((n_Y-1) + (n_G-F))\delta + |s_0|)/(F + n_Y - 1)$,"
            r" $F = n_G/n_Y$; attained",
            "hypotheses": both(assumption_c1, regime),
            "cases": FIBERS,
        },
    },
    form="bound",
    of=(features.imbalance, models.feature_ratio),
    seeds=3,
)


@LEDGER.exact(
    "lemC7-cons",
    statement=("Lemma C.7", "Lemma B.7"),
    says=r"every neuron conserves $\sum_g V(g) - \sum_y V(y)$, whatever the action, the activation and the steps",
    of=(ffn.Features.conserved,),
    cases=(FREE, FIBERS, SMALL),
    seeds=3,
)
def conserved(config: Trained, seed: int):
    rows = seen(config, seed).history.features
    kept = np.asarray(jax.vmap(lambda one: one.conserved())(rows))
    sums = np.asarray(rows.action.sum(-1) - rows.value.sum(-1))
    yield equal("the sum", kept, sums)
    largest = float(np.abs(np.asarray(rows.action)).max())
    yield at_most("drift of the sum over the largest feature", np.abs(sums - sums[0]) / largest, 1e-10)
    yield at_least("while features move by", np.abs(np.asarray(rows.action[-1] - rows.action[0])).max(), 1.0)


# --- who wins ---------------------------------------------------------------------------------------------------------


def won_as_predicted(config: Trained, seed: int) -> float:
    """The share of (j, y) that are won by the neuron that the greedy order on the initial V_psi names."""
    one = seen(config, seed)
    return float((phases.curriculum(one.V[0]) == one.winner).mean())


@LEDGER.bound(
    "defB3-curriculum",
    statement="Definition B.3",
    says="simply transitive, small start and small steps: the greedy order on the initial $V$ names the winning neuron"
    " of every pair",
    of=(phases.curriculum, ffn.emergence),
    hypotheses=both(assumption_4_1, small_start),
    cases=SMALL,
    seeds=3,
)
def order_names_the_winners(config: Resolved, seed: int):
    yield ended(config, seen(config, seed))
    yield at_least("pairs won by the neuron that was named", won_as_predicted(config, seed), 1.0)
    token, begin = begun(config, seed)
    V = np.zeros((config.group.values, config.neurons, config.group.values))
    for g, y in np.ndindex(*config.group.table.shape):  # free: one action takes y to j
        j = config.group.table[g, y]
        V[j, :, y] = (np.asarray(begin.action)[j, :, g] + np.asarray(begin.value)[j, :, y]) / 2
    yield equal("V_psi at the start", ffn.emergence(begin, token.fibers), V)


def printed_order(V: np.ndarray) -> list[tuple[int, int, int]]:
    """Sigma* as Definitions B.3 and C.4 write it: (j, r, y), with the sets that each choice takes out."""
    left, order = set(np.ndindex(V.shape)), []
    while left:
        j, r, y = max(left, key=lambda index: V[index])
        same_neuron = {index for index in left if index[:2] == (j, r)}  # sets (1) and (2)
        same_combination = {index for index in left if index[0] == j and index[2] == y}  # set (3)
        left -= same_neuron | same_combination
        order.append((j, r, y))
    return order


@LEDGER.exact(
    "defC4-order",
    statement=("Definition C.4", "Definition B.3"),
    says=r"the process, with the sets that it takes out, ends after $n_Y^2$ choices of falling $V_\psi$, each pair once"
    r" and no neuron twice; it names the neurons of our greedy order, on the fiber means written out",
    of=(phases.curriculum, ffn.emergence),
    hypotheses=both(transitive_group, enough_neurons),
    cases=(dataclasses.replace(SMALL, action="S3"), FIBERS, SMALL),
    seeds=3,
)
def the_process_ends(config: Trained, seed: int):
    token, begin = begun(config, seed)
    group, action, value = config.group, np.asarray(begin.action), np.asarray(begin.value)
    V = np.zeros((group.values, config.neurons, group.values))
    for j, y in np.ndindex(group.values, group.values):
        fiber = [g for g in range(group.actions) if group.table[g, y] == j]
        V[j, :, y] = np.mean([(action[j, :, g] + value[j, :, y]) / 2 for g in fiber], axis=0)
    yield equal("V_psi at the start", ffn.emergence(begin, token.fibers), V)
    order = printed_order(V)
    yield equal("choices", len(order), group.values**2)
    yield true("V_psi falls", np.diff([V[index] for index in order]) < 0)
    yield equal("pairs that are chosen", len({(j, y) for j, _, y in order}), group.values**2)
    yield equal("neurons that are chosen", len({(j, r) for j, r, _ in order}), group.values**2)
    named = phases.curriculum(V)
    yield true("our greedy order names the same", [bool(named[j, y] == r) for j, r, y in order])


@LEDGER.reported(
    "defC4-curriculum",
    statement="Definition C.4",
    says="not free: the share of pairs that the greedy order on the fiber means of the initial $V$ names",
    of=(phases.curriculum,),
    hypotheses=both(assumption_c1, small_start),
    cases=(dataclasses.replace(SMALL, action="S3", steps=30_000), FIBERS),
    seeds=3,
)
def order_on_fibers(config: Trained, seed: int):
    yield measured("pairs won by the neuron that was named", won_as_predicted(config, seed))
    yield note("two fibers whose means differ by less than their spread may swap: no pass line at these sizes")


@lru_cache(maxsize=1)
def _split():
    return jax.jit(lambda token, now: (phases.gamma(token, now), jax.grad(lambda now: token.loss(now))(now)))


@LEDGER.exact(
    "defB5-gamma",
    statement=("Definition B.5", "Definition C.7", "Eq. (31)"),
    says=r"minus the gradients of $V(g)$ and $V(y)$ on all pairs are half the sums of $\Gamma^+$ less $\Gamma^-$, with"
    r" the clip's $1\{F<B\}$, under every activation",
    of=(phases.gamma,),
    cases=(FREE, FIBERS, dataclasses.replace(FREE, activation="definition")),
    seeds=3,
)
def gradients_split_into_push_and_pull(config: Trained, seed: int):
    one, group = seen(config, seed), config.group
    middle = len(one.V) // 2
    for name, place in (("at the start", 0), ("halfway", middle), ("later", middle + middle // 4)):
        now = one.moment(place)
        parts, gradient = _split()(one.token, now)
        push, pull = np.asarray(parts.push), np.asarray(parts.pull)
        yield equal(f"gradient of V(y) {name}", -np.asarray(gradient.value), (push - pull.sum(axis=2)) / 2, 1e-10)
        if group.free:  # then each action has one value that it takes to j
            source = np.array([[np.flatnonzero(row_ == j)[0] for row_ in group.table] for j in range(group.values)])
            by_action = np.take_along_axis(push, np.broadcast_to(source[:, None], pull.shape[:3]), axis=2)
            found = -np.asarray(gradient.action)
            yield equal(f"gradient of V(g) {name}", found, (by_action - pull.sum(axis=3)) / 2, 1e-10)
    own = np.broadcast_to(np.asarray(one.token.fibers)[:, None], pull.shape)
    yield true("pulls are zero on own pairs", not pull[own].any())
