"""Checkpoints: bit for bit, whole or absent, and never believed when altered."""

import os

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays_of

from stairwise.lab.store import files
from stairwise.lab.store.checkpoint import Checkpoint
from stairwise.lab.store.files import StoreError

TYPES = ("float32", "float64", "int32", "uint32", "bool")
SHAPES = ((), (0,), (3,), (2, 0, 3), (2, 3))
STATE = {"weights": np.linspace(0, 1, 50, dtype=np.float32).reshape(5, 10), "tick": np.array(7, dtype=np.int32)}


@pytest.fixture(scope="module")
def whole(checkpoint) -> bytes:
    """The file of a good checkpoint."""
    checkpoint.save(STATE, {"tick": 7, "note": "text"})
    return checkpoint.path.read_bytes()


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory) -> Checkpoint:
    place = tmp_path_factory.mktemp("store")
    return Checkpoint(place / "checkpoints" / "0123456789.safetensors", place / "tmp")


@st.composite
def any_array(draw) -> np.ndarray:
    """Any bit pattern at all: NaNs with payloads, negative zeros, subnormal numbers; dense, transposed or strided."""
    kind, shape = np.dtype(draw(st.sampled_from(TYPES))), draw(st.sampled_from(SHAPES))
    bits = np.bool_ if kind == np.bool_ else np.dtype(f"uint{8 * kind.itemsize}")
    made = draw(arrays_of.arrays(bits, shape)).view(kind)
    return draw(st.sampled_from([made, made.T, np.repeat(made, 2, axis=-1)[..., ::2] if made.ndim else made]))


@settings(max_examples=60, deadline=None)
@given(arrays=st.dictionaries(st.text(max_size=5).filter(str.isprintable), any_array(), max_size=4))
def test_arrays_come_back_bit_for_bit_in_type_shape_and_value(checkpoint, arrays):
    checkpoint.save(arrays, {"tick": 3})
    loaded, meta = checkpoint.load()
    assert meta == {"tick": 3}
    assert loaded.keys() == arrays.keys()
    for name, array in arrays.items():
        assert (loaded[name].dtype, loaded[name].shape) == (array.dtype, array.shape)
        assert loaded[name].tobytes() == array.tobytes()
        assert loaded[name].flags.writeable


def test_the_json_comes_back_with_its_nans_and_its_words(checkpoint):
    meta = {"stage": "main", "best": float("inf"), "names": ["ε-greedy", '"quoted"', "0" * 64], "deep": {"none": None}}
    checkpoint.save(STATE, meta)
    assert checkpoint.load()[1] == meta


def test_a_checkpoint_is_an_ordinary_safetensors_file(checkpoint):
    from safetensors.numpy import load_file

    checkpoint.save(STATE, {})
    assert load_file(checkpoint.path)["weights"].tobytes() == STATE["weights"].tobytes()


@settings(max_examples=200, deadline=None)
@given(position=st.floats(0, 1, exclude_max=True), change=st.integers(1, 255))
def test_any_changed_byte_makes_the_checkpoint_absent(checkpoint, whole, position, change):
    place = int(position * len(whole))
    checkpoint.path.write_bytes(whole[:place] + bytes([whole[place] ^ change]) + whole[place + 1 :])
    assert checkpoint.load() is None
    assert not checkpoint.path.exists()


@settings(max_examples=50, deadline=None)
@given(kept=st.floats(0, 1, exclude_max=True), more=st.sampled_from([b"", b"\0" * 100]))
def test_a_truncated_or_zero_filled_file_makes_the_checkpoint_absent(checkpoint, whole, kept, more):
    checkpoint.path.write_bytes(whole[: int(kept * len(whole))] + more)
    assert checkpoint.load() is None
    assert not checkpoint.path.exists()


@pytest.mark.parametrize("call", ["fsync", "replace"])
def test_a_save_that_fails_leaves_the_checkpoint_before_it_and_no_scratch(checkpoint, monkeypatch, call):
    checkpoint.save(STATE, {"tick": 1})

    def fail(*_):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(files.os, call, fail)
        with pytest.raises(StoreError, match=r"cannot write checkpoint .*: No space left on device") as caught:
            checkpoint.save(STATE, {"tick": 2})
    assert caught.value.exit_status == 1
    assert checkpoint.load()[1] == {"tick": 1}
    assert os.listdir(checkpoint.scratch) == []


def test_removing_forgets_it_and_may_be_done_twice(checkpoint):
    checkpoint.save(STATE, {})
    checkpoint.remove()
    checkpoint.remove()
    assert checkpoint.load() is None


def test_a_type_the_format_lacks_is_refused_by_the_name_of_its_array(checkpoint):
    with pytest.raises(ValueError, match="array labels: dtype=<U3 must be one of bool"):
        checkpoint.save({"labels": np.array(["a", "abc"])}, {})
    with pytest.raises(ValueError, match="cannot be named __metadata__"):
        checkpoint.save({"__metadata__": np.zeros(1, dtype=np.float32)}, {})
