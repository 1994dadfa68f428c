"""Papers that are installed for one test."""

import importlib
import shutil
import sys

import pytest

from stairwise.lab import registry
from stairwise.lab.store import provenance


@pytest.fixture
def install(tmp_path, monkeypatch):
    """Puts a distribution with one entry point and one package on the path, as pip would."""
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)  # it is told from older sources by whole seconds and sizes

    def put(name: str, files: dict[str, str], value: str, version: str = "0.1.0") -> None:
        for place, text in files.items():
            path = tmp_path / place
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        for old in tmp_path.glob(f"{name}-*.dist-info"):
            shutil.rmtree(old)
        folder = tmp_path / f"{name}-{version}.dist-info"
        folder.mkdir()
        (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
        (folder / "entry_points.txt").write_text(f"[stairwise.papers]\n{name} = {value}\n")
        renew()

    def renew() -> None:
        importlib.invalidate_caches()
        registry.plug_ins.cache_clear()
        provenance.forget()
        for module in [each for each in sys.modules if each.startswith("plugged")]:
            del sys.modules[module]

    yield put
    monkeypatch.undo()
    renew()
