"""Writes docs/results/paper-presets.md: what every `paper` preset would cost. Run it when a preset changes."""

from pathlib import Path

from stairwise.lab import registry
from stairwise.lab.contract import manifest
from stairwise.lab.run.measured import measured
from stairwise.record import published

PAGE = Path(__file__).parent.parent / "results" / "paper-presets.md"
HEAD = """# What the paper presets cost

An experiment has a preset `paper` where the paper gives a protocol for it, or a theorem the scaling of its sizes. Hours
are predictions for one NVIDIA H200, which `stairwise run NAME --preset paper --dry-run` prints, too. The `gpu` presets
choose what decides the question within minutes: [what they gave](README.md).

| experiment | arms x seeds | predicted hours | run | note |
| --- | --- | --- | --- | --- |
"""


def page() -> str:
    rows = []
    for paper in map(registry.paper, manifest.built_in()):
        for experiment in (each for each in paper.experiments if "paper" in each.presets):
            preset = experiment.presets["paper"]
            hours = "seconds" if preset.hours is None else f"{preset.hours:g}"
            cells = (f"`{experiment.name}`", f"{len(preset.arms)} x {preset.seeds}", hours)
            rows.append(" | ".join((*cells, run(experiment.name), preset.note)))
    return HEAD + "".join(f"| {row} |\n" for row in rows)


def run(name: str) -> str:
    """Whether the preset was run, how long that took, and whether its trials are published."""
    taken = measured(name).get("paper")
    if taken is None:
        return "no"
    there = any(path.stem.startswith("paper-") for path in published.files(name))
    return f"yes, in {taken['seconds']} s{'' if there else '; not in the record'}"


if __name__ == "__main__":
    PAGE.write_text(page())
