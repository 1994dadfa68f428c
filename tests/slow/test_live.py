"""A run and a sweep that are watched in a real browser while they train."""

import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

from stairwise.lab.store.store import Store

pytestmark = pytest.mark.slow
SIZES = {"steps": 300, "drop_at": 150, "snapshots": "0,10,50,100,200,300", "measure_every": 10, "batch": 32}
FLAGS = [word for name, value in SIZES.items() for word in (f"--{name}", str(value))]
HIDDEN = "document.getElementById('{}').hidden"


class Watched:
    """The command with --live, and its page."""

    def __init__(self, browser, folder: Path, *words: str, width: int = 1200, **options):
        self.folder = folder
        command = [sys.executable, "-m", "stairwise", *words, "--store", "store", "--live"]
        hidden = {name: value for name, value in os.environ.items() if name not in ("DISPLAY", "WAYLAND_DISPLAY")}
        streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        self.process = subprocess.Popen(command, cwd=folder, env=hidden, **streams)
        assert self.process.stderr is not None
        found = re.search(r"http://127\.0\.0\.1:\d+/[\w-]{20,}/", self.process.stderr.readline())
        assert found
        self.complaints: list[str] = []
        self.context = browser.new_context(viewport={"width": width, "height": 900}, **options)
        self.page = self.context.new_page()
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("console", self.hear)
        self.page.goto(found[0])

    def hear(self, message) -> None:
        if "ERR_CONNECTION_REFUSED" not in message.text:  # the command has ended
            self.complaints.append(message.text)

    def __enter__(self):
        return self

    def __exit__(self, *problem):
        self.context.close()
        self.process.kill()
        self.process.communicate()

    def until(self, condition: str, seconds: float = 240) -> None:
        end = time.monotonic() + seconds
        while not self.page.evaluate(condition):
            assert time.monotonic() < end, f"never came true: {condition}"
            time.sleep(0.1)

    def text(self, id: str) -> str:
        return self.page.inner_text(f"#{id}")

    def ended(self) -> str:
        """Waits for the command; returns what it said."""
        out, err = self.process.communicate(timeout=240)
        assert self.process.returncode == 0, err
        return out


def test_a_run_is_seen_while_it_trains_and_its_page_stays_when_it_is_over(browser, tmp_path):
    with Watched(browser, tmp_path, "run", "selection/heatmap", "--seeds", "2", *FLAGS) as watched:
        watched.until("document.querySelectorAll('.plots svg path').length > 0")
        assert watched.text("name") == "heatmap"
        watched.until("document.querySelectorAll('.cell.running').length > 0 || !!document.querySelector('.ending')")
        watched.until("!!document.querySelector('.ending')")
        assert "2 finished" in watched.text("note")
        assert "stairwise report --open --store store" in watched.text("ending")
        watched.until("document.querySelectorAll('.cell.finished').length === 2", 20)  # the board is drawn in its turn
        watched.ended()
        watched.until("document.querySelector('#stage output')?.textContent === 'step 300'", 10)
        watched.until("document.getElementById('beat').textContent.includes('keeps what it shows')")

        records = list(Store.open(tmp_path / "store", create=False).trials("selection/heatmap"))
        assert len(records) == 2
        watched.page.check("text=log y")
        watched.page.click("#all")
        watched.until(f"document.querySelectorAll('.plots section:not([hidden])').length === {len(records[0].names())}")
        watched.page.hover(".cell >> nth=1")
        assert re.search(r"seed 1: finished, loss .* \([0-9a-f]{20}\)", watched.text("reading"))
        assert watched.complaints == []


def test_closing_the_page_does_not_stop_the_run(browser, tmp_path):
    with Watched(browser, tmp_path, "run", "selection/heatmap", *FLAGS) as watched:
        watched.page.close()
        assert "1 trial" in watched.ended()


def test_a_sweep_shows_a_board_of_its_settings_on_a_narrow_dark_screen(browser, tmp_path):
    words = ["sweep", "selection/heatmap", "--grid", "learning_rate=0.1,0.3", "--seeds", "2", *FLAGS]
    with Watched(browser, tmp_path, *words, width=390, color_scheme="dark") as watched:
        watched.until("!!document.querySelector('.ending')")
        watched.until("document.querySelectorAll('.cell').length === 4")
        watched.until("document.querySelectorAll('.cell.finished').length === 4", 20)
        rows = watched.page.locator("#board th").all_inner_texts()
        assert sorted(row.strip() for row in rows) == ["learning_rate=0.1", "learning_rate=0.3"]
        assert "2 settings × 2 seeds" in watched.text("line")
        assert watched.page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        watched.page.click("#legend button >> nth=0")
        assert watched.page.get_attribute("#legend button >> nth=0", "aria-pressed") == "false"
        watched.ended()
        assert watched.complaints == []
