"""Checks of the theory at their cases and seeds: in this process, or shared by several."""

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from typing import Any

from stairwise.compiler import children_compile_sooner
from stairwise.config import Config, ConfigError, as_text, leaves, update
from stairwise.lab import registry
from stairwise.lab.contract.claims import Claim, exception_line
from stairwise.lab.contract.manifest import TIERS
from stairwise.lab.contract.verdict import Verdict
from stairwise.lab.run.execute import prepare_jax
from stairwise.lab.worker import leave_with_the_caller, unheard_by_children

Asked = tuple[str, Mapping[str, Any], list[int]]  # a claim's name, sizes of the user, seeds
Found = tuple[Verdict, float]


def checked(claim: Claim, sizes: Mapping[str, Any], seeds: Sequence[int]) -> Found:
    """The verdict over cases and seeds, and the seconds that it took. Sizes of a user may be refused (ConfigError)."""
    import jax

    began = time.monotonic()
    prepare_jax()
    cases = cases_of(claim, sizes)
    found: list[tuple[str, int, Verdict]] = []
    with jax.enable_x64(claim.precision == 64):
        for name, case in zip(case_names(cases), cases, strict=True):
            for seed in seeds:
                try:
                    verdict = claim.at(case, seed)
                except ConfigError as error:
                    if sizes:
                        raise
                    verdict = Verdict("fails", note=exception_line(error))
                found.append((name, seed, verdict))
    return claim.over(found, own=not sizes), time.monotonic() - began


def case_names(cases: Sequence[Config]) -> list[str]:
    """The fields in which each case differs from the first."""
    base = {leaf.path: leaf.default for leaf in leaves(cases[0])}
    names: list[str] = []
    for case in cases:
        differing = [
            f"{leaf.path}={as_text(leaf.default)}" for leaf in leaves(case) if leaf.default != base.get(leaf.path)
        ]
        names.append(" ".join(differing) or "default sizes")
    return names


def cases_of(claim: Claim, sizes: Mapping[str, Any]) -> list[Config]:
    return [update(claim.cases[0], sizes)] if sizes else list(claim.cases)


class Checkers:
    """Processes that check claims, file by file: claims of one file share what they compute and compile."""

    def __init__(self, jobs: int):
        context = get_context("spawn")
        self.pool = ProcessPoolExecutor(jobs, mp_context=context, initializer=leave_with_the_caller)

    def begin(self, asked: Mapping[int, tuple[Claim, Mapping[str, Any], list[int]]]) -> dict[int, Callable[[], Found]]:
        """How to get what is found, by the number of the check."""
        files: dict[str, dict[int, Asked]] = {}
        for number, (claim, sizes, seeds) in asked.items():
            files.setdefault(claim.source.partition(":")[0], {})[number] = (claim.name, dict(sizes), seeds)
        found: dict[int, Callable[[], Found]] = {}
        with unheard_by_children(), children_compile_sooner():
            for together in files.values():
                future = self.pool.submit(_checked_by_name, list(together.values()))
                found |= {number: partial(_result, future, place) for place, number in enumerate(together)}
        return found

    def end(self) -> None:
        self.pool.shutdown(wait=False, cancel_futures=True)
        for process in list((self.pool._processes or {}).values()):
            process.terminate()


def compile_as_asked(claim: Claim) -> None:
    """For a process that trains nothing from now on, so that programs may round differently: those of a claim that run
    for milliseconds are compiled with few optimisations."""
    import jax

    jax.config.update("jax_disable_most_optimizations", claim.tier == TIERS[0] and not claim.optimise)


def _checked_by_name(asked: Sequence[Asked]) -> list[Found | ConfigError]:
    """Verdict and seconds of each claim, or the refusal of its sizes."""
    found: list[Found | ConfigError] = []
    for name, sizes, seeds in asked:
        ((claim, _),) = registry.claims([name])
        compile_as_asked(claim)
        try:
            found.append(checked(claim, sizes, seeds))
        except ConfigError as error:
            found.append(error)
    return found


def _result(future: Future, place: int) -> Found:
    found = future.result()[place]
    if isinstance(found, ConfigError):
        raise found
    return found
