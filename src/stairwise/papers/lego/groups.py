"""Finite actions: what each of finitely many actions does to each of finitely many values, and the group behind it.

`table[g, y]` is g(y), and actions compose from the right: (g o h)(y) = g(h(y)), so that the product of a chain that
applies g_1 first is g_L o ... o g_1. Nothing here imports JAX: a config may ask before anything is compiled.

>>> S3 = named("S3")
>>> S3.actions, S3.values, S3.transitive, S3.free, S3.derived_series
(6, 3, True, False, (6, 3, 1))
>>> S3.same_effect, S3.distractor
(Fraction(1, 3), Fraction(1, 6))
>>> named("A5-regular").complexity
'NC1-complete'
"""

import itertools
import json
import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cache, cached_property
from typing import Any

import numpy as np

from stairwise.papers.lego.permutation_groups import closure, contains, derived_subgroup, first_non_permutation, unique

LARGEST_PRODUCT = 5_040  # of which all products are tabulated
HARD, EASY, OPEN = "NC1-complete", "in ACC0", "not a group"


@dataclass(frozen=True, eq=False)
class Action:
    """Actions on values: `table` (actions, values), and the products of the group where they are given."""

    table: np.ndarray
    name: str = "table"
    product: np.ndarray | None = None

    def __post_init__(self):
        object.__setattr__(self, "table", _whole_numbers(self.table, f"{self.name}: the table"))
        if self.product is not None:
            object.__setattr__(self, "product", _whole_numbers(self.product, f"{self.name}: the multiplication table"))
        if self.table.ndim != 2 or 0 in self.table.shape:
            raise ValueError(f"{self.name}: the table has shape {self.table.shape}, which must be (actions, values)")
        outside = np.argwhere((self.table < 0) | (self.table >= self.values))
        if len(outside):
            g, y = outside[0]
            raise ValueError(
                f"{self.name}: table[{g}][{y}]={self.table[g, y]} must lie in 0..{self.values - 1}, the values"
            )

    def __repr__(self) -> str:
        return f"Action({self.name}: {self.actions} actions on {self.values} values)"

    @property
    def actions(self) -> int:
        """|G|."""
        return self.table.shape[0]

    @property
    def values(self) -> int:
        """|Y|."""
        return self.table.shape[1]

    # --- what the table shows -----------------------------------------------------------------------------------------

    @cached_property
    def fibers(self) -> np.ndarray:
        """Fiber_{j,y} = {g : g(y) = j} as a mask (j, y, actions)."""
        return self.table.T[None] == np.arange(self.values)[:, None, None]

    @cached_property
    def fiber_sizes(self) -> np.ndarray:
        """|Fiber_{j,y}| (j, y): |G|/|Y| everywhere where a group acts transitively."""
        sizes = np.zeros((self.values, self.values), dtype=np.int64)
        np.add.at(sizes, (self.table, np.arange(self.values)[None]), 1)
        return sizes

    @property
    def stabilisers(self) -> np.ndarray:
        """The actions that keep y, as a mask (y, actions)."""
        return (self.table == np.arange(self.values)).T

    @property
    def transitive(self) -> bool:
        """Some action takes each value to each other."""
        return bool((self.fiber_sizes >= 1).all())

    @property
    def free(self) -> bool:
        """No two actions agree on a value."""
        return bool((self.fiber_sizes <= 1).all())

    @property
    def symmetric(self) -> bool:
        """The actions are all permutations of the values, each once."""
        everything = math.factorial(self.values) if self.values <= 20 else math.inf
        return self.actions == everything and self.invertible and self.faithful

    @property
    def simply_transitive(self) -> bool:
        """Exactly one action takes y to j."""
        return self.transitive and self.free

    @property
    def invertible(self) -> bool:
        """Every action is a permutation."""
        return first_non_permutation(self.table) is None

    @property
    def faithful(self) -> bool:
        """No two actions are the same map."""
        return len(unique(self.table)) == self.actions

    @property
    def same_effect(self) -> Fraction:
        """P(g'(y) = g(y)) for independent uniform g, g', y: 1/|Y| for every transitive group action."""
        return Fraction(int((self.fiber_sizes**2).sum()), self.actions**2 * self.values)

    @property
    def distractor(self) -> Fraction:
        """P(g'(y) = g(y) and g' != g): another action with the same effect."""
        return self.same_effect - Fraction(1, self.actions)

    # --- the group that the actions generate --------------------------------------------------------------------------

    @cached_property
    def generators(self) -> np.ndarray:
        """A few of the rows that generate what all of them do."""
        if not self.invertible:
            raise ValueError(f"{self.name}: an action that is no permutation generates no group")
        chosen, reached = self.table[:0], np.arange(self.values, dtype=np.int32)[None]
        for row in self.table:
            if not contains(reached, row):
                chosen = np.concatenate([chosen, row[None]])
                reached = closure(chosen, self.name)
        return chosen

    @cached_property
    def image(self) -> np.ndarray:
        """The permutations of the group that the actions generate, in lexicographic order."""
        return closure(self.generators, self.name)

    @property
    def is_group(self) -> bool:
        """The actions are, as maps, all of a group."""
        return self.invertible and len(unique(self.table)) == len(self.image)

    @cached_property
    def multiplication(self) -> np.ndarray:
        """`multiplication[g, h]` is the action g o h; a non-faithful action does not determine it by itself."""
        if self.product is not None:
            return self.product
        if not self.faithful:
            raise ValueError(f"{self.name}: two actions are the same map, so the multiplication table must be given")
        if self.actions > LARGEST_PRODUCT:
            raise ValueError(f"{self.name}: {self.actions} actions must be at most {LARGEST_PRODUCT} for all products")
        place = {row.tobytes(): g for g, row in enumerate(self.table)}
        found = np.empty((self.actions, self.actions), dtype=np.int32)
        for g, row in enumerate(self.table):
            for h, image in enumerate(row[self.table]):
                found[g, h] = place.get(image.tobytes(), -1)
        if (found < 0).any():
            g, h = np.argwhere(found < 0)[0]
            raise ValueError(f"{self.name}: the product of actions {g} and {h} is not among the actions (closure)")
        return found

    @cached_property
    def identity(self) -> int:
        """The neutral action."""
        still = np.flatnonzero((self.table == np.arange(self.values)).all(axis=1))
        if not len(still):
            raise ValueError(f"{self.name}: no action keeps every value (identity)")
        if self.product is None:
            return int(still[0])
        neutral = [e for e in still if (self.product[e] == np.arange(self.actions)).all()]
        return int(neutral[0])

    @cached_property
    def derived_series(self) -> tuple[int, ...]:
        """The orders of G, [G, G], ... of the image group, until they no longer fall."""
        generators, orders = self.generators, [len(self.image)]
        while orders[-1] > 1:
            generators = derived_subgroup(generators, self.name)
            order = len(closure(generators, self.name))
            if order == orders[-1]:
                break
            orders.append(order)
        return tuple(orders)

    @property
    def solvable(self) -> bool:
        """The derived series reaches the trivial group."""
        return self.derived_series[-1] == 1

    @property
    def commutative(self) -> bool:
        return self.derived_series[-1] == 1 and len(self.derived_series) <= 2

    @property
    def complexity(self) -> str:
        """Barrington: the word problem of a finite group is NC1-complete exactly if the group is not solvable.

        The group is the image; solvable ones lie in ACC0. Maps that are no permutations have no label here.
        """
        if not self.invertible:
            return OPEN
        return EASY if self.solvable else HARD


