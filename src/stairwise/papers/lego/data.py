"""LEGO sentences as data: any action, any length, predicates in order or shuffled, other chains to distract.

An example is y_0, then g_1..g_L, then x_0..x_L. In words, with `tell` the action is its own table, else a name:

    x3 = a2(x1); x7 = a0(x3); x1 = 4; x7 = ?        steps  x3 = 0; x7 = 0        answer  0
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Integer

from stairwise.config import option, require
from stairwise.lab.contract.sources import Columns, Draw, Source, TaskSource, Texts, WorkedSolution
from stairwise.papers.lego.config.task import Task
from stairwise.tasks.enumeration import Space, distinct, falling
from stairwise.tasks.prose import Prose, byte_table, listed, side_by_side

SLOTS = 5  # tokens of a clause


@dataclass(frozen=True)
class Sentences(Task):
    """LEGO(X, G, Y): chains of length L over |X| variables, with a named action of G on Y."""

    order: str = option("chain", "the order in which the predicates are given", choices=("chain", "shuffled"))
    distractors: int = option(0, "further chains of the same length, over other variables, given as well", low=0)
    tell: bool = option(False, "name an action by what it does, [g(0) g(1) ...], so that nothing need be known")

    def check(self) -> None:
        super().check()
        needed = self.chains * (self.length + 1)
        require(
            needed <= self.variables,
            f"distractors={self.distractors} and length={self.length} need {needed} variables, which must be at most"
            f" variables={self.variables}",
        )

    @property
    def chains(self) -> int:
        return 1 + self.distractors

    @property
    def predicates(self) -> int:
        return self.chains * self.length


def space(config: Sentences) -> Space:
    """The value is the chain; the distractors and the order in which predicates stand are how it is told."""
    points, others, group = config.length + 1, config.distractors, config.group
    variables = falling(config.variables, config.chains * points)
    telling = (*variables[points:], *[group.actions] * (others * config.length))
    if config.order == "shuffled":
        telling += falling(config.predicates, config.predicates)
    return Space((group.values, *[group.actions] * config.length, *variables[:points]), telling)


def source(config: Sentences, draw: Draw) -> Source:
    group = config.group
    names = [f"x{number}" for number in range(config.variables)]
    actions = [f"a{number}" for number in range(group.actions)]
    values = tuple(str(value) for value in range(group.values))
    shown = [f"[{' '.join(map(str, row))}]" for row in group.table.tolist()] if config.tell else actions
    tables = byte_table(names), byte_table(shown), byte_table(values)

    meaning = "[2 0 1](x3) is the entry of the list at place x3" if config.tell else "a1(x3) is action a1 applied to x3"
    return Source(
        columns=lambda digits: chains(config, digits, draw.cot),
        texts=lambda columns: told(columns, *tables),
        notation=f"Values are 0 to {group.values - 1}; {meaning}, counted from 0.",
        room=len(space(config).value) + 2 * config.variables + 10 * (config.predicates + config.length + 1),
        vocabulary=("blank", *names, *actions, *values),
        prompt_tokens=SLOTS * (config.predicates + 1),
        step_places=tuple(SLOTS * step + 4 for step in range(config.length if draw.cot else 1)),
        answers=values,
    )


def task(config: Sentences, drawn: Mapping[str, Any]):
    """The chain itself, its predicates in order and without distractors."""
    from stairwise.papers.lego.task import lego

    require(config.order == "chain", f"order={config.order} must be chain: it is how a task is told")
    require(config.distractors == 0, f"distractors={config.distractors} must be 0: a task has none")
    return lego(config.group, config.variables, config.length)


def chains(config: Sentences, digits: Integer[np.ndarray, "rows digits"], cot: bool) -> dict[str, np.ndarray]:
    """Digits to chains and sentences; `predicates` has one row (x_l, g_l, x_{l-1}) a predicate, as it is told."""
    rows, L, points = len(digits), config.length, config.length + 1
    table = config.group.table
    actions = digits[:, 1:points].astype(np.int32)
    values = np.empty((rows, points), dtype=np.int32)
    values[:, 0] = digits[:, 0]
    for step in range(L):
        values[:, step + 1] = table[actions[:, step], values[:, step]]
    after = 1 + L + config.chains * points  # where the distractors' actions begin
    variables = distinct(digits[:, points:after], config.variables).reshape(rows, config.chains, points)
    others = config.distractors * L
    applied = np.concatenate([actions, digits[:, after : after + others].astype(np.int32)], axis=1)
    clauses = [variables[:, :, 1:].reshape(rows, -1), applied, variables[:, :, :-1].reshape(rows, -1)]
    predicates = np.stack(clauses, axis=2)
    if config.order == "shuffled":
        turn = distinct(digits[:, after + others :], config.predicates)
        predicates = np.take_along_axis(predicates, turn[:, :, None], axis=1)
    own = variables[:, 0]
    return {
        "variables": own,
        "actions": actions,
        "start_value": values[:, 0],
        "predicates": predicates,
        "step_values": values[:, 1:],
        "answer_value": values[:, -1],
        "tokens": sentences(config, predicates, own, values, cot),
    }


def sentences(config: Sentences, predicates, variables, values, cot: bool) -> Integer[np.ndarray, "rows tokens"]:
    """Clauses of five tokens, one after another: predicates, answer 0, then every answer or the last one."""
    starts = np.array([1, 1 + config.variables, 1], dtype=np.int32)
    kept = list(range(config.length + 1)) if cot else [0, config.length]
    clauses = np.zeros((len(values), config.predicates + len(kept), SLOTS), dtype=np.int32)
    clauses[:, : config.predicates, :3] = predicates + starts
    clauses[:, config.predicates :, 3] = 1 + variables[:, kept]
    clauses[:, config.predicates :, 4] = 1 + config.variables + config.group.actions + values[:, kept]
    small = np.int16 if config.vocabulary < 2**15 else np.int32
    return clauses.reshape(len(values), -1).astype(small)


def told(columns: Columns, names: np.ndarray, actions: np.ndarray, values: np.ndarray) -> Texts:
    predicates, variables = columns["predicates"], columns["variables"]
    left, action, right = (predicates[:, :, slot] for slot in range(3))
    clauses = side_by_side(names[left], " = ", actions[action], "(", names[right], ")")
    reached, valued = names[variables], values[columns["step_values"]]
    first = Prose([reached[:, 0]]) + " = " + Prose([values[columns["start_value"]]])
    steps = listed(side_by_side(reached[:, 1:], " = ", valued), "; ")
    question = first + "; " + Prose([reached[:, -1]]) + " = ?"
    return Texts(listed(clauses, "; ") + "; " + question, steps, Prose([valued[:, -1]]))


def solve(config: Sentences, drawn: Mapping[str, Any], prompt: str) -> WorkedSolution:
    """From the question back to the variable whose value is given, and forward again."""
    told_by = {}
    for left, action, right in re.findall(r"(x\d+) = (a\d+|\[[\d ]+\])\((x\d+)\)", prompt):
        row = config.group.table[int(action[1:])].tolist() if action[0] == "a" else list(map(int, action[1:-1].split()))
        told_by[left] = (row, right)
    ((start, value),) = re.findall(r"(x\d+) = (\d+);", prompt)
    (wanted,) = re.findall(r"(x\d+) = \?", prompt)
    path = []
    while wanted != start:
        row, wanted = told_by[wanted]
        path.append(row)
    steps, reached = [], int(value)
    for row in reversed(path):
        reached = row[reached]
        steps.append(str(reached))
    return WorkedSolution(steps, steps[-1])


TASK = TaskSource(
    id="lego",
    says="apply a chain of actions to a value",
    Config=Sentences,
    space=space,
    source=source,
    solve=solve,
    task=task,
    difficulty="length",
)
