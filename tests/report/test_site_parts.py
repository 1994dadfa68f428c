"""The parts of the site: memory between builds, data for the script, stories, microscopes, questions, the server."""

import http.client
import json
import re
import shutil
import subprocess
import sys
import threading

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stairwise.config import ConfigError
from stairwise.lab import registry, serve
from stairwise.lab.contract.answers import Answer
from stairwise.lab.contract.claims import Claim
from stairwise.lab.contract.microscope import Curve, Map, MapAxis, Microscope, Overlay
from stairwise.lab.contract.verdict import Verdict
from stairwise.lab.store.files import scratch_name, seal
from stairwise.report import ledger
from stairwise.report.site import build, data, scopes, shelf, unchanged
from stairwise.report.site.contents import Shown, hypotheses_of, own_sizes
from stairwise.report.site.folder import FORMAT, MEMORY, Folder
from stairwise.report.site.story import render
from tests.report import tiny
from tests.report.site import built, chunk_of, pages

# --- what has not changed is not made again ---------------------------------------------------------------------------


def stamps(site) -> dict[str, int]:
    return {str(path.relative_to(site)): path.stat().st_mtime_ns for path in site.rglob("*") if path.is_file()}


def test_a_second_build_writes_its_memory_alone_and_a_verdict_the_pages_that_show_it(store, tmp_path):
    tiny.fill(store)
    before = stamps(built(store, tmp_path / "out"))
    after = stamps(built(store, tmp_path / "out"))
    assert {name for name in after if after[name] != before.get(name)} == {MEMORY}
    tiny.keep(store, "tiny/thm1", Verdict.at_most(1, 2))
    after = stamps(built(store, tmp_path / "out"))
    changed = {name for name in after if after[name] != before.get(name)} - {MEMORY}
    assert changed == {"index.html", "ledger.html", "claims/tiny/thm1.html", "papers/tiny/index.html"}


def test_a_file_that_was_altered_or_lost_is_made_again_and_strangers_stay(store, tmp_path):
    tiny.fill(store)
    site = built(store, tmp_path / "out")
    figure, page = site / "figures/tiny/fig1.svg", site / "ledger.html"
    drawn, ledger = figure.read_bytes(), page.read_bytes()
    figure.unlink()
    page.write_text("altered")
    (site / "mine.txt").write_text("mine")
    built(store, tmp_path / "out")
    assert figure.read_bytes() == drawn
    assert page.read_bytes() == ledger
    assert (site / "mine.txt").read_text() == "mine"


@pytest.mark.parametrize("name", [MEMORY, "page.html"])
def test_no_bit_of_a_report_can_change_unseen(tmp_path, name):
    def build() -> list[str]:
        folder = Folder(tmp_path)
        folder.step("page", "inputs", lambda: ({"page.html": b"text"}, {"found": 0.5}))
        folder.close()
        return folder.redone

    assert (build(), build()) == (["page"], [])
    whole = (tmp_path / name).read_bytes()
    for place in range(len(whole)):
        (tmp_path / name).write_bytes(whole[:place] + bytes([whole[place] ^ 1 << place % 8]) + whole[place + 1 :])
        assert build() == ["page"], place
        assert (tmp_path / name).read_bytes() == whole


def test_what_earlier_builds_wrote_and_this_one_does_not_is_removed(tmp_path):
    for names in (("a/one.html", "two.html"), ("two.html",)):
        folder = Folder(tmp_path)
        for name in names:
            folder.put(name, b"content")
        folder.close()
    assert sorted(path.name for path in tmp_path.iterdir()) == [MEMORY, "two.html"]


def test_a_memory_with_an_altered_result_is_not_believed_and_the_site_is_built_anew(store, tmp_path):
    tiny.fill(store)
    site = built(store, tmp_path / "out")
    before = {path: path.read_bytes() for path in site.rglob("*") if path.is_file()}
    memory = (site / MEMORY).read_text()
    assert '"width"' in memory
    (site / MEMORY).write_text(memory.replace('"width"', '"breadth"'))
    built(store, tmp_path / "out")
    assert {path: path.read_bytes() for path in site.rglob("*") if path.is_file()} == before