# --- constructors -----------------------------------------------------------------------------------------------------


def from_table(
    table: Any,
    name: str = "table",
    *,
    product: Any = None,
    group: bool = False,
    allow_non_invertible: bool = False,
) -> Action:
    """An action from the user's table, or one line that says what is wrong with it.

    `group` claims that the actions are a group; `product[g, h]` is then g o h, and must not contradict the table.

    >>> from_table([[0, 1], [0, 0]])
    Traceback (most recent call last):
    ValueError: table: row 1 = [0, 0] must be a permutation of 0..1 (allow_non_invertible takes any map)
    """
    rows = _array(table, f"{name}: the table")
    products = None if product is None else _array(product, f"{name}: the multiplication table")
    action = Action(rows, name, products)
    wrong = first_non_permutation(action.table)
    if wrong is not None and not allow_non_invertible:
        raise ValueError(
            f"{name}: row {wrong} = {action.table[wrong].tolist()} must be a permutation of 0..{action.values - 1}"
            " (allow_non_invertible takes any map)"
        )
    if action.product is not None:
        _check_product(action)
    if group or action.product is not None:
        _check_group(action)
    return action


def from_generators(rows: Any, name: str = "generated") -> Action:
    """All of the group that the given permutations generate, the identity first.

    >>> from_generators([[1, 2, 0], [1, 0, 2]]).actions
    6
    """
    given = from_table(rows, name)
    return Action(given.image, name)


def regular(action: Action) -> Action:
    """A group on itself, by multiplication from the left: free and transitive, cyclic or not."""
    return Action(action.multiplication, f"{action.name}-regular")


def cyclic(n: int) -> Action:
    """C_n on Z_n: g(y) = g + y."""
    return Action((np.arange(n)[:, None] + np.arange(n)) % n, f"C{n}")


def symmetric(n: int) -> Action:
    """S_n on n points, in lexicographic order."""
    return Action(np.array(list(itertools.permutations(range(n))), dtype=np.int32), f"S{n}")


def alternating(n: int) -> Action:
    """A_n on n points: the even permutations."""
    rows = np.array(list(itertools.permutations(range(n))), dtype=np.int32)
    inversions = sum((rows[:, a] > rows[:, b]).astype(np.int32) for a in range(n) for b in range(a + 1, n))
    return Action(rows[np.asarray(inversions) % 2 == 0] if n > 1 else rows, f"A{n}")


