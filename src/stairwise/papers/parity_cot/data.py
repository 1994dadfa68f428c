"""The parity of k secret bits as data, with its chain of partial sums or without.

An example is its input bits; a wrong step (label noise, in the training split) is how it is told. In words:

    0 1 0 1 0; parity = ?        steps  s1 = 0; s2 = 1; s3 = 0        answer  0
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from jaxtyping import Integer

from stairwise.config import Config, option, require
from stairwise.lab.contract.sources import Columns, Draw, Source, TaskSource, Texts, WorkedSolution
from stairwise.papers.parity_cot.config.task import LARGEST, LAYOUTS, ORDERS, Task
from stairwise.tasks.enumeration import Space
from stairwise.tasks.prose import digits, listed, numbered, numbers

CHANCES = 2**24  # noise is a multiple of 1/CHANCES


@dataclass(frozen=True)
class Chains(Config):
    """The parity of k secret bits among n, with the chain of partial sums that takes g of them a step."""

    bits: int = option(16, "input bits n", low=1, high=LARGEST)
    size: int = option(4, "secret bits k", low=1, high=LARGEST)
    secret: tuple[int, ...] = option((), "the secret positions, counted from 0; none = drawn from the seed", low=0)
    order: str = option("ascending", "in which order the chain takes the secret bits", choices=ORDERS)
    layout: str = option(
        "paper",
        "tokens of a sequence. paper: as printed, the inputs and then a 0. authors: as in their code, where the 0 is"
        " left out without a chain and is a label with one, and the last input is never in a drawn secret",
        choices=LAYOUTS,
    )
    absorbed: int = option(1, "secret bits g that one step of the chain takes in (the paper: 1)", low=1)
    noise: float = option(
        0.0, "chance that a step is wrong (the next one builds on it); in the training split only", low=0.0, high=0.5
    )
    tell: bool = option(False, "print the secret, in the order of the chain, so that nothing need be known")

    def check(self) -> None:
        self.task(cot=True)

    def task(self, cot: bool) -> Task:
        """The paper's config of the same sequences."""
        shared = {field.name: getattr(self, field.name) for field in fields(self) if field.name != "tell"}
        return Task(cot=cot, **shared)

    @property
    def steps(self) -> int:
        """Steps that take the k bits in, g at a time."""
        return -(-self.size // self.absorbed)


def space(config: Chains) -> Space:
    return Space((2,) * config.bits, (CHANCES,) * config.steps if config.noise else ())


def source(config: Chains, draw: Draw) -> Source:
    from stairwise.papers.parity_cot.task import Layout, secret_of
    from stairwise.train.keys import role_key

    secret = np.asarray(secret_of(config.task(cot=True), role_key(draw.seed, "secret"), config.size)).tolist()
    layout = Layout.of(config.task(cot=draw.cot))
    noise = config.noise if draw.split == "train" else 0.0
    places = "the places that are named" if config.tell else "some secret places"
    return Source(
        columns=lambda found: summed(config, secret, found, noise, draw.cot, layout.zero),
        texts=lambda columns: told(columns, secret if config.tell else None),
        notation=f"The parity is the sum mod 2 of the bits at {places}, counted from 0; s1, s2, ... are the partial"
        f" sums, {config.absorbed} further of these bits a step.",
        room=8 * config.bits + 8 * config.steps,
        drawn={"secret": secret},
        vocabulary=("0", "1"),
        prompt_tokens=layout.first + 1,
        step_places=tuple(layout.lead + step for step in range(config.steps if draw.cot else 1)),
        answers=("0", "1"),
    )


def task(config: Chains, drawn: Mapping[str, Any]):
    """The parity and its partial sums, one secret bit at a time."""
    import jax.numpy as jnp

    from stairwise.tasks.parity import ParityTokens

    require(config.absorbed == 1, f"absorbed={config.absorbed} must be 1: a step of a task takes one bit")
    require(config.noise == 0, f"noise={config.noise} must be 0: a task has right answers")
    require(config.layout == "paper", f"layout={config.layout} must be paper: it is how a task is told")
    return ParityTokens(config.bits, jnp.asarray(drawn["secret"], dtype=jnp.int32), config.size)


def summed(
    config: Chains, secret: list[int], found: Integer[np.ndarray, "rows digits"], noise: float, cot: bool, zero: bool
) -> dict[str, np.ndarray]:
    """Bits and their partial sums; a wrong step and all that builds on it are flipped."""
    bits = found[:, : config.bits].astype(np.int8)
    taken = np.cumsum(bits[:, secret], axis=1, dtype=np.int32)
    sums = taken[:, np.minimum(config.absorbed * np.arange(1, config.steps + 1), config.size) - 1]
    wrong = {}
    if noise:
        wrong = {"wrong": (found[:, config.bits :] < round(noise * CHANCES)).astype(np.int8)}
        sums = sums + np.cumsum(wrong["wrong"], axis=1, dtype=np.int32)
    steps = (sums % 2).astype(np.int8)
    parts = [bits, np.zeros((len(bits), int(zero)), dtype=np.int8), steps if cot else steps[:, -1:]]
    tokens = np.concatenate(parts, axis=1)
    return {"bits": bits, **wrong, "step_values": steps, "answer_value": steps[:, -1], "tokens": tokens}


def told(columns: Columns, secret: list[int] | None) -> Texts:
    asked = "parity" if secret is None else f"parity of places {' '.join(map(str, secret))}"
    question = listed(digits(columns["bits"]), " ") + f"; {asked} = ?"
    return Texts(
        question, listed(numbered("s", digits(columns["step_values"])), "; "), numbers(columns["answer_value"])
    )


def solve(config: Chains, drawn: Mapping[str, Any], prompt: str) -> WorkedSolution:
    """Partial sums by XOR, g secret bits at a time."""
    bits = [int(bit) for bit in prompt.partition(";")[0].split()]
    steps, total = [], 0
    for place in range(0, len(drawn["secret"]), config.absorbed):
        for position in drawn["secret"][place : place + config.absorbed]:
            total ^= bits[position]
        steps.append(str(total))
    return WorkedSolution(steps, steps[-1])


TASK = TaskSource(
    id="parity_chain",
    says="the parity of secret bits, by a chain of partial sums",
    Config=Chains,
    space=space,
    source=source,
    solve=solve,
    task=task,
    difficulty="size",
)
