"""The pages that are made from the code: papers and gallery; and parts of the README for others."""

import re
from pathlib import Path

from docs_site import mathematics, timings
from docs_site.links import ROOT, inside
from stairwise.lab import registry
from stairwise.lab.contract.experiment import Figure
from stairwise.lab.contract.paper import Paper

PAPERS = "src/stairwise/papers"
RESULTS = ROOT / "docs" / "results"


def cell(text: str) -> str:
    """Text for a cell of a table."""
    return text.replace("\\", "\\\\").replace("|", "\\|").replace("*", "\\*").replace("_", "\\_")


# --- papers and claims ------------------------------------------------------------------------------------------------


def built_in() -> list[Paper]:
    """The papers of this repository; one that another package has plugged in has its pages there."""
    return [paper for paper in registry.papers() if (ROOT / PAPERS / paper.id / "README.md").is_file()]


def papers() -> dict[str, str]:
    return {name: text for paper in built_in() for name, text in paper_pages(paper).items()}


def paper_pages(paper: Paper) -> dict[str, str]:
    """The paper's own README in three pages: the paper and what we see, its errata, the map from statements to code."""
    home, folder = f"{PAPERS}/{paper.id}/README.md", f"papers/{paper.id}"
    title, *sections = re.split(r"(?m)^(?=## )", (ROOT / home).read_text(encoding="utf-8"))
    told, rest = title.partition("\n")[::2]
    apart = {"## Errata": "errata", "## Where each statement lives": "map"}
    made = {f"{folder}/index.md": "", f"{folder}/errata.md": "", f"{folder}/map.md": ""}
    for section in sections:
        made[f"{folder}/{apart.get(section.partition(chr(10))[0].strip(), 'index')}.md"] += section
    links = f"[Claims](../../claims/{paper.id}.md) · [errata](errata.md) · [map from statements to code](map.md)"
    if (RESULTS / f"{paper.id}.md").is_file():
        links = f"[Results](../../results/{paper.id}.md) · {links}"
    symbols = mathematics.table(paper.id)
    more = f"## Symbols\n\n{symbols}\n\n" if symbols else ""
    index = f"{inside(rest + made[f'{folder}/index.md'], f'{folder}/index.md', home)}\n\n{more}{to_run(paper)}"
    return {
        f"{folder}/index.md": f"{told}\n\n{links}\n\n{reading(paper)}\n{index}",
        f"{folder}/errata.md": apart_page(paper, "Errata", made[f"{folder}/errata.md"], f"{folder}/errata.md", home),
        f"{folder}/map.md": apart_page(
            paper, "Where each statement lives", made[f"{folder}/map.md"], f"{folder}/map.md", home
        ),
    }


def apart_page(paper: Paper, title: str, section: str, page: str, home: str) -> str:
    """A section of the README as a page."""
    text = inside(section.partition("\n")[2].strip(), page, home)
    return f"# {title}: {paper.id}\n\nOf [{paper.title}](index.md).\n\n{text}\n"


def reading(paper: Paper) -> str:
    """Where the same paper is presented screen by screen."""
    story = (ROOT / "src" / "stairwise" / "stories" / "pages" / f"{paper.id}.md").is_file()
    return "New to this paper? `stairwise stories --open` has [its story](../../how-to/stories.md).\n" if story else ""


def to_run(paper: Paper) -> str:
    rows = [
        f"| `{experiment.id}` | {cell(experiment.says)} | {' '.join(f'`{f.id}`' for f in experiment.figures)} |"
        for experiment in paper.experiments
    ]
    table = "\n".join(["| experiment | what it does | figures |", "| --- | --- | --- |", *rows])
    command = f"stairwise run {paper.id}/{paper.experiments[0].id}"
    return (
        f"## What to run\n\n```\n{command}\nstairwise verify {paper.id}\n```\n\n"
        "[Presets](../../glossary.md#preset) are `quick` (a CPU), `gpu` and, where the paper gives sizes, `paper`;"
        " `--help` lists their fields.\n\n"
        f"{table}\n"
    )


# --- gallery ----------------------------------------------------------------------------------------------------------


def gallery() -> dict[str, str]:
    parts = [
        "# Gallery\n\n"
        "Every picture of the [results](results/README.md), whose pages say with which preset it was made; "
        "the command below a picture draws it from the `quick` preset, on a CPU. A thin line is a seed."
    ]
    known = {paper.id: paper for paper in built_in()}
    places = {name: place for place, name in enumerate(known)}  # papers first, benchmarks last
    folders = [path for path in RESULTS.iterdir() if path.is_dir()]
    for folder in sorted(folders, key=lambda path: (places.get(path.name, len(places)), path.name)):
        pictures = sorted(folder.glob("*.png"))
        if pictures:
            shown = "\n\n".join(picture(known.get(folder.name), path) for path in pictures)
            head = f"## {folder.name}\n\n{about(folder.name, known.get(folder.name))}"
            parts.append(f"{head}\n\n:::{{container}} pictures\n\n{shown}\n\n:::")
    return {"gallery.md": "\n\n".join(parts) + "\n"}


def about(name: str, paper: Paper | None) -> str:
    """The paper's title, and where to read more."""
    links = [f"[page](papers/{name}/index.md)"] if paper else []
    links += [f"[results](results/{name}.md)"] if (RESULTS / f"{name}.md").is_file() else []
    return f"{paper.title if paper else 'How cost grows with size'}: {', '.join(links)}." if links else ""


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


# --- other files of the repository ------------------------------------------------------------------------------------


def repository() -> dict[str, str]:
    made = {"contributing.md": "CONTRIBUTING.md", "changelog.md": "CHANGELOG.md"}
    return {page: inside((ROOT / home).read_text(encoding="utf-8"), page, home) for page, home in made.items()}


def fill(text: str) -> str:
    """Fill a page's fields in.

    `{{ readme: HEADING }}` is that section of the README, `{{ bench: NAME }}` a table of timings. Pages that are also
    read in the repository have none, since nothing fills them in there.
    """

    def section(match: re.Match) -> str:
        readme = (ROOT / "README.md").read_text(encoding="utf-8")
        found = re.search(rf"^## {re.escape(match[1])}\n(.*?)(?=^## |\Z)", readme, re.MULTILINE | re.DOTALL)
        if found is None:
            raise ValueError(f"README.md has no section {match[1]!r}")
        return inside(found[1].strip(), "index.md", "README.md")

    text = re.sub(r"\{\{ readme: (.+?) \}\}", section, text)
    return re.sub(r"\{\{ bench: ([\w-]+) \}\}", lambda match: timings.table(match[1]), text)
