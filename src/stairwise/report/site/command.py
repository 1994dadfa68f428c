"""`stairwise report`: build the site, then show it or serve it where that was asked for."""

from pathlib import Path

from stairwise.lab.progress import for_terminal
from stairwise.lab.store import Store
from stairwise.report.site.build import build
from stairwise.report.site.serve import address, server


def report(store: Store, out: Path, *, show: bool, serve: bool, port: int) -> int:
    """Exit status 0; with `serve` it goes on until it is interrupted."""
    serving = server(out, port) if serve else None  # a port that cannot be used is refused before anything is built
    page = build(store, out, progress=for_terminal())
    print(page, flush=True)
    where = page.resolve().as_uri() if serving is None else address(serving)
    if serving is not None:
        print(f"serving it at {where} (this machine only); Ctrl-C stops", flush=True)
    if show:
        import webbrowser

        webbrowser.open(where)
    if serving is not None:
        with serving:
            serving.serve_forever()
    return 0
