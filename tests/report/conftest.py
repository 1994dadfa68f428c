"""The store and the registry that these tests share: only the tiny paper is installed."""

import pytest

from stairwise.lab import registry
from stairwise.lab.store import Store
from tests.report import tiny


@pytest.fixture(autouse=True)
def _only_tiny(monkeypatch):
    monkeypatch.setattr(registry, "modules", lambda: {"tiny": tiny.NAME})


@pytest.fixture
def store(tmp_path) -> Store:
    return Store.open(tmp_path / "store")