@pytest.mark.parametrize("there", ["<h1>My thesis</h1>", None])
def test_a_first_page_that_is_not_a_sites_is_left_alone(store, tmp_path, there):
    page = tmp_path / "out" / "index.html"
    page.parent.mkdir()
    page.mkdir() if there is None else page.write_text(there)
    with pytest.raises(ConfigError, match=r"out=.*out must be a new folder or one of a report: its index\.html"):
        built(store, tmp_path / "out")
    assert [path.name for path in page.parent.iterdir()] == ["index.html"]
    assert there is None or page.read_text() == there


def test_what_a_killed_build_left_is_removed(tmp_path):
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait()
    left = tmp_path / f"stairwise-{scratch_name().split('-')[1]}-{child.pid}-00000000"
    left.write_text("half a page")
    Folder(tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("memory", ["", "[]", '{"format": 1, "steps": {"x": 3}, "files": {}}', '{"format": 99}'])
def test_a_memory_that_cannot_be_used_is_as_none(tmp_path, memory):
    (tmp_path / MEMORY).write_text(memory)
    folder = Folder(tmp_path)
    assert folder.step("x", 1, lambda: ({"x.txt": b"x"}, 5)) == 5
    assert folder.redone == ["x"]


def test_a_memory_does_not_remove_what_lies_outside_the_folder(tmp_path):
    outside = tmp_path / "outside.txt"
    outside.write_text("keep")
    site = tmp_path / "site"
    site.mkdir()
    (site / MEMORY).write_bytes(seal({"format": FORMAT, "steps": {}, "files": {"../outside.txt": "0"}}))
    Folder(site).close()
    assert outside.read_text() == "keep"


# --- data -------------------------------------------------------------------------------------------------------------


def test_no_string_in_a_chunk_can_end_a_script_element_or_a_line(tmp_path):
    hostile = "</script><!--\u2028\u2029\ud800 & ' \" \\ \n"
    (tmp_path / "x.js").write_bytes(data.chunk(f"name {hostile}".replace('"', ""), {hostile: [hostile]}))
    text = (tmp_path / "x.js").read_text("ascii")
    assert not set("<>&\u2028\u2029") & set(text)
    assert text.count("\n") == 1
    assert json.loads(text[text.index(",{") + 1 : -3]) == {hostile: [hostile]}


def test_a_thinned_series_keeps_its_ends_and_its_extremes():
    steps = np.arange(10_000)
    values = np.sin(steps / 50.0)
    values[4321], values[8765] = 9.0, -9.0
    shorter, kept = data.thinned(steps, values, 100)
    assert len(shorter) <= 100
    assert {0, 4321, 8765, 9999} <= set(shorter.tolist())
    assert (np.diff(shorter) > 0).all()
    assert (kept == values[shorter]).all()


def test_of_many_trials_some_of_each_arm_are_drawn_and_the_set_says_how_many(store, tmp_path, monkeypatch):
    monkeypatch.setattr(build, "CURVES", 3)
    tiny.fill(store)
    site = built(store, tmp_path / "out")
    _, index = chunk_of(site / "data/tiny/walk/index.js")
    (quick,) = index["sets"]
    assert quick["label"] == "preset quick (curves of 2 of its 4 trials)"
    assert [arm for _, arm in quick["members"]] == ["slow", "fast"]
    assert len(index["trials"]) == 2
    page = (site / "papers/tiny/walk.html").read_text()
    assert re.search(r"<td>loss</td>(<td class=.n.>[^<]*</td>){3}<td class=.n.>2</td>", page)  # of each arm: both seeds


def test_trials_that_were_checked_for_the_index_are_not_read_again(store, tmp_path, monkeypatch):
    monkeypatch.setattr("stairwise.lab.store.index.WORTH_WRITING", 1)
    monkeypatch.setattr("stairwise.lab.store.index.SETTLED_NS", 0)
    tiny.fill(store)
    store.index().refresh()
    monkeypatch.setattr("stairwise.lab.store.store.open_trial", pytest.fail)
    assert len(shelf.read(store).records) == 4


@pytest.fixture
def indexed(store, monkeypatch):
    """A store whose trials are all in the index, as those of a large one are."""
    monkeypatch.setattr("stairwise.lab.store.index.WORTH_WRITING", 1)
    monkeypatch.setattr("stairwise.lab.store.index.SETTLED_NS", 0)
    tiny.fill(store)
    return store


def test_of_a_store_in_the_index_nothing_is_read_while_all_is_as_it_was(indexed, tmp_path, monkeypatch):
    site = built(indexed, tmp_path / "out")
    before = stamps(site)
    with monkeypatch.context() as patch:
        patch.setattr(shelf, "read", pytest.fail)
        built(indexed, tmp_path / "out")
    assert stamps(site) == before
    page = (site / "ledger.html").read_bytes()
    (site / "ledger.html").write_text("altered")
    built(indexed, tmp_path / "out")
    assert (site / "ledger.html").read_bytes() == page
    tiny.keep(indexed, "tiny/thm1", Verdict.at_most(1, 2))
    built(indexed, tmp_path / "out")
    assert (site / "ledger.html").read_bytes() != page


def test_whatever_a_site_is_made_from_changes_the_digest_of_it(indexed, monkeypatch):
    seen = {unchanged.made_from(indexed, "")}

    def is_new(docs: str = "") -> bool:
        known = len(seen)
        seen.add(unchanged.made_from(indexed, docs))
        return len(seen) > known and "" not in seen

    assert not is_new()
    assert is_new("../index.html")
    tiny.keep(indexed, "tiny/thm1", Verdict.at_most(1, 2))
    assert is_new()
    tiny.keep_run(indexed, [indexed.trials()[0].digest], "stairwise run tiny/walk")
    assert is_new()
    shutil.rmtree(indexed.trials()[0].path)
    assert is_new()
    monkeypatch.setattr(unchanged.provenance, "versions", lambda: {"python": "4"})
    assert is_new()
    monkeypatch.setattr(unchanged, "_code", lambda module: "other")
    assert is_new()


def test_verdicts_given_while_a_site_is_built_are_on_it_and_are_not_asked_for_where_it_is_there(indexed, tmp_path):
    without = (built(indexed, tmp_path / "without") / "ledger.html").read_bytes()
    judged = []

    def judge() -> None:
        judged.append(tiny.keep(indexed, "tiny/thm1", Verdict.at_most(1, 2)))

    for _ in range(2):
        page = build.build(indexed, tmp_path / "out", judge=judge)
    assert len(judged) == 1
    shown = (page.parent / "ledger.html").read_bytes()
    assert without != shown == (built(indexed, tmp_path / "anew") / "ledger.html").read_bytes()


def test_a_store_that_is_not_in_the_index_has_no_such_digest(store):
    assert unchanged.made_from(store, "") == ""
    tiny.fill(store)
    assert unchanged.made_from(store, "") == ""


def test_numbers_that_a_picture_cannot_show_become_gaps(store, tmp_path):
    trials = tiny.PAPER.experiment("walk").trials("quick")
    for trial in trials:
        made = tiny.outcome(trial)
        made.add("main", 30, {"loss": float("nan")})
        made.add("main", 40, {"loss": float("inf")})
        store.write(trial, made, tiny.RUN)
    _, series = chunk_of(built(store, tmp_path / "out") / "data/tiny/walk/0.js")
    assert all(values[-2:] == [None, None] for _, values in series["loss"]["of"].values())  # type: ignore[index]


def test_stories_show_raw_html_as_text_and_lead_nowhere():
    shown = render(
        "<b onclick=x>hi</b> [a](javascript:alert(1)) [b](https://example.org) ![c](https://example.org/c.png)"
    )
    assert "<b " not in shown
    assert "<a" not in shown
    assert "<img" not in shown
    assert "&lt;b onclick=x&gt;" in shown


# --- the microscope ---------------------------------------------------------------------------------------------------


def look(frames, overlays=(), curves=()) -> Microscope:
    rows, columns = (
        MapAxis(title, [f"{title} {k}" for k in range(n)]) for title, n in zip("rc", frames[0].shape, strict=True)
    )
    places = list(range(len(frames)))
    shown = Map("W", "weights", frames, rows, columns, overlays)
    return Microscope("says", "step", places, [f"step {k}" for k in places], [shown], curves)


def decoded(shown, frame: int) -> np.ndarray:
    import base64

    codes = np.frombuffer(base64.b64decode(shown["frames"][frame]["data"]), "<u2").astype(float)
    return np.where(codes == scopes.ABSENT, np.nan, shown["low"] + (shown["high"] - shown["low"]) * codes / 65534)


def test_a_small_map_keeps_every_entry_to_a_few_millionths_of_its_range():
    rng = np.random.default_rng(0)
    frames = [rng.normal(size=(7, 5)) for _ in range(3)]
    frames[1][2, 3] = np.nan
    shown = scopes.scope_data(look(frames, [Overlay("here", [(2, 3)])]))["maps"][0]
    for k, frame in enumerate(frames):
        error = np.abs(decoded(shown, k).reshape(7, 5) - frame)
        assert (np.isnan(error) == np.isnan(frame)).all()
        assert np.nanmax(error) <= (shown["high"] - shown["low"]) / 65534
        assert shown["frames"][k]["cells"] == [[(2, 3)]]


def test_a_large_map_is_pooled_to_what_is_largest_and_says_what_a_cell_stands_for():
    frame = np.zeros((1000, 900))
    frame[640, 333] = -5.0
    shown = scopes.scope_data(look([frame] * 40, [Overlay("here", [(640, 333)])]))["maps"][0]
    assert len(json.dumps(shown)) < 1_000_000
    rows, columns = (shown["axes"][shown["frames"][0][name]]["labels"] for name in ("rows", "columns"))
    values = decoded(shown, 0).reshape(len(rows), len(columns))
    row, column = np.unravel_index(np.argmin(values), values.shape)
    assert values.min() == -5.0
    assert shown["frames"][0]["cells"] == [[(row, column)]]
    first, last = rows[row].split(" … ")
    assert int(first.removeprefix("r ")) <= 640 <= int(last.removeprefix("r "))


def test_too_many_frames_are_thinned_with_both_ends_kept():
    made = scopes.scope_data(look([np.eye(3)] * 500))
    assert len(made["places"]) <= scopes.FRAMES
    assert (made["places"][0], made["places"][-1]) == (0, 499)


def test_frames_may_have_axes_of_their_own():
    frames = [np.ones((n, 2 * n)) for n in (2, 3)]
    rows = [MapAxis("answer", [f"answer {k}" for k in range(n)]) for n in (2, 3)]
    columns = [MapAxis("clause", [f"clause {k}" for k in range(2 * n)]) for n in (2, 3)]
    diagonal = Overlay("diagonal", [[(k, k) for k in range(n)] for n in (2, 3)], by_frame=True)
    seen = Microscope("", "length", [2, 3], ["L=2", "L=3"], [Map("A", "", frames, rows, columns, [diagonal])])
    shown = scopes.scope_data(seen)["maps"][0]
    sizes = [len(shown["axes"][frame["columns"]]["labels"]) for frame in shown["frames"]]
    assert sizes == [4, 6]
    assert [len(frame["cells"][0]) for frame in shown["frames"]] == [2, 3]


def test_labels_that_do_not_fit_their_map_are_refused():
    with pytest.raises(ValueError, match=r"map W: frame 0 is \(2, 2\), its labels are \(2, 3\)"):
        Map("W", "", [np.eye(2)], MapAxis("r", ["a", "b"]), MapAxis("c", ["a", "b", "c"]))
    with pytest.raises(ValueError, match="equally many"):
        look([np.eye(2)]).__class__("", "", [0, 1], ["a", "b"], look([np.eye(2)]).maps)


def test_a_trial_under_the_microscope_has_a_page_and_a_chunk_and_a_failing_one_a_line(plain_site):
    chunks = sorted((plain_site / "data/microscope/tiny/walk").iterdir())
    assert len(chunks) == 3
    name, seen = chunk_of(chunks[0])
    page = pages(plain_site)["microscope/tiny/walk.html"]
    assert f'<option value="{name}">' in page
    assert seen["labels"] == ["start", "end"]  # type: ignore[index]
    assert "RuntimeError: no frames of seed 1" in page


# --- questions --------------------------------------------------------------------------------------------------------


def test_answers_come_from_the_store_or_say_what_to_run(plain_site, store, tmp_path):
    page = pages(built(store, tmp_path / "out"))["questions.html"]
    assert "not in the store: <code>stairwise run tiny/walk --preset quick</code>" in page
    page = pages(plain_site)["questions.html"]
    assert "20 steps of 2 seeds" in page
    assert "RuntimeError: no such thing" in page
    assert (plain_site / "figures/questions.svg").is_file()


def test_a_question_that_nobody_asks_is_refused():
    with pytest.raises(ValueError, match="question=colour must be one of samples, steps"):
        Answer("colour", "blue")


def test_a_curve_beside_the_maps_is_part_of_the_data():
    made = scopes.scope_data(look([np.eye(2)] * 2, curves=[Curve("loss", [0, 1], [2.0, float("nan")])]))
    assert made["curves"] == [{"name": "loss", "places": [0, 1], "values": [2, None]}]


# --- the server -------------------------------------------------------------------------------------------------------


@pytest.fixture
def served(tmp_path):
    site = tmp_path / "site"
    (site / "papers").mkdir(parents=True)
    (site / "index.html").write_text("first page")
    (site / ".hidden").write_text("hidden")
    (tmp_path / "secret.txt").write_text("secret")
    (site / "way-out").symlink_to(tmp_path)
    made = serve.server(site, 0)
    thread = threading.Thread(target=made.serve_forever)
    thread.start()
    yield made.server_address
    made.shutdown()
    thread.join()
    made.server_close()


def asked(address, path: str, host: str | None = None) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection(*address, timeout=10)
    connection.putrequest("GET", path, skip_host=True)
    connection.putheader("Host", host or f"127.0.0.1:{address[1]}")
    connection.endheaders()
    answer = connection.getresponse()
    content = answer.read()
    connection.close()
    return answer.status, content


def test_the_server_listens_on_loopback_and_serves_the_sites_files(served):
    assert served[0] == "127.0.0.1"
    assert asked(served, "/index.html") == (200, b"first page")
    assert asked(served, "/") == (200, b"first page")


@pytest.mark.parametrize(
    "path",
    [
        "/../secret.txt",
        "/%2e%2e/secret.txt",
        "/..%2fsecret.txt",
        "//../secret.txt",
        "/way-out/secret.txt",
        "/.hidden",
        "/papers/",
        "/%00",
        f"/{'n' * 5000}",
    ],
)
def test_nothing_outside_the_folder_is_served_and_no_folder_is_listed(served, path, capsys):
    status, content = asked(served, path)
    assert capsys.readouterr() == ("", "")
    assert status == 404
    assert b"secret" not in content.replace(path.encode(), b"")


def test_a_page_of_another_host_gets_nothing(served):
    for host in ("evil.example:80", "evil.example", "localhost.evil.example", "127.0.0.1:80:80", ":80"):
        assert asked(served, "/index.html", host)[0] == 404


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "localhost:80"])  # port 80 is left out by browsers
def test_this_machine_may_be_asked_under_its_names_with_a_port_or_without(served, host):
    assert asked(served, "/index.html", host) == (200, b"first page")


