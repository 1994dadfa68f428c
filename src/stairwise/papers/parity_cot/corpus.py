"""Word problems as token arrays, on the host: one flat array of all parts, from which any text is put together.

A text is up to three parts: the question, some reasoning, the result. Its tokens are lower-case words, single digits
and signs, so that numbers are spelled alike wherever they stand.
"""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Int

from stairwise.config import ConfigError
from stairwise.papers.parity_cot import word_problems
from stairwise.papers.parity_cot.config.gsm8k import Corpus
from stairwise.papers.parity_cot.gsm8k import WordProblem, reasoning, result, without_calculator

PIECE = re.compile(r"<<|>>|####|[a-z]+|[0-9]|\n|[^\sa-z0-9]")
UNKNOWN, BEGIN, END = "<unknown>", "<begin>", "<end>"
ALWAYS = (UNKNOWN, BEGIN, END, "####", *"0123456789")


class Parts(NamedTuple):
    """All problems of a split, each as a question, reasoning and a result.

    Part p of problem i is tokens[starts[i, p]:][:lengths[i, p]]; `partner[i]` is another problem with as much reasoning
    or a little more. The arrays are NumPy's here, and JAX's on their way into a program.
    """

    tokens: Int[Any, " all"]
    starts: Int[Any, "problems 3"]
    lengths: Int[Any, "problems 3"]
    partner: Int[Any, " problems"]


class Tokenised(NamedTuple):
    """Both splits in one vocabulary."""

    train: Parts
    held_out: Parts
    vocabulary: tuple[str, ...]


def pieces(text: str) -> list[str]:
    """Lower-case words, single digits, line ends and signs.

    >>> pieces("Ana pays $12: <<3*4=12>>12.")
    ['ana', 'pays', '$', '1', '2', ':', '<<', '3', '*', '4', '=', '1', '2', '>>', '1', '2', '.']
    """
    return PIECE.findall(text.lower())


def split_parts(problem: WordProblem, *, strip_calculator: bool) -> tuple[list[str], list[str], list[str]]:
    """Question, reasoning and result of a problem."""
    answer = without_calculator(problem.answer) if strip_calculator else problem.answer
    return (
        [BEGIN, *pieces(problem.question)],
        pieces(reasoning(answer)),
        ["####", *pieces(result(problem.answer)), END],
    )


def build_vocabulary(parts: Iterable[Sequence[Sequence[str]]], size: int) -> tuple[str, ...]:
    """The special tokens and digits, then the most frequent others; ties in alphabetical order."""
    counts = Counter(piece for one in parts for part in one for piece in part if piece not in ALWAYS)
    ordered = sorted(counts, key=lambda piece: (-counts[piece], piece))
    return (*ALWAYS, *ordered[: size - len(ALWAYS)])


def lay_out(problems: Sequence[Sequence[Sequence[str]]], vocabulary: Sequence[str]) -> Parts:
    """The parts of all problems one after another."""
    index = {piece: number for number, piece in enumerate(vocabulary)}
    lengths = np.array([[len(part) for part in one] for one in problems], dtype=np.int32)
    ends = np.cumsum(lengths).reshape(lengths.shape)
    tokens = [index.get(piece, 0) for one in problems for part in one for piece in part]
    return Parts(np.array(tokens, dtype=np.int32), (ends - lengths).astype(np.int32), lengths, partners(lengths[:, 1]))


def partners(lengths: Int[np.ndarray, " problems"]) -> Int[np.ndarray, " problems"]:
    """For each problem the next one in order of length; for the longest, the one before it.

    >>> partners(np.array([5, 3, 4], dtype=np.int32)).tolist()
    [2, 2, 0]
    """
    order = np.argsort(lengths, kind="stable")
    following = np.append(order[1:], order[-2])
    partner = np.empty_like(order)
    partner[order] = following
    return partner.astype(np.int32)


def tokenise(data: str, config: Corpus) -> Tokenised:
    """Read, cut into tokens, leave out what is too long; both splits keep their order."""
    split = word_problems.read(data)
    kept = [_fitting(config, problems) for problems in split]
    for name, few in zip(("training", "held-out"), kept, strict=True):
        if len(few) < 2:
            raise ConfigError(f"length={config.length} leaves {len(few)} {name} problems: at least 2 must fit")
    train, held_out = kept[0][: config.problems], kept[1][: config.held_out]
    vocabulary = build_vocabulary(train, config.vocabulary)
    return Tokenised(lay_out(train, vocabulary), lay_out(held_out, vocabulary), vocabulary)


def _fitting(config: Corpus, problems: Sequence[WordProblem]) -> list[tuple[list[str], list[str], list[str]]]:
    cut = (split_parts(problem, strip_calculator=config.strip_calculator) for problem in problems)
    return [parts for parts in cut if sum(map(len, parts)) <= config.length]
