"""What all sites show alike is made once, is taken only as it was written, and nothing of a user's own is among it."""

import os
import re
import statistics

from stairwise import words
from stairwise.lab.contract.verdict import Verdict
from stairwise.lab.store import index as index_module
from stairwise.lab.store import trial as trial_module
from stairwise.lab.store.store import Store
from stairwise.report.site import build, shared, unchanged
from stairwise.report.site.folder import MEMORY, Folder
from stairwise.report.site.shared import Shared
from tests.report import tiny
from tests.report.site import built


def made(root, place: Shared, inputs: object = "inputs", result: object = None, alike: bool = True) -> list[str]:
    """Builds a site of one step; what was made for it."""
    folder = Folder(root, place)
    found = folder.step("page", inputs, lambda: ({"a.html": b"one\ntwo", "b/c.svg": b""}, result), alike=alike)
    folder.close()
    assert found == result
    assert ((root / "a.html").read_bytes(), (root / "b/c.svg").read_bytes()) == (b"one\ntwo", b"")
    return folder.redone


def test_what_is_alike_is_made_once_for_all_sites_and_anew_from_other_inputs(tmp_path):
    place = Shared(tmp_path / "shared")
    assert made(tmp_path / "first", place, result={"width": 0.5}) == ["page"]
    assert made(tmp_path / "second", place, result={"width": 0.5}) == []
    assert made(tmp_path / "third", place, inputs="others") == ["page"]


def test_other_code_or_other_libraries_take_nothing(tmp_path, monkeypatch):
    assert made(tmp_path / "first", Shared(tmp_path / "shared")) == ["page"]
    monkeypatch.setattr(unchanged, "_code", lambda module: "other")
    assert made(tmp_path / "second", Shared(tmp_path / "shared")) == ["page"]
    monkeypatch.setattr(unchanged, "_version", lambda package: "other")
    assert made(tmp_path / "third", Shared(tmp_path / "shared")) == ["page"]


def test_code_that_cannot_be_read_has_a_digest_that_never_comes_again(monkeypatch):
    def unreadable(module: str) -> str:
        raise OSError

    monkeypatch.setattr(unchanged, "_code", unreadable)
    assert unchanged.installed() != unchanged.installed()


def test_what_is_ones_own_and_what_could_not_be_made_is_not_kept(tmp_path):
    place = Shared(tmp_path / "shared")
    made(tmp_path / "first", place, alike=False)
    made(tmp_path / "second", place, inputs="others", result={"problem": "no memory"})
    assert not place.folder.exists()


def test_no_bit_of_what_is_shared_can_change_unseen(tmp_path):
    place = Shared(tmp_path / "shared")
    made(tmp_path / "first", place)
    (path,) = place.folder.iterdir()
    whole = path.read_bytes()
    for k in range(len(whole)):
        path.write_bytes(whole[:k] + bytes([whole[k] ^ 1 << k % 8]) + whole[k + 1 :])
        assert place.take("page", "inputs") is None
    path.write_bytes(b"")
    assert made(tmp_path / "second", place) == ["page"]
    assert made(tmp_path / "third", place) == []


def test_where_there_is_too_much_what_was_not_used_for_longest_goes(tmp_path, monkeypatch):
    place = Shared(tmp_path / "shared")
    for k, name in enumerate("abc"):
        place.keep(name, "", {}, name)
        os.utime(place._place(name, ""), (1e9 + k, 1e9 + k))
    assert place.take("a", "") == ({}, "a")
    monkeypatch.setattr(shared, "MOST_BYTES", 2 * place._place("a", "").stat().st_size)
    place.tidy()
    assert [place.take(name, "") for name in "abc"] == [({}, "a"), None, ({}, "c")]


def test_a_folder_that_cannot_be_written_to_is_done_without(tmp_path):
    (tmp_path / "shared").write_text("a file")
    for site in ("first", "second"):
        assert made(tmp_path / site, Shared(tmp_path / "shared")) == ["page"]


def test_a_second_site_is_the_same_and_the_verdicts_of_one_store_are_on_no_other(tmp_path):
    stores = [Store.open(tmp_path / name) for name in ("one", "two")]
    for each in stores:
        tiny.fill(each)
    tiny.keep(stores[0], "tiny/thm1", Verdict.at_most(1.25, 2))
    first, second, again = (
        {
            path.relative_to(site): path.read_bytes()
            for path in site.rglob("*")
            if path.is_file() and path.name != MEMORY
        }
        for site in (built(store, tmp_path / f"site {k}") for k, store in enumerate([stores[0], stores[1], stores[0]]))
    )
    assert first == again
    assert {str(path) for path in first if first[path] != second[path]} == {
        "index.html", "ledger.html", "claims/tiny/thm1.html", "papers/tiny/index.html",
    }  # fmt: skip


def test_of_trials_in_the_index_only_those_are_opened_whose_curves_are_shown(tmp_path, monkeypatch):
    monkeypatch.setattr("stairwise.lab.store.index.SETTLED_NS", 0)
    monkeypatch.setattr(build, "CURVES", 7)
    store, experiment = Store.open(tmp_path / "store"), tiny.PAPER.experiment("walk")
    trials = experiment.trials("quick", range(100, 140), {"steps": 33})  # of no preset, so that no figure reads them
    for each in trials:
        store.write(each, tiny.outcome(each), tiny.RUN)
    tiny.keep_run(store, [each.digest for each in trials], "stairwise run tiny/walk")
    store.index().refresh()
    opened, looked, read, signed = [], [], trial_module._read_checked, index_module.signature
    monkeypatch.setattr(trial_module, "_read_checked", lambda path, run: opened.append(path) or read(path, run))
    monkeypatch.setattr(index_module, "signature", lambda path: looked.append(path) or signed(path))
    site = built(store, tmp_path / "out")
    assert len(trials) == len(set(looked)) == len(looked) == 80
    shown = [path for path in opened if path.name == "metrics.parquet"]
    assert 0 < len(shown) == len(set(shown)) <= 7
    assert "curves of 6 of its 80 trials" in (site / "data/tiny/walk/index.js").read_text()
    median = words.number(statistics.median(1 / (21 + each.seed) for each in trials))  # over all of them
    page = (site / "papers/tiny/walk.html").read_text()
    assert re.search(
        rf"<td>loss</td><td class=.n.>{median}</td>(<td class=.n.>[^<]*</td>){{2}}<td class=.n.>40</td>", page
    )
