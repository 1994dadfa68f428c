"""Every formula of a paper's theory is checked: a claim names it in `of=`, or names a function that calls it.

Formulas that no claim names are listed below, each with its reason. A formula that is missing from the list is unused.
"""

import importlib
import inspect
import pkgutil
from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase
from types import CodeType, FunctionType, ModuleType
from typing import Any

import pytest

from stairwise.lab import registry
from stairwise.lab.ledger.mutants import plain

# why no claim is of a function of the theory, by paper; patterns of module.function
OTHER_SIDE = "what formulas are compared with: enumeration, autodiff, integration, the definition written out"
INPUT = "makes the inputs of a check"
LIMIT = "a limit in the hypotheses"
MEASURES = "reads off a run what a check compares"
SHOWN = "shown beside a verdict, and compared with nothing"
TESTED = "no statement of the paper; a test of its own checks it"
UNCLAIMED = {
    "composition": {
        OTHER_SIDE: "literal.* inner.* exact.* counting.* spectrum.gram packing.gram noise.rms_range",
        INPUT: "packing.pack_* packing.nearly_orthogonal",
        LIMIT: "noise.samples_lemmas perturbation.trained_gradient_ceiling queries.useful_r",
        MEASURES: "noise.independent_entries packing.largest_overlap streams.* sensitivity.reach"
        " sensitivity.spectral_norm",
        SHOWN: "noise.samples_theorem spectrum.log10_average_queries",
    },
    "lego": {
        OTHER_SIDE: "literal.* exact.* refined.refined_of",
        INPUT: "chains.* events.agreeing features.vocabulary first_step.population",
        MEASURES: "phases.history inductions.* emerging.reached",
        SHOWN: "emerging.intervals_overlap",
        TESTED: "chains.every_word",
    },
    "parity_cot": {
        MEASURES: "trajectory.* precision.fewest_bits",
        INPUT: "precision.bits_of hyperparameters.as_text",
    },
    "parity_onestep": {
        OTHER_SIDE: "hiding.* spectrum.* population.* mean_parity.even_count mean_parity.second_moment"
        " staircase.updates",
        INPUT: "census.token_masks census.complete census.nontrivial_masks",
        MEASURES: "recursion.child_attention noise.leakage",
        TESTED: "links.remainders",
    },
    "selection": {
        OTHER_SIDE: "population.* fcn.second_moment fcn.best_head_risk fcn.shifted_risk onehot.flow onehot.integrate"
        " onehot.time* stochastic.flow stochastic.time* generalisation.leading_term_by_substitution"
        " construction.worst_error",
        INPUT: "encodings.draw encodings.draw_subsets encodings.every encodings.restricted encodings.draw_restricted",
        LIMIT: "onehot.largest_* onehot.late_leak stochastic.largest_learning_rate encodings.acceptance"
        " induction.least_s",
        MEASURES: "encodings.coherence encodings.rip_floor onehot.excess widths.pair_overlap widths.least_encoding",
        SHOWN: "stochastic.convergence_time_printed stochastic.largest_learning_rate_of_proof",
        TESTED: "construction.error_bound generalisation.loss_ratio_at_one onehot.inverse_loss_slope",
    },
}


def functions_in(value: Any) -> list[FunctionType]:
    """A function, or all methods of a class."""
    inside = list(vars(value).values()) if inspect.isclass(value) else [value]
    inside += [part.fget for part in inside if isinstance(part, property)]
    return [function for function in map(plain, inside) if function is not None]


def names_in(code: CodeType) -> set[str]:
    """The global names and the attributes that a function uses, those of the functions inside of it too."""
    nested = (each for each in code.co_consts if isinstance(each, CodeType))
    return set(code.co_names).union(*map(names_in, nested))


def callees(function: FunctionType) -> Iterator[FunctionType]:
    names = names_in(function.__code__)
    for name in names & function.__globals__.keys():
        value = function.__globals__[name]
        parts = [vars(value)[each] for each in names & vars(value).keys()] if isinstance(value, ModuleType) else [value]
        for part in filter(callable, parts):
            yield from functions_in(part)


def reached(targets: Iterable[Any]) -> set[FunctionType]:
    """Some functions or classes, and all that they call."""
    found = [function for target in targets for function in functions_in(target)]
    seen = set(found)
    for function in found:  # grows
        more = {each for each in callees(function) if each.__module__.startswith("stairwise.")} - seen
        seen |= more
        found += more
    return seen


def defined_in(package: str) -> Iterator[tuple[str, Any]]:
    """The functions and classes of the modules of a package, as module.name."""
    for part in pkgutil.iter_modules(importlib.import_module(package).__path__, f"{package}."):
        for name, value in vars(importlib.import_module(part.name)).items():
            if callable(value) and getattr(plain(value) or value, "__module__", "") == part.name:
                yield f"{part.name.rpartition('.')[2]}.{name}", value


def formulas(paper: str) -> dict[str, FunctionType]:
    """The public functions of a paper's theory."""
    named = ((name, value) for name, value in defined_in(f"stairwise.papers.{paper}.theory") if "._" not in name)
    return {name: function for name, value in named if not inspect.isclass(value) and (function := plain(value))}


@pytest.mark.parametrize("paper", UNCLAIMED)
def test_some_claim_is_of_every_formula_of_a_paper_but_for_those_that_say_why_not(paper):
    claimed = reached(target for claim in registry.paper(paper).claims for target in claim.of)
    reasons = [pattern for patterns in UNCLAIMED[paper].values() for pattern in patterns.split()]
    unclaimed = [name for name, function in formulas(paper).items() if function not in claimed]
    assert [name for name in unclaimed if not any(fnmatchcase(name, pattern) for pattern in reasons)] == []


@pytest.mark.parametrize("paper", UNCLAIMED)
def test_what_no_claim_uses_has_a_test_of_its_own(paper):
    claims = registry.paper(paper).claims
    used = [value for _, value in defined_in(f"stairwise.papers.{paper}.claims")]
    for claim in claims:
        given = claim.hypotheses or {}
        used += [*claim.of, *([given] if callable(given) else given.values())]
    everything = reached(used)
    tested = UNCLAIMED[paper].get(TESTED, "").split()
    assert {name for name, function in formulas(paper).items() if function not in everything} <= set(tested)
