"""One Python file by its syntax tree: what it is for, what it offers, what it imports. Pure; runs no line of it.

An import is kept as ``module`` or ``module:name``, one entry per name, with the leading dots of a relative one:
``import a.b`` is ``a.b``; ``from ..c import d`` is ``..c:d``; ``from . import e`` is ``.:e``; ``from a import *`` is
``a:*``. Which file that means is for `python_resolving` to say.
"""

from __future__ import annotations

import ast
import warnings
from collections.abc import Iterator

from orchestrator.gsd.index.source import Parsed, count_lines, first_sentence
from orchestrator.gsd.model import Trouble

_FAILED = (SyntaxError, ValueError, RecursionError, MemoryError, LookupError, OverflowError)
_BY_NAME = ("import_module", "__import__")
_IGNORED = frozenset({"logger", "log", "__all__"})


def parse_python(path: str, data: bytes) -> Parsed:
    """What the file says; what is no Python of this version is told as its trouble, with nothing but its length."""
    lines = count_lines(data)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of its escapes and comparisons: not ours to judge
            tree = ast.parse(data)
        doc = ast.get_docstring(tree) or ""
        named = list(_exports(tree, path.rpartition("/")[2].startswith("__init__.")))
        raw = list(dict.fromkeys(_imports(tree, any(name.encode() in data for name in _BY_NAME))))
    except _FAILED as error:
        line = getattr(error, "lineno", None) or 0
        what = getattr(error, "msg", None) or str(error) or "nested too deeply"
        if isinstance(error, RecursionError | MemoryError):
            what = "nested too deeply"
        return Parsed(lines=lines, trouble=Trouble(path, line, f"no Python that can be read: {what}", "unreadable"))
    exports = dict(reversed(named))  # the first of a name wins
    order = list(dict.fromkeys(name for name, _ in named))
    return Parsed(
        tuple(order), "".join(exports[name] for name in order), tuple(raw), first_sentence(_prose(doc)), lines
    )


def _prose(doc: str) -> str:
    """A docstring without the heading that some underline at its top, unless it has nothing else."""
    heading, _, rest = doc.partition("\n")
    line, _, rest = rest.partition("\n")
    underlined = len(line) > 2 and line.strip(line[0]) == "" and not line[0].isalnum()
    return (rest.strip() or heading) if underlined else doc


def _statements(body: list[ast.stmt], *, inside: bool) -> Iterator[ast.stmt]:
    """The statements of a body and of the blocks in it; ``inside``: also of functions and classes."""
    todo = list(reversed(body))
    while todo:
        one = todo.pop()
        yield one
        if not inside and isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            continue
        inner = [each.body for each in (*getattr(one, "handlers", ()), *getattr(one, "cases", ()))]
        blocks = [getattr(one, "body", []), *inner, getattr(one, "orelse", []), getattr(one, "finalbody", [])]
        for block in reversed(blocks):
            todo += reversed(block)


def _imports(tree: ast.Module, called: bool) -> Iterator[str]:
    for one in _statements(tree.body, inside=True):
        if isinstance(one, ast.Import):
            yield from (alias.name for alias in one.names)
        elif isinstance(one, ast.ImportFrom):
            module = "." * one.level + (one.module or "")
            yield from (f"{module}:{alias.name}" for alias in one.names)
    if called:
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and node.args and _name(node.func) in _BY_NAME:
                first = node.args[0]
                if isinstance(first, ast.Constant) and isinstance(first.value, str) and _is_module(first.value):
                    yield first.value


def _name(func: ast.expr) -> str:
    if isinstance(func, ast.Attribute):
        return func.attr
    return func.id if isinstance(func, ast.Name) else ""


def _is_module(text: str) -> bool:
    return len(text) < 500 and all(part.isidentifier() for part in text.lstrip(".").split("."))


def _exports(tree: ast.Module, package: bool) -> Iterator[tuple[str, str]]:
    """What ``__all__`` names, else what is public: definitions, values, what an ``__init__`` takes from its own."""
    found = [pair for one in _statements(tree.body, inside=False) for pair in _defined(one, package)]
    declared = [name for one in tree.body for name in _all(one)]
    if declared:
        kinds = dict(reversed(found))
        yield from ((name, kinds.get(name, "o")) for name in declared)
        return
    yield from ((name, kind) for name, kind in found if not name.startswith("_") and name not in _IGNORED)


def _defined(one: ast.stmt, package: bool) -> Iterator[tuple[str, str]]:
    if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef):
        yield one.name, "f"
    elif isinstance(one, ast.ClassDef):
        yield one.name, "c"
    elif isinstance(one, ast.Assign):
        for target in one.targets:
            parts = target.elts if isinstance(target, ast.Tuple | ast.List) else [target]
            yield from ((part.id, "v") for part in parts if isinstance(part, ast.Name))
    elif isinstance(one, ast.AnnAssign) and isinstance(one.target, ast.Name):
        yield one.target.id, "v"
    elif package and isinstance(one, ast.ImportFrom) and one.level:
        yield from ((alias.asname or alias.name, "o") for alias in one.names if alias.name != "*")


def _all(one: ast.stmt) -> Iterator[str]:
    """The names a statement puts into ``__all__``, as far as they are written there."""
    value: ast.expr | None = None
    if isinstance(one, ast.Assign | ast.AnnAssign | ast.AugAssign):
        targets = one.targets if isinstance(one, ast.Assign) else [one.target]
        value = one.value if [_name(target) for target in targets] == ["__all__"] else None
    elif isinstance(one, ast.Expr) and isinstance(one.value, ast.Call):
        call = one.value
        if isinstance(call.func, ast.Attribute) and _name(call.func.value) == "__all__" and call.args:
            value = call.args[0]
    todo = [value]
    while todo:
        each = todo.pop()
        if isinstance(each, ast.BinOp):
            todo += [each.right, each.left]
        elif isinstance(each, ast.List | ast.Tuple | ast.Set):
            todo += reversed(each.elts)
        elif isinstance(each, ast.Constant) and isinstance(each.value, str):
            yield each.value