def dihedral(n: int) -> Action:
    """D_n on the n corners of an n-gon: n rotations, then n reflections."""
    turns, corners = np.arange(n)[:, None], np.arange(n)
    return Action(np.concatenate([(turns + corners) % n, (turns - corners) % n]), f"D{n}")


def quaternion() -> Action:
    """Q_8 on itself; elements 0..7 are 1, i, j, k, -1, -i, -j, -k."""
    unit = np.array([[0, 1, 2, 3], [1, 4, 3, 6], [2, 7, 4, 1], [3, 2, 5, 4]])  # 1, i, j, k times 1, i, j, k
    sign = 4 * (np.arange(8) // 4)
    return Action((unit[np.ix_(np.arange(8) % 4, np.arange(8) % 4)] + sign[:, None] + sign) % 8, "Q8")


FAMILIES: dict[str, tuple[Callable[[int], Action], int, int]] = {
    "C": (cyclic, 1, 4096),
    "S": (symmetric, 1, 8),
    "A": (alternating, 1, 8),
    "D": (dihedral, 3, 2048),
}
NAMES = "C<n>, S<n>, A<n>, D<n>, Q8, each with -regular or without, [[...]] for a table, <[[...]]> for generators"


@cache
def named(name: str) -> Action:
    """The action that a name means: C6, S5, A5, D5, Q8, S3-regular, a table [[1,0],[0,1]] or generators <[[1,2,0]]>.

    >>> named("Q8").derived_series
    (8, 2, 1)
    >>> named("<[[1,2,3,0],[2,1,0,3]]>").actions
    8
    >>> named("X4")
    Traceback (most recent call last):
    ValueError: action=X4 must be C<n>, S<n>, A<n>, D<n>, Q8, each with -regular or without, ...
    """
    text = name.replace(" ", "")
    if text.endswith("-regular"):
        return _regular_named(text)
    if text.startswith(("[", "<")):
        return _written_out(text)
    if text == "Q8":
        return quaternion()
    match = re.fullmatch(r"([A-Z])_?(\d{1,4})", text)
    if not match or match[1] not in FAMILIES:
        raise ValueError(f"action={name} must be {NAMES}")
    build, low, high = FAMILIES[match[1]]
    size = int(match[2])
    if not low <= size <= high:
        raise ValueError(f"action={name} must have {match[1]}{low}..{match[1]}{high}")
    return build(size)


def _regular_named(text: str) -> Action:
    base = named(text.removesuffix("-regular"))
    if base.actions > LARGEST_PRODUCT // 4:
        raise ValueError(f"action={text}: {base.actions} actions on themselves must be at most {LARGEST_PRODUCT // 4}")
    return regular(base)


def _written_out(text: str) -> Action:
    generators = text.startswith("<")
    try:
        rows = json.loads(text.removeprefix("<").removesuffix(">"))
        return from_generators(rows, text) if generators else from_table(rows, text)
    except json.JSONDecodeError:
        raise ValueError(f"action={text} must be rows of whole numbers, like [[0,1],[1,0]]") from None


# --- checks of a user's tables ----------------------------------------------------------------------------------------


def _array(rows: Any, what: str) -> np.ndarray:
    try:
        return np.asarray(rows)
    except ValueError:
        raise ValueError(f"{what} has rows of different lengths, which must be equal") from None


def _whole_numbers(given: np.ndarray, what: str) -> np.ndarray:
    if given.dtype.kind not in "iu":
        raise ValueError(f"{what} has entries of type {given.dtype}, which must be whole numbers")
    made = np.array(np.clip(given, -(2**31), 2**31 - 1), dtype=np.int32)
    made.setflags(write=False)
    return made


def _check_product(action: Action) -> None:
    """act[M[g, h]] = act[g] o act[h] for all g, h."""
    product, table = action.product, action.table
    assert product is not None
    size = (action.actions, action.actions)
    if product.shape != size or product.min() < 0 or product.max() >= action.actions:
        raise ValueError(f"{action.name}: the multiplication table must be {size} with entries 0..{action.actions - 1}")
    for g in range(action.actions):
        wrong = np.flatnonzero((table[product[g]] != table[g][table]).any(axis=1))
        if len(wrong):
            h = wrong[0]
            raise ValueError(
                f"{action.name}: the multiplication table says {g} o {h} = {product[g, h]}, but the actions compose to"
                f" {table[g][table[h]].tolist()}, not {table[product[g, h]].tolist()}"
            )


def _check_group(action: Action) -> None:
    """Closure, identity and inverses, each refused by its name."""
    product = action.multiplication
    everything = np.arange(action.actions)
    neutral = np.flatnonzero((product == everything).all(axis=1) & (product == everything[:, None]).all(axis=0))
    if not len(neutral):
        raise ValueError(f"{action.name}: no action is neutral among the {action.actions} (identity)")
    without = np.flatnonzero(~(product == neutral[0]).any(axis=1))
    if len(without):
        raise ValueError(f"{action.name}: action {without[0]} has no inverse among the {action.actions} (inverses)")
