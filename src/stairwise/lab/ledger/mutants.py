"""Mutants of a function: its source with one thing wrong, and how one takes the function's place.

>>> def area(width, height):
...     return width * height - 1
>>> sorted({(m.operator, m.after) for m in mutants_of_source("def area(w, h):\\n    return w * h - 1\\n")})[:3]
[('exponent', 'w / h'), ('factor', '(w * h - 1) / 2'), ('factor', '2 * (w * h - 1)')]
"""

import ast
import copy
import dis
import inspect
import sys
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from types import CodeType, FunctionType
from typing import Any

OPERATORS = ("sign", "factor", "exponent", "term", "index", "inequality", "step", "direction")
SIDES = {"at_most": "at_least", "at_least": "at_most", "at most": "at least", "at least": "at most"}
REVERSED = {ast.Lt: ast.Gt, ast.Gt: ast.Lt, ast.LtE: ast.GtE, ast.GtE: ast.LtE}
OTHER_END = {"max": "min", "min": "max", "maximum": "minimum", "minimum": "maximum", "argmax": "argmin"}
NO_NUMBERS = ("bool", "all", "any", "tuple", "list", "dict", "partial", "vmap")
ROOTS = ("sqrt", "cbrt")
LONGEST_TEXT, LEAD = 60, 15  # characters of a change that are shown, and of what stands before it


@dataclass(frozen=True)
class Mutant:
    """A function with one thing wrong.

    sign        + for -, - for +, a minus dropped, the result negated (descent becomes ascent)
    factor      a constant, or the result, doubled or halved
    exponent    * for /, / for *, an exponent raised by one, a root left out
    term        one side of a sum left out
    index       a constant index moved by one
    inequality  a comparison reversed, max for min
    step        a name that already has a value does not get its next one, also as one of several or in a `_replace`
    direction   in the check itself: one comparison asks for the reverse
    """

    place: str  # module:function
    operator: str
    line: int  # counted from the first line of the function
    before: str
    after: str
    source: str

    @cached_property
    def text(self) -> str:
        """Its source as `canonical` tells it."""
        return canonical(self.source)

    @property
    def label(self) -> str:
        return f"{self.place} line {self.line}: {self.before}  ->  {self.after}"


def plain(function: Any) -> FunctionType | None:
    """The Python function inside of jit, cache, partial and the like; None where there is none."""
    while not isinstance(function, FunctionType):
        if isinstance(function, partial):
            function = function.func
        elif hasattr(function, "__wrapped__"):
            function = function.__wrapped__
        elif hasattr(function, "__func__"):
            function = function.__func__
        else:
            return None
    while hasattr(function, "__wrapped__"):  # a wrapper that is a function itself
        function = function.__wrapped__
    return function if isinstance(function, FunctionType) else None


def functions_of(target: Any) -> list[FunctionType]:
    """The functions that `of` names: one and the private ones it calls, or all methods that a class itself defines."""
    if inspect.isclass(target):
        own = [plain(value) for name, value in vars(target).items() if not name.startswith("__") or name == "__call__"]
        return [each for each in own if each is not None and each.__module__ == target.__module__]
    found = [each for each in [plain(target)] if each is not None]
    for function in found:  # grows
        scope = function.__globals__
        names = [name for name in names_in(function.__code__) if name.startswith("_") and name in scope]
        parts = [plain(scope[name]) for name in names if callable(scope[name])]
        found += [part for part in parts if part and part.__module__ == function.__module__ and part not in found]
    return found


def names_in(code: CodeType) -> list[str]:
    """The names that a code looks up, and those of the functions inside it."""
    inner = [each for each in code.co_consts if isinstance(each, CodeType)]
    return list(dict.fromkeys([*code.co_names, *(name for each in inner for name in names_in(each))]))


def canonical(source: str) -> str:
    """The tree of a source as text: the same in every version of Python, which `ast.unparse` is not.

    >>> canonical("x = f'{a}'  # a name") == canonical('x = f"{a}"')
    True
    """
    return _told(ast.parse(source))


def _told(node: Any) -> str:
    if isinstance(node, list):
        return f"[{', '.join(map(_told, node))}]"
    if not isinstance(node, ast.AST):
        return repr(node)
    fields = [(name, value) for name, value in ast.iter_fields(node) if value is not None and value != []]
    return f"{type(node).__name__}({', '.join(f'{name}={_told(value)}' for name, value in fields)})"


def mutants(function: FunctionType) -> list[Mutant]:
    """All mutants of a function, in the order of its source; none of a closure, whose code cannot be put in place."""
    if function.__closure__ or function.__name__ == "<lambda>":
        return []
    source = textwrap.dedent(inspect.getsource(function))
    return mutants_of_source(source, f"{function.__module__}:{function.__qualname__}")


