"""The group theory behind the task: word problems, solvability, fibers, and the events of Appendices D and E."""

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from stairwise.lab.checks import empty_if, exactly, under
from stairwise.lab.config import Config, option, require
from stairwise.lab.contract import Verdict
from stairwise.papers.lego.claims.ledger import LEDGER
from stairwise.papers.lego.claims.sizes import simply_transitive, transitive, transitive_not_free
from stairwise.papers.lego.config.task import action_of
from stairwise.papers.lego.theory import events
from stairwise.tasks import groups

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

    actions: tuple[str, ...] = option(tuple(SERIES), f"actions: {groups.NAMES}")

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


@LEDGER.theory(
    "def2.1-word",
    kind="construction",
    says="word problem by the multiplication table, by applying the word to every value, and by parallel products",
    cases=Words(("C6", "S3", "S4", "S5", "A5", "D5", "Q8", "S3-regular")),
)
def three_ways_to_read_a_word(config: Words, seed: int) -> Verdict:
    facts = {}
    for name in config.actions:
        action = action_of(name)
        rng = np.random.default_rng([seed, action.actions])
        words = rng.integers(action.actions, size=(config.words, config.length))
        words[0] = word_of_identity(action, config.length, rng)
        product = words[:, 0]
        applied = np.broadcast_to(np.arange(action.values), (config.words, action.values))
        applied = np.take_along_axis(action.table[words[:, 0]], applied, axis=1)
        for letter in words[:, 1:].T:
            product = action.multiplication[letter, product]
            applied = np.take_along_axis(action.table[letter], applied, axis=1)
        still = (applied == np.arange(action.values)).all(axis=1)
        facts[f"{name}: products act as the words"] = bool((action.table[product] == applied).all())
        facts[f"{name}: the identity is found"] = bool(((product == action.identity) == still).all() and still[0])
        facts[f"{name}: in any order of rounds"] = bool((by_halving(action, words) == product).all())
    return exactly(facts, note=f"{config.words} words of {config.length} letters; read as g_L o ... o g_1")


def word_of_identity(action: groups.Action, length: int, rng: np.random.Generator) -> np.ndarray:
    """A word whose product is the identity: random letters and the inverse of their product at the end."""
    letters = rng.integers(action.actions, size=length)
    product = action.identity
    for letter in letters[:-1]:
        product = action.multiplication[letter, product]
    letters[-1] = np.flatnonzero(action.multiplication[:, product] == action.identity)[0]
    return letters


def by_halving(action: groups.Action, words: np.ndarray) -> np.ndarray:
    """The products g_L o ... o g_1 in log L rounds, neighbours first: composition is associative."""
    while words.shape[1] > 1:
        last = words[:, words.shape[1] - words.shape[1] % 2 :]
        paired = words[:, : words.shape[1] - last.shape[1]]
        words = np.concatenate([action.multiplication[paired[:, 1::2], paired[:, ::2]], last], axis=1)
    return words[:, 0]


@LEDGER.theory(
    "thm2.1-barrington",
    kind="definition",
    says="a finite group's word problem is NC1-complete exactly if it is not solvable: derived series from the tables",
    cases=Actions(),
)
def solvability_decides(config: Actions, seed: int) -> Verdict:
    rows, facts = [], {}
    for name in config.actions:
        action = action_of(name)
        series, label = action.derived_series, action.complexity
        rows.append({"action": name, "derived series": ", ".join(map(str, series)), "complexity": label})
        facts[f"{name}: label"] = (label == groups.HARD) == (series[-1] > 1)
        if name in SERIES:
            facts[f"{name}: series {SERIES[name]}"] = series == SERIES[name]
    note = "of the group theory; that the class is NC1-complete is Barrington's theorem, not a computation"
    return exactly(facts, details=tuple(rows), note=note if all(facts.values()) else "")


@LEDGER.theory(
    "thm4.1-regular",
    kind="identity",
    says="beyond the paper: simply transitive actions need not be cyclic; A_5 and S_5 on themselves are NC1-complete",
    cases=Actions(("S3-regular", "Q8", "A5-regular", "S5-regular")),
)
def simply_transitive_does_not_mean_cyclic(config: Actions, seed: int) -> Verdict:
    facts, rows, violated = {}, [], []
    for name in config.actions:
        action = action_of(name)
        violated += simply_transitive(action)
        if action.commutative:
            violated.append(f"action={name} must not be commutative: the examples are beyond cyclic actions")
        facts[f"{name} is simply transitive and not commutative"] = (
            not simply_transitive(action) and not action.commutative
        )
        rows.append({"action": name, "complexity": action.complexity})
    return under(tuple(violated), exactly(facts, details=tuple(rows)))


