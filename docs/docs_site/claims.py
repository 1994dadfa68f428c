"""The claims of a paper as a page: what each says, the verdict that it is known to have, the code that checks it."""

from collections import Counter

from docs_site import code, mathematics, published
from docs_site.links import ROOT
from stairwise.lab.contract import manifest

INTRODUCTION = """# Claims of {paper}

The statements of [the paper](../papers/{paper}/index.md) as [claims](../glossary.md#claim): checks that can fail.
There are {count}. [How to read a verdict](../how-to/read-a-verdict.md) explains the statuses. Hover over a formula
to see what its symbols stand for.

```
stairwise verify {paper}/{first}
```

The status is the one that each claim is known to have at its own sizes; a test fails if it changes. A number in
brackets counts the cases. Claims on trainings are judged on runs: on your own by `stairwise verify --run`, and where a
[published run](../results/published.md) exists, the column *published* has the verdict on it; {results}.
"""


def pages() -> dict[str, str]:
    return {f"claims/{paper}.md": page(manifest.read(paper)) for paper in manifest.built_in()}


def page(paper: manifest.Manifest) -> str:
    name = paper["id"]
    results = "`stairwise verify --run` runs what is missing"
    if (ROOT / "docs" / "results" / f"{name}.md").is_file():
        results = f"the [results](../results/{name}.md) have their outcomes"
    rows = [row(claim, paper) for claim in paper["claims"]]
    head = INTRODUCTION.format(paper=name, count=len(rows), first=paper["claims"][0]["id"], results=results)
    symbols = mathematics.table(name)
    table = "\n".join(
        ["| claim | says | verdict | published | check and formulas |", "| --- | --- | --- | --- | --- |", *rows]
    )
    return f"{head}\n{table}\n" + (f"\n## Symbols\n\n{symbols}\n" if symbols else "")


def row(claim: dict, paper: manifest.Manifest) -> str:
    page = f"claims/{paper['id']}.md"
    names = " ".join(f"`{name}`" for name in (claim["id"], *claim["aliases"]))
    called = ", ".join(claim["statement"])
    says = cell(claim["says"]) + (f"<br>Corrected: {to(claim['corrected'])}" if claim["corrected"] else "")
    says += f"<br>Corrects: {', '.join(map(to, claim['corrects']))}" if claim["corrects"] else ""
    places = [code.link(reference, page) for reference in dict.fromkeys((claim["check"], *claim["of"]))]
    return (
        f'| <a id="{claim["id"]}"></a>{names}<br>{cell(called)} | {says} | {verdict(claim, paper)} '
        f"| {judged(claim, paper['id'])} | {'<br>'.join(places)} |"
    )


def to(claim: str) -> str:
    return f'<a href="#{claim}"><code>{claim}</code></a>'


def verdict(claim: dict, paper: manifest.Manifest) -> str:
    """The statuses that the manifest has, the first case first; else what the claim waits for."""
    known = Counter(paper["statuses"].get(claim["id"], {}).values())
    if known:
        return "<br>".join(f"`{status}`" + (f" ({count})" if count > 1 else "") for status, count in known.items())
    if claim["experiment"]:
        return f"judged on runs of `{claim['experiment']}`"
    if claim["tier"] == "instant":
        return "`skipped` where its model or data are not there"
    return f"takes longer: `--tier {claim['tier']}`"


def judged(claim: dict, paper: str) -> str:
    """The verdict on the published run; a dash for what needs no run, or has none."""
    status = published.statuses().get(f"{paper}/{claim['id']}")
    return f"[`{status}`](../results/published.md)" if status else "-"


def cell(text: str) -> str:
    """Text for a cell of a table; formulas stay."""
    parts = text.split("$")
    prose = [part.replace("\\", "\\\\").replace("|", "\\|").replace("*", "\\*").replace("<", "&lt;") for part in parts]
    shown = [part.replace("\\|", "\\Vert ").replace("|", "\\vert ") for part in parts]
    return "$".join(shown[k] if k % 2 else prose[k] for k in range(len(parts)))
