"""The parity of k out of d signs as data, with the products of two that a tree makes of it.

An example is its input signs. In words, nodes from the bottom up, the last of them the answer:

    1 -1 -1 1; product = ?        steps  n1 = -1; n2 = -1        answer  -1
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Integer

from stairwise.config import option
from stairwise.lab.contract.sources import Columns, Draw, Source, TaskSource, Texts, WorkedSolution
from stairwise.papers.parity_onestep.config import Task
from stairwise.tasks.enumeration import Space
from stairwise.tasks.prose import digits, listed, numbered, numbers


@dataclass(frozen=True)
class Products(Task):
    """A parity of k out of d signs and its decomposition into products of two."""

    tell: bool = option(False, "print the secret places, so that nothing need be known")


def space(config: Products) -> Space:
    return Space((2,) * config.bits)


def source(config: Products, draw: Draw) -> Source:
    from stairwise.tasks.parity import Parity, draw_subset
    from stairwise.train.keys import role_key

    drawn = draw_subset(role_key(draw.seed, "secret"), config.bits, config.size).tolist()
    secret = sorted(config.secret or drawn)
    children = np.asarray(Parity(config.bits, tuple(secret), config.tree).decomposition.children)
    pairing = "first come, first served" if config.tree == "balanced" else "one after another"
    places = "the places that are named" if config.tell else "some secret places"
    return Source(
        columns=lambda found: multiplied(children, found, draw.cot),
        texts=lambda columns: told(columns, secret if config.tell else None),
        notation=f"The product is that of the signs at {places}, counted from 0; n1, n2, ... are products of two of"
        f" them or of earlier ones, {pairing}.",
        room=4 * config.bits + 8 * config.size,
        drawn={"secret": secret, "children": children.tolist()},
        vocabulary=("1", "-1"),
        prompt_tokens=config.bits,
        step_places=tuple(range(len(children) if draw.cot else 1)),
        answers=("1", "-1"),
    )


def task(config: Products, drawn: Mapping[str, Any]):
    """The parity and the nodes of its tree, as sums of two bits."""
    import jax.numpy as jnp

    from stairwise.tasks.parity import ParityTokens

    return ParityTokens(config.bits, jnp.asarray(drawn["secret"], dtype=jnp.int32), config.size, by=config.tree)


def multiplied(
    children: Integer[np.ndarray, "nodes 2"], found: Integer[np.ndarray, "rows digits"], cot: bool
) -> dict[str, np.ndarray]:
    """Signs and nodes; as tokens a sign is its exponent, 0 for 1 and 1 for -1."""
    rows, bits = found.shape
    exponents = np.empty((rows, bits + len(children)), dtype=np.int8)
    exponents[:, :bits] = found
    for node, (left, right) in enumerate(children):
        exponents[:, bits + node] = exponents[:, left] ^ exponents[:, right]
    signs = 1 - 2 * exponents
    tokens = exponents if cot else np.delete(exponents, np.s_[bits:-1], axis=1)
    return {"bits": signs[:, :bits], "step_values": signs[:, bits:], "answer_value": signs[:, -1], "tokens": tokens}


def told(columns: Columns, secret: list[int] | None) -> Texts:
    asked = "product" if secret is None else f"product of places {' '.join(map(str, secret))}"
    question = listed(digits(columns["bits"]), " ") + f"; {asked} = ?"
    return Texts(
        question, listed(numbered("n", digits(columns["step_values"])), "; "), numbers(columns["answer_value"])
    )


def solve(config: Products, drawn: Mapping[str, Any], prompt: str) -> WorkedSolution:
    """A queue: two leave at the front and their product joins at its end (or, in a chain, at the front)."""
    signs = [int(sign) for sign in prompt.partition(";")[0].split()]
    queue, steps = [signs[position] for position in drawn["secret"]], []
    while len(queue) > 1:
        product = queue.pop(0) * queue.pop(0)
        queue.insert(len(queue) if config.tree == "balanced" else 0, product)
        steps.append(str(product))
    return WorkedSolution(steps, steps[-1])


TASK = TaskSource(
    id="parity_tree",
    says="the parity of secret signs, by a tree of products of two",
    Config=Products,
    space=space,
    source=source,
    solve=solve,
    task=task,
    difficulty="size",
)
