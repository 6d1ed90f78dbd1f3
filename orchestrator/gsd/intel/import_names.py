"""What an import as written means among the files that are known: a path, a package, or nothing that is known. Pure.

Only names are looked at, no settings of a compiler: the index of GSD has no more (A2). Our own index resolves better.
"""

from __future__ import annotations

import re
from collections.abc import Container
from posixpath import dirname, join, normpath

from orchestrator.gsd.graph.slugs import SCRIPT, extension

_SCRIPT_ENDINGS = (
    ".ts",
    ".tsx",
    ".d.ts",
    ".js",
    ".jsx",
    ".mjs",
    ".cjs",
    ".mts",
    ".cts",
    ".svelte",
    ".vue",
    ".svelte.ts",
)
_INDEXES = tuple(f"/index{ending}" for ending in (".ts", ".tsx", ".js", ".jsx", ".mjs", ".svelte", ".vue"))
_ALIAS = re.compile(r"(?:[@~]|\$[\w-]*|#)/?")
_OWN = re.compile(r"[^a-z0-9]+")


class Names:
    """The files among which imports are resolved. ``project``: what the project is called, as Rust crates are."""

    def __init__(self, paths: Container[str], project: str = "") -> None:
        """Take the project-relative paths."""
        self._paths = paths
        self._project = _OWN.sub("", project.lower())

    def resolve(self, importer: str, name: str) -> str | None:
        """The path that ``name`` means in ``importer``; None for a package, or for what is not known.

        A relative import of a script that is not known gives the path it would have, without its ending, so that it
        can be counted as dangling.
        """
        if not name or len(name) > 500 or any(char in name for char in "\n\0 "):
            return None
        ending = extension(importer).lower()
        if ending in {".py", ".pyi"}:
            return self._python(importer, name)
        if ending == ".rs":
            return self._rust(importer, name)
        if name.startswith("."):
            base = normpath(join(dirname(importer), name))
            return None if base.startswith("..") else self._script(base) or base
        if ending in SCRIPT or ending in {".svelte", ".vue", ".astro"}:
            return self._alias(importer, name)
        return None

    def _script(self, base: str) -> str | None:
        if base in self._paths:
            return base
        stems = [base]
        written = extension(base)
        if written in SCRIPT:
            stems.append(base[: -len(written)])
        for stem in stems:
            for tail in (*_SCRIPT_ENDINGS, *_INDEXES):
                if stem + tail in self._paths:
                    return stem + tail
        return None

    def _alias(self, importer: str, name: str) -> str | None:
        """``@/lib/x``, ``~/x``, ``#/x``: below ``src`` or a package's root; ``$lib/x``, ``$stores``: as in Svelte."""
        found = _ALIAS.match(name)
        if not found or (name[0] in "@~#" and not found[0].endswith("/")):
            return None
        rest = name[found.end() :]
        tails = [rest, f"src/{rest}", f"app/{rest}"]
        if name[0] == "$":
            named = join(found[0][1:].rstrip("/"), rest).rstrip("/")
            tails = [f"src/lib/{named}", f"src/{named}", f"lib/{named}"]
        for above in _above(importer):
            for tail in tails:
                if tail and (path := self._script(normpath(join(above, tail)))):
                    return path
        return None

    def _python(self, importer: str, name: str) -> str | None:
        stripped = name.lstrip(".")
        parts = [part for part in stripped.split(".") if part and part != "*"]
        dots = len(name) - len(stripped)
        if dots:
            at = importer
            for _ in range(dots):
                if not at:
                    return None
                at = dirname(at)
            return self._module(at, parts, least=0)
        for above in _above(importer):
            if found := self._module(above, parts, least=1):
                return found
        return None

    def _module(self, above: str, parts: list[str], least: int) -> str | None:
        """The module, or the one that holds what the last part names; of ``least`` parts, 0: the package itself."""
        for length in (len(parts), len(parts) - 1):
            if length < least:
                continue
            base = join(above, *parts[:length]) if above or length else ""
            for tail in (".py", "/__init__.py", ".pyi"):
                if base + tail in self._paths and (length or tail == "/__init__.py"):
                    return base + tail
        return None

    def _rust(self, importer: str, name: str) -> str | None:
        parts = [part.strip() for part in name.split("::")]
        head, rest = parts[0], [part for part in parts[1:] if part.isidentifier()]
        sources = _source_root(importer)
        if head in {"self", "super"}:
            at = importer[: -len(".rs")]
            if at.endswith(("/mod", "/lib", "/main")):
                at = dirname(at)
            while head == "super":
                at = dirname(at)
                head = rest.pop(0) if rest and rest[0] == "super" else ""
            return self._crate(at, rest, importer)
        if head == "crate" or (self._project and _OWN.sub("", head.lower()) == self._project):
            return self._crate(sources, rest, importer) or self._library(sources, importer)
        return None

    def _crate(self, above: str, parts: list[str], importer: str) -> str | None:
        for length in range(len(parts), 0, -1):
            base = join(above, *parts[:length])
            for path in (f"{base}.rs", f"{base}/mod.rs"):
                if path in self._paths and path != importer:
                    return path
        return None

    def _library(self, above: str, importer: str) -> str | None:
        path = join(above, "lib.rs")
        return path if path in self._paths and path != importer else None


def _above(importer: str) -> list[str]:
    """The directories above a file, the nearest first, the project's root (``""``) last."""
    found = []
    at = dirname(importer)
    while at:
        found.append(at)
        at = dirname(at)
    return [*found, ""]


def _source_root(importer: str) -> str:
    parts = importer.split("/")[:-1]
    for at in range(len(parts), 0, -1):
        if parts[at - 1] == "src":
            return "/".join(parts[:at])
    return ""
