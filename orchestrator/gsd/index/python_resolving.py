"""Which file of the project a Python import means. Pure: by the paths there are, no interpreter is asked.

Where Python would look is not known without running the project, so every directory is taken for a place of modules
that a project usually makes one: the project itself, ``src``, the directory of a ``pyproject.toml``, the directory
above a top-most package, and the file's own when that is no package. Of several that have the module, the one on the
file's own way up wins, then the one nearest to it; two that are equally near leave the import unresolved.
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterable

_ENDINGS = ("/__init__.py", ".py", "/__init__.pyi", ".pyi", ".pyw")
"""As Python takes them: a package before a module of its name; what runs before what only declares it."""
Parts = tuple[str, ...]


class PythonModules:
    """The Python files of a project, by the names they can be imported as."""

    def __init__(self, paths: Iterable[str], projects: Collection[str] = ()) -> None:
        """Take the paths of the Python files, and the directories with a project file."""
        self._files = frozenset(paths)
        self._packages = {_above(path) for path in self._files if path.endswith(("/__init__.py", "/__init__.pyi"))}
        directories = {above for path in self._files for above in _ways_up(_above(path))}
        roots = {"", *projects} & directories
        roots |= {at for at in directories if at.rpartition("/")[2] == "src" and at not in self._packages}
        roots |= {_above(at) for at in self._packages if _above(at) not in self._packages}
        self._roots: dict[str, dict[str, None]] = {}
        for at in (*directories, *self._files):
            above, name = _above(at), at.rpartition("/")[2].partition(".")[0]
            if above in roots and at:
                self._roots.setdefault(name, {})[above] = None
        self._below: dict[str, dict[str, list[str]]] = {}
        self._meant: dict[tuple[str, Parts, str], tuple[str, ...]] = {}

    def resolve(self, path: str, raw: Iterable[str]) -> tuple[list[str], list[str]]:
        """The files that a file's imports mean, and the packages from elsewhere, each once in order of appearance."""
        files: dict[str, None] = {}
        packages: dict[str, None] = {}
        for one in raw:
            module, _, name = one.partition(":")
            dots = len(module) - len(module.lstrip("."))
            parts = tuple(part for part in module[dots:].split(".") if part)
            found = self._relative(path, dots, parts, name) if dots else self._absolute(path, parts, name)
            if found is not None:
                files[found] = None
            elif not dots and parts and parts[0] != "__future__":
                packages[parts[0]] = None
        files.pop(path, None)
        return list(files), list(packages)

    def _relative(self, path: str, dots: int, parts: Parts, name: str) -> str | None:
        at = _above(path)
        for _ in range(dots - 1):
            if not at:
                return None
            at = _above(at)
        return self._named(at, parts, name)

    def _named(self, root: str, parts: Parts, name: str) -> str | None:
        """The file of ``from root.parts import name``: the submodule of that name, else the module itself."""
        if name and name != "*" and (found := self._file(root, (*parts, name))):
            return found
        return self._file(root, parts)

    def _file(self, root: str, parts: Parts) -> str | None:
        at = "/".join((root, *parts) if root else parts)
        for ending in _ENDINGS:
            whole = at + ending if at else ending.lstrip("/")
            if whole in self._files and (parts or ending.startswith("/")):
                return whole
        return None

    def _absolute(self, path: str, parts: Parts, name: str) -> str | None:
        if not parts:
            return None
        standard = parts[0] in sys.stdlib_module_names
        if standard and len(parts) == 1:
            return None  # who shadows the standard library at its top is rarer than who uses it
        here = _above(path)
        known = self._roots.get(parts[0], {})
        ways = list(_ways_up(here))
        own = [here] if here not in self._packages and here not in known else []
        above = [root for root in ways if root in known]
        for root in (*own, *above):
            if found := self._named(root, parts, name):
                return found
        hits: tuple[str, ...] = next((each for at in ways if (each := self._within(at, parts, name))), ())
        if hits:
            return hits[0] if len(hits) == 1 else None
        if standard:
            return None
        below = self._roots_below(parts[0])
        near = next((below[at] for at in ways if at in below), [])
        for root in above or (near if len(near) == 1 else ()):  # made when it is built, or an attribute
            for end in range(len(parts) - 1, 0, -1):
                if found := self._file(root, parts[:end]):
                    return found
        return None

    def _within(self, at: str, parts: Parts, name: str) -> tuple[str, ...]:
        """What the roots below a directory have under a name: none, one, or two of several; remembered."""
        key = (at, parts, name)
        if key not in self._meant:
            found: dict[str, None] = {}
            for root in self._roots_below(parts[0]).get(at, ()):
                if one := self._named(root, parts, name):
                    found[one] = None
                    if len(found) == 2:
                        break
            self._meant[key] = tuple(found)
        return self._meant[key]

    def _roots_below(self, name: str) -> dict[str, list[str]]:
        """The roots that have a name at their top, by each directory they lie in."""
        below = self._below.get(name)
        if below is None:
            below = self._below[name] = {}
            for root in self._roots.get(name, ()):
                for above in _ways_up(root):
                    below.setdefault(above, []).append(root)
        return below


def _above(path: str) -> str:
    return path.rpartition("/")[0]


def _ways_up(directory: str) -> list[str]:
    """A directory and all above it, up to the project's own."""
    found = [directory]
    while directory:
        directory = _above(directory)
        found.append(directory)
    return found
