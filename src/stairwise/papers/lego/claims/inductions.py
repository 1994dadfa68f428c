"""Attention along the stages of Appendices D and E, the induction hypotheses step by step, and where stages end."""

import dataclasses

import numpy as np

from stairwise.config import option
from stairwise.lab.contract.checks import at_least, at_most, equal, measured, row, slope
from stairwise.papers.lego import reduced
from stairwise.papers.lego.claims.descents import clip_of, path_of, written_out
from stairwise.papers.lego.claims.dynamics import CYCLIC, CYCLIC_DESCENT, assumption_4_1, large_clip, many_variables
from stairwise.papers.lego.claims.ledger import LEDGER
from stairwise.papers.lego.claims.pushes import MANY_VALUES, SYMMETRY, many_values
from stairwise.papers.lego.claims.readings import SYMMETRIC
from stairwise.papers.lego.claims.seen import at_stage, stage_of
from stairwise.papers.lego.claims.sizes import both
from stairwise.papers.lego.config.dynamics import AttentionRun, Constants
from stairwise.papers.lego.config.task import ACTIONS
from stairwise.papers.lego.theory import inductions, lengths

# --- attention --------------------------------------------------------------------------------------------------------


def attention_in(config: AttentionRun, seed: int, *, stage: str):
    """NumPy's masses against the model's attention, then the ranges of the lemma."""
    size, d = np.log(config.vocabulary), config.vocabulary
    for step in config.supervised:
        seen = at_stage(config, step, stage)
        yield equal(f"attention, step {step}", seen.attention, seen.masses)
        near, far, own, past = seen.masses.T
        even = 1 / (step + 2)  # at Q = 0
        if step == 2:
            yield at_most("|far - past| d, step 2", np.abs(far - past) * d, 1.0)
        if stage == "2.1":
            yield at_least(f"near over 1/{step + 2}", near / even, 1.0, rounding=1e-12)
            yield at_most(f"(near - 1/{step + 2}) log d", (near - even) * size, 0.5)
            yield at_least(
                f"near less the others, step {step}", near - np.max([far, own, past], axis=0), 0.0, rounding=1e-12
            )
            spread = np.ptp(seen.masses[:, : step + 2], axis=1)
            yield at_most(f"largest difference times log d, step {step}", spread * size, 1.0)
        if stage == "2.2":
            yield at_least(f"(near - 1/{step + 2}) log d", (near - even) * size, 0.1)
            lost = even - 1 / (step + 1 + np.exp(1 / size))  # to a = 1/log d alone, with which the stage begins
            yield at_least(f"(1/{step + 2} - far) log d", (even - far) * size, lost * size)
            yield at_least(f"(own - far) log d, step {step}", (own - far) * size, 0.1)
            yield at_least(f"(near - own) log d, step {step}", (near - own) * size, 0.1)
        if stage == "2.3":
            yield at_least(f"attention to the own answer, step {step}", own, 0.25)
            yield at_least(f"own less far and past, step {step}", own - np.maximum(far, past), 0.0)
        if stage == "1.2.1":
            yield at_least("eps", far + past, 0.4)
            yield at_most("eps", far + past, 0.5, rounding=1e-12)
    if stage == "2.3":
        one, two = (at_stage(config, step, stage).masses[:, 0] for step in (1, 2))
        yield at_least("near of step 1 less that of step 2", one - two, 0.0)