def directions(check: Any) -> list[Mutant]:
    """A check with one of its inequalities reversed, also one in a generator of its paper that it yields from."""
    found = []
    for function in _yielding(check):
        source = textwrap.dedent(inspect.getsource(function))
        if not function.__closure__:
            found += mutants_of_source(source, f"{function.__module__}:{function.__qualname__}", _directions)
    return found


def _yielding(check: Any) -> list[FunctionType]:
    """The function of a check and all generators of its paper that it names or is given."""
    given: list[Any] = []
    while isinstance(check, partial):
        values = (*check.args, *check.keywords.values())
        given += [each for value in values for each in (value if isinstance(value, tuple) else (value,))]
        check = check.func
    found = [each for each in [plain(check)] if each is not None]
    package = ".".join(found[0].__module__.split(".")[:3]) if found else ""
    for function in found:  # grows
        named = [function.__globals__.get(name) for name in _globals_in(function)]
        others = [plain(value) for value in (*given, *named) if callable(value)]
        generators = [each for each in others if each and inspect.isgeneratorfunction(each)]
        own = [each for each in generators if f"{each.__module__}.".startswith(f"{package}.")]
        found += [each for each in dict.fromkeys(own) if each not in found]
    return found


def _globals_in(function: FunctionType) -> list[str]:
    """The names that a function looks up among the globals: not those of attributes, which may be called the same."""
    return [str(each.argval) for each in dis.get_instructions(function) if each.opname == "LOAD_GLOBAL"]


def _directions(node: ast.AST, parent: ast.AST) -> Iterator[tuple[str, Callable[[Any], ast.AST]]]:
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in SIDES:
        yield "direction", lambda node: ast.Call(ast.Name(SIDES[node.func.id], ast.Load()), node.args, node.keywords)
    side = isinstance(node, ast.Constant) and isinstance(parent, ast.keyword) and parent.arg == "side"
    if side and getattr(node, "value", None) in SIDES:
        yield "direction", lambda node: ast.Constant(SIDES[node.value])


def mutants_of_source(
    source: str, place: str = "", changes: Callable[..., Iterator[Any]] | None = None
) -> list[Mutant]:
    changes = changes or _changes
    tree = ast.parse(source)
    definition = tree.body[0]
    assert isinstance(definition, ast.FunctionDef)
    definition.decorator_list = []
    first = definition.lineno
    found: dict[str, Mutant] = {}
    for number, (node, context) in enumerate(_sites(definition)):
        for operator, make in changes(node, context):
            changed = _applied(tree, number, make)
            text = ast.unparse(changed)
            made = make(copy.deepcopy(node))
            after = "(left out)" if isinstance(made, ast.Pass) else ast.unparse(made)
            if isinstance(made, ast.Return) and made.value:
                after = ast.unparse(made.value)
            before = ast.unparse(node.value if isinstance(node, ast.Return) and node.value else node)
            line = getattr(node, "lineno", first) - first + 1
            found.setdefault(text, Mutant(place, operator, line, *_short(before, after), text))
    return list(found.values())


def put_in_place(mutant: Mutant, watch: Callable[..., Any] | None = None) -> None:
    """Swap the code of the function for the mutant's; whoever has the function sees it. Not undone: fork first.

    With `watch`, every call of the function becomes watch(original, mutant, *arguments).
    """
    module, _, name = mutant.place.partition(":")
    target: Any = sys.modules[module]
    for part in name.split("."):
        target = inspect.getattr_static(target, part)
    function = plain(_behind(target))
    assert function is not None
    if mutant.operator == "direction":  # the module may have the name of one side only
        for side in ("at_most", "at_least"):
            vars(sys.modules[module]).setdefault(side, getattr(sys.modules["stairwise.lab.contract.checks"], side))
    scope = dict(vars(sys.modules[module]))
    exec(compile(mutant.source, f"<mutant of {mutant.place}>", "exec"), scope)
    code = scope[function.__name__].__code__
    if watch is not None:
        original, broken = _copy_of(function, function.__code__), _copy_of(function, code)
        sys.modules[module].__dict__["__watched__"] = partial(watch, original, broken)
        code = _through_watch.__code__.replace(co_name=function.__name__)
        function.__defaults__ = function.__kwdefaults__ = None
    function.__code__ = code


def _behind(target: Any) -> Any:
    """What a property calls; anything else as it is."""
    if isinstance(target, property):
        return target.fget
    return target.func if isinstance(target, cached_property) else target


