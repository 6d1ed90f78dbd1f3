"""Runs a module of these benchmarks with another tree's package: ``python -P run.py TREE MODULE ARGUMENT ...``.

``orchestrator`` and ``tests`` are those of TREE, ``benchmarks`` is always the package beside this file.
"""

from __future__ import annotations

import importlib.util
import runpy
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent


def program(tree: Path, module: str, *arguments: str, python: str = sys.executable) -> list[str]:
    """The command that runs ``benchmarks.<module>`` with this tree's package."""
    return [python, "-P", str(HERE / "run.py"), str(tree), f"benchmarks.{module}", *arguments]


def measured_tree() -> Path:
    """The tree whose package this process has."""
    spec = importlib.util.find_spec("orchestrator")
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).resolve().parents[1]


def main() -> None:
    sys.path.insert(0, sys.argv[1])
    spec = importlib.util.spec_from_file_location(
        "benchmarks", HERE / "__init__.py", submodule_search_locations=[str(HERE)]
    )
    assert spec is not None
    sys.modules["benchmarks"] = importlib.util.module_from_spec(spec)
    del sys.argv[:2]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
