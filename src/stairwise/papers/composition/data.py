"""k-fold composition as data: sigma in the prompt, pi hidden (or told), one query a record, hops fixed or mixed.

An example is the hop count, the query (i, j) and sigma. In words, with places counted from 0:

    s0 = [2 0 1]; s1 = [0 2 1]; hop 2 from letter 1 of block 0 = ?        steps  h1 = 1; h2 = 2        answer  2
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Integer

from stairwise.config import option, require
from stairwise.lab.contract.sources import PAD, Columns, Draw, Source, TaskSource, Texts, WorkedSolution
from stairwise.papers.composition.config import Task
from stairwise.tasks.enumeration import Space, distinct, falling
from stairwise.tasks.prose import Prose, digits, listed, numbered, numbers


@dataclass(frozen=True)
class HopQueries(Task):
    """sigma_k pi_k ... sigma_1 pi_1 with sigma in the input: one query (i, j), one label hop_i^r(j)."""

    blocks: int = option(4, "number of blocks k", low=1, high=1024)
    any_blocks: bool = option(True, "take a k that is no power of two")
    hops: tuple[int, ...] = option((2,), "hops r; several: a uniform mixture of them", low=1, high=10_000)
    cyclic: bool = option(True, "queries start in every block; otherwise in block 0 only")
    allow_repeats: bool = option(False, "take hops > k, where permutations come round again")
    tell: bool = option(False, "print the hidden permutations, too, so that nothing need be known")

    def check(self) -> None:
        super().check()
        require(len(self.hops) > 0, "hops must name at least one hop")
        for place, hop in enumerate(self.hops):
            require(
                hop <= self.blocks or self.allow_repeats,
                f"hops={hop} must be at most blocks={self.blocks} unless allow_repeats is set",
            )
            require(hop not in self.hops[:place], f"hops={hop} must not be repeated")


def space(config: HopQueries) -> Space:
    queries = config.tokens if config.cyclic else config.alphabet
    return Space((len(config.hops), queries, *falling(config.alphabet, config.alphabet) * config.blocks))


def source(config: HopQueries, draw: Draw) -> Source:
    from stairwise.papers.composition.train import hidden_of
    from stairwise.train.loop import RunningTrial

    hidden = np.asarray(hidden_of(config, RunningTrial(config, draw.seed)))
    letters = tuple(str(letter) for letter in range(config.alphabet))
    blocks = [f"block{block}" for block in range(config.blocks)]
    kinds = [f"hop{hop}" for hop in range(1, max(config.blocks, *config.hops) + 1)]
    steps = max(config.hops) if draw.cot else 1
    meaning = f"s0 to s{config.blocks - 1} are permutations"
    apply = "p and then s" if config.tell else "a hidden permutation and then s"
    return Source(
        columns=lambda found: answered(config, hidden, found, draw.cot),
        texts=lambda columns: told(config, hidden, columns),
        notation=f"{meaning}; hop 1 from letter j of block i applies {apply} of block i to j, and each further hop"
        " those of the next block (after the last comes block 0). Places are counted from 0.",
        room=6 * config.tokens + steps,
        drawn={"hidden": hidden.tolist()},
        vocabulary=(*letters, "padding", *blocks, *kinds),  # a hop's token is the same in every mixture
        prompt_tokens=config.tokens + 3,
        step_places=tuple(range(steps)),
        answers=letters,
        ragged=("step_values",) if len(config.hops) > 1 else (),
    )


def task(config: HopQueries, drawn: Mapping[str, Any]):
    """The query (i, j) at one number of hops, told to a decoder."""
    from stairwise.papers.composition.task import Hops as Asked
    from stairwise.papers.composition.task import composition

    require(len(config.hops) == 1, f"hops={','.join(map(str, config.hops))} must be one number: a task has one")
    maps = composition(np.array(drawn["hidden"], dtype=np.int32), cyclic=config.cyclic)
    return Asked(maps, config.hops[0], reads="next")


def answered(config: HopQueries, hidden, found: Integer[np.ndarray, "rows digits"], cot: bool) -> dict[str, np.ndarray]:
    """Digits to sigma, the query, and the letters that are reached hop by hop."""
    rows, N, row = len(found), config.alphabet, np.arange(len(found))
    hops = np.array(config.hops, dtype=np.int32)[found[:, 0]]
    block, letter = np.divmod(found[:, 1].astype(np.int32), N)
    sigma = distinct(found[:, 2:].reshape(-1, N), N).reshape(rows, config.blocks, N)
    steps, reached = np.full((rows, max(config.hops)), PAD, dtype=np.int32), letter
    for done in range(max(config.hops)):
        here = (block + done) % config.blocks
        reached = sigma[row, here, hidden[here, reached]]
        steps[:, done] = np.where(done < hops, reached, PAD)
    answer = steps[row, hops - 1]
    start, kind = N + 1 + block[:, None], N + config.blocks + hops[:, None]
    worked = np.where(steps == PAD, N, steps) if cot else answer[:, None]
    parts = [kind, sigma.reshape(rows, -1), start, letter[:, None], worked]
    return {
        "sequence": sigma,
        "query": np.stack([block, letter], axis=1),
        "hops": hops,
        "step_values": steps,
        "answer_value": answer,
        "tokens": np.concatenate(parts, axis=1).astype(np.int16),
    }


def told(config: HopQueries, hidden, columns: Columns) -> Texts:
    sigma, steps = columns["sequence"], columns["step_values"]
    prompt = Prose([])
    for block in range(config.blocks):
        if config.tell:
            prompt += f"p{block} = [{' '.join(map(str, hidden[block]))}]; "
        prompt = prompt + f"s{block} = [" + listed(digits(sigma[:, block]), " ") + "]; "
    block, letter = columns["query"].T
    prompt = prompt + "hop " + numbers(columns["hops"]) + " from letter " + numbers(letter)
    return Texts(
        prompt + " of block " + numbers(block) + " = ?",
        listed(numbered("h", digits(steps)), "; ", steps != PAD),
        numbers(columns["answer_value"]),
    )


def solve(config: HopQueries, drawn: Mapping[str, Any], prompt: str) -> WorkedSolution:
    """One hop after another with the permutations as they are printed."""
    sigma = {int(block): row.split() for block, row in re.findall(r"s(\d+) = \[([\d ]+)\]", prompt)}
    ((hops, letter, block),) = re.findall(r"hop (\d+) from letter (\d+) of block (\d+)", prompt)
    steps = []
    for done in range(int(hops)):
        here = (int(block) + done) % len(sigma)
        letter = sigma[here][drawn["hidden"][here][int(letter)]]
        steps.append(letter)
    return WorkedSolution(steps, steps[-1])


TASK = TaskSource(
    id="composition",
    says="follow permutations, half of them hidden, from block to block",
    Config=HopQueries,
    space=space,
    source=source,
    solve=solve,
    task=task,
    difficulty="hops",
)
