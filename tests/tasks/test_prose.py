"""Text by the block is what a loop over records would write."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stairwise.tasks.prose import byte_table, digits, listed, numbers, side_by_side

ROWS = st.lists(st.lists(st.integers(-(10**6), 10**6), min_size=3, max_size=3), min_size=1, max_size=5)


@settings(max_examples=50, deadline=None)
@given(ROWS)
def test_a_block_is_its_rows_written_one_by_one(rows):
    values = np.array(rows)
    block = "a = " + numbers(values[:, 0]) + "; [" + listed(digits(values), ", ") + "]."
    assert block.lines(len(rows)) == [f"a = {row[0]}; {row}." for row in rows]
    data, starts = block.packed(len(rows))
    assert starts.tolist() == np.cumsum([0] + [len(line) for line in block.lines(len(rows))]).tolist()
    assert data.tobytes().decode() == "".join(block.lines(len(rows)))


def test_cells_that_are_left_out_take_their_separator_with_them():
    values = np.array([[1, 22, 3], [4, 5, 6]])
    kept = np.array([[True, False, False], [True, True, False]])
    cells = side_by_side("n", digits(values), "=", byte_table(["no", "yes"])[values % 2])
    assert listed(cells, "; ", kept).lines(2) == ["n1=yes", "n4=no; n5=yes"]


def test_text_that_is_not_ascii_is_refused():
    with pytest.raises(UnicodeEncodeError):
        "ü" + numbers(np.array([1]))
