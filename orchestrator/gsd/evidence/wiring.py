"""Whether a file is used: imported by another that is no test, and something of it named there. Reads only."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Container, Iterator
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any

from orchestrator.gsd.shown import at
from orchestrator.gsd.sources.code import SCRIPTS, Text, definitions, ending, has_word, is_aside, is_test, stem
from orchestrator.gsd.sources.text import Source


@dataclass(frozen=True)
class Wired:
    """``used``: None where the text cannot tell (entry points, languages without imports of files)."""

    used: bool | None
    why: str
    evidence: tuple[dict[str, Any], ...] = ()


_ENTRIES = frozenset({
    "main", "app", "cli", "manage", "__main__", "setup", "conftest", "wsgi", "asgi", "server", "page", "layout",
    "route", "+page", "+layout", "+server", "middleware", "loading", "error", "not-found", "template",
    "default", "_app", "_document", "hooks", "instrumentation", "+error", "build", "lib", "mod",
})  # fmt: skip
_ENTRY_PATH = re.compile(
    r"(?:^|/)(?:pages|migrations|bin|scripts|cmd|alembic|seeds?)/|\.config\.\w+$|\.d\.ts$|\.stories\.\w+$|(?:^|/)\+?(?:page|"
    r"layout|server|error)(?:\.[\w.]+)?\.\w+$"
)
IMPORTED = frozenset({".py", ".pyi", ".rs", *SCRIPTS})
"""The languages whose files are of no use unless another file imports them."""
_SPEC = re.compile(
    r"""(?:\bfrom\s{0,8}|\bimport\s{0,8}\(?\s{0,8}|\brequire\s{0,4}\(\s{0,8})(["'`])([^"'`\n]{1,300})\1"""
)
_PY_IMPORT = re.compile(
    r"(?m)^[ \t]{0,80}(?:from[ \t]{1,8}(?P<base>[.\w]{1,300})[ \t]{1,8}import[ \t]{1,8}"
    r"(?P<names>\([^)]{0,4000}\)|[^\n]{1,1000})"
    r"|import[ \t]{1,8}(?P<modules>[^\n]{1,500}))"
)
_RS_IMPORT = re.compile(
    r"(?m)^[ \t]{0,80}(?:pub(?:\([a-z]{1,9}\))?\s{1,4})?(?:use|mod)\s{1,8}"
    r"(?P<path>[^;{\n]{1,300}(?:\{[^}]{0,2000}\})?)"
)
_NAME = re.compile(r"[A-Za-z_$][\w$]*")
_GRAMMAR = frozenset({
    "import", "from", "as", "type", "require", "const", "let", "var", "export", "default", "use", "pub", "mod",
    "crate", "self", "super", "async", "await",
})  # fmt: skip
_TELLING = 6
_USUAL = frozenset(
    {
        "String",
        "toString",
        "Config",
        "Options",
        "Status",
        "Result",
        "Handler",
        "Server",
        "Client",
        "Request",
        "Response",
    }
)
_RELATIVE = re.compile(r"""["'`]\.|\bfrom\s{1,4}\.|\b(?:crate|super|self)::|\bmod\s""")
_PASSES_ON = re.compile(r"(?:pub\s{1,4})?(?:export|use|mod)\b")


def wired(source: Source, text: Text) -> Wired:
    """Whether another file imports this one and uses what it gives.

    False (ORPHANED) only when every source file was searched, the language is one in which a file must be imported to
    count (JavaScript, TypeScript, Python, Rust), and its name is none that a framework starts by itself. A file that
    only passes it on counts when it is used itself; tests, examples and mocks never do.
    """
    if ending(text.path) not in IMPORTED:
        return _named_elsewhere(source, text)
    names = {name for name in definitions(text) if name != "default"}
    half: Wired | None = None
    passed: list[Text] = []
    for other in source.texts():
        if other.path == text.path or is_test(other.path) or is_aside(other.path):
            continue
        use = uses(other, text.path, source.listing, names)
        if use is None:
            continue
        if use.used:
            return use
        half = half or use
        if use.used is None:
            passed.append(other)
    for other in passed[:5]:
        if _passes_on(source, text, other):
            return Wired(True, f"{other.path} passes it on and is imported", half.evidence if half else ())
    if half is not None:
        return Wired(False if source.complete and not passed else None, half.why, half.evidence)
    if _is_entry(text):
        return Wired(None, "nothing imports it, as is usual for a file that a framework or a person starts")
    if not source.complete:
        return Wired(None, "no import was found, but not every file could be searched")
    return Wired(False, "nothing imports it")


def uses(
    other: Text, path: str, listing: Container[str] = frozenset(), names: AbstractSet[str] = frozenset()
) -> Wired | None:
    """What another file makes of ``path``: None when it does not import it.

    ``used``: True when a name that the import binds stands elsewhere in it, or when it is imported for its effect;
    False when none does; None when it only passes it on (``export … from``). Strings and comments do not count.
    ``listing``: with it, a file of the same name that lies nearer to the other one is what is meant; ``names``: what
    ``from … import *`` brings in.
    """
    half: Wired | None = None
    for start, end, told in _imports(other, path):
        statement = other.code[start:end]
        if not _RELATIVE.search(statement) and _nearer(other.path, path, listing):
            continue
        star = not told and statement.rstrip().endswith("*")
        bound = names if star and ending(other.path) not in SCRIPTS else told
        line = other.line_of(max(start, end - 1) if ending(other.path) in SCRIPTS else start)
        seen = at(other.path, line, other.line(line))
        if not bound:
            if star or _PASSES_ON.match(statement.lstrip()):
                half = half or Wired(None, f"{other.path} only passes it on", (seen,))
                continue
            return Wired(True, f"{other.path} imports it", (seen,))
        for name in sorted(bound):
            used = _outside(other.bare, name, start, end)
            if used >= 0:
                lines = dict.fromkeys([line, other.line_of(used)])
                shown = tuple(at(other.path, n, other.line(n)) for n in lines)
                return Wired(True, f"{other.path} imports and uses it", shown)
        if star:
            half = half or Wired(None, f"{other.path} only passes it on", (seen,))
        elif half is None or half.used is None:
            half = Wired(False, f"{other.path} imports it but uses nothing of it", (seen,))
    return half


def _nearer(importer: str, path: str, listing: Container[str]) -> bool:
    """Whether a file of the same tail lies nearer to the importer, as in another package of one repository."""
    own = importer.split("/")[:-1]
    parts = path.split("/")
    shared = next(
        (n for n, (a, b) in enumerate(zip(own, parts, strict=False)) if a != b), min(len(own), len(parts) - 1)
    )
    return any(
        "/".join([*own[:depth], *parts[tail:]]) in listing
        for depth in range(len(own), shared, -1)
        for tail in range(shared, len(parts))
        if "/".join([*own[:depth], *parts[tail:]]) != importer
    )


def _passes_on(source: Source, text: Text, barrel: Text) -> bool:
    names = {name for name in definitions(text) if name != "default"}
    for other in source.texts():
        if other.path in {barrel.path, text.path} or is_test(other.path) or is_aside(other.path):
            continue
        for start, end, bound in _imports(other, barrel.path):
            hit = (bound & names) or (set() if bound else names)
            if any(_outside(other.bare, name, start, end) >= 0 for name in hit):
                return True
    return False


def _named_elsewhere(source: Source, text: Text) -> Wired:
    """For languages without imports of files: another file names something long enough that only this one defines."""
    names = {name for name in definitions(text) if len(name) >= _TELLING and name not in _USUAL}
    for other in source.texts():
        if other.path == text.path or is_test(other.path) or is_aside(other.path):
            continue
        if ending(other.path) != ending(text.path):
            continue
        seen = sorted(name for name in names if has_word(other.bare, name) >= 0)
        own = definitions(other) if seen else {}
        for name in seen:
            if name not in own:
                line = other.line_of(has_word(other.bare, name))
                shown = (at(other.path, line, other.line(line)),)
                return Wired(True, f"{other.path} names {name}, which it defines", shown)
    return Wired(None, "files of this language are used without being imported")


def _is_entry(text: Text) -> bool:
    return (
        is_test(text.path)
        or stem(text.path) in _ENTRIES
        or (stem(text.path) in {"index", "__init__"} and text.path.count("/") <= 1)
        or bool(_ENTRY_PATH.search(text.path))
        or text.raw.startswith("#!")
        or "__main__" in text.code
    )


def _outside(code: str, name: str, start: int, end: int) -> int:
    found = has_word(code[end:], name)
    return found + end if found >= 0 else has_word(code[:start], name)


def _imports(other: Text, path: str) -> Iterator[tuple[int, int, set[str]]]:
    """Where another file imports ``path``: start and end of the statement, and the names it binds."""
    key = stem(path)
    parent = posixpath.basename(posixpath.dirname(path))
    if key not in other.raw and not (key in {"index", "__init__", "mod"} and parent in other.raw):
        return
    end = ending(other.path)
    if end in SCRIPTS:
        yield from _script_imports(other, path)
    elif end in {".py", ".pyi"}:
        yield from _python_imports(other, path)
    elif end == ".rs":
        for found in _RS_IMPORT.finditer(other.code):
            names = set(_NAME.findall(found["path"])) - _GRAMMAR
            if (key if key != "mod" else parent) in names:
                yield found.start(), found.end(), names


def _script_imports(other: Text, path: str) -> Iterator[tuple[int, int, set[str]]]:
    for found in _SPEC.finditer(other.code):
        if not leads_to(found[2], other.path, path):
            continue
        before = other.code[max(0, found.start() - 2000) : found.start() + 7]
        heads = ("\nimport", "\nexport", ";import", "\nconst ", "\nvar ", "\nlet ")
        start = max(*(before.rfind(head) for head in heads), 0 if found.start() <= 2000 else -1)
        start = found.start() if start < 0 else max(0, found.start() - 2000) + start
        statement = other.code[start : found.start(1)]
        if "export" in statement.split("\n", 2)[-1][:8] or statement.lstrip().startswith("export"):
            yield start, found.end(), set()
            continue
        yield start, found.end(), set(_NAME.findall(statement)) - _GRAMMAR


def leads_to(spec: str, importer: str, path: str) -> bool:
    """Whether a module's name in an import of ``importer`` means the file ``path``: relative, or by an alias."""
    ends = {path, path[: -len(ending(path))], posixpath.dirname(path) if stem(path) == "index" else path}
    if spec.startswith("."):
        target = posixpath.normpath(posixpath.join(posixpath.dirname(importer), spec))
        return target in ends or (
            ending(target) in {".js", ".mjs", ".jsx"} and target[: -len(ending(target))] in ends
        )
    head, slash, tail = spec.partition("/")
    if head in {"@", "~", "$lib", "src", "#", "$"} or (slash and head.startswith(("$", "#", "~"))):
        return any(end.endswith(f"/{tail}") or end == tail for end in ends) if tail else False
    return "/" in spec and not spec.startswith("@") and any(end == spec or end.endswith(f"/{spec}") for end in ends)


def _python_imports(other: Text, path: str) -> Iterator[tuple[int, int, set[str]]]:
    whole = path[: -len(ending(path))].split("/")
    module = whole[:-1] if whole[-1] == "__init__" else whole
    if not module:
        return
    for found in _PY_IMPORT.finditer(other.code):
        names = set(_NAME.findall(found["names"] or found["modules"] or "")) - _GRAMMAR
        if found["modules"] is not None:
            if any(_is_tail(part.split(" as ")[0].strip(), module) for part in found["modules"].split(",")):
                yield found.start(), found.end(), names
            continue
        base = found["base"]
        plain = base.lstrip(".")
        if base.startswith(".") and not _is_near(base, other.path, module):
            continue
        if plain and _is_tail(plain, module):
            yield found.start(), found.end(), names
        elif module[-1] in names and (not plain or _is_tail(plain, module[:-1])):
            yield found.start(), found.end(), {module[-1]} | (names if " as " in found[0] else set())


def _is_near(base: str, importer: str, module: list[str]) -> bool:
    """Whether a relative import can mean the module: it lies below the package that the dots name."""
    dots = len(base) - len(base.lstrip("."))
    package = importer.split("/")[:-dots]
    return module[: len(package)] == package


def _is_tail(dotted: str, module: list[str]) -> bool:
    parts = dotted.split(".")
    return bool(module) and len(parts) <= len(module) and module[-len(parts) :] == parts
