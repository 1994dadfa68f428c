"""What a paper hands to the kernel: `Paper`, with its experiments, claims, tasks and constructions.

Nothing here imports JAX.
"""

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from stairwise.config import (
    Config,
)
from stairwise.lab.contract.answers import Answer
from stairwise.lab.contract.claims import Claim
from stairwise.lab.contract.experiment import Experiment, Figure, find
from stairwise.lab.contract.sources import TaskSource


@dataclass(frozen=True)
class Construction:
    """Weights that a paper writes down: `build` makes the model from a config and a seed."""

    id: str
    says: str
    Config: type[Config]
    build: Callable[[Any, int], Any]
    paper: str = ""
    precision: int = 32

    @property
    def name(self) -> str:
        return f"{self.paper}/{self.id}"


# --- papers -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Paper:
    """A paper: what it is, what it claims, what can be run, how it answers the questions asked of every paper.

    `tasks` are what `stairwise data` and `stairwise eval` draw from; `constructions` are the models it writes down;
    `tensors` says in a line what each tensor of its models is, by a pattern of names ("key_query.*"); `arxiv` is its
    number there ("2406.06893"), where it has one.
    """

    id: str
    title: str
    authors: str
    year: int
    venue: str
    summary: str
    claims: tuple[Claim, ...] = ()
    experiments: tuple[Experiment, ...] = ()
    answers: tuple[Answer, ...] = ()
    constructions: tuple[Construction, ...] = ()
    tensors: Mapping[str, str] = field(default_factory=dict)
    tasks: tuple[TaskSource, ...] = ()
    arxiv: str = ""

    def __post_init__(self):
        claims = tuple(
            dataclasses.replace(
                claim, paper=self.id, corrects=tuple(each.id for each in self.claims if each.corrected == claim.id)
            )
            for claim in self.claims
        )
        experiments = []
        for experiment in self.experiments:
            figures = tuple(
                dataclasses.replace(figure, paper=self.id, experiment=experiment.id) for figure in experiment.figures
            )
            experiments.append(dataclasses.replace(experiment, paper=self.id, figures=figures))
        object.__setattr__(self, "claims", claims)
        object.__setattr__(self, "experiments", tuple(experiments))
        constructions = tuple(dataclasses.replace(construction, paper=self.id) for construction in self.constructions)
        object.__setattr__(self, "constructions", constructions)
        tasks = tuple(dataclasses.replace(task, paper=self.id) for task in self.tasks)
        object.__setattr__(self, "tasks", tasks)
        answered = [answer.question for answer in self.answers]
        lists = (claims, experiments, self.figures, constructions, tasks)
        for names in (*([item.id for item in items] for items in lists), answered):
            twice = {name for name in names if names.count(name) > 1}
            if twice:
                raise ValueError(f"{self.id}: declared twice: {', '.join(sorted(twice))}")
        ids = {claim.id for claim in claims}
        for claim in claims:
            if claim.corrected and claim.corrected not in ids:
                raise ValueError(f"{self.id}: {claim.id} is corrected by {claim.corrected}, which is not a claim")

    @property
    def figures(self) -> tuple[Figure, ...]:
        return tuple(figure for experiment in self.experiments for figure in experiment.figures)

    def experiment(self, id: str) -> Experiment:
        return find(self.experiments, id, f"experiment of {self.id}")

    def figure(self, id: str) -> Figure:
        return find(self.figures, id, f"figure of {self.id}")

    def construction(self, id: str) -> Construction:
        return find(self.constructions, id, f"construction of {self.id}")

    def task(self, id: str) -> TaskSource:
        return find(self.tasks, id, f"task of {self.id}")

    def claim(self, id: str) -> Claim:
        for claim in self.claims:
            if id in claim.aliases:
                return claim
        return find(self.claims, id, f"claim of {self.id}")
