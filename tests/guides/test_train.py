"""The guide to training: its code runs in one go and does what it says, and its table names every argument."""

import inspect

import numpy as np

from stairwise.train.gradient import gradient_training
from tests.guides.page import python, text

PAGE = text("how-to/train")


def test_the_code_of_the_guide_runs_and_trains():
    place = {}
    for block in python(PAGE):
        exec(compile(block, "docs/how-to/train.md", "exec"), place)
    assert {fit.status for fit in place["fits"]} == {"reached"}
    np.testing.assert_array_equal(place["model"]["A"], place["fits"][0].model["A"])
    assert place["last"] < 0.9 * place["first"]


def test_the_guide_names_every_argument():
    assert [
        name
        for name in inspect.signature(gradient_training).parameters
        if f"`{name}" not in PAGE and f"{name}=" not in PAGE
    ] == []
