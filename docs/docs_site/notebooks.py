"""Notebooks as pages. They are committed with outputs: `python docs/docs_site/notebooks.py` runs what has changed.

A notebook's metadata has the digest of the code whose outputs it shows, so that a test sees outputs of other code.
"""

import base64
import hashlib
import sys
import tempfile
from pathlib import Path

import nbformat

ROOT = Path(__file__).parents[2]
NOTEBOOKS = ROOT / "docs" / "notebooks"


def digest(notebook) -> str:
    """Of the code, without outputs."""
    code = "\0".join(cell.source for cell in notebook.cells if cell.cell_type == "code")
    return hashlib.sha256(code.encode()).hexdigest()[:16]


def is_run(notebook) -> bool:
    return notebook.metadata.get("code_digest") == digest(notebook)


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


def run(path: Path) -> None:
    """Write the notebook's outputs into its file, and nothing that differs from run to run besides."""
    with tempfile.TemporaryDirectory() as folder:
        notebook = execute(path, Path(folder))
    for cell in notebook.cells:
        cell.metadata = {}
        if cell.cell_type == "code":
            cell.execution_count = None
            cell.outputs = [output for output in cell.outputs if output.get("name") != "stderr"]
            for output in cell.outputs:
                output.pop("execution_count", None)
                if output.output_type == "execute_result":
                    output.execution_count = None
    notebook.metadata = {
        "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
        "language_info": {"name": "python"},
        "code_digest": digest(notebook),
    }
    nbformat.write(notebook, path)


def pages() -> dict[str, str | bytes]:
    made: dict[str, str | bytes] = {}
    for path in sorted(NOTEBOOKS.glob("*.ipynb")):
        made |= page(path.stem, nbformat.read(path, as_version=4))
    return made


def page(name: str, notebook) -> dict[str, str | bytes]:
    """The notebook's page, and its pictures as files beside it."""
    parts: list[str] = []
    pictures: dict[str, str | bytes] = {}
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            parts.append(cell.source)
            continue
        parts.append(f"```ipython\n{cell.source}\n```")
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
            parts.append(f"```text\n{printed.rstrip()}\n```")
    here = f"This page is the notebook `docs/notebooks/{name}.ipynb`."
    title, _, rest = "\n\n".join(parts).partition("\n")
    return {f"notebooks/{name}.md": f"{title}\n\n{here}\n{rest}\n", **pictures}


def main() -> int:
    """Run what has changed since it was run last."""
    for path in sorted(NOTEBOOKS.glob("*.ipynb")):
        if not is_run(nbformat.read(path, as_version=4)):
            print(f"running {path.relative_to(ROOT)}", flush=True)
            run(path)
    return 0


if __name__ == "__main__":
    sys.exit(main())
