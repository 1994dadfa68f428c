"""The page of a run: who gets it, what readers get, and that none of them slows the training down."""

import http.client
import json
import re
import socket
import time
import urllib.error
import urllib.request
from urllib.parse import urlsplit

import numpy as np
import pytest

import stairwise as sw
from stairwise.lab.contract.experiment import Experiment, Trial
from stairwise.lab.contract.microscope import Map, MapAxis, Microscope
from stairwise.lab.progress import Silent, TwoDisplays
from stairwise.lab.run.execute import execute
from stairwise.lab.run.sweep_progress import Objective, SweepProgress
from stairwise.lab.store.store import Store
from stairwise.live import feed as feeds
from stairwise.live.command import can_open
from stairwise.live.feed import Feed, Seen
from stairwise.live.maps import Maps, Unfinished, snapshots
from stairwise.live.server import Live
from stairwise.train.stage import Outcome
from tests.lab.walking import PAPER, Walk

WALK = PAPER.experiment("walk")
PATIENCE = 30.0  # seconds, of which a machine with nothing else to do needs one
ABOUT = {"experiment": WALK.name, "says": "a walk", "report": "stairwise report", "what": "arm"}


def trial(seed: int, arm: str = "slow", experiment: Experiment = WALK) -> Trial:
    return Trial(experiment, Walk(), seed, arm)


def grown(ticks: int, names: tuple[str, ...] = ("loss",)) -> Outcome:
    outcome = Outcome()
    for tick in range(ticks):
        outcome.add("train", tick, dict.fromkeys(names, 1.0 / (tick + 1)))
    return outcome


@pytest.fixture
def feed(tmp_path) -> Feed:
    return Feed(Store.open(tmp_path / "store"), ABOUT)


@pytest.fixture
def live(feed, tmp_path):
    made = Live(feed, site=tmp_path / "report")
    yield made
    made.stop()


def get(address: str, **headers: str) -> tuple[int, bytes]:
    try:
        with urllib.request.urlopen(urllib.request.Request(address, headers=headers), timeout=PATIENCE) as reply:
            return reply.status, reply.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()


class Reader:
    """Reads events, and keeps the page's state as the page does."""

    def __init__(self, address: str):
        self.reply = urllib.request.urlopen(f"{address}events", timeout=PATIENCE)
        self.lines: dict[tuple[int, str], list[tuple[float, float]]] = {}
        self.trials, self.facts, self.about = {}, {}, {}

    def until(self, true) -> None:
        end = time.monotonic() + PATIENCE
        while not true(self):
            assert time.monotonic() < end
            line = self.reply.readline()
            if line.startswith(b"data: "):
                self.take(json.loads(line[6:]))

    def take(self, news) -> None:
        self.facts |= news.get("facts", {})
        self.about |= news.get("about", {})
        self.trials |= {row["id"]: row for row in news["trials"]}
        for id in news["gone"]:
            self.trials.pop(id, None)
            self.lines = {key: line for key, line in self.lines.items() if key[0] != id}
        for id, _, name, start, steps, values in news["series"]:
            line = self.lines.setdefault((id, name), [])
            line[start:] = zip(steps, values, strict=True)


# --- who gets it ------------------------------------------------------------------------------------------------------


def test_the_page_and_what_it_loads_are_served_under_the_word(live, capfd):
    for name, inside in (
        ("", b"assets/live.js"),
        ("assets/live.js", b"EventSource"),
        ("assets/stairwise.css", b"--ink"),
    ):
        status, content = get(live.address + name)
        assert (status, inside in content) == (200, True)
    assert get(live.address + "assets/other.js")[0] == 404
    for path in (
        "maps/0",
        "maps/-1",
        f"maps/{'9' * 5000}",
        "maps/",
        "%00",
        "events/",
        "report/..%2f..%2fpyproject.toml",
    ):
        assert get(live.address + path)[0] == 404
    assert capfd.readouterr() == ("", "")  # and no traceback on the terminal


@pytest.mark.parametrize("path", ["", "events", "maps/0", "report/index.html"])
def test_without_the_word_nothing_is_served(live, path):
    parts = urlsplit(live.address)
    assert get(f"http://{parts.netloc}/{path}")[0] == 403
    assert get(f"http://{parts.netloc}/{'x' * len(live.word)}/{path}")[0] == 403


@pytest.mark.parametrize("host", ["evil.example", "evil.example:{port}", "127.0.0.1:1", "localhost", ""])
def test_another_name_for_this_machine_is_refused(live, host):
    port = urlsplit(live.address).port
    assert get(live.address, Host=host.format(port=port))[0] == 403


