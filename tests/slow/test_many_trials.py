"""A store of ten thousand trials is listed and queried in seconds, and in the memory that a small one takes."""

import resource
import time

import pytest

from benchmarks.store import COMMANDS, fill, measure

pytestmark = [pytest.mark.slow, pytest.mark.quiet, pytest.mark.timeout(1800)]
pytest.importorskip("duckdb")
FEW, MANY = 500, 10_000


@pytest.fixture(scope="module")
def stores(tmp_path_factory):
    """A small and a large store, indexed, with each command's processor seconds and peak megabytes."""
    found = {}
    for count in (FEW, MANY):
        store = fill(tmp_path_factory.mktemp(f"store{count}") / "store", count)
        time.sleep(1.1)  # files that are younger are not entered
        store.index().refresh()
        found[count] = {name: cost(store.root, words) for name, words in {**COMMANDS, "gc": ["gc"]}.items()}
    return found


def cost(root, words) -> tuple[float, float]:
    """Seconds of processor time, the least of three since other work can only add to them; peak megabytes."""
    seconds, megabytes = zip(*(once(root, words) for _ in range(3)), strict=True)
    return min(seconds), max(megabytes)


def once(root, words) -> tuple[float, float]:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    _, megabytes = measure(root, words)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, megabytes


@pytest.mark.parametrize("command", ["list", "runs", "query", "gc"])
def test_ten_thousand_trials_take_less_than_two_seconds(stores, command):
    assert stores[MANY][command][0] < 2.0


@pytest.mark.parametrize("command", ["list", "runs", "query"])
def test_twenty_times_the_trials_take_hardly_more_memory(stores, command):
    grown = stores[MANY][command][1] - stores[FEW][command][1]
    # megabytes, of 9,500 trials with 2.3 million measurements; a query holds their compressed files, and reads ahead
    assert grown < (150 if command == "query" else 80)  # measured: 122 and 34
