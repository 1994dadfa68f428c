"""What a terminal shows: tables whose columns are not squeezed until words break, and comparisons as they are."""

import io

import pytest
from rich.console import Console

from stairwise.commands.verify import _found
from stairwise.lab import registry
from stairwise.lab.contract.verdict import Verdict
from stairwise.lab.ledger.verify import LedgerRow
from stairwise.terminal import cells, new_table, print_rows, print_table

LONG = "a fully connected net whose first layer is narrower than Td never gets below the bound"
RUN = "20261117-102124-591037-848816"


def printed(table, width: int) -> str:
    out = io.StringIO()
    Console(file=out, width=width, force_terminal=True, color_system=None).print(table)
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines())


def claims():
    table = new_table("claim", "statement", "needs", "says", wrap=("statement", "says"))
    table.add_row(*cells(["selection/thm3.1-threshold-printed", "Theorem D.4, second stage of the proof", "", LONG]))
    return table


def test_a_row_that_a_terminal_is_too_narrow_for_is_an_entry_of_whole_words():
    assert printed(claims(), 80).splitlines() == [
        "selection/thm3.1-threshold-printed",
        "  a fully connected net whose first layer is narrower than Td never gets below",
        "  the bound",
        "  statement: Theorem D.4, second stage of the proof",
    ]


def test_where_there_is_room_the_row_stays_a_row_under_the_names_of_its_columns():
    first, second = printed(claims(), 180).splitlines()
    assert first.split() == ["claim", "statement", "needs", "says"]
    assert second.startswith("selection/thm3.1-threshold-printed  Theorem D.4")
    assert second.endswith(LONG)


@pytest.mark.parametrize("width", [40, 80, 200])
def test_no_name_is_cut_at_any_width(width):
    out = io.StringIO()
    console = Console(file=out, width=width, force_terminal=True, color_system=None)
    row = (RUN, "parity_onestep/onestep", 8, "stairwise run parity_onestep/onestep")
    print_table(console, ("run", "experiment", "trials", "command"), [row], right=("trials",), wrap=("command",))
    for word in (RUN, "parity_onestep/onestep", "8"):
        assert word in out.getvalue()


def test_an_entry_that_begins_with_a_number_says_of_what():
    table = new_table("task.length", "status", "remarks", right=("task.length",), wrap=("remarks",))
    table.add_row(*cells([8, "outside", f"not met: {LONG}"]))
    assert printed(table, 30).startswith("task.length: 8\n  not met: a fully")


def test_rows_of_data_have_no_name_and_say_what_each_value_is():
    out = io.StringIO()
    console = Console(file=out, width=30, force_terminal=True, color_system=None)
    print_rows(console, [{"measured": 0.2, "required": 0.1, "margin": 0.5}, {"a fact that is checked": True}])
    assert out.getvalue().splitlines() == [
        "- measured: 0.2; required: ",
        "0.1; margin: 0.5",
        "- a fact that is checked: True",
    ]


@pytest.mark.parametrize(("measured", "line"), [(0.1, "p 0.1 <= 0.2"), (0.3, "p 0.3, required <= 0.2")])
def test_a_comparison_is_written_as_true_only_where_it_is(measured, line):
    claim, _ = registry.claims(["selection/thm3.5"])[0]
    row = LedgerRow(claim, Verdict.at_most(measured, 0.2, quantity="p"), 0.0)
    assert line in _found(row, {})