def test_only_this_machine_is_listened_to(live):
    assert live.http.server_address[0] == "127.0.0.1"


def test_a_page_may_load_nothing_from_elsewhere_nor_be_framed(live):
    with urllib.request.urlopen(live.address, timeout=PATIENCE) as reply:
        policy = reply.headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "frame-ancestors 'none'" in policy


def test_the_reports_page_is_served_where_there_is_one_and_nothing_outside_of_it(live, tmp_path):
    assert live.site_page() == ""
    page = tmp_path / "report" / "papers" / "walking" / "walk.html"
    page.parent.mkdir(parents=True)
    page.write_text('<link rel="stylesheet" href="../../assets/stairwise.css">')
    (tmp_path / "secret.txt").write_text("secret")
    assert live.site_page() == "report/papers/walking/walk.html"
    assert get(live.address + live.site_page())[0] == 200
    connection = http.client.HTTPConnection(urlsplit(live.address).netloc, timeout=PATIENCE)
    connection.request("GET", f"/{live.word}/report/../secret.txt")
    assert connection.getresponse().status == 404


# --- what readers get -------------------------------------------------------------------------------------------------


def test_a_reader_gets_what_was_measured_before_it_came_and_what_is_measured_then(live, feed):
    outcome = grown(3)
    feed.begin("walking/walk", 2, 0)
    feed.measured([trial(0)], [outcome])
    reader = Reader(live.address)
    reader.until(lambda reader: len(reader.lines.get((0, "loss"), [])) == 3)
    outcome.add("train", 3, {"loss": float("nan")})
    feed.measured([trial(0)], [outcome])
    reader.until(lambda reader: len(reader.lines[0, "loss"]) == 4)
    assert reader.lines[0, "loss"] == [(0, 1), (1, 0.5), (2, 0.333333), (3, None)]
    assert reader.trials[0]["status"] == "running"
    feed.concluded(trial(0), "diverged", "W became NaN", {"loss": 0.25})
    feed.close()
    reader.until(lambda reader: reader.facts.get("over"))
    assert (reader.facts["done"], reader.facts["total"], reader.facts["counts"]) == (1, 2, {"diverged": 1})
    assert (reader.trials[0]["status"], reader.trials[0]["message"]) == ("diverged", "W became NaN")


def test_a_reader_that_is_up_to_date_hears_of_every_start_and_every_end(feed):
    seen, first = Seen(), trial(0)
    feed.since(seen)
    feed.measured([first], [Outcome()])  # nothing measured yet, and nothing else is new
    started = feed.since(seen)
    assert started is not None
    assert [row["status"] for row in started["trials"]] == ["running"]
    with feed.noting:  # as between the two halves of a note
        feed.training = ((), ())
        feed.ended.append((first, "finished", "", {}))
    ended = feed.since(seen)
    assert ended is not None
    assert [row["status"] for row in ended["trials"]] == ["finished"]


def test_readers_of_a_long_series_agree_whenever_they_came(feed, monkeypatch):
    monkeypatch.setattr(feeds, "POINTS", 8)
    early, late, lines = Seen(), Seen(), {}
    outcome = Outcome()
    for tick in range(100):
        outcome.add("train", tick, {"loss": float(tick)})
        feed.measured([trial(0)], [outcome])
        if tick % 3 == 0 or tick == 99:
            for _, _, name, start, steps, _ in (feed.since(early) or {"series": []})["series"]:
                lines.setdefault(name, [])[start:] = steps
    (series,) = (feed.since(late) or {})["series"]
    assert lines["loss"] == series[4]
    assert len(series[4]) < 16
    assert series[4][0] == 0


def test_the_oldest_trials_make_room_and_those_that_train_stay(feed, monkeypatch):
    monkeypatch.setattr(feeds, "TRIALS", 3)
    running = grown(2)
    seen = Seen()
    feed.measured([trial(99)], [running])
    feed.since(seen)
    for seed in range(5):
        feed.concluded(trial(seed), "finished", "", {})
        feed.measured([trial(99)], [running])
        feed.since(Seen())
    assert {row.trial.seed for row in feed.rows.values()} == {99, 3, 4}
    new = feed.since(seen) or {}
    assert (len(new["gone"]), len(feed.series)) == (3, 1)


def test_what_the_store_has_already_is_shown_with_its_curves(feed):
    feed.store.write(trial(0), grown(3), {})
    feed.show([trial(0)])
    new = feed.since(Seen()) or {}
    assert new["series"] == [[0, "train", "loss", 0, [0, 1, 2], [1, 0.5, 0.333333]]]
    assert new["trials"][0]["status"] == "finished"