LEDGER.family(
    attention_in,
    {
        "lemD10": {
            "statement": "Lemma D.10",
            "says": r"stage 2.1: the asked predicate has the most attention, $\frac13 + O(1/\log d)$ at step 1 and"
            r" $\frac14 + O(1/\log d)$ at step 2, and irrelevant clauses differ by $O(1/d)$",
            "given": {"stage": "2.1"},
        },
        "lemD22": {
            "statement": "Lemma D.22",
            "says": r"stage 2.2: predicate, own answer and irrelevant clauses are $\Omega(1/\log d)$ apart, in this"
            r" order, at both steps",
            "given": {"stage": "2.2"},
        },
        "lemD34": {
            "statement": "Lemma D.34",
            "says": r"stage 2.3: the own answer has $\Omega(1)$ of the attention, and more than irrelevant clauses;"
            " the predicate has more at step 1 than at step 2",
            "given": {"stage": "2.3"},
        },
        "lemE12": {
            "statement": "Lemma E.12",
            "says": r"until $\varepsilon = 0.4$ it is in $[0.4, 0.5]$, and irrelevant clauses differ by $O(1/d)$",
            "given": {"stage": "1.2.1"},
            "hypotheses": SYMMETRY,
            "cases": SYMMETRIC,
        },
    },
    form="bound",
    of=(lengths.masses,),
    hypotheses=CYCLIC_DESCENT,
    cases=CYCLIC,
)


# --- induction hypotheses ---------------------------------------------------------------------------------------------


def tracked(config: AttentionRun, stage: str) -> tuple[np.ndarray, inductions.Parts]:
    """The times of a stage, and by how much each part holds at them."""
    times, scores = stage_of(config, stage), path_of(config).scores
    facts = inductions.HYPOTHESES[stage](scores, config.vocabulary, config.network.clip_factor)
    return times, {part: fact[times] for part, fact in facts.items()}


def holds_until(config: AttentionRun, seed: int, *, stage: str, without: str = ""):
    """Each part, but for one, at every time of its stage: until when it is true."""
    times, facts = tracked(config, stage)
    facts = {part: fact for part, fact in facts.items() if part != without}
    yield at_least("steps of the stage", len(times), 5)
    for part, fact in facts.items():
        yield at_least(f"{part}: share of the stage until it fails", inductions.until(fact) / len(times), 1.0)
        yield at_least(f"{part}: by how much, at least", float(fact.min()), 0.0)
        yield at_least(f"{part}: by how much at the end", float(fact[-1]), 0.0)
    for part, fact in facts.items():
        yield row(
            {
                "part": part,
                "true until step": int(times[0]) + inductions.until(fact),
                "stage": f"{times[0]}..{times[-1]}",
            }
        )
    yield from turned(config, stage)


def turned(config: AttentionRun, stage: str):
    """The parts see it: on the same stage run backwards, or with the two blocks exchanged, they are false."""
    times, scores = stage_of(config, stage), path_of(config).scores
    back = inductions.HYPOTHESES[stage](scores[times][::-1], config.vocabulary, config.network.clip_factor)
    yield at_most("steps until (a) fails, run backwards", inductions.until(next(iter(back.values()))), 1)


NOT_AHEAD = "(d) own <= near"
SAYS_IND = r"each part is tracked along the run and holds to the end of the stage"
LEDGER.family(
    holds_until,
    {
        "indD1": {
            "statement": "Induction D.1",
            "says": rf"stage 2.1: $a$ grows, $c$ follows below it, other entries are $O(1/d)$ of it; {SAYS_IND}",
            "of": (inductions.d1,),
            "given": {"stage": "2.1"},
        },
        "indD2": {
            "statement": "Induction D.2",
            "says": rf"stage 2.2: $a$ and $c$ grow, $a - c = \Omega(1/\log d)$; {SAYS_IND}",
            "of": (inductions.d2,),
            "given": {"stage": "2.2"},
        },
        "indD3": {
            "statement": "Induction D.3",
            "says": rf"stage 2.3: $a$ and $c$ grow, the gap is not negative, the predicate has half; {SAYS_IND}",
            "of": (inductions.d3,),
            "given": {"stage": "2.3"},
        },
        "indE1": {
            "statement": "Induction E.1",
            "says": rf"until $\varepsilon = 0.4$: $a + c$ grows, predicate 2 is not far from its rivals; {SAYS_IND}",
            "of": (inductions.e1,),
            "given": {"stage": "1.2.1"},
            "hypotheses": SYMMETRY,
            "cases": SYMMETRIC,
        },
        "indE2": {
            "statement": "Induction E.2",
            "says": r"until the loss of Lemma E.35: $a + c$ grows, neither target is far ahead, in (d) as far as Lemma"
            rf" E.34 shows it; {SAYS_IND}",
            "of": (inductions.e2, inductions.answer_lead),
            "given": {"stage": "1.2.2", "without": NOT_AHEAD},
            "optimise": True,
            "hypotheses": both(SYMMETRY, many_values),
            "cases": MANY_VALUES,
        },
    },
    form="bound",
    hypotheses=CYCLIC_DESCENT,
    cases=CYCLIC,
)


