"""Imports the MCP SDK for a daemon without what a daemon never uses, which would be a third of its imports.

`import mcp.server.session` runs the `__init__` of `mcp` and of `mcp.server`, which load the SDK's client, its
high-level server and HTTP clients, 125 modules; and the SDK defines some 400 models, of which a session uses 30.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.machinery import ModuleSpec
from importlib.util import find_spec, module_from_spec
from types import ModuleType
from typing import Any


def lighten_sdk() -> None:
    """Call before the first import of the SDK; everything in it can still be imported, and works as before.

    Every model of this process, ours too, is built when it is first used.
    """
    from pydantic import BaseModel  # noqa: PLC0415 - the commands that call no daemon do without

    BaseModel.model_config["defer_build"] = True
    make_lazy("mcp", "mcp.client", "mcp.server", "mcp.shared")


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