def test_a_port_that_cannot_be_used_is_one_line(served, tmp_path):
    with pytest.raises(ConfigError, match=r"port=70000 must lie in 0\.\.65535"):
        serve.server(tmp_path, 70000)
    with pytest.raises(ConfigError, match=f"port={served[1]} cannot be used"):
        serve.server(tmp_path, served[1])


# --- what is published, and what a claim asks for ---------------------------------------------------------------------


def test_what_is_published_stands_beside_ones_own_and_is_drawn_where_there_is_nothing_else(monkeypatch):
    monkeypatch.undo()  # the papers of the package
    experiment = registry.experiment("composition/encoder")
    (found,) = build._published(experiment, [])
    assert (found.id, found.preset, found.published) == ("published-gpu", "gpu", True)
    assert found.label == "published, preset gpu"
    alone = Shown(experiment, [found])
    assert (alone.drawn, alone.own) == (found, set())
    assert build._published(experiment, [found]) == []  # one's own trials are not shown twice
    with monkeypatch.context() as nothing:
        nothing.setattr(build.published, "files", lambda name: [])
        assert build._published(experiment, []) == []
    twice = registry.experiment("parity_onestep/staircase")  # of the two presets the one that is judged
    sets = build._published(twice, [])
    assert {each.preset for each in sets} == {"gpu", "paper"}
    drawn = Shown(twice, sets).drawn
    assert drawn is not None
    assert drawn.preset == "gpu"


