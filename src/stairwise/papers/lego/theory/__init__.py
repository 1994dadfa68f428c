"""What the paper proves, as functions; printed and corrected forms stand side by side.

`stairwise where lego STATEMENT` names the functions of a statement, and the README lists them all. Values, classes and
clauses are numbered from 0 here, steps l and slots from 1 where a docstring says so.
"""
