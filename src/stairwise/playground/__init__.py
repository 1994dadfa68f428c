"""`stairwise playground`: four machines that train in the browser, as a static folder that needs no server."""

from collections.abc import Mapping
from pathlib import Path

from stairwise.config import ConfigError
from stairwise.lab.serve import address, server
from stairwise.lab.store.files import StoreError, read_file, replace_file

STATIC = Path(__file__).parent / "static"
FIRST = "index.html"
MARK = b"<title>Stairwise playground</title>"


def write(folder: Path) -> Path:
    """Writes the files into a folder, which may be one of an earlier call; returns the page to open."""
    try:
        return put(folder, {file.name: file.read_bytes() for file in STATIC.iterdir()}, MARK)
    except OSError as error:
        raise ConfigError(f"out={folder} cannot be written: {error.strerror}") from None


def put(folder: Path, files: Mapping[str, bytes], mark: bytes) -> Path:
    """Puts each file in its place in one step; ConfigError where the folder's first page has not this mark.

    Returned is the first page. Such a folder was not written by an earlier call, and nothing in it is written over.
    """
    first = folder / FIRST
    try:
        foreign = first.exists() and mark not in read_file(first)
    except StoreError:  # a folder, or a pipe
        foreign = True
    if foreign:
        raise ConfigError(f"out={folder} must be a new folder or one of an earlier call: its {FIRST} is something else")
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        replace_file(folder / name, content)
    return first


def serve(port: int, *, show: bool) -> None:
    """Serves the folder to this machine's browsers until it is interrupted; port 0 takes a free one."""
    with server(STATIC, port) as serving:
        where = address(serving)
        print(f"the playground is at {where} (this machine only); Ctrl-C stops", flush=True)
        if show:
            import webbrowser

            webbrowser.open(where)
        serving.serve_forever()
