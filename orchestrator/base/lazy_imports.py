"""Imports the MCP SDK for a daemon without what a daemon never uses, which would be half of its imports.

`import mcp.server.session` runs the `__init__` of `mcp` and of `mcp.server`, which load the SDK's client, its
high-level server and HTTP clients, 125 modules; the low-level server loads what serves over HTTP, 60 modules; and
the SDK defines some 400 models, of which a session uses 30.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from importlib.machinery import ModuleSpec
from importlib.util import find_spec, module_from_spec
from types import ModuleType
from typing import Any

_SERVER = "mcp.server.lowlevel"
_HTTP = (
    "starlette",
    "mcp.server.auth",
    "mcp.server.streamable_http",
    "mcp.server.streamable_http_manager",
    "mcp.server.transport_security",
)
"""What the server imports to serve over HTTP."""


def lighten_sdk() -> None:
    """Call before the first import of the SDK; everything in it can still be imported, and works as before.

    Except that the low-level server cannot serve over HTTP. Every model of this process, ours too, is built when it
    is first used.
    """
    from pydantic import BaseModel, TypeAdapter  # noqa: PLC0415 - the commands that call no daemon do without

    BaseModel.model_config["defer_build"] = True
    TypeAdapter._defer_build = True  # type: ignore[method-assign, assignment]  # noqa: SLF001 - a pydantic without it builds sooner
    make_lazy("mcp", "mcp.client", "mcp.server", "mcp.shared")
    import_without(_SERVER, _HTTP)


def import_without(name: str, unused: Sequence[str]) -> None:
    """Import a module that imports these packages without using them yet: it gets empty classes for their names.

    Each of the packages can be imported as before afterwards, but the module keeps the empty classes, of which no
    object can be made. A module that uses one of them already while it is imported is imported ordinarily.
    """
    before = set(sys.modules)
    finder = _Unused(unused)
    sys.meta_path.insert(0, finder)
    try:
        import_module(name)
    except Exception:  # noqa: BLE001 - whatever the module does with an empty class
        for loaded in sys.modules.keys() - before:
            if loaded.startswith(name.partition(".")[0] + "."):
                del sys.modules[loaded]
    finally:
        sys.meta_path.remove(finder)
        finder.clear()
    import_module(name)


@contextmanager
def missing(*names: str) -> Iterator[None]:
    """Let what is imported here find that these packages, which it can do without, are not installed.

    A package that is already imported is left alone. Afterwards each can be imported as before.
    """
    absent = [name for name in names if name not in sys.modules]
    sys.modules.update(dict.fromkeys(absent))  # type: ignore[arg-type]  # None: "not there", says the import system
    try:
        yield
    finally:
        for name in absent:
            sys.modules.pop(name, None)


def make_lazy(*names: str) -> None:
    """Let the submodules of these packages be imported without running the packages' `__init__`.

    A name that only an `__init__` defines is still found: asking for it runs that `__init__`. A parent comes before
    its child in ``names``. A package that is already imported, or is not installed, is left alone.
    """
    for name in names:
        spec = find_spec(name) if name not in sys.modules else None
        if spec is not None and spec.loader is not None and spec.submodule_search_locations is not None:
            package = module_from_spec(spec)
            package.__class__ = _LazyPackage
            sys.modules[name] = package
            parent, _, child = name.rpartition(".")
            if parent:
                setattr(sys.modules[parent], child, package)


class _LazyPackage(ModuleType):
    __spec__: ModuleSpec

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name != "__all__":
            raise AttributeError(name)  # the import system probes for such names
        self.__class__ = ModuleType  # type: ignore[assignment]  # from here on it is a module like any other
        loader = self.__spec__.loader
        assert loader is not None
        loader.exec_module(self)
        return getattr(self, name)


class _Unused:
    """Finds packages that have every name, each an empty class."""

    def __init__(self, names: Sequence[str]) -> None:
        self._names = names

    def find_spec(self, name: str, _path: Any = None, _target: Any = None) -> ModuleSpec | None:
        ours = any(name == unused or name.startswith(f"{unused}.") for unused in self._names)
        return ModuleSpec(name, self, is_package=True) if ours else None  # type: ignore[arg-type]

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return _EmptyPackage(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        """It has all that it will ever have."""

    def clear(self) -> None:
        """Forget the packages, so that they can be imported."""
        for name, module in list(sys.modules.items()):
            if isinstance(module, _EmptyPackage):
                del sys.modules[name]
                parent, _, child = name.rpartition(".")
                if parent in sys.modules:
                    vars(sys.modules[parent]).pop(child, None)


class _EmptyPackage(ModuleType):
    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)  # the import system probes for such names

        def refuse(*_args: Any, **_options: Any) -> None:
            raise ImportError(f"{self.__name__}.{name} was left out of this process")

        return type(name, (), {"__init__": refuse})
