"""The import hook that has every function and dataclass of a package check its arguments while tests run.

It does what `jaxtyping.install_import_hook` does, more cheaply. A checker is made at the first call, since a worker
calls only a part of a package of thousands of functions. A function without shapes in its signature is checked by
beartype alone, which has no scope of axis names to keep. And packages that a module imports are read from their
compiled files, where jaxtyping's hook would compile all of them again.
"""

import ast
import dataclasses
import inspect
import sys
import typing
from collections.abc import Sequence
from functools import wraps
from importlib.abc import MetaPathFinder
from importlib.machinery import PathFinder, SourceFileLoader
from importlib.util import cache_from_source
from unittest.mock import patch

import jaxtyping
from beartype import BeartypeConf, beartype

# an int is a float here, as in PEP 484
typecheck = beartype(conf=BeartypeConf(is_pep484_tower=True, violation_type=jaxtyping.TypeCheckError))


def checked(what):
    """This function with its arguments and its result checked, or this class with the arguments of its `__init__`."""
    if isinstance(what, type):
        if dataclasses.is_dataclass(what) and getattr(what.__init__, "__globals__", None) is not globals():
            what.__init__ = checked(what.__init__)
        return what
    if not inspect.isfunction(what):
        return jaxtyping.jaxtyped(what, typechecker=typecheck)
    function = None

    @wraps(what)
    def from_the_first_call_on(*args, **named):
        __tracebackhide__ = True
        nonlocal function
        if function is None:
            function = checker(what)
        return function(*args, **named)

    return from_the_first_call_on


def checker(function):
    if inspect.isgeneratorfunction(function) or inspect.iscoroutinefunction(function):
        return jaxtyping.jaxtyped(function, typechecker=typecheck)  # it runs after its scope of axis names has ended
    if all(map(_is_plain, function.__annotations__.values())):
        return typecheck(function)
    return jaxtyping.jaxtyped(typecheck(function), typechecker=None)


def _is_plain(hint) -> bool:
    if isinstance(hint, list):  # the arguments of a Callable
        return all(map(_is_plain, hint))
    if isinstance(hint, str | typing.ForwardRef | typing.TypeVar | typing.ParamSpec):
        return False
    if type(hint).__module__.startswith("jaxtyping"):  # of an array or of a tree
        return False
    return typing.get_origin(hint) is typing.Literal or all(map(_is_plain, typing.get_args(hint)))


class Decorating(ast.NodeTransformer):
    """Places are those of jaxtyping: last on functions, as other decorators hide annotations; first on classes."""

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.FunctionDef:
        self.generic_visit(node)
        node.decorator_list.append(self._decorator(node))
        return node

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.ClassDef:
        self.generic_visit(node)
        node.decorator_list.insert(0, self._decorator(node))
        return node

    def _decorator(self, node: ast.stmt) -> ast.expr:
        return ast.copy_location(ast.Name("__checked__", ast.Load()), node)


class Loader(SourceFileLoader):
    def source_to_code(self, data, path, *, _optimize=-1):
        tree = ast.parse(data, path)
        return compile(Decorating().visit(tree), path, "exec", dont_inherit=True, optimize=_optimize)

    def get_code(self, fullname):
        with patch("importlib._bootstrap_external.cache_from_source", _compiled_with_checks):
            return super().get_code(fullname)

    def exec_module(self, module):
        module.__checked__ = checked
        super().exec_module(module)


def _compiled_with_checks(path, debug_override=None):
    return cache_from_source(path, debug_override, optimization="checked1")


class Finder(MetaPathFinder):
    def __init__(self, packages: Sequence[str]):
        self.packages = packages

    def find_spec(self, fullname, path=None, target=None):
        if fullname.split(".")[0] not in self.packages:
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is not None and isinstance(spec.loader, SourceFileLoader):
            spec.loader = Loader(spec.loader.name, spec.loader.path)
        return spec


def install(packages: Sequence[str]) -> None:
    """Modules of these packages that are imported from now on check themselves."""
    sys.meta_path.insert(0, Finder(packages))