def _copy_of(function: FunctionType, code: Any) -> FunctionType:
    made = FunctionType(code, function.__globals__, function.__name__, function.__defaults__)
    made.__kwdefaults__ = function.__kwdefaults__
    return made


def _through_watch(*args: Any, **kwargs: Any) -> Any:
    return __watched__(*args, **kwargs)  # type: ignore[name-defined]


# --- where something can be wrong -------------------------------------------------------------------------------------


def _sites(definition: ast.FunctionDef) -> Iterator[tuple[ast.AST, ast.AST]]:
    """Every node of the body with the node that it is part of; not annotations, docstrings, or what refuses input."""

    def walk(node: ast.AST, parent: ast.AST) -> Iterator[tuple[ast.AST, ast.AST]]:
        if isinstance(node, (ast.Raise, ast.JoinedStr, ast.Assert, ast.arguments)) or _refuses(node):
            return
        yield node, parent
        for name, value in ast.iter_fields(node):
            if name in ("annotation", "returns", "decorator_list", "type_comment"):
                continue
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, ast.AST):
                    yield from walk(child, node)

    seen: set[str] = {argument.arg for argument in ast.walk(definition.args) if isinstance(argument, ast.arg)}
    for statement in definition.body:
        if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
            continue
        for node, parent in walk(statement, definition):
            node._seen = frozenset(seen)  # type: ignore[attr-defined]
            yield node, parent
            if isinstance(node, ast.Assign):
                seen |= {name.id for target in node.targets for name in _names(target)}


def _refuses(node: ast.AST) -> bool:
    """`if ...: raise` and `require(...)`."""
    if isinstance(node, ast.If) and all(isinstance(each, ast.Raise) for each in node.body):
        return True
    call = node.value if isinstance(node, ast.Expr) else None
    return isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id in ("require", "isinstance")


def _changes(node: ast.AST, parent: ast.AST) -> Iterator[tuple[str, Callable[[Any], ast.AST]]]:
    if isinstance(node, ast.BinOp) and not _is_text(node):
        yield from _of_operation(node)
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub) and not isinstance(node.operand, ast.Constant):
        yield "sign", lambda node: node.operand
    elif isinstance(node, ast.Constant) and _is_factor(node, parent):
        yield "factor", lambda node: _number(2 * node.value)
        yield "factor", lambda node: _number(node.value / 2)
    elif isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in REVERSED:
        yield "inequality", _reverse
    elif isinstance(node, ast.Subscript) and isinstance(node.slice, (ast.Constant, ast.UnaryOp)):
        if isinstance(getattr(node.slice, "value", 0), int) and isinstance(node.ctx, ast.Load):
            yield "index", _next_index
    elif isinstance(node, ast.Call):
        yield from _of_call(node)
    elif isinstance(node, ast.Return) and node.value is not None and _is_number(node.value):
        yield "factor", lambda node: ast.Return(ast.BinOp(_number(2), ast.Mult(), node.value))
        yield "factor", lambda node: ast.Return(ast.BinOp(node.value, ast.Div(), _number(2)))
        yield "sign", lambda node: ast.Return(ast.UnaryOp(ast.USub(), node.value))
    elif isinstance(node, ast.AugAssign) or (isinstance(node, ast.Assign) and _is_next_value(node)):
        yield "step", lambda node: ast.Pass()
    elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Tuple) and not _is_taken_apart(node):
        known = getattr(node, "_seen", frozenset()) & {each.id for each in _names(node.targets[0])} - {"_"}
        if known:
            yield "step", partial(_keep_values, known)


def _is_taken_apart(node: ast.Assign) -> bool:
    """`state, rows = carry` gives names to what is there."""
    return isinstance(node.value, ast.Name)


def _names(target: ast.AST) -> list[ast.Name]:
    return [each for each in ast.walk(target) if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)]


def _keep_values(known: frozenset[str], node: ast.Assign) -> ast.stmt:
    """The assignment without its effect on names that already have a value."""
    names = _names(node.targets[0])
    if all(each.id in known for each in names):
        return ast.Pass()
    for each in names:
        each.id = "_" if each.id in known else each.id
    return node


def _of_operation(node: ast.BinOp) -> Iterator[tuple[str, Callable[[Any], ast.AST]]]:
    swaps = {ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult}
    kind = type(node.op)
    if kind in swaps:
        name = "sign" if kind in (ast.Add, ast.Sub) else "exponent"
        yield name, lambda node: ast.BinOp(node.left, swaps[kind](), node.right)
    if kind in (ast.Add, ast.Sub):
        yield "term", lambda node: node.left
        yield "term", lambda node: node.right if kind is ast.Add else ast.UnaryOp(ast.USub(), node.right)
    if kind is ast.Pow:
        yield "exponent", lambda node: ast.BinOp(node.left, ast.Pow(), ast.BinOp(node.right, ast.Add(), _number(1)))


