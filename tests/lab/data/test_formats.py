"""Files are read back by the real libraries, verified record by record, and made again from their headers."""

import io
import json
import random
import tracemalloc
import zipfile
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from safetensors import safe_open
from safetensors.numpy import save

from stairwise.config import ConfigError
from stairwise.lab.data import formats
from stairwise.lab.data.check import problem_with
from stairwise.lab.data.formats import WRITERS, read_header, with_digest, write
from stairwise.lab.data.request import DataRequest
from stairwise.lab.store.files import StoreError
from tests.lab.data.shapes import NAMES, SHAPES


@pytest.fixture(scope="module")
def requests():
    """Each request once: what its seed draws is the same for every format."""
    made = {}
    for (task, options), name in zip(SHAPES, NAMES, strict=True):
        for cot in (True, False):
            made[name, cot] = DataRequest.of(task, options, 30, seed=7, cot=cot)
    return made


def as_records(path, format):
    if format == "jsonl":
        return [json.loads(line) for line in path.read_text().splitlines()]
    return pq.read_table(path).to_pylist()


@pytest.mark.parametrize("cot", [True, False])
@pytest.mark.parametrize("name", NAMES)
def test_what_is_written_is_read_back_by_json_pyarrow_numpy_and_safetensors(requests, tmp_path, name, cot):
    request = requests[name, cot]
    whole = [record for block in request.blocks() for record in block.records()]
    for format in ("jsonl", "parquet"):
        path = tmp_path / format
        write(request, format, path)
        found = as_records(path, format)
        assert found == whole
        assert [problem_with(read_header(path), record) for record in found] == [None] * 30
    write(request, "npz", tmp_path / "npz")
    with np.load(tmp_path / "npz", allow_pickle=False) as arrays:
        for field in arrays.keys() - {"header"}:
            for row, record in zip(arrays[field].tolist(), whole, strict=True):
                value = record[field]
                assert row[: len(value)] == value if isinstance(row, list) else row == value
        assert set(arrays) - {"header"} == {key for key in whole[0] if key not in ("prompt", "steps", "answer")}
        assert json.loads(str(arrays["header"])) == read_header(tmp_path / "npz")
    if request.task.id != "selection":
        write(request, "tokens", tmp_path / "tokens")
        with safe_open(tmp_path / "tokens", framework="np") as file:
            assert file.get_tensor("tokens").tolist() == [record["tokens"] for record in whole]
            header = json.loads(file.metadata()["stairwise"])
        assert max(max(record["tokens"]) for record in whole) < len(header["vocabulary"])


@pytest.mark.parametrize("format", WRITERS)
def test_a_header_makes_the_same_bytes_again(tmp_path, format):
    options = {"hops": (1, 3), "cyclic": False, "alphabet": 6, "moved": 2}
    write(DataRequest.of("composition", options, 500, seed=11, split="val", cot=False), format, tmp_path / "first")
    header = read_header(tmp_path / "first")
    assert (header["format"], header["seed"], header["split"], header["n"]) == (format, 11, "val", 500)
    write(DataRequest.from_header(header), header["format"], tmp_path / "again")
    assert (tmp_path / "first").read_bytes() == (tmp_path / "again").read_bytes()


@pytest.mark.parametrize("format", WRITERS)
def test_a_file_of_many_blocks_has_every_record_once(tmp_path, format, monkeypatch):
    request = DataRequest.of("lego", {}, 100)
    write(request, format, tmp_path / "whole")
    monkeypatch.setattr("stairwise.lab.data.request.MOST_ROWS", 7)
    write(request, format, tmp_path / "blocks")
    if format == "parquet":  # a block is a row group
        assert pq.ParquetFile(tmp_path / "blocks").num_row_groups == 15
        assert pq.read_table(tmp_path / "blocks").equals(pq.read_table(tmp_path / "whole"))
    else:
        assert (tmp_path / "blocks").read_bytes() == (tmp_path / "whole").read_bytes()


@pytest.mark.parametrize("format", WRITERS)
def test_a_run_that_is_broken_off_leaves_the_old_file_and_nothing_else(tmp_path, format):
    path = tmp_path / "file"
    path.write_text("old")

    def stop(done):
        raise InterruptedError

    with pytest.raises(Exception, match="write"):
        write(DataRequest.of("lego", {}, 100), format, path, stop)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_json_lines_of_before_with_their_header_in_the_first_line_are_still_known(tmp_path):
    request = DataRequest.of("lego", {}, 3)
    write(request, "jsonl", tmp_path / "new")
    beside = tmp_path / ".new.header"
    (tmp_path / "old").write_bytes(beside.read_bytes() + (tmp_path / "new").read_bytes())
    assert read_header(tmp_path / "old") == read_header(tmp_path / "new") == read_header(beside)
    assert read_header(tmp_path / "old") == with_digest(request.header("jsonl"))


