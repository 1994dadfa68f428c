"""The group theory behind the task: word problems, solvability, fibers, and the events of Appendices D and E."""

import itertools
import math
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction

import jax
import jax.numpy as jnp
import numpy as np

from stairwise.config import Config, option, require
from stairwise.lab.contract.checks import at_least, at_most, note, row, true, vacuous_if
from stairwise.papers.lego import groups
from stairwise.papers.lego import task as tasks
from stairwise.papers.lego.claims.ledger import LEDGER
from stairwise.papers.lego.claims.sizes import transitive_group
from stairwise.papers.lego.config.task import ACTIONS, action_of
from stairwise.papers.lego.theory import events
from stairwise.train.draws import draws_of

# the derived series of every action of the specification, from the literature
SERIES = {
    "C2": (2, 1),
    "C3": (3, 1),
    "C6": (6, 1),
    "S3": (6, 3, 1),
    "S4": (24, 12, 4, 1),
    "S5": (120, 60),
    "A4": (12, 4, 1),
    "A5": (60,),
    "D4": (8, 2, 1),
    "D5": (10, 5, 1),
    "D6": (12, 3, 1),
    "Q8": (8, 2, 1),
    "S3-regular": (6, 3, 1),
    "A5-regular": (60,),
    "S5-regular": (120, 60),
}


@dataclass(frozen=True)
class Actions(Config):
    """Named actions."""

    actions: tuple[str, ...] = option(tuple(SERIES), f"actions: {groups.NAMES}", examples=ACTIONS)

    def check(self) -> None:
        require(bool(self.actions), "actions must name at least one action")
        for name in self.actions:
            action_of(name, "actions")


@dataclass(frozen=True)
class Words(Actions):
    """Random words over named groups."""

    words: int = option(200, "words", low=1, high=10_000)
    length: int = option(50, "letters of a word", low=1, high=1000)

    def check(self) -> None:
        super().check()
        for name in self.actions:
            require(action_of(name).is_group, f"actions={name} must be a group for its word problem")


def of_all(part: Callable[[groups.Action], Mapping[str, bool]]) -> Callable[[Actions], dict[str, bool]]:
    """A hypothesis on an action, of every action of a config."""

    def found(config: Actions) -> dict[str, bool]:
        each = [part(action_of(name)) for name in config.actions]
        return {name: all(one[name] for one in each) for name in each[0]}

    return found


@LEDGER.exact(
    "def2.1-word",
    statement="Definition 2.1",
    says=r"the word problem by the multiplication table, by applying the word to every value one letter after another,"
    r" and by products in parallel, read as $g_L \circ \dots \circ g_1$",
    of=(tasks.Lego.track, tasks.Lego.track_by_products, groups.Action.multiplication.func, groups.Action.identity.func),
    cases=Words(("C6", "S5", "Q8"), words=50),
    seeds=3,
)
def three_ways_to_read_a_word(config: Words, seed: int):
    for name in config.actions:
        action = action_of(name)
        rng = draws_of(seed, "words", action.actions)
        words = rng.integers(action.actions, size=(config.words, config.length))
        words[0] = word_of_identity(action, config.length, rng)
        product = words[:, 0]
        applied = action.table[words[:, 0]]
        for letter in words[:, 1:].T:
            product = action.multiplication[letter, product]
            applied = np.take_along_axis(action.table[letter], applied, axis=1)
        still = (applied == np.arange(action.values)).all(axis=1)
        yield true(f"{name}: products act as the words", action.table[product] == applied)
        yield true(f"{name}: the identity is found", (product == action.identity) == still)
        yield true(f"{name}: the first word is the identity", bool(still[0]))
        table = jnp.asarray(action.table, dtype=jnp.int32)
        for way in (tasks.Lego.track, tasks.Lego.track_by_products):
            found = _ends(way, config.length)(table, words.astype(np.int32), np.arange(action.values, dtype=np.int32))
            yield true(f"{name}: {way.__name__}", np.asarray(found) == applied)


def _ends(way: Callable, length: int):
    """Where every value ends under every word, (words, values)."""

    def end(table, word, start):
        return way(tasks.Lego(length + 1, length, table), start, word)[-1]

    return jax.jit(jax.vmap(jax.vmap(end, in_axes=(None, None, 0)), in_axes=(None, 0, None)))


def word_of_identity(action: groups.Action, length: int, rng: np.random.Generator) -> np.ndarray:
    """A word whose product is the identity: random letters, then one that takes every value back."""
    letters = rng.integers(action.actions, size=length)
    applied = np.arange(action.values)
    for letter in letters[:-1]:
        applied = action.table[letter, applied]
    letters[-1] = np.flatnonzero((action.table[:, applied] == np.arange(action.values)).all(axis=1))[0]
    return letters


