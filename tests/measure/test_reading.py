"""What is read of a model's words: the last possible value, up to the next question that it makes up."""

from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stairwise.measure.reading import read, value_of

POSSIBLE = {value_of(str(value)) for value in range(6)}


@pytest.mark.parametrize(
    ("text", "steps", "answer"),
    [
        (" x3 = 2; x7 = 5. Answer: 5", [2, 5], 5),
        (" Answer: 5", [], 5),
        ("the answer is 4.", [], 4),
        ("ANSWER = +3", [], 3),
        ("x3 = 2, x7 = 5", [2, 5], 5),
        ("so it must be 3 and not x12", [], 3),
        ("Answer: 17", [], None),  # no value of the task
        ("3, hmm. Answer: 17", [], 3),
        ("Answer: 2\nAnswer: 4", [], 4),
        ("Answer: 1\nQ: x1 = 3\nA: Answer: 4", [], 1),
        ("s1 = 1.0; s2 = 3. Answer: 2.0", [1, 3], 2),
        ("", [], None),
        ("Answer:", [], None),
        ("Answer: x3", [], None),
        ("x5", [], None),
        ("1" * 500, [], None),
    ],
)
def test_answers_are_found_where_they_stand(text, steps, answer):
    found = read(text, POSSIBLE)
    assert found.steps == [(Fraction(step),) for step in steps]
    assert found.answer == (None if answer is None else (Fraction(answer),))


def test_a_vector_is_one_value():
    found = read("s1 = (1.50, -2); s2 = ( 2,3 ). Answer: (0.25, .5) or (1, 2.50)", None, vector=True)
    assert found.steps == [value_of("1.5 -2"), value_of("2 3")]
    assert found.answer == (1, Fraction(5, 2))


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=200), st.booleans())
def test_nothing_that_a_model_says_makes_reading_fail(text, vector):
    found = read(text, None if vector else POSSIBLE, vector)
    assert found.answer is None or vector or found.answer in POSSIBLE
