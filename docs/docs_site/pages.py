"""The pages that are made from the code: papers, claims, gallery, reference; and parts of the README for others."""

import pkgutil
import re
from importlib import import_module
from pathlib import Path

from docs_site.links import ROOT, inside
from stairwise import _HOMES
from stairwise.lab import registry
from stairwise.lab.contract import Figure, Paper
from stairwise.lab.verdict import STATUSES

PAPERS = "src/stairwise/papers"
RESULTS = ROOT / "docs" / "results"
ROOMS = {
    "nn": "Building blocks",
    "tasks": "Tasks",
    "train": "Training",
    "measure": "Measuring",
    "interop": "Bridges",
}
CONTRACT = ("contract", "config", "sources", "verdict", "checks", "answers", "microscope", "plots")
AT_HAND = ("stairwise.lab.api.Result", "stairwise.lab.record.StoredTrial", "stairwise.lab.verify.Row")


def cell(text: str) -> str:
    """Text for a cell of a table."""
    return text.replace("\\", "\\\\").replace("|", "\\|").replace("*", "\\*").replace("_", "\\_")


# --- papers and claims ------------------------------------------------------------------------------------------------


def built_in() -> list[Paper]:
    """The papers of this repository; one that another package has plugged in has its pages there."""
    return [paper for paper in registry.papers() if (ROOT / PAPERS / paper.id / "README.md").is_file()]


def papers() -> dict[str, str]:
    return {f"papers/{paper.id}.md": paper_page(paper) for paper in built_in()}


def paper_page(paper: Paper) -> str:
    """The paper's own README, then what there is to run."""
    home, page = f"{PAPERS}/{paper.id}/README.md", f"papers/{paper.id}.md"
    text = inside((ROOT / home).read_text(encoding="utf-8"), page, home)
    title, _, rest = text.partition("\n")
    results = f" · [results](../results/{paper.id}.md)" if (RESULTS / f"{paper.id}.md").is_file() else ""
    links = f"[{len(paper.claims)} claims](../claims/{paper.id}.md){results} · [what to run](#what-to-run)"
    rows = [
        f"| `{experiment.id}` | {cell(experiment.says)} | {' '.join(f'`{f.id}`' for f in experiment.figures)} |"
        for experiment in paper.experiments
    ]
    table = "\n".join(["| experiment | what it does | figures |", "| --- | --- | --- |", *rows])
    command = f"stairwise run {paper.id}/{paper.experiments[0].id}"
    return (
        f"{title}\n\n{links}\n{rest}\n\n## What to run\n\n```\n{command}\nstairwise verify {paper.id}\n```\n\n"
        f"Presets `quick` (a CPU), `gpu` and `paper`; `--help` lists the fields of each.\n\n{table}\n"
    )


def claims() -> dict[str, str]:
    return {f"claims/{paper.id}.md": claims_page(paper) for paper in built_in()}


def claims_page(paper: Paper) -> str:
    rows = []
    for claim in paper.claims:
        needs = f"experiment `{claim.experiment}`" if claim.judge else claim.tier
        names = " ".join(f"`{name}`" for name in (claim.id, *claim.aliases))
        rows.append(f"| {names} | {cell(claim.says)} | {claim.kind} | {needs} |")
    return (
        f"# Claims of {paper.id}\n\n"
        f"The statements of [the paper](../papers/{paper.id}.md) as a check that can fail; {len(paper.claims)} claims. "
        f"[How to read a verdict](../how-to/read-a-verdict.md).\n\n"
        f"```\nstairwise verify {paper.id}/{paper.claims[0].id}\n```\n\n"
        "| claim | says | kind | needs |\n| --- | --- | --- | --- |\n" + "\n".join(rows) + "\n"
    )


# --- gallery ----------------------------------------------------------------------------------------------------------


