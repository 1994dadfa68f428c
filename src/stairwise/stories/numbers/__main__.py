"""Compute what the stories show, from the papers' own formulas, and keep it."""

import importlib
import json
from pathlib import Path
from typing import Any

from stairwise.stories.source import PAPERS

KEPT = Path(__file__).with_name("kept.json")


def computed() -> dict[str, Any]:
    return {paper: importlib.import_module(f"stairwise.stories.numbers.{paper}").numbers() for paper in PAPERS}


if __name__ == "__main__":
    KEPT.write_text(json.dumps(computed(), separators=(",", ":"), allow_nan=False) + "\n")
