"""Notebooks as pages. `python docs/docs_site/notebooks.py` runs them and keeps what came out in .cache/notebooks.

A page shows the outputs of the run of exactly this text, where there is one, and else the notebook without them.
"""

import base64
import hashlib
import sys
import tempfile
from pathlib import Path

import nbformat

ROOT = Path(__file__).parents[2]
NOTEBOOKS = ROOT / "docs" / "notebooks"
KEPT = ROOT / ".cache" / "notebooks"


def kept(path: Path) -> Path:
    """Where the executed form of a notebook lies: its name has the digest of its text."""
    return KEPT / f"{path.stem}-{hashlib.sha256(path.read_bytes()).hexdigest()[:16]}.ipynb"


def execute(path: Path, folder: Path, timeout: float = 600):
    """The notebook with its outputs, run in the given folder; the kernel is reached by sockets that are files."""
    from nbclient import NotebookClient

    notebook = nbformat.read(path, as_version=4)
    client = NotebookClient(notebook, timeout=timeout, resources={"metadata": {"path": str(folder)}})
    with tempfile.TemporaryDirectory() as sockets:
        kernel = client.create_kernel_manager()
        kernel.transport, kernel.ip = "ipc", f"{sockets}/kernel"
        client.execute()
    return notebook


def pages() -> dict[str, str | bytes]:
    made: dict[str, str | bytes] = {}
    for path in sorted(NOTEBOOKS.glob("*.ipynb")):
        source = kept(path) if kept(path).is_file() else path
        made |= page(path.stem, nbformat.read(source, as_version=4))
    return made


def page(name: str, notebook) -> dict[str, str | bytes]:
    """The notebook's page, and its pictures as files beside it."""
    parts: list[str] = []
    pictures: dict[str, str | bytes] = {}
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            parts.append(cell.source)
            continue
        parts.append(f"```python\n{cell.source}\n```")
        printed = ""
        for output in cell.get("outputs", []):
            data = output.get("data", {})
            if "image/png" in data:
                file = f"{name}-{len(pictures) + 1}.png"
                pictures[f"notebooks/{file}"] = base64.b64decode(data["image/png"])
                parts.append(f"![what the cell above draws]({file})")
            else:
                printed += output.get("text") or data.get("text/plain", "")
        if printed.strip():
            parts.append(f"``` {{ .text .output }}\n{printed.rstrip()}\n```")
    here = f"This page is the notebook `docs/notebooks/{name}.ipynb`."
    title, _, rest = "\n\n".join(parts).partition("\n")
    return {f"notebooks/{name}.md": f"{title}\n\n{here}\n{rest}\n", **pictures}


def main() -> int:
    """Run what has changed since it was run last."""
    KEPT.mkdir(parents=True, exist_ok=True)
    for path in sorted(NOTEBOOKS.glob("*.ipynb")):
        if kept(path).is_file():
            continue
        print(f"running {path.relative_to(ROOT)}", flush=True)
        with tempfile.TemporaryDirectory() as folder:
            notebook = execute(path, Path(folder))
        for old in KEPT.glob(f"{path.stem}-*.ipynb"):
            old.unlink()
        nbformat.write(notebook, kept(path))
    return 0


if __name__ == "__main__":
    sys.exit(main())