def test_a_file_that_is_written_again_never_has_the_header_of_the_one_before(tmp_path):
    write(DataRequest.of("lego", {}, 3), "jsonl", tmp_path / "file")
    write(DataRequest.of("lego", {}, 5, seed=1), "jsonl", tmp_path / "file")
    assert (read_header(tmp_path / "file")["n"], read_header(tmp_path / "file")["seed"]) == (5, 1)
    (tmp_path / ".file.header").unlink()
    with pytest.raises(ConfigError, match=r"file has no header of stairwise data, nor is there \.file\.header"):
        read_header(tmp_path / "file")


def test_pandas_and_datasets_read_exactly_the_examples(tmp_path, tmp_path_factory, monkeypatch):
    import pandas

    request = DataRequest.of("composition", {"hops": (1, 2), "cyclic": False}, 40)
    whole = [record for block in request.blocks() for record in block.records()]
    write(request, "jsonl", tmp_path / "train.jsonl")
    write(DataRequest.of("composition", {"hops": (1, 2)}, 7, split="test"), "jsonl", tmp_path / "test.jsonl")
    frame = pandas.read_json(tmp_path / "train.jsonl", lines=True, dtype={"answer": str})
    assert frame.to_dict("records") == whole
    datasets = pytest.importorskip("datasets", reason="the library datasets is not installed: pip install datasets")
    monkeypatch.setattr("datasets.config.HF_DATASETS_OFFLINE", True)
    cache = {"cache_dir": str(tmp_path_factory.mktemp("cache"))}
    rows = datasets.load_dataset("json", data_files=str(tmp_path / "train.jsonl"), split="train", **cache)
    assert (len(rows), list(rows)) == (40, whole)
    folder = datasets.load_dataset("json", data_dir=str(tmp_path), **cache)  # which passes over the headers
    assert {split: len(found) for split, found in folder.items()} == {"train": 40, "test": 7}


def test_a_device_is_written_to_and_not_replaced(tmp_path):
    import os
    import threading

    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    found = []
    reader = threading.Thread(target=lambda: found.append(pipe.read_bytes()))
    reader.start()
    write(DataRequest.of("lego", {}, 3), "jsonl", pipe)
    reader.join()
    assert found[0].count(b"\n") == 3
    assert list(tmp_path.iterdir()) == [pipe]
    assert pipe.is_fifo()


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"PAR1",
        b"PK\3\4",
        b"{}\n",
        b'{"stairwise": 3}\n',
        b'{"stairwise": {}}\n',
        b"\xff" * 40,
        b"\5\0\0\0\0\0\0\0{}   ",
    ],
)
def test_a_file_without_a_header_is_refused_in_one_line(tmp_path, content):
    path = tmp_path / "file"
    path.write_bytes(content)
    with pytest.raises(ConfigError, match="has no header of stairwise data"):
        read_header(path)


def deep(format):
    """A file of a format whose header is nested too deeply to be read."""
    text = "[" * 10**5
    if format == "jsonl":
        return b'{"stairwise": ' + text.encode()
    data = io.BytesIO()
    if format == "npz":
        np.savez(data, header=np.array(text))
    elif format == "tokens":
        data.write(save({"tokens": np.zeros(1)}, {"stairwise": text}))
    else:
        pq.write_table(pa.table({"index": [1]}).replace_schema_metadata({"stairwise": text}), data)
    return data.getvalue()


def zipped(header, method=zipfile.ZIP_STORED, change=lambda data: data):
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", method) as archive:
        archive.writestr("header.npy", header)
    return change(data.getvalue())


def claimed(shape):
    """An array that says it is much larger than the file."""
    data = io.BytesIO()
    np.lib.format.write_array_header_1_0(data, {"descr": "<U9", "fortran_order": False, "shape": shape})
    return data.getvalue() + b"0" * 36


def central(place, value, data):
    """The first entry of a zip's directory with other bytes at a place."""
    start = data.index(b"PK\1\2") + place
    return data[:start] + value + data[start + len(value) :]