@LEDGER.exact(
    "thm2.1-barrington",
    statement="Theorem 2.1",
    says=r"the word problem of a finite group is $\mathrm{NC}^1$-complete exactly if it is not solvable: derived series"
    " of every action from its table, against the literature's",
    of=(groups.Action.derived_series.func, groups.Action.complexity.fget, groups.Action.solvable.fget),
    hypotheses={"the series is known": lambda config: set(config.actions) <= set(SERIES)},
    cases=Actions(),
)
def solvability_decides(config: Actions, seed: int):
    for name in config.actions:
        action = action_of(name)
        series, label = action.derived_series, action.complexity
        known = SERIES.get(name)
        if known is not None:
            yield true(f"{name}: series {known}", series == known)
            yield true(
                f"{name}: NC1-complete exactly if the series ends above 1", (label == groups.HARD) == (known[-1] > 1)
            )
        yield row({"action": name, "derived series": ", ".join(map(str, series)), "complexity": label})
    yield note("of the group theory; that the class is NC1-complete is Barrington's theorem, not a computation")


@LEDGER.exact(
    "thm4.1-regular",
    statement="ours",
    says=r"simply transitive actions need not be cyclic: $A_5$ and $S_5$ on themselves are, and are"
    r" $\mathrm{NC}^1$-complete",
    of=(groups.regular, groups.Action.commutative.fget, groups.Action.simply_transitive.fget),
    hypotheses=of_all(
        lambda action: {
            "every action is simply transitive": action.transitive and action.free,
            "none is commutative": not action.commutative,
        }
    ),
    cases=Actions(("S3-regular", "Q8", "A5-regular", "S5-regular")),
)
def simply_transitive_does_not_mean_cyclic(config: Actions, seed: int):
    """By the definitions: one action takes each value to each value; two actions whose order matters."""
    for name in config.actions:
        action = action_of(name)
        pairs = np.zeros((action.values, action.values), dtype=np.int64)
        np.add.at(pairs, (np.broadcast_to(np.arange(action.values), action.table.shape), action.table), 1)
        yield true(f"{name}: exactly one action takes y to j", pairs == 1)
        yield true(f"{name}: simply transitive", action.simply_transitive)
        moved = [
            bool((action.table[g][action.table[h]] != action.table[h][action.table[g]]).any())
            for g, h in itertools.combinations(range(min(action.actions, 12)), 2)
        ]
        yield true(f"{name}: two actions do not commute", any(moved) and not action.commutative)
        yield row({"action": name, "complexity": action.complexity})


@LEDGER.exact(
    "factC1-fiber",
    statement=("Fact C.1", "Definition C.1"),
    says=r"$|\mathrm{Fiber}_{j,y}| = |G|/|Y|$ for every transitive group action, and $P(g'(y) = g(y)) = 1/|Y|$, for"
    r" $C_n$ too",
    of=(groups.Action.fiber_sizes.func, groups.Action.same_effect.fget, groups.Action.stabilisers.fget),
    hypotheses=of_all(lambda action: {"every action is transitive": action.transitive}),
    cases=Actions(),
)
def fibers_are_equal(config: Actions, seed: int):
    for name in config.actions:
        action = action_of(name)
        yield true(f"{name}: fibers", action.fiber_sizes * action.values == action.actions)
        yield true(f"{name}: same effect", action.same_effect == Fraction(1, action.values))
        yield true(f"{name}: stabilisers", action.stabilisers.sum(axis=1) * action.values == action.actions)
        yield row({"action": name, "fiber": int(action.fiber_sizes.max()), "distractor": str(action.distractor)})


@LEDGER.exact(
    "remC1",
    statement="Remark C.1",
    says=r"a transitive action has one orbit, and all stabilizers have $|G|/|Y|$ elements: orbits and stabilizers by"
    " applying every action",
    of=(groups.Action.stabilisers.fget,),
    hypotheses=of_all(lambda action: {"every action is transitive": action.transitive}),
    cases=Actions(),
)
def stabilizers_have_one_size(config: Actions, seed: int):
    for name in config.actions:
        action = action_of(name)
        table = action.table.tolist()
        orbits = {frozenset(row_[y] for row_ in table) for y in range(action.values)}
        kept = [sum(row_[y] == y for row_ in table) for y in range(action.values)]
        yield true(f"{name}: one orbit", orbits == {frozenset(range(action.values))})
        yield true(f"{name}: stabilizers", action.stabilisers.sum(axis=1) == kept)
        yield true(f"{name}: their size", [size * action.values == action.actions for size in kept])


