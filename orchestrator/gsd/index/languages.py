"""Which files are source, in which language, and what part they play by their path. Pure tables.

Python, JavaScript and TypeScript (also inside Svelte and Vue components) are read: purpose, exports, imports. The
other languages are known by name only: their files are nodes with a type and a length, without edges.
"""

from __future__ import annotations

import re

LANGUAGES = {
    ".py": "python", ".pyi": "python", ".pyw": "python",
    ".js": "javascript", ".jsx": "javascript", ".mjs": "javascript", ".cjs": "javascript",
    ".ts": "typescript", ".tsx": "typescript", ".mts": "typescript", ".cts": "typescript",
    ".svelte": "svelte", ".vue": "vue",
    ".c": "c", ".h": "c", ".cc": "c++", ".cpp": "c++", ".cxx": "c++", ".hh": "c++", ".hpp": "c++",
    ".clj": "clojure", ".cs": "c#", ".dart": "dart", ".ex": "elixir", ".exs": "elixir", ".erl": "erlang",
    ".go": "go", ".hs": "haskell", ".java": "java", ".jl": "julia", ".kt": "kotlin", ".kts": "kotlin",
    ".lua": "lua", ".m": "objective-c", ".ml": "ocaml", ".mli": "ocaml", ".php": "php", ".pike": "pike",
    ".pmod": "pike", ".pl": "perl", ".pm": "perl", ".r": "r", ".rb": "ruby", ".rs": "rust", ".scala": "scala",
    ".sh": "shell", ".bash": "shell", ".swift": "swift", ".zig": "zig",
}  # fmt: skip
PARSED = frozenset({"python", "javascript", "typescript", "svelte", "vue"})
SCRIPTS = PARSED - {"python"}
GENERATED = re.compile(r"[.-]min\.(?:js|mjs|cjs)$|[.](?:bundle|chunk)\.js$|_pb2(?:_grpc)?\.pyi?$")
"""Names that tools give to what they generate: nobody reads or edits these."""

TYPES = ("module", "component", "util", "config", "api", "hook", "service", "model", "test")
"""What a file may be (seed-systems A2)."""
_DIRECTORIES = {
    "api": "api", "apis": "api", "endpoints": "api", "routers": "api", "controllers": "api", "handlers": "api",
    "routes": "api",
    "components": "component", "component": "component", "widgets": "component", "views": "component",
    "pages": "component", "layouts": "component", "screens": "component", "ui": "component",
    "config": "config", "configs": "config", "configuration": "config", "settings": "config", "constants": "config",
    "hooks": "hook", "composables": "hook",
    "services": "service", "service": "service", "providers": "service", "repositories": "service",
    "stores": "service", "clients": "service",
    "models": "model", "model": "model", "entities": "model", "schemas": "model", "schema": "model",
    "types": "model", "interfaces": "model", "domain": "model",
    "utils": "util", "util": "util", "helpers": "util",
}  # fmt: skip
_TEST_DIRECTORIES = frozenset({"test", "tests", "__tests__", "spec", "specs", "e2e", "cypress", "__mocks__"})
_STEMS = {
    "api": "api", "router": "api", "routes": "api", "urls": "api", "views": "api", "+server": "api",
    "endpoints": "api", "controller": "api", "handlers": "api",
    "config": "config", "settings": "config", "constants": "config", "conf": "config", "setup": "config",
    "noxfile": "config",
    "models": "model", "model": "model", "schema": "model", "schemas": "model", "types": "model",
    "entities": "model", "entity": "model", "interfaces": "model",
    "service": "service", "services": "service", "repository": "service", "store": "service",
    "utils": "util", "util": "util", "helpers": "util", "helper": "util",
}  # fmt: skip
"""By the whole name without its ending, or the last part of it behind ``.``, ``_`` or ``-``: ``user.service.ts``."""
_TEST_STEM = re.compile(r"^test[_-]|[_.-](?:test|tests|spec|e2e|cy)$|^(?:conftest|tests?)$")
_HOOK_STEM = re.compile(r"^use(?:[A-Z]|-[a-z])")
_CONFIG_STEM = re.compile(r"\.config$|^\.[a-z-]*rc$|^\.?[a-z-]+rc$")
_CLASS_TEST = re.compile(r"[a-z0-9](?:Test|Tests|Spec|IT)$")
_COMPONENT_STEM = re.compile(r"^[A-Z][A-Za-z0-9]*$")
_PART = re.compile(r"[._-]")


def language_of(path: str) -> str:
    """The language of a file by its ending; ``""`` when the file is no source, or generated."""
    name = path.rpartition("/")[2]
    dot = name.rfind(".")
    if dot < 0 or GENERATED.search(name):
        return ""
    return LANGUAGES.get(name[dot:].lower(), "")


def type_of(path: str) -> str:
    """What part a source file plays, one of `TYPES`, told by its path alone.

    A test wherever it lies is a test; then the name decides (``user.service.ts``, ``useAuth.ts``), then the nearest
    directory that has a meaning (``services/``), then the ending (``.tsx``, ``.svelte``, ``.vue`` are components).
    """
    *directories, name = path.split("/")
    language = language_of(path)
    stem = name.rpartition(".")[0]
    if stem.endswith(".d"):
        stem, language = stem[:-2], "declarations"
    lower = stem.lower()
    if _TEST_STEM.search(lower) or _TEST_DIRECTORIES.intersection(part.lower() for part in directories):
        return "test"
    if language in {"java", "kotlin", "c#", "php", "scala", "swift"} and _CLASS_TEST.search(stem):
        return "test"
    if _CONFIG_STEM.search(lower):
        return "config"
    if language in SCRIPTS and _HOOK_STEM.match(stem):
        return "hook"
    if lower.startswith(("+page.server", "+layout.server")):
        return "api"
    if lower == "route" and language in SCRIPTS:  # Next.js
        return "api"
    drawn = language in {"svelte", "vue"} or name.endswith((".tsx", ".jsx"))
    if drawn and (language in {"svelte", "vue"} or _COMPONENT_STEM.match(stem)):
        return "component"
    by_name = _STEMS.get(lower) or _STEMS.get(_PART.split(lower)[-1])
    if by_name:
        return by_name
    for part in reversed(directories):
        found = _DIRECTORIES.get(part.lower())
        if found and not (found == "hook" and language not in SCRIPTS):
            return found
    if drawn:
        return "component"
    return "model" if language == "declarations" else "module"