def test_a_claim_shows_which_hypotheses_its_sizes_meet_and_the_flags_to_change_them():
    cases = (tiny.Walk(rate=0.1), tiny.Walk(rate=0.9))
    named = {"rate <= 0.5": lambda config: config.rate <= 0.5, "steps >= 1": lambda config: config.steps >= 1}
    made = {
        "id": "thm9",
        "says": "",
        "kind": "bound",
        "statement": ("Theorem 9",),
        "of": (tiny.nothing,),
        "check": tiny.nothing,
        "paper": "tiny",
    }
    claim = Claim(**made, cases=cases, hypotheses=named)
    assert hypotheses_of(claim) == [("rate ≤ 0.5", False), ("steps ≥ 1", True)]
    given = Claim(**made, cases=cases, hypotheses=lambda config: {name: met(config) for name, met in named.items()})
    assert hypotheses_of(given) == hypotheses_of(claim)
    assert hypotheses_of(Claim(**made, cases=cases)) == []
    assert " --rate 0.1" in own_sizes(claim)


def test_a_claim_that_was_judged_at_one_preset_only_is_shown_with_that_verdict():
    claim = next(claim for claim in registry.paper("tiny").claims if claim.judge is not None)
    there = ledger.Stored(claim.name, "a", Verdict("holds", measured=9.5), {"preset": "gpu"})
    assert ledger.entry(claim, [there], frozenset()).verdict.status == "holds"
    quick = ledger.Stored(claim.name, "b", Verdict("fails"), {})
    shown = ledger.entry(claim, [there, quick], frozenset())
    assert (shown.verdict.status, [each.at for each in shown.elsewhere]) == ("fails", ["preset=gpu"])


@given(st.lists(st.floats() | st.integers(-(10**7), 10**7).map(float) | st.just(-0.0)))
def test_lists_of_numbers_are_those_of_each_number(values):
    assert data.short_numbers(values) == data.to_json([data.short(value) for value in values])
