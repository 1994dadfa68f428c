"""Word problems with worked answers, in the format of GSM8K, and the texts that are compared.

A record is a JSON line {"question": ..., "answer": ...}. The answer is a few lines of reasoning with calculator spans
(`<<16-3-4=9>>`), then `#### 9`.
"""

import json
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

CALCULATOR = re.compile(r"<<[^<>]*>>")


class WordProblem(NamedTuple):
    """One record."""

    question: str
    answer: str


class ProblemTexts(NamedTuple):
    """What a language model reads of one problem: both texts begin with the question."""

    question: str
    with_cot: str
    without_cot: str


def read_problems(path: str | Path, limit: int | None = None) -> list[WordProblem]:
    """The problems of a JSON-lines file, or the first `limit` of them; ValueError names the line that is none."""
    if not os.path.isfile(path):
        raise ValueError(f"data={path} must be a file that exists (JSON lines with question and answer)")
    problems = []
    try:
        with open(path, "rb") as file:
            for number, line in enumerate(file, start=1):
                if limit is not None and len(problems) == limit:
                    break
                if line.strip():
                    problems.append(_parse(line, f"{path}: line {number}"))
    except OSError as error:
        raise ValueError(f"data={path} cannot be read: {error.strerror}") from None
    if not problems:
        raise ValueError(f"{path} holds no records")
    return problems


def _parse(line: bytes, where: str) -> WordProblem:
    try:
        data = json.loads(line.decode())
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{where} is not JSON ({str(error).splitlines()[0]})") from None
    found = {name: data.get(name) if isinstance(data, dict) else None for name in WordProblem._fields}
    if not all(isinstance(text, str) and text.strip() for text in found.values()):
        raise ValueError(f'{where} must be an object with the texts "question" and "answer"')
    try:
        "".join(found.values()).encode()  # type: ignore[arg-type]
    except UnicodeEncodeError:  # half of a pair, which JSON can spell and no tokenizer reads
        raise ValueError(f"{where} must be text, without lone surrogates") from None
    problem = WordProblem(**found)  # type: ignore[arg-type]
    if "####" not in problem.answer or not result(problem.answer):
        raise ValueError(f"{where}: the answer must end with #### and the result")
    return problem


def result(answer: str) -> str:
    """What follows the last ####, without the commas of large numbers.

    >>> result("2000 + 125 = <<2000+125=2125>>2,125 #### 2,125")
    '2125'
    """
    return answer.rpartition("####")[2].strip().replace(",", "")


def trailing_digits(answer: str) -> str:
    """The digits that end the answer, which is what the authors' script takes for the result.

    >>> trailing_digits("#### 2,125"), trailing_digits("#### -10")
    ('125', '10')
    """
    found = re.search(r"\d+$", answer.strip())
    return found[0] if found else ""


RESULTS: dict[str, Callable[[str], str]] = {"last-line": result, "trailing-digits": trailing_digits}


def reasoning(answer: str) -> str:
    """The worked answer without its last line, the result.

    >>> reasoning("1 + 1 = <<1+1=2>>2 #### 2")
    '1 + 1 = <<1+1=2>>2'
    """
    return answer.rpartition("####")[0].strip()


def without_calculator(answer: str) -> str:
    """The answer without its calculator spans.

    >>> without_calculator("1 + 1 = <<1+1=2>>2")
    '1 + 1 = 2'
    """
    return CALCULATOR.sub("", answer)


def texts(problem: WordProblem, *, strip_calculator: bool = False, rule: str = "last-line") -> ProblemTexts:
    """With CoT: the question and the worked answer. Without: the question and "The answer is N."

    >>> texts(WordProblem("1 + 1?", "1 + 1 = <<1+1=2>>2 #### 2"), strip_calculator=True)[1:]
    ('1 + 1? 1 + 1 = 2 #### 2', '1 + 1? The answer is 2.')
    """
    answer = without_calculator(problem.answer) if strip_calculator else problem.answer
    number = RESULTS[rule](problem.answer)
    return ProblemTexts(problem.question, f"{problem.question} {answer}", f"{problem.question} The answer is {number}.")


def batches(count: int, size: int) -> Iterator[range]:
    """0..count-1 in runs of at most `size`.

    >>> list(batches(5, 2))
    [range(0, 2), range(2, 4), range(4, 5)]
    """
    for start in range(0, count, size):
        yield range(start, min(start + size, count))
