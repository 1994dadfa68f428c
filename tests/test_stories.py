"""The stories: they build, answer their questions, show commands that exist, and ask nothing of a network."""

import html
import json
import re
import shlex
from pathlib import Path

import pytest

from stairwise.cli import main, parser
from stairwise.lab.contract.manifest import check_name, read
from stairwise.stories import PAPERS, mathml, source, write
from stairwise.stories.numbers.__main__ import KEPT, computed
from tests.guides.page import blocks, parsed, text

# formulas, and the numbers of statements
NOT_COUNTED = r"\$\$?[^$]*\$\$?|(?:Theorem|Lemma|Corollary|Definition|Section|Figure|Equation)s? [\w.]+"


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    made = tmp_path_factory.mktemp("stories")
    assert write(made) == made / "index.html"
    return made


def pages(folder: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in sorted(folder.glob("*.html"))}


def test_every_story_is_written_with_its_claims_and_stays_small(folder):
    found = pages(folder)
    assert set(found) == {"index.html", *(f"{p}.html" for p in PAPERS), *(f"{p}-claims.html" for p in PAPERS)}
    assert all(len(text) < 400_000 for text in found.values())
    assert sum(path.stat().st_size for path in (folder / "static").iterdir()) < 150_000


def test_what_is_kept_is_what_the_formulas_give():
    def alike(kept, made):
        if isinstance(made, dict):
            return kept.keys() == made.keys() and all(alike(kept[name], made[name]) for name in made)
        if isinstance(made, list | tuple):
            return len(kept) == len(made) and all(map(alike, kept, made))
        return kept == pytest.approx(made, rel=1e-4, abs=1e-9) if isinstance(made, float) else kept == made

    made = json.loads(json.dumps(computed()))
    kept = json.loads(KEPT.read_text())
    for paper in PAPERS:
        for part in made[paper]:
            assert alike(kept[paper][part], made[paper][part]), f"{paper}: python -m stairwise.stories.numbers"


def test_no_page_asks_for_anything_that_is_not_in_the_folder(folder):
    for path in [*folder.glob("*.html"), *folder.glob("static/*")]:
        assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)|@import|\bfetch\(|XMLHttpRequest", path.read_text())
    for name, page in pages(folder).items():
        for address in re.findall(r'(?:src|href)="([^"]+)"', page):
            path, _, place = html.unescape(address).partition("#")
            assert not path or (folder / path).is_file(), (name, address)
            target = page if not path else (folder / path).read_text()
            if place and "machine=" not in place:
                assert f'id="{place}"' in target, (name, address)


@pytest.mark.parametrize("paper", PAPERS)
def test_ten_questions_are_answered_by_screens_that_exist(paper):
    story = source.read(paper)
    names = [screen.name for screen in story.screens]
    assert len(set(names)) == len(names) >= 8
    assert len(story.questions) == 10
    assert {question.screen for question in story.questions} <= set(names)


@pytest.mark.parametrize("paper", PAPERS)
def test_every_screen_has_one_thing_to_touch(paper):
    for screen in source.read(paper).screens:
        assert len(re.findall(r"^```(?:widget|plot|playground) ", screen.text, re.MULTILINE)) == 1, screen.name


@pytest.mark.parametrize("paper", PAPERS)
def test_no_paragraph_has_more_than_three_numbers(paper):
    for screen in source.read(paper).screens:
        for paragraph in re.sub(r"```.*?```", "", screen.text, flags=re.DOTALL).split("\n\n"):
            words = re.sub(NOT_COUNTED, "", paragraph)
            assert len(re.findall(r"\d[\d.,]*|\{\{\w+", words)) <= 3, (screen.name, paragraph)


def shown(folder: Path) -> set[str]:
    found = re.findall(r'<div class="command"><code>(.*?)</code>', "".join(pages(folder).values()))
    return {html.unescape(line) for line in found}


def test_every_command_that_is_shown_parses_and_names_what_exists(folder):
    commands = parser().commands
    for line in shown(folder):
        program, name, *words = shlex.split(line)
        assert program == "stairwise"
        options = commands[name].parse_args(words)
        for target in getattr(options, "targets", None) or [getattr(options, "target", None)]:
            if target is not None:
                check_name(target, {"verify": "claims", "figure": "figures"}.get(name, "experiments"))


def test_the_guide_prints_commands_and_names_the_blocks_that_pages_use():
    guide = text("how-to/stories")
    for language, block in blocks(guide):
        for line in block.splitlines() if language == "sh" else ():
            parsed(shlex.split(line, comments=True)[1:])
    used = {kind for paper in PAPERS for s in source.read(paper).screens for kind, _ in blocks_of(s.text)}
    assert set(re.findall(r"^\| `(\w+)", guide, re.MULTILINE)) == used


def blocks_of(page: str) -> list[tuple[str, str]]:
    return re.findall(r"^```(\w+)(.*)$", page, re.MULTILINE)


@pytest.mark.parametrize("paper", PAPERS)
def test_every_refuted_statement_is_named_where_the_story_says_what_is_not_true(paper, folder):
    untrue = (folder / f"{paper}.html").read_text().partition('<section class="screen" id="untrue"')[2]
    for claim in read(paper)["claims"]:
        if claim["kind"] == "refuted":
            assert f'{paper}-claims.html#{claim["id"]}"' in untrue


def test_no_formula_is_left_in_latex(folder):
    for name, page in pages(folder).items():
        body = re.sub(r"<script.*?</script>|<pre>.*?</pre>|<code>.*?</code>", "", page, flags=re.DOTALL)
        assert not re.search(r"\\[a-zA-Z]+|\$|⟦|\{\{", body), name


@pytest.mark.parametrize("latex", [r"\nothing{x}", r"\frac{a}", "{x", "x\\"])
def test_a_formula_that_cannot_be_typeset_is_an_error(latex):
    with pytest.raises(ValueError, match=r"not known|missing|not closed|ends"):
        mathml.typeset(latex)


def test_scripts_fractions_and_alphabets_are_typeset():
    assert mathml.typeset(r"e^{-C}") == "<math><msup><mi>e</mi><mrow><mo>−</mo><mi>C</mi></mrow></msup></math>"
    assert mathml.typeset(r"\frac12") == "<math><mfrac><mn>1</mn><mn>2</mn></mfrac></math>"
    assert mathml.typeset(r"\mathcal{E}\mathbb{R}") == "<math><mi>ℰ</mi><mi>ℝ</mi></math>"
    assert "<munderover><mo>∑</mo>" in mathml.typeset(r"\sum_{i=1}^n i", display=True)
    assert mathml.in_text("a < $b$") == "a &lt; <math><mi>b</mi></math>"


@pytest.mark.parametrize("name", ["file", "file/inside", "x" * 3000])
def test_a_folder_that_cannot_be_written_is_refused_in_one_line(name, tmp_path, capsys):
    (tmp_path / "file").write_text("")
    assert main(["stories", "--out", str(tmp_path / name)]) == 2
    assert "must be a folder that can be written" in capsys.readouterr().err
