"""What a model has answered, read from its words: values, worked steps ("name = value"), and the answer.

A value is a number, or a vector of numbers in parentheses; both become tuples of fractions, so that 2, +2 and 2.0 are
one value. What follows an answer is often another question that the model has made up: text is read up to it.

>>> reading = read("x3 = 2; x7 = 5. Answer: 5\\nQ: x1 = 9", {value_of("2"), value_of("5")})
>>> [str(step[0]) for step in reading.steps], str(reading.answer[0])
(['2', '5'], '5')
>>> read("I do not know.", {value_of("2")}).answer is None
True
"""

import re
from collections.abc import Collection
from fractions import Fraction
from typing import NamedTuple

Value = tuple[Fraction, ...]

NUMBER = r"[-+]?\d{1,40}(?:\.\d{1,40})?"
SCALAR = rf"(?<![\w.]){NUMBER}(?!\w)"  # not the 3 of x3
VECTOR = rf"\(\s*{NUMBER}(?:\s*,\s*{NUMBER})*\s*\)"
MARK = re.compile(r"answer(?:\s+is)?\s*[:=]?", re.IGNORECASE)
NEXT_QUESTION = re.compile(r"\n\s*Q:")


class Reading(NamedTuple):
    """The values after "=" before the answer, in order, and the answer; none where no possible one is found."""

    steps: list[Value]
    answer: Value | None


def value_of(text: str) -> Value:
    """The value that a text is.

    >>> value_of("(0.50, -1)")
    (Fraction(1, 2), Fraction(-1, 1))
    """
    return tuple(Fraction(part) for part in re.findall(NUMBER, text))


def read(text: str, possible: Collection[Value] | None, vector: bool = False) -> Reading:
    """The answer is the first possible value after the last "answer", or else the last possible value of all."""
    text = NEXT_QUESTION.split(text, maxsplit=1)[0]
    shape = VECTOR if vector else SCALAR
    marks = list(MARK.finditer(text))
    before, after = (text[: marks[-1].start()], text[marks[-1].end() :]) if marks else (text, "")
    steps = [value_of(found) for found in re.findall(rf"=\s*({shape})", before)]
    found = _values(shape, after, possible)[:1] or _values(shape, text, possible)[-1:]
    return Reading(steps, found[0] if found else None)


def _values(shape: str, text: str, possible: Collection[Value] | None) -> list[Value]:
    values = [value_of(found) for found in re.findall(shape, text)]
    return values if possible is None else [value for value in values if value in possible]
