"""`stairwise stories`: writes the pages, and opens the first one where that was asked for."""

import argparse
from pathlib import Path

from stairwise.config import ConfigError


def add_flags(command: argparse.ArgumentParser) -> None:
    command.add_argument("-o", "--out", default="stories", help="folder to write to (default: stories)")
    command.add_argument("--open", action="store_true", help="open the pages in the browser")


def act(options, fields) -> int:
    """The folder may be one that an earlier call wrote."""
    from stairwise.stories.build import write  # imports papers

    try:
        page = write(Path(options.out))
    except OSError as error:
        raise ConfigError(
            f"out={options.out} must be a folder that can be written: {error.strerror or error}"
        ) from None
    print(page)
    if options.open:
        import webbrowser

        webbrowser.open(page.resolve().as_uri())
    return 0
