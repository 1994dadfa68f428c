"""Facts about progress displays: what stays on a narrow terminal, and what of an inner display is seen outside."""

import io

import pytest
from rich.console import Console

from stairwise.lab.progress import Lines, TerminalBars, Within

LONG = "selection/online stochastic learning_rate=0.4641588833612779 task.length=200 seed 12 train"
BEST = "best loss fresh 0.3944 (stochastic learning_rate=1.0 task.length=200)"


def shown(width: int) -> list[str]:
    console = Console(file=io.StringIO(), width=width, force_terminal=True, color_system=None)
    bars = TerminalBars(console)
    bars.begin("selection/online", 48, 7)
    bars.ticks(LONG, 90_000, 100_000, {"train_loss": 0.123456})
    bars.note(BEST)
    bars.status("measuring")
    bars.end()
    with console.capture() as seen:
        console.print(*bars.bars.get_renderables())
    return seen.get().splitlines()


@pytest.mark.parametrize("width", [80, 100, 140])
def test_bar_count_and_time_left_stay_on_a_narrow_terminal(width):
    items, item, below = shown(width)
    for line, count in ((items, "7/48"), (item, "90000/100000")):
        assert count in line
        assert "━━" in line
        assert "left -:--:--" in line
        assert len(line.rstrip()) <= width
    assert below.startswith("measuring  train_loss 0.1235  best loss")


def test_the_trials_of_a_claim_are_seen_while_it_is_judged(capsys, monkeypatch):
    monkeypatch.setattr(Lines, "interval", 0.0)
    lines = Lines()
    lines.begin("claims", 1, 0)
    trials = Within(lines)
    trials.begin("lego/length", 6, 2)
    trials.ticks("C4 seed 0", 10, 100, {"loss": 0.5})
    trials.finished("C4 seed 0", "finished")
    trials.ticks("C4 seed 1", 20, 100, {"loss": 0.25})
    trials.end()
    lines.finished("fig1a", "holds")
    said = capsys.readouterr().err.splitlines()
    assert said[0] == "[0/1] C4 seed 0: 10/100  loss 0.5  |  trials 2/6"
    assert said[1] == "[0/1] C4 seed 1: 20/100  loss 0.25  |  trials 3/6"
    assert said[2] == "[1/1] fig1a: holds"


def test_work_that_is_refused_before_it_begins_ends_without_a_word(capsys):
    Lines().end()
    assert capsys.readouterr() == ("", "")