@LEDGER.exact(
    "remC3",
    statement="Remark C.3",
    says=r"the fibers at $y$ are the left cosets $gG_y$ of the stabilizer: as sets, by the multiplication of the group",
    of=(groups.Action.fibers.func, groups.Action.multiplication.func),
    hypotheses=of_all(lambda action: {"every action is that of a group": action.is_group}),
    cases=Actions(),
)
def fibers_are_cosets(config: Actions, seed: int):
    for name in config.actions:
        action = action_of(name)
        for y in range(action.values):
            kept = [h for h in range(action.actions) if action.table[h, y] == y]
            cosets = {frozenset(int(action.multiplication[g, h]) for h in kept) for g in range(action.actions)}
            fibers = {frozenset(np.flatnonzero(fiber).tolist()) for fiber in action.fibers[:, y]}
            yield true(f"{name}: fibers at {y} are the cosets", fibers == cosets)


@dataclass(frozen=True)
class Growing(Config):
    """Vocabularies by log log d, and symmetric groups whose tables are looked at."""

    loglog: tuple[float, ...] = option((10.0, 100.0, 1e4, 1e8, 1e16), "log log d", above=5.0, high=1e100)
    degrees: tuple[int, ...] = option((3, 4, 5), "n of S_n", low=3, high=6)


@LEDGER.bound(
    "remC2",
    statement="Remark C.2",
    says=r"$S_n$ on $n$ values is transitive and not free, and at $n_Y = \log\log d/\log\log\log d$ it has"
    r" $n_Y! \le \log d$ elements while $n_Y \to \infty$; at $n_Y = \log\log d$ it would have more than any power",
    of=(events.values_of_remark_c2,),
    cases=Growing(),
)
def symmetric_groups_fit(config: Growing, seed: int):
    for n in config.degrees:
        action = action_of(f"S{n}")
        yield true(f"S{n}: transitive and not free", action.transitive and not action.free)
        yield true(f"S{n}: n! actions", action.actions == math.factorial(n))
    sizes = np.array([events.values_of_remark_c2(x) for x in config.loglog])
    powers = np.array([math.lgamma(n + 1) / x for n, x in zip(sizes, config.loglog, strict=True)])
    yield at_most("exponent of log d in n_Y!", powers, 1.0)
    yield at_least("exponent of log d in n_Y! at the largest d", powers[-1], 0.8)
    yield true("n_Y grows", np.diff(sizes) > 0)
    too_many = [math.lgamma(x + 1) / x for x in config.loglog]
    yield true("n_Y = log log d: the exponent grows", np.diff(too_many) > 0)


# --- events -----------------------------------------------------------------------------------------------------------


def told_apart(action: groups.Action) -> Counter:
    """How often each of the six events happens, from their definitions (103)-(108), triple by triple."""
    found: Counter = Counter()
    table = action.table.tolist()
    for first, second, y0 in itertools.product(table, table, range(action.values)):
        y1 = first[y0]
        if second[y1] == first[y1]:  # the two actions agree at y_1
            found["E6" if y1 == y0 else "E4" if second[y0] == y1 else "E5"] += 1
        elif y1 == y0:
            found["E3"] += 1
        else:
            found["E2" if second[y0] == y1 else "E1"] += 1
    return found


@LEDGER.exact(
    "ev-E",
    statement=("Appendix E, events", "Eq. (103)"),
    says=r"$\mathcal{E}_1, \dots, \mathcal{E}_6$ of Appendix E partition the triples $(y_0, g_1, g_2)$; in closed form"
    r" for $S_n$ and $A_n$",
    of=(events.partition, events.partition_doubly_transitive),
    hypotheses=of_all(
        lambda action: {
            "every action is transitive": action.transitive,
            "none is free": not action.free,
            "few triples": action.actions**2 * action.values <= 100_000,
        }
    ),
    cases=Actions(("S3", "S4", "S5", "A4", "D5")),
)
def the_six_events_partition(config: Actions, seed: int):
    for name in config.actions:
        action = action_of(name)
        found, counted = events.partition(action), told_apart(action)
        total = action.actions**2 * action.values
        yield true(f"{name}: they add up to 1", sum(found.values()) == 1)
        yield true(f"{name}: as counted", all(found[event] == Fraction(counted[event], total) for event in found))
        if name.startswith(("S", "A")) and name[1:].isdigit() and int(name[1:]) >= (3 if name[0] == "S" else 4):
            yield true(f"{name}: closed form", found == events.partition_doubly_transitive(action.values))
        yield row({"action": name, **{event: str(p) for event, p in found.items()}})


