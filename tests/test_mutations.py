"""Files that were altered at random are read as they are or refused by a planned error: no other exception, no hang."""

import collections
import json
import random
import shutil
import time

import equinox as eqx
import jax
import numpy as np
import pytest

from stairwise.config import ConfigError
from stairwise.interop.huggingface import from_gpt2, to_gpt2
from stairwise.interop.weights import export, load
from stairwise.lab.data.formats import read_header, with_digest, write
from stairwise.lab.data.request import DataRequest
from stairwise.lab.store.files import StoreError
from stairwise.papers.parity_cot import gsm8k
from tests.interop.test_huggingface import SHAPES, decoder
from tests.interop.test_weights import drawn, selection_arrays, store_of
from tests.language import write_problems
from tests.mutations import mutate_json, mutate_safetensors, mutate_sealed, mutated, mutated_bytes, reseal

PLANNED = (ConfigError, StoreError)
SECONDS = 20.0  # no single file may take longer, on a busy machine


class Tally(collections.Counter):
    """How files were received: read, refused, or neither, which nobody has planned for."""

    def receive(self, what, read):
        began = time.monotonic()
        try:
            read()
            self["read"] += 1
        except PLANNED:
            self["refused"] += 1
        except Exception as error:
            self[f"{what}: {type(error).__name__} {str(error)[:200]}"] += 1
        if time.monotonic() - began > SECONDS:
            self[f"{what}: {time.monotonic() - began:.0f} s"] += 1

    def check(self, refused):
        assert self.keys() <= {"read", "refused"}
        assert self["refused"] >= refused


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """Folders of every kind: a construction, a trained model, a decoder, a user's own, a GPT-2."""
    folder = tmp_path_factory.mktemp("exported")
    export("selection/solution", folder / "construction", changes={"encoding_width": 3, "width": 2})
    store, _ = store_of(folder / "store", "selection/online", {"task.width": 2, "encoding.width": 7}, selection_arrays)
    (run,) = store.runs()
    export(run.id, folder / "trained", store=store)
    export(decoder(SHAPES[0]), folder / "decoder")
    like = eqx.filter_eval_shape(eqx.nn.Linear, 3, 2, key=jax.random.key(0))
    export(drawn(like, np.random.default_rng(0)), folder / "own")
    to_gpt2(decoder(SHAPES[0]), folder / "gpt2")
    return folder


@pytest.mark.parametrize("kind", ["construction", "trained", "decoder", "own", "gpt2"])
def test_an_exported_folder_that_was_altered_and_sealed_again_is_read_or_refused(exported, tmp_path, kind):
    tally = Tally()
    for seed in range(60):
        draw, folder = random.Random(f"{kind} {seed}"), tmp_path / str(seed)
        shutil.copytree(exported / kind, folder)
        if seed % 3:
            mutate_sealed(folder / "stairwise.json", draw)
        else:
            mutate_safetensors(folder / "model.safetensors", draw)
            if seed % 2:
                reseal(folder)
        tally.receive(f"{kind} {seed}", lambda folder=folder: load(folder))
        shutil.rmtree(folder)
    tally.check(refused=10)


def test_a_gpt2_folder_that_was_altered_is_read_or_refused(exported, tmp_path):
    tally = Tally()
    for seed in range(120):
        draw, folder = random.Random(seed), tmp_path / str(seed)
        shutil.copytree(exported / "gpt2", folder)
        if seed % 3:
            mutate_json(folder / "config.json", draw)
        else:
            mutate_safetensors(folder / "model.safetensors", draw)
        tally.receive(f"gpt2 {seed}", lambda folder=folder: from_gpt2(folder))
        shutil.rmtree(folder)
    tally.check(refused=40)


@pytest.mark.parametrize("task", ["lego", "composition", "parity_chain", "selection"])
def test_the_header_of_a_data_file_that_was_altered_is_read_or_refused(tmp_path, task):
    tally, header = Tally(), DataRequest.of(task, {}, 3).header("jsonl")
    for seed in range(100):
        file = tmp_path / str(seed)
        altered = with_digest(mutated(header, random.Random(f"{task} {seed}")))
        file.write_text(json.dumps({"stairwise": altered}) + "\n")
        tally.receive(f"{task} {seed}", lambda file=file: DataRequest.from_header(read_header(file)))
    tally.check(refused=20)


@pytest.mark.parametrize("format", ["jsonl", "parquet", "npz", "tokens"])
def test_a_data_file_with_other_bytes_is_read_or_refused(tmp_path, format):
    tally, whole = Tally(), tmp_path / "whole"
    write(DataRequest.of("lego", {}, 3), format, whole)
    for seed in range(100):
        file = tmp_path / str(seed)
        file.write_bytes(mutated_bytes(whole.read_bytes(), random.Random(f"{format} {seed}")))
        tally.receive(f"{format} {seed}", lambda file=file: DataRequest.from_header(read_header(file)))
    tally.check(refused=10)


def test_lines_of_word_problems_that_were_altered_are_read_or_refused_by_line(tmp_path):
    tally, whole = Tally(), write_problems(tmp_path / "whole.jsonl")
    lines = [json.loads(line) for line in whole.read_text().splitlines()]
    for seed in range(100):
        draw, file = random.Random(seed), tmp_path / str(seed)
        if seed % 2:
            file.write_text("\n".join(json.dumps(one) for one in mutated(lines, draw)))
        else:
            file.write_bytes(mutated_bytes(whole.read_bytes(), draw))

        def read(file=file):
            try:
                found = gsm8k.read_problems(file)
            except ValueError as error:
                raise ConfigError(str(error)) from None if str(error).startswith((str(file), "data=")) else error
            for one in found:
                "".join(gsm8k.texts(one, strip_calculator=True)).encode()

        tally.receive(f"line {seed}", read)
    tally.check(refused=20)