def test_a_study_that_no_loop_trains_is_shown_when_it_is_stored(feed):
    trials = PAPER.experiment("census").trials("quick", seeds=[0])
    execute(trials, feed.store, progress=feed)
    new = feed.since(Seen()) or {}
    assert [(name, values) for _, _, name, _, _, values in new["series"]] == [("sum", [780])]


def test_trials_that_others_start_from_have_their_experiments_name(feed):
    feed.concluded(trial(0, "", PAPER.experiment("onward")), "finished", "", {})
    feed.since(Seen())
    assert [row.label for row in feed.rows.values()] == ["walking/onward"]


# --- the training is not disturbed ------------------------------------------------------------------------------------


def test_a_watched_run_stores_the_same_bytes_and_its_page_shows_all_of_it(tmp_path, live, feed):
    trials = WALK.trials("quick", seeds=[0])
    execute(trials, Store.open(tmp_path / "alone"))
    reader = Reader(live.address)
    execute(trials, feed.store, progress=TwoDisplays(Silent(), feed))
    feed.close()
    reader.until(lambda reader: reader.facts.get("over"))
    for number, each in enumerate(trials):
        alone, watched = Store.open(tmp_path / "alone").read(each), feed.store.read(each)
        for name in ("config.json", "metrics.parquet", "arrays.safetensors"):
            assert (alone.path / name).read_bytes() == (watched.path / name).read_bytes()
        steps, values = alone.series(alone.names()[0])
        shown = reader.lines[number, alone.names()[0]]
        np.testing.assert_allclose(shown, np.stack([steps, values], axis=1), rtol=1e-5)


def test_a_reader_that_never_reads_delays_neither_the_training_nor_other_readers(live, feed):
    parts = urlsplit(live.address)
    silent = socket.socket()
    silent.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1024)
    silent.connect((parts.hostname, parts.port))
    silent.sendall(f"GET {parts.path}events HTTP/1.1\r\nHost: {parts.netloc}\r\n\r\n".encode())
    names = tuple(f"a metric whose name is long, {'very ' * 400} long, number {k}" for k in range(60))
    outcome, taken = Outcome(), []
    for tick in range(40):
        outcome.add("train", tick, dict.fromkeys(names, tick / 7))
        began = time.monotonic()
        feed.measured([trial(0)], [outcome])
        taken.append(time.monotonic() - began)
        time.sleep(0.02)
    assert (np.median(taken) < 0.005, max(taken) < 2) == (True, True)
    time.sleep(0.6)
    (stuck,) = live.readers
    assert feed.since(stuck) is not None  # what it would have got had it read
    reader = Reader(live.address)
    reader.until(lambda reader: [len(line) for line in reader.lines.values()] == [40] * 60)
    silent.close()


def test_only_so_many_pages_are_served(live, monkeypatch):
    monkeypatch.setattr("stairwise.live.server.READERS", 1)
    first = Reader(live.address)
    first.until(lambda reader: reader.facts)
    assert get(live.address + "events")[0] == 503


def test_closing_waits_until_the_pages_know_and_not_for_ever(live, feed):
    reader = Reader(live.address)
    reader.until(lambda reader: reader.facts)
    began = time.monotonic()
    live.close()
    reader.until(lambda reader: reader.facts["over"])
    assert time.monotonic() - began < PATIENCE


# --- maps -------------------------------------------------------------------------------------------------------------


def kept(**arrays: np.ndarray) -> Outcome:
    outcome = grown(2)
    outcome.arrays = {name.replace("__", "/").replace("_at_", "@"): value for name, value in arrays.items()}
    return outcome


def test_snapshots_of_a_trial_that_trains_are_maps(feed):
    outcome = kept(train__W_at_0=np.zeros((2, 3)), train__W_at_5=np.eye(2, 3), train__v_at_0=np.ones(4))
    outcome.arrays["train/v@5"] = np.zeros(4)
    outcome.arrays["train/heads@0"] = outcome.arrays["train/heads@5"] = np.zeros((2, 3, 3))
    outcome.arrays["train/final"] = np.zeros((2, 2))
    feed.measured([trial(0)], [outcome])
    feed.since(Seen())
    found = json.loads(Maps(feed).of(0) or b"")
    assert [each["name"] for each in found["maps"]] == ["W", "heads 1", "heads 2", "v"]
    assert found["places"] == [0, 5]
    assert found["state"] == [len(outcome.arrays), "running"]


