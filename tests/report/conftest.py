"""The store and the registry that these tests share: only the tiny paper is installed."""

from pathlib import Path

import pytest

from stairwise.lab.contract.verdict import Verdict
from stairwise.lab.store.store import Store
from stairwise.report.site import shared
from tests.report import tiny
from tests.report.site import built


@pytest.fixture(autouse=True)
def _only_tiny(monkeypatch):
    tiny.alone(monkeypatch)


@pytest.fixture(autouse=True)
def _shares_with_no_other_test(monkeypatch, tmp_path_factory):
    folder = tmp_path_factory.mktemp("shared")
    monkeypatch.setattr(shared, "default_folder", lambda: folder)


@pytest.fixture(scope="session")
def plain_site(tmp_path_factory) -> Path:
    """The site of a store that holds the quick preset of one experiment; tests look at it and leave it alone."""
    folder = tmp_path_factory.mktemp("plain")
    with pytest.MonkeyPatch.context() as patch:
        tiny.alone(patch)
        store = Store.open(folder / "store")
        tiny.fill(store)
        tiny.keep(store, "tiny/thm1", Verdict.at_most(1, 2, details=({"n": 3},)))
        return built(store, folder / "site")


@pytest.fixture
def store(tmp_path) -> Store:
    return Store.open(tmp_path / "store")
