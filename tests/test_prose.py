"""The words of pages and help texts: the linter finds what it should, and nothing in the repository."""

import doctest
import importlib
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture
def prose(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "docs"))
    return importlib.import_module("docs_site.prose")


def test_the_pages_and_help_texts_are_in_plain_words(prose, capsys):
    assert (prose.main(), capsys.readouterr().out) == (0, "")


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("One line a claim, and 0.3 ms a model.", ["One line a claim", "0.3 ms a model"]),
        ("A run goes on after a stop.", ["goes on"]),
        ("An error of .15 is small.", [".15"]),
        ("The cost is k^4 N^6 where d_e is the width.", ["k^4", "N^6", "d_e"]),
        ("It takes `k^4` steps, $k^4$ samples, [a file](my_file.md) and one line per claim, 0.15 s each.", []),
        ("```\none line a claim, .15\n```\n\n<!-- generated -->\n.15\n<!-- end of what is generated -->", []),
    ],
)
def test_the_linter_finds_what_the_word_list_names_outside_of_code_and_formulas(prose, text, found):
    assert [what.split("'")[1] for _, what in prose.findings(text)] == found


def test_a_paragraph_of_many_numbers_is_found_and_a_table_of_them_is_not(prose):
    assert [line for line, _ in prose.crowded("Title\n\n1, 2, 3 and 4 s.\n\n| 1 | 2 |\n| - | - |\n| 3 | 4 |")] == [3]


def test_numbers_that_name_a_statement_do_not_crowd_a_paragraph_and_others_do(prose):
    assert prose.crowded("Theorem 3, Lemmas 4, 5 and 6 and Figure 2b of 2025 hold.") == []
    assert len(prose.crowded("Samples 3, 4, 5 and 6 hold.")) == 1


def test_no_page_is_excepted_from_the_rule_on_numbers(prose, monkeypatch, capsys):
    monkeypatch.setattr(prose, "helps", lambda: iter(()))
    for name in ("CHANGELOG.md", "docs/results/bench.md", "src/stairwise/papers/lego/README.md"):
        monkeypatch.setattr(prose, "pages", lambda name=name: iter([(name, "It took 1, 2, 3 and 4 s.")]))
        assert prose.main() == 1
        assert capsys.readouterr().out.startswith(f"{name}:1: 4 numbers in a paragraph")


def test_help_texts_are_read_from_the_code(prose):
    assert any(text == "steps between evaluations" for _, _, text in prose.helps())


def test_the_examples_of_the_linter_are_true(prose):
    assert doctest.testmod(prose)[0] == 0


def test_the_glossary_has_every_word_that_is_ours():
    glossary = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8")
    words = {word.lower() for word in re.findall(r"^## (\w+)", glossary, re.MULTILINE)}
    ours = {"claim", "arm", "preset", "trial", "tier", "tick", "group", "ledger", "margin", "record"}
    assert ours <= words
    assert "*published*" in glossary


def test_every_page_that_uses_our_words_links_to_the_glossary(prose):
    ours = re.compile(r"\b(claim|arm|preset|trial|tier|tick|ledger)s?\b", re.IGNORECASE)
    own = ("CHANGELOG.md", "docs/glossary.md", "src/stairwise/stories/")  # stories explain their words themselves
    pages = {name: text for name, text in prose.pages() if not name.startswith(own)}
    using = [name for name, text in pages.items() if any(ours.search(words) for _, words, _ in prose.pieces(text))]
    assert len(using) > 30
    assert [name for name in using if "glossary.md" not in pages[name]] == []