@pytest.mark.parametrize(
    "content",
    [
        *(partial(deep, format) for format in WRITERS),
        partial(zipped, b"\0" * 2**25, zipfile.ZIP_DEFLATED),  # 32 MiB in 32 KiB
        partial(zipped, b"\0" * 2**25, zipfile.ZIP_LZMA),
        partial(zipped, claimed((10**13,))),  # 328 TiB
        partial(zipped, claimed(())[:-4]),
        partial(zipped, claimed(()), change=partial(central, 8, b"\1\0")),  # encrypted
        partial(zipped, claimed(()), change=partial(central, 10, b"\x63\0")),  # packed by an unknown method
        partial(zipped, claimed(()), change=partial(central, 24, b"\xff\xff\xff\x7f")),  # 2 GiB
        partial(zipped, claimed(()), change=partial(central, 6, b"\xff\0")),  # made by a later program
        lambda: b'{"' + b" " * (2**26 + 9),
        lambda: (2**27).to_bytes(8, "little") + b" " * (2**26 + 9),
        lambda: b"PAR1" + b"\0" * 40 + (2**31 - 1).to_bytes(4, "little") + b"PAR1",
        lambda: b"PAR1" + b"\xff" * 40 + (32).to_bytes(4, "little") + b"PAR1",
        lambda: save({"tokens": np.zeros(1)}, {"stairwise": "[]"}),
        lambda: b'{"stairwise": {"format": []}}\n',
    ],
)
def test_a_hostile_file_is_refused_in_one_line_and_little_memory(tmp_path, content):
    path = tmp_path / "file"
    path.write_bytes(content())
    tracemalloc.start()
    try:
        with pytest.raises((ConfigError, StoreError), match=rf"^({path} has no header of stairwise data|cannot read )"):
            read_header(path)
        assert tracemalloc.get_traced_memory()[1] < 2**22 + 2 * path.stat().st_size
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("n", "3", "n=3 of the header must be a whole number"),
        ("n", 3.0, "n=3.0 of the header must be a whole number"),
        ("n", True, "n=True of the header must be a whole number"),
        ("n", 0, "n=0 must lie in 1.."),
        ("seed", None, "seed=None of the header must be a whole number"),
        ("seed", -1, "seed=-1 must lie in 0..4294967295"),
        ("split", ["train"], "split=['train'] of the header must be text"),
        ("split", "all", "split=all must be one of train, val, test"),
        ("cot", {"a": 1}, "cot={'a': 1} of the header must be true or false"),
        ("cot", 1, "cot=1 of the header must be true or false"),
        ("task", ["lego"], "task=['lego'] of the header must be text"),
        ("task", "", "unknown task: "),
        ("task_version", True, "task_version=True of the header must be a whole number"),
        ("options", [], "options=[] of the header must be an object"),
        ("options", {"length": "5"}, "length=5 must be a whole number"),
        ("options", {"order": {}}, "order={} must be"),
    ],
)
def test_a_header_of_wrong_types_is_refused_by_field(field, value, words):
    header = DataRequest.of("lego", {}, 3).header("jsonl")
    with pytest.raises(ConfigError) as refused:
        DataRequest.from_header(header | {field: value})
    assert str(refused.value).startswith(words)


@pytest.mark.parametrize("format", WRITERS)
def test_no_bit_of_a_header_changes_what_is_made_from_it(tmp_path, format):
    request, draws, refused = DataRequest.of("lego", {}, 3), random.Random(format), 0
    write(request, format, tmp_path / "whole")
    data = (tmp_path / "whole").read_bytes()
    for place in [draws.randrange(len(data)) for _ in range(200)]:
        path = tmp_path / "altered"
        path.write_bytes(data[:place] + bytes([data[place] ^ 1 << draws.randrange(8)]) + data[place + 1 :])
        try:
            assert DataRequest.from_header(read_header(path)) == request, place  # a bit of an example
        except (ConfigError, StoreError) as error:
            refused += str(path) in str(error)
    assert refused > 20


def test_a_header_of_another_version_or_of_a_task_that_is_gone_is_refused():
    header = DataRequest.of("lego", {}, 3).header("jsonl")
    with pytest.raises(ConfigError, match="at version 0 when the file was made and is at 1"):
        DataRequest.from_header(header | {"task_version": 0})
    with pytest.raises(ConfigError, match="unknown task of lego"):
        DataRequest.from_header(header | {"task": "lego/other"})
    with pytest.raises(ConfigError, match="the header has no options"):
        DataRequest.from_header({name: value for name, value in header.items() if name != "options"})


def test_nested_arrays_are_the_json_that_python_writes():
    values = np.arange(-12, 12).reshape(2, 3, 2, 2)
    assert [json.loads(line) for line in formats.json_values(values).lines(2)] == values.tolist()