@LEDGER.theory(
    "factC1-fiber",
    kind="identity",
    says="|Fiber_{j,y}| = |G|/|Y| for every transitive group action, and P(g'(y) = g(y)) = 1/|Y|, also for C_n",
    cases=Actions(),
)
def fibers_are_equal(config: Actions, seed: int) -> Verdict:
    verdicts = {}
    for name in config.actions:
        action = action_of(name)
        facts = {
            f"{name}: fibers": bool((action.fiber_sizes * action.values == action.actions).all()),
            f"{name}: same effect": action.same_effect == Fraction(1, action.values),
            f"{name}: stabilisers": bool((action.stabilisers.sum(axis=1) * action.values == action.actions).all()),
        }
        row = {"action": name, "fiber": int(action.fiber_sizes.max()), "distractor": str(action.distractor)}
        verdicts[name] = under(transitive(action), exactly(facts, details=(row,)))
    return Verdict.worst(verdicts) if len(verdicts) > 1 else next(iter(verdicts.values()))


# --- events -----------------------------------------------------------------------------------------------------------


@LEDGER.theory(
    "ev-E",
    kind="identity",
    says="E_1..E_6 of Appendix E partition the triples (y_0, g_1, g_2); in closed form for S_n and A_n",
    cases=Actions(("S3", "S4", "S5")),
)
def the_six_events_partition(config: Actions, seed: int) -> Verdict:
    verdicts = {}
    for name in config.actions:
        action = action_of(name)
        found = events.partition(action)
        facts = {f"{name}: they add up to 1": sum(found.values()) == 1}
        if name.startswith(("S", "A")) and name[1:].isdigit() and int(name[1:]) >= (3 if name[0] == "S" else 4):
            facts[f"{name}: closed form"] = found == events.partition_doubly_transitive(action.values)
        row = {"action": name, **{event: str(p) for event, p in found.items()}}
        verdicts[name] = under(transitive_not_free(action), exactly(facts, details=(row,)))
    return Verdict.worst(verdicts) if len(verdicts) > 1 else next(iter(verdicts.values()))


@LEDGER.theory(
    "ev-D",
    kind="identity",
    says="P(g_1 != g_2) and P(four images distinct) of Appendix D: said to be 1 - O(1/log d), exact here, far from 1",
    cases=Actions(("C3", "C6", "S4", "S5")),
)
def the_likely_events(config: Actions, seed: int) -> Verdict:
    rows = []
    for name in config.actions:
        action = action_of(name)
        p, four = events.different_actions(action), events.four_distinct(action)
        rows.append({"action": name, "g1 != g2": str(p), "four images distinct": str(four), "as number": float(four)})
    least = min(row["as number"] for row in rows)
    return Verdict.reported(least, details=tuple(rows), note="the least probability of four distinct images")


@dataclass(frozen=True)
class Bins(Config):
    """Chains whose other actions may agree with the asked one."""

    action: str = option("S5", f"the action: {groups.NAMES}")
    lengths: tuple[int, ...] = option((4, 8, 16, 64, 256), "lengths L_k", low=2, high=100_000)
    samples: int = option(4000, "chains", low=100, high=100_000)

    def check(self) -> None:
        action_of(self.action)
        require(bool(self.lengths), "lengths must name at least one length")


@LEDGER.theory(
    "balls-in-bins",
    kind="asymptotic",
    says="F.1.2: the number of actions that agree with g_2 at y_1 is Binomial(L-1, 1/|Y|); the fullest bin against W_k",
    cases=Bins(),
)
def distractors_are_balls_in_bins(config: Bins, seed: int) -> Verdict:
    action, rows, worst = action_of(config.action), [], 0.0
    for length in config.lengths:
        asked, fullest = events.agreeing(action, length, config.samples, seed)
        least = 1 + (length - 1) // action.values
        expected = events.tail(action.values, length, least)
        found, spread = float((asked >= least).mean()), (expected * (1 - expected) / config.samples) ** 0.5
        worst = max(worst, abs(found - expected) / max(spread, 1 / config.samples))
        order = events.load_order(action.values, length)
        rows.append({"L": length, "at least": least, "frequency": found, "binomial": expected})
        rows[-1] |= {"fullest, mean": float(fullest.mean()), "W_k order": order, "ratio": float(fullest.mean()) / order}
    note = f"largest deviation from the binomial tail: {worst:.2f} standard errors; the constant of W_k is not stated"
    verdict = Verdict.reported(max(row["ratio"] for row in rows), details=tuple(rows), note=note)
    return under(transitive(action), verdict)


@LEDGER.theory(
    "sec6.3-parity",
    kind="identity",
    says="parity is the simply transitive action with n = 2: y_L = y_0 + g_1 + ... + g_L mod 2",
    cases=Words(("C2",), words=300, length=20),
)
def parity_is_a_chain(config: Words, seed: int) -> Verdict:
    rng, verdicts = np.random.default_rng(seed), {}
    for name in config.actions:
        action = action_of(name)
        words = rng.integers(action.actions, size=(config.words, config.length))
        start = value = rng.integers(action.values, size=config.words)
        for letter in words.T:
            value = action.table[letter, value]
        same = bool((value == (start + words.sum(axis=1)) % action.values).all())
        wrong = () if action.values == 2 else (f"action={name} must have 2 values to be parity",)
        verdict = under(simply_transitive(action) + wrong, exactly({f"{name}: sums mod |Y|": same}))
        verdicts[name] = empty_if(action.values == 1, verdict, "one value only")
    return Verdict.worst(verdicts) if len(verdicts) > 1 else next(iter(verdicts.values()))