def _of_call(node: ast.Call) -> Iterator[tuple[str, Callable[[Any], ast.AST]]]:
    name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    if name in ROOTS and len(node.args) == 1:
        yield "exponent", lambda node: node.args[0]
    if name == "_replace":
        for place in range(len(node.keywords)):
            yield "step", partial(_without_keyword, place)
    if name in OTHER_END and node.args:
        yield "inequality", partial(_other_end, OTHER_END[name])


def _without_keyword(place: int, node: ast.Call) -> ast.Call:
    return ast.Call(node.func, node.args, [each for number, each in enumerate(node.keywords) if number != place])


def _other_end(name: str, node: ast.Call) -> ast.Call:
    func = ast.Name(name, ast.Load())
    if isinstance(node.func, ast.Attribute):
        func = ast.Attribute(node.func.value, name, ast.Load())
    return ast.Call(func, node.args, node.keywords)


def _reverse(node: ast.Compare) -> ast.Compare:
    return ast.Compare(node.left, [REVERSED[type(node.ops[0])]()], node.comparators)


def _next_index(node: ast.Subscript) -> ast.Subscript:
    index = ast.literal_eval(node.slice)
    return ast.Subscript(node.value, _number(index + 1 if index >= 0 else index - 1), node.ctx)


def _is_text(node: ast.BinOp) -> bool:
    """A sum of strings, lists or tuples, or a formatted string."""
    kinds = (ast.JoinedStr, ast.List, ast.Tuple, ast.ListComp, ast.Dict)
    sides = (node.left, node.right)
    return any(isinstance(s, kinds) or (isinstance(s, ast.Constant) and isinstance(s.value, str)) for s in sides)


def _is_factor(node: ast.Constant, parent: ast.AST) -> bool:
    if isinstance(node.value, bool) or not isinstance(node.value, (int, float)) or node.value == 0:
        return False
    return (isinstance(parent, ast.BinOp) and isinstance(parent.op, (ast.Mult, ast.Div))) or isinstance(
        node.value, float
    )


def _is_number(value: ast.AST) -> bool:
    """Whether a returned expression may be a number or an array; records, tables and facts are not."""
    if isinstance(value, ast.Call):
        name = value.func.attr if isinstance(value.func, ast.Attribute) else getattr(value.func, "id", "")
        return not name[:1].isupper() and name not in NO_NUMBERS
    return isinstance(value, (ast.BinOp, ast.UnaryOp, ast.Name, ast.Subscript, ast.IfExp, ast.Attribute))


def _is_next_value(node: ast.Assign) -> bool:
    (target, *others) = node.targets
    return not others and isinstance(target, ast.Name) and target.id in getattr(node, "_seen", ())


def _applied(tree: ast.Module, number: int, make: Callable[[Any], ast.AST]) -> ast.Module:
    """A copy of the tree with the site of that number replaced."""
    changed = copy.deepcopy(tree)
    definition = changed.body[0]
    assert isinstance(definition, ast.FunctionDef)
    for place, (node, parent) in enumerate(_sites(definition)):
        if place == number:
            new = make(node)
            for name, value in ast.iter_fields(parent):
                if value is node:
                    setattr(parent, name, new)
                elif isinstance(value, list) and any(each is node for each in value):
                    setattr(parent, name, [new if each is node else each for each in value])
            break
    return ast.fix_missing_locations(changed)


def _number(value: float) -> ast.expr:
    return ast.Constant(value) if value >= 0 else ast.UnaryOp(ast.USub(), ast.Constant(-value))


def _short(before: str, after: str) -> tuple[str, str]:
    """Both on one line, from a little before where they differ.

    >>> _short("f(" + "x, " * 30 + "a)", "f(" + "x, " * 30 + "b)")
    ('...x, x, x, x, x, a)', '...x, x, x, x, x, b)')
    """
    before, after = " ".join(before.split()), " ".join(after.split())
    if max(len(before), len(after)) <= LONGEST_TEXT:
        return before, after
    pairs = enumerate(zip(before, after, strict=False))
    same = next((place for place, (a, b) in pairs if a != b), min(len(before), len(after)))
    start = same - LEAD if same > LONGEST_TEXT - LEAD else 0
    return _cut(before, start), _cut(after, start)


def _cut(text: str, start: int) -> str:
    shown = f"...{text[start:]}" if start else text
    return shown if len(shown) <= LONGEST_TEXT else f"{shown[: LONGEST_TEXT - 3]}..."