@LEDGER.reported(
    "indE2-ahead",
    statement="Induction E.2",
    says=r"part (d) also says that answer 1 never has more attention than predicate 2, which Lemma E.34 does not show:"
    r" true to the end of the stage with $C_B = 6.5$ and 28 values, and for 0.70 of it with $C_B = 8$ and 40 values",
    of=(inductions.not_ahead,),
    hypotheses=both(SYMMETRY, many_values),
    cases=MANY_VALUES,
)
def answer_gets_ahead(config: AttentionRun, seed: int):
    times, facts = tracked(config, "1.2.2")
    yield measured("share of the stage until answer 1 is ahead", inductions.until(facts[NOT_AHEAD]) / len(times))


# --- ends of stages ---------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Times(AttentionRun):
    """The first stages at several numbers of variables; a run ends once its loss is below 1."""

    action: str = option("C6", "the action", examples=ACTIONS)
    network: Constants = option(Constants(clip_factor=6.0), "clip and activation")
    learning_rate: float = option(
        0.004, "learning rate eta / |X|, divided by the loss", above=0.0, numeric=True, stored_as="rate"
    )
    stop: str = option("power", "when the run ends", choices=("never", "power", "window"))
    exponent: float = option(0.01, "E_1 of the stopping loss d^-E_1", above=0.0, numeric=True)
    sizes: tuple[int, ...] = option((1024, 8192, 65_536, 524_288), "numbers of variables |X|", low=64, high=1_000_000)


def small_first_steps(config: Times) -> dict[str, bool]:
    """One step changes what a neuron reads by a part of 1, at the size whose first steps are written out."""
    clip = clip_of(dataclasses.replace(config, variables=config.sizes[0]))
    return {"eta B <= 1/5 at the first |X|": config.learning_rate * clip <= 0.2}


def times_of(config: Times, variables: int) -> dict[str, float]:
    """eta times the steps that gradient descent at a constant rate takes, and the scores, at the ends of two stages."""
    run = dataclasses.replace(config, variables=variables)
    path, small, end = path_of(run), int(stage_of(run, "2.2")[0]), int(stage_of(run, "2.3")[0])
    clock = np.append(0.0, np.cumsum(config.learning_rate * variables / path.losses[:-1]))
    level = 1 / np.log(run.vocabulary)
    share = (level - path.scores[small - 1, 0]) / (path.scores[small, 0] - path.scores[small - 1, 0])
    at = clock[small - 1] + share * (clock[small] - clock[small - 1])
    gap, later = path.scores[small], path.scores[end]
    return {
        "d": run.vocabulary,
        "2.1": at,
        "2.2": (clock[end] - at) / (later[0] - level),  # per unit of a: it has Theta(1) to grow by
        "(a - c) log d, 2.1": (gap[0] - gap[2]) / level,
        "a, 2.2": later[0],
        "c, 2.2": later[2],
        "(a - c) log d, 2.2": (later[0] - later[2]) / level,
        "others d / a": float(np.abs(later[[1, 3]]).max() * run.vocabulary / later[0]),
    }


def time_of_a_stage(config: Times, seed: int, *, stage: str, power: float):
    """eta T / d against log d, and what the stage leaves."""
    yield from written_out(dataclasses.replace(config, variables=config.sizes[0]))
    found = [times_of(config, variables) for variables in config.sizes]
    size = np.log([each["d"] for each in found])
    clocks = np.array([each[stage] / each["d"] for each in found])
    yield slope("exponent of log d in eta T / d", size, clocks, power, within=0.3)
    yield at_least("(a - c) log d at the end", [each[f"(a - c) log d, {stage}"] for each in found], 0.1)
    yield at_most("other entries times d, over a", [each["others d / a"] for each in found], 2.0)
    if stage == "2.2":
        yield at_least("a and c at the end", [[each["a, 2.2"], each["c, 2.2"]] for each in found], 0.1)
    for each in found:
        yield row(each)