def test_a_microscope_sees_a_trial_that_trains_as_it_sees_a_record(feed):
    def seen(record):
        assert (record.config.steps, record.seed, record.names()) == (40, 0, ["loss"])
        assert record.final("loss") == record.series("loss", "train")[1][-1] == 0.5
        frame, axis = record.array("train/W@5"), MapAxis("i", ["1", "2"])
        return Microscope("of the paper", "tick", [5], ["tick 5"], [Map("its W", "", [frame], axis, axis)])

    experiment = Experiment("seen", "-", Walk, WALK.presets, WALK.program, microscope=seen, paper="walking")
    feed.measured([trial(0, "", experiment)], [kept(train__W_at_5=np.eye(2))])
    feed.since(Seen())
    assert json.loads(Maps(feed).of(0) or b"")["says"] == "of the paper"


def test_where_a_microscope_lacks_what_only_the_end_stores_the_snapshots_are_shown(feed):
    def seen(record):
        return record.array("train/secret")

    experiment = Experiment("seen", "-", Walk, WALK.presets, WALK.program, microscope=seen, paper="walking")
    feed.measured([trial(0, "", experiment)], [kept(train__W_at_5=np.eye(2))])
    feed.since(Seen())
    assert [each["name"] for each in json.loads(Maps(feed).of(0) or b"")["maps"]] == ["W"]


def test_maps_take_only_so_much_from_a_run_and_all_are_there_when_it_is_over(live, feed, monkeypatch):
    monkeypatch.setattr("stairwise.live.maps.SHARE", 0)
    outcome = kept(train__W_at_0=np.eye(2))
    feed.measured([trial(0), trial(1)], [outcome, outcome])
    feed.since(Seen())
    first = live.maps.of(0)
    outcome.arrays["train/W@9"] = np.eye(2)
    feed.since(Seen())
    live.maps.spent = 1.0
    assert live.maps.of(0) == first
    assert get(f"{live.address}maps/1") == (202, b"")
    feed.close()
    assert [len(json.loads(get(f"{live.address}maps/{id}")[1])["places"]) for id in (0, 1)] == [2, 2]


def test_nothing_to_look_at_is_nothing(feed):
    assert snapshots(Unfinished(trial(0), grown(2)), {}) is None
    feed.measured([trial(0)], [grown(2)])
    feed.since(Seen())
    assert Maps(feed).of(0) == b"null"


# --- what the displays pass on ----------------------------------------------------------------------------------------


def test_a_sweeps_board_passes_trials_on_with_their_names(feed):
    class Heard(Silent):
        def __init__(self):
            self.ended = []

        def finished(self, label, status):
            self.ended.append((label, status))

    heard = Heard()
    board = SweepProgress(TwoDisplays(heard, feed), [], Objective())
    board.measured([trial(3)], [grown(2)])
    board.concluded(trial(3), "finished", "", {"loss": 0.5})
    feed.since(Seen())
    assert heard.ended == [("slow seed 3", "finished")]
    assert [(row.label, row.status, row.final) for row in feed.rows.values()] == [("slow", "finished", ("loss", 0.5))]


# --- from Python ------------------------------------------------------------------------------------------------------


def test_a_run_from_python_prints_its_page_and_goes_on_serving_it(tmp_path, capsys):
    result = sw.watch(WALK, seeds=1, store=str(tmp_path / "store"), show=False)
    assert len(result.records) == 2
    (address,) = re.findall(r"http://127\.0\.0\.1:\d+/[\w-]+/", capsys.readouterr().err)
    assert get(address)[0] == 200
    reader = Reader(address)
    reader.until(lambda reader: len(reader.lines) == 6)
    assert (reader.facts["over"], reader.facts["done"], len(reader.trials)) == (True, 2, 2)


def test_a_sweep_from_python_is_a_board_of_settings(tmp_path, capsys):
    result = sw.watch(WALK, grid={"shift": [0.0, 1.0]}, seeds=1, store=str(tmp_path / "store"), show=False)
    (address,) = re.findall(r"http://\S+", capsys.readouterr().err)
    reader = Reader(address)
    reader.until(lambda reader: len(reader.trials) == 4)
    assert {name: reader.about[name] for name in ("what", "cells", "seeds")} == {
        "what": "setting",
        "cells": 4,
        "seeds": 1,
    }
    names = {f"{arm} shift={shift}" for arm in ("slow", "fast") for shift in ("0.0", "1.0")}
    assert {row["label"] for row in reader.trials.values()} == names
    assert len(result.records) == 4


def test_without_a_screen_no_browser_is_opened(monkeypatch):
    monkeypatch.setattr("sys.platform", "linux")
    for name in ("DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    assert not can_open()
    monkeypatch.setenv("WAYLAND_DISPLAY", "wayland-0")
    assert can_open()
