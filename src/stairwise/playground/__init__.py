"""`stairwise playground`: four machines that train in the browser, as a static folder that needs no server."""

from pathlib import Path

from stairwise.config import ConfigError
from stairwise.lab.serve import address, server

STATIC = Path(__file__).parent / "static"


def write(folder: Path) -> Path:
    """Writes the files into a folder, which may exist; returns the page to open."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for file in STATIC.iterdir():
            (folder / file.name).write_bytes(file.read_bytes())
    except OSError as error:
        raise ConfigError(f"out={folder} cannot be written: {error.strerror}") from None
    return folder / "index.html"


def serve(port: int, *, show: bool) -> None:
    """Serves the folder to this machine's browsers until it is interrupted; port 0 takes a free one."""
    with server(STATIC, port) as serving:
        where = address(serving)
        print(f"the playground is at {where} (this machine only); Ctrl-C stops", flush=True)
        if show:
            import webbrowser

            webbrowser.open(where)
        serving.serve_forever()