LEDGER.family(
    time_of_a_stage,
    {
        "lemD21": {
            "statement": "Lemma D.21",
            "says": r"stage 2.1 takes $\eta T = \Theta(d/\log^2 d)$ (illegible in our copy; Lemma D.16 gives it) and"
            r" leaves $a - c = \Omega(1/\log d)$",
            "given": {"stage": "2.1", "power": -2.0},
        },
        "lemD33": {
            "statement": "Lemma D.33",
            "says": r"stage 2.2 takes $\eta T = \Theta(d/\log d)$ per unit of $a$, and leaves $a, c = \Omega(1)$ and"
            r" $a - c = \Omega(1/\log d)$",
            "given": {"stage": "2.2", "power": -1.0},
        },
    },
    form="rate",
    of=(reduced.descended, reduced.shares),
    hypotheses=both(assumption_4_1, many_variables, large_clip, small_first_steps),
    cases=Times(),
    search={  # others end before stage 2.3, or leap over 2.2
        "network.clip_factor": (3.5, 9.0, "linear"),
        "network.rho": (0.5, 1.0, "linear"),
        "learning_rate": (0.001, 0.01, "log"),
    },
)


@LEDGER.bound(
    "lemD45",
    statement="Lemma D.45",
    says=r"at the end: $\varepsilon = O(1/d)$ at both steps (we ask for $2/d$), the gap is closing, $a, c ="
    r" \Omega(\log d)$, other entries $\tilde O(1/d)$, and the loss is within twice the floor $d^{1-C_B}$",
    of=(reduced.descended, reduced.shares, lengths.concentration),
    hypotheses=CYCLIC_DESCENT,
    cases=CYCLIC,
)
def end_of_training(config: AttentionRun, seed: int):
    yield from written_out(config)
    path, d = path_of(config), config.vocabulary
    last = path.scores[-1]
    for step in (1, 2):
        yield at_most(f"eps d, step {step}", lengths.concentration(last, 2, step) * d, 2.0)
    gaps = lengths.gap(path.scores, 2, 2)
    yield at_most("gap over its largest", gaps[-1] / gaps.max(), 0.1)
    yield at_least("the smaller diagonal over log d", last[[0, 2]].min() / np.log(d), 0.9)
    yield at_most("other entries times d, over log d", np.abs(last[[1, 3]]).max() * d / np.log(d), 2.0)
    floor = np.log1p((d - 1) * d**-config.network.clip_factor)
    yield at_most("loss of two steps over twice the floor", path.losses[-1] / (2 * floor), 2.0)
    yield at_least("loss of two steps over twice the floor", path.losses[-1] / (2 * floor), 1.0)


@LEDGER.bound(
    "lemE23",
    statement="Lemma E.23",
    says=r"when $\varepsilon$ reaches 0.4, $a, c = \Omega(1)$ (we ask for $\min(\frac14, 2/C_B)$) and other entries are"
    r" $O(1/d)$",
    of=(reduced.descended, reduced.shares, lengths.concentration),
    hypotheses=SYMMETRY,
    cases=SYMMETRIC,
)
def end_of_the_first_phase(config: AttentionRun, seed: int):
    end = int(stage_of(config, "1.2.2")[0])
    scores = path_of(config).scores
    eps = lengths.concentration(scores, 2, 2)
    yield at_most("eps then", eps[end], 0.4)
    yield at_least("eps before", eps[end - 1], 0.4)
    yield at_least("a and c", scores[end, [0, 2]], min(0.25, 2 / config.network.clip_factor))
    yield at_most("other entries times d", np.abs(scores[end, [1, 3]]) * config.vocabulary, 1.0)
