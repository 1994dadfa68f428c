"""What the claims share: the sizes they take, and the hypotheses of the statements about actions."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from stairwise.config import Config, option, require
from stairwise.papers.lego.config.task import Task, action_of
from stairwise.papers.lego.groups import Action

LARGEST_WEIGHTS = 2_000_000  # entries of W that are written out as 5d-vectors


@dataclass(frozen=True)
class Drawn(Config):
    """A network with random weights and random Q, and a few random chains: identities hold on any of them."""

    task: Task = option(Task("C3", 5, 2), "the chains")
    neurons: int = option(3, "neurons m", low=1, high=64)
    sigma0: float = option(0.5, "standard deviation of W", above=0.0, high=10.0)
    bias: float = option(0.1, "bias b of every neuron", low=-10.0, high=10.0)
    clip: float = option(100.0, "logit clip B", above=0.0, high=1000.0)
    rho: float = option(0.5, "knot rho of the smoothed ReLU", above=0.0, high=10.0)
    q: int = option(4, "power q of the smoothed ReLU", low=3, high=12)
    spread: float = option(1.0, "standard deviation of Q", low=0.0, high=20.0)
    samples: int = option(12, "chains", low=1, high=1000)

    def check(self) -> None:
        few_weights(self.task, 5 * self.neurons)


@dataclass(frozen=True)
class Ideal(Config):
    """The ideal FFN under a permutation-symmetric Q, and a few random chains."""

    task: Task = option(Task("C5", 5, 2), "the chains")
    clip_factor: float = option(4.0, "C_B of the logit clip B = C_B log d", above=0.0, high=50.0)
    rho: float = option(0.8, "knot rho of the smoothed ReLU", above=0.0, high=10.0)
    q: int = option(4, "power q of the smoothed ReLU", low=3, high=12)
    scores: tuple[float, ...] = option((0.9, -0.1, 0.7, 0.05), "a, b, c, e of Q43 and Q44", low=-50.0, high=50.0)
    samples: int = option(24, "chains", low=1, high=1000)

    def check(self) -> None:
        require(len(self.scores) == 4, f"scores has {len(self.scores)} entries, which must be 4: a, b, c, e")
        few_weights(self.task, self.task.group.values + 1)


def few_weights(task: Task, neurons: int) -> None:
    entries = task.vocabulary**2 * 5 * neurons
    require(
        entries <= LARGEST_WEIGHTS,
        f"task: a vocabulary of {task.vocabulary} has {entries} weights, which must be at most {LARGEST_WEIGHTS}",
    )


def long_enough(task: Task, step: int) -> None:
    require(task.length >= step, f"task.length={task.length} must be at least {step} for step {step}")


# --- hypotheses -------------------------------------------------------------------------------------------------------


def both(*parts: Callable[[Any], Mapping[str, bool]]) -> Callable[[Any], Mapping[str, bool]]:
    """Hypotheses of several kinds together."""
    return lambda config: {name: met for part in parts for name, met in part(config).items()}


def group_of(config: Any) -> Action:
    """The action of a config, wherever it has it."""
    owner = getattr(config, "task", config)
    return owner.group if hasattr(owner, "group") else action_of(owner.action)


def assumption_4_1(config: Any) -> dict[str, bool]:
    """Exactly one action takes y to j."""
    action = group_of(config)
    return {"the action is transitive (Assumption 4.1)": action.transitive, "it is free (Assumption 4.1)": action.free}


def transitive_group(config: Any) -> dict[str, bool]:
    """Assumption C.1 without its size conditions: a group acts with a single orbit."""
    action = group_of(config)
    return {
        "the action is that of a group (Assumption C.1)": action.is_group,
        "it is transitive (Assumption C.1)": action.transitive,
    }


def assumption_c1(config: Any) -> dict[str, bool]:
    """Transitive, and some action other than the identity keeps a value."""
    return transitive_group(config) | {"it is not free (Assumption C.1)": not group_of(config).free}


def assumption_5_1(config: Any) -> dict[str, bool]:
    """G = Sym(Y), as Theorem C.1 says; for other actions of Assumption C.1 features pass B (`thmC1-lift`)."""
    return {"the actions are all permutations (Assumption 5.1)": group_of(config).symmetric}