@LEDGER.exact(
    "ev-D",
    statement=("Eq. (62)", "Eq. (63)"),
    says=r"$P(g_1 \ne g_2)$ and $P(\text{four images distinct})$ of Appendix D exactly; the text has $1 - O(1/\log d)$,"
    " which no size here comes near",
    of=(events.different_actions, events.four_distinct),
    cases=Actions(("C3", "C6", "S4", "C24")),
)
def the_likely_events(config: Actions, seed: int):
    for name in config.actions:
        action = action_of(name)
        table = action.table.tolist()
        different = four = 0
        for (g, first), (h, second) in itertools.product(enumerate(table), enumerate(table)):
            different += g != h
            four += sum(
                len({first[y], first[first[y]], second[y], second[first[y]]}) == 4 for y in range(action.values)
            )
        p, images = events.different_actions(action), events.four_distinct(action)
        yield true(f"{name}: g_1 != g_2", p == Fraction(different, action.actions**2))
        yield true(f"{name}: four images distinct", images == Fraction(four, action.actions**2 * action.values))
        yield row({"action": name, "g1 != g2": str(p), "four images distinct": str(images), "as number": float(images)})


@dataclass(frozen=True)
class Bins(Config):
    """Chains whose other actions may agree with the asked one."""

    action: str = option("S5", f"the action: {groups.NAMES}", examples=ACTIONS)
    lengths: tuple[int, ...] = option((4, 8, 16, 64, 256), "lengths L_k", low=2, high=100_000)
    samples: int = option(4000, "chains", low=100, high=100_000)

    def check(self) -> None:
        action_of(self.action)
        require(bool(self.lengths), "lengths must name at least one length")


@LEDGER.bound(
    "balls-in-bins",
    statement="Section F.1.2",
    says=r"the number of actions that agree with $g_2$ at $y_1$ is $\mathrm{Binomial}(L-1, 1/|Y|)$: frequencies within"
    r" 4.5 standard errors; the fullest bin is at most of order $W_k$, whose constant is not stated; for $S_n$ of that"
    " order",
    of=(events.tail, events.load_order),
    hypotheses=transitive_group,
    cases=(Bins(), Bins("C5", samples=154), Bins("C11", (4, 8, 64), 400)),
    seeds=3,
)
def distractors_are_balls_in_bins(config: Bins, seed: int):
    action = action_of(config.action)
    for length in config.lengths:
        asked, fullest = events.agreeing(action, length, config.samples, seed)
        for least in {1 + (length - 1) // action.values, 1 + (length - 1) // action.values // 2}:
            expected = events.tail(action.values, length, least)
            spread = max((expected * (1 - expected) / config.samples) ** 0.5, 1 / config.samples)
            found = float((asked >= least).mean())
            yield at_most(f"deviation of P(load >= {least}) at L={length}", abs(found - expected), 4.5 * spread)
        order, ratio = events.load_order(action.values, length), length / (action.values * np.log(action.values))
        if not 2 / 3 < ratio < 3 / 2:  # near n log n neither branch is an order
            share = float(fullest.mean()) / order
            yield at_most(f"fullest bin over W_k at L={length}, a factor 4 at most", share, 4.0)
            if action.actions == math.factorial(action.values):  # S_n; where the action is free all bins are one
                yield at_least(f"fullest bin over W_k at L={length}, from below", share, 1 / 4)
        yield row({"L": length, "fullest, mean": float(fullest.mean()), "W_k order": order})


@LEDGER.exact(
    "sec6.3-parity",
    statement="Section 6.3",
    says=r"parity is the simply transitive action with $n = 2$: $y_L = y_0 + g_1 + \dots + g_L \bmod 2$",
    of=(tasks.Lego.track,),
    hypotheses=of_all(lambda action: {"every action is free": action.free, "two values": action.values == 2}),
    cases=Words(("C2",), words=300, length=20),
    seeds=3,
)
def parity_is_a_chain(config: Words, seed: int):
    rng = draws_of(seed, "words")
    for name in config.actions:
        action = action_of(name)
        words = rng.integers(action.actions, size=(config.words, config.length))
        table, starts = jnp.asarray(action.table, dtype=jnp.int32), np.arange(action.values, dtype=np.int32)
        ends = np.asarray(_ends(tasks.Lego.track, config.length)(table, words.astype(np.int32), starts))
        yield vacuous_if(action.values == 1, "one value only")
        yield true(f"{name}: sums mod |Y|", ends == (starts + words.sum(axis=1)[:, None]) % action.values)
