"""Files with the seal of a stage's machine, for tests that put a file of ours in the place of another."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from orchestrator.journal.project_files import Paths
from orchestrator.trust import state_dir


@contextmanager
def state_of(env: Mapping[str, str]) -> Iterator[None]:
    """This process judges files with the state directory of that environment."""
    before = os.environ.get(state_dir.VARIABLE)
    os.environ[state_dir.VARIABLE] = env[state_dir.VARIABLE]
    try:
        yield
    finally:
        if before is None:
            del os.environ[state_dir.VARIABLE]
        else:
            os.environ[state_dir.VARIABLE] = before


def put(env: Mapping[str, str], root: Path, path: Path, content: dict[str, Any], *scope: str) -> None:
    """Write a JSON file as the daemon of that environment would have."""
    with state_of(env):
        path.write_text(json.dumps(Paths(root).provenance.sealed(content, *scope)))
