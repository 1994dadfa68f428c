"""Parity heads under the microscope: rows see what comes before them, and the secret is circled."""

from types import SimpleNamespace

import numpy as np
import pytest

from stairwise.papers.parity_cot import answers
from stairwise.papers.parity_cot.config.task import PaddedTask
from stairwise.papers.parity_cot.config.training import Training
from stairwise.papers.parity_cot.microscope import heads_watched, secret_found
from tests.papers.records import HandMade

SECRET = [1, 4, 5]


def config(cot: bool = True) -> SimpleNamespace:
    return SimpleNamespace(task=SimpleNamespace(bits=6, size=3, cot=cot), blocks=4, batch=100)


def record(**metrics: float) -> HandMade:
    seen = np.arange(9) <= 6 + np.arange(3)[:, None]
    even = seen / seen.sum(axis=1, keepdims=True)
    sharp = np.zeros((3, 9))
    sharp[np.arange(3), SECRET] = 1
    kept = {"steps/attention@0": even, "steps/attention@8": sharp, "steps/secret": SECRET}
    return HandMade(config(), kept, {name: ([0, 8], [0.0, value]) for name, value in metrics.items()})


def test_attention_ends_on_the_circled_bits_and_entropy_at_zero():
    seen = secret_found(record(loss=0.1))
    assert seen is not None
    shown = seen.maps[0]
    assert list(seen.places) == [0, 2]
    assert {(i, int(np.nanargmax(row))) for i, row in enumerate(shown.frames[1])} == set(shown.overlays[0].cells)
    assert [curve.name for curve in seen.curves] == ["loss", "entropy of attention"]
    assert seen.curves[1].values == pytest.approx([np.mean(np.log([7, 8, 9])), 0.0])


def test_a_step_does_not_see_what_comes_after_it():
    seen = secret_found(record(loss=0.1))
    assert seen is not None
    shown = seen.maps[0]
    assert np.isnan(shown.frames[0]).sum(axis=1).tolist() == [2, 1, 0]
    assert shown.columns_of(0).labels[4:] == [
        "bit 5 (secret)", "bit 6 (secret)", "the 0 before the chain", "partial sum 1", "partial sum 2",
    ]  # fmt: skip


def test_every_head_of_a_decoder_has_a_map_that_ends_on_the_circled_bits():
    sharp = np.zeros((1, 2, 4, 10))  # two heads; a fourth row is padding
    sharp[0, :, np.arange(3), SECRET] = 1
    even = np.full((1, 2, 4, 10), 0.1)
    kept = {"train/attention@0": even, "train/attention@7": sharp, "train/secret": [*SECRET, 0]}
    trained = HandMade(
        Training(
            task=PaddedTask(6, 3, padding=4), test_examples=32, look=512, batch=64, budget=5120, attention=8, watch=True
        ),
        kept,
        {"exact match": ([0, 7], [0.1, 1.0]), "entropy 1.2": ([0, 7], [0.9, 0.1])},
    )
    seen = heads_watched(trained)
    assert seen is not None
    assert [shown.name for shown in seen.maps] == ["layer 1, head 1", "layer 1, head 2"]
    assert list(seen.places) == [0, 3584]
    for shown in seen.maps:
        assert shown.frames[0].shape == (3, 9)
        assert {(i, int(np.nanargmax(row))) for i, row in enumerate(shown.frames[1])} == set(shown.overlays[0].cells)
    stopped = HandMade(trained.config, kept | {"train/attention": sharp}, {"exact match": ([0, 9], [0.1, 1.0])})
    assert list(heads_watched(stopped).places) == [0, 3584, 4608]
    assert heads_watched(HandMade(trained.config, {"train/attention": sharp})) is None


def test_answers_compare_the_chain_with_none():
    with_chain = record(**{"exact match": 0.95, "accuracy": 0.99, "argmax on the secret": 1.0})
    without = HandMade(config(cot=False), {}, {"accuracy": ([0], [0.52]), "exact match": ([0], [0.52])})
    bought = answers.chain_against_none([with_chain, without])
    assert (bought.value, bought.other) == pytest.approx((0.1, 0.96))
    assert answers.samples([with_chain]).value == 300