def gallery() -> dict[str, str]:
    parts = [
        "---\nhide: [navigation]\n---\n\n# Gallery\n\n"
        "Every picture of the [results](results/README.md), whose pages say with which preset it was made; "
        "the command below a picture draws it from the `quick` preset, on a CPU. A thin line is a seed."
    ]
    known = {paper.id: paper for paper in built_in()}
    for folder in sorted(path for path in RESULTS.iterdir() if path.is_dir()):
        pictures = sorted(folder.glob("*.png"))
        if pictures:
            shown = "\n\n".join(picture(known.get(folder.name), path) for path in pictures)
            head = f"## {folder.name}\n\n{about(folder.name, known.get(folder.name))}"
            parts.append(f'{head}\n\n<div class="pictures" markdown>\n\n{shown}\n\n</div>')
    return {"gallery.md": "\n\n".join(parts) + "\n"}


def about(name: str, paper: Paper | None) -> str:
    """The paper's title, and where to read more."""
    links = [f"[page](papers/{name}.md)"] if paper else []
    links += [f"[results](results/{name}.md)"] if (RESULTS / f"{name}.md").is_file() else []
    return f"{paper.title if paper else name}: {', '.join(links)}." if links else ""


def picture(paper: Paper | None, path: Path) -> str:
    """A picture with its caption and the command that draws it; a file that shows no figure of a paper has its name."""
    place = path.relative_to(ROOT / "docs").as_posix()
    figure = drawn_by(paper, path.stem) if paper else None
    if figure is None:
        return f"[![{path.stem}]({place})]({place})\n{cell(path.stem)}"
    variant = path.stem.removeprefix(figure.id).removeprefix("-")
    caption = f"{figure.caption}{f' ({variant})' if variant else ''}"
    alt = caption.replace("[", "(").replace("]", ")")
    return f"[![{alt}]({place})]({place})\n{cell(caption)}<br>`stairwise figure {figure.paper}/{figure.id} --run`"


def drawn_by(paper: Paper, stem: str) -> Figure | None:
    """The figure that a file shows: fig3-right-bfloat16 is a variant of fig3-right."""
    fitting = [figure for figure in paper.figures if stem == figure.id or stem.startswith(f"{figure.id}-")]
    return max(fitting, key=lambda figure: len(figure.id), default=None)


# --- reference --------------------------------------------------------------------------------------------------------


def reference() -> dict[str, str]:
    """A page for the names of `stairwise`, one for the contract, and one for each room of the kernel."""
    names = [f"{module}.{name}" for name, module in sorted(_HOMES.items())] + list(AT_HAND)
    top = [f"::: {name}\n    options:\n      show_root_full_path: false" for name in names]
    contract = [f"::: stairwise.lab.{name}" for name in CONTRACT]
    made = {
        "api/index.md": "# `stairwise`\n\nWhat `import stairwise as sw` offers, and what its functions give back.",
        "api/contract.md": "# The contract\n\nWhat a paper hands to the laboratory.",
    }
    made["api/index.md"] += "\n\n" + "\n\n".join(top)
    made["api/contract.md"] += "\n\n" + "\n\n".join(contract)
    for room, title in ROOMS.items():
        package = import_module(f"stairwise.{room}")
        modules = [found.name for found in pkgutil.iter_modules(package.__path__)]
        blocks = "\n\n".join(f"::: stairwise.{room}.{module}" for module in modules)
        made[f"api/{room}.md"] = f"# {title}: `stairwise.{room}`\n\n{package.__doc__}\n\n{blocks}"
    return made


# --- other files of the repository ------------------------------------------------------------------------------------


def repository() -> dict[str, str]:
    made = {"contributing.md": "CONTRIBUTING.md", "changelog.md": "CHANGELOG.md"}
    return {page: inside((ROOT / home).read_text(encoding="utf-8"), page, home) for page, home in made.items()}


def fill(text: str) -> str:
    """Replace `{{ readme: HEADING }}` by that section of the README, and `{{ statuses }}` by a verdict's statuses."""

    def section(match: re.Match) -> str:
        readme = (ROOT / "README.md").read_text(encoding="utf-8")
        found = re.search(rf"^## {re.escape(match[1])}\n(.*?)(?=^## |\Z)", readme, re.MULTILINE | re.DOTALL)
        if found is None:
            raise ValueError(f"README.md has no section {match[1]!r}")
        return inside(found[1].strip(), "index.md", "README.md")

    text = re.sub(r"\{\{ readme: (.+?) \}\}", section, text)
    return text.replace("{{ statuses }}", ", ".join(f"`{status}`" for status in STATUSES))
