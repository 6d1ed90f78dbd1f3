"""What a user has allowed of a project, for tests that are about something else: written into the store directly."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from unittest import mock

from orchestrator.trust import allowed
from orchestrator.trust.state_dir import VARIABLE

ACTING = (".agents/config.toml", ".agents/team.toml", ".agents/roles/*.md", "templates/*.template")
AT = "2026-01-01T00:00:00.000Z"


def allow(root: Path, names: Iterable[str] = (), state: Path | None = None) -> None:
    """Allow these files of the project as they are now; without names all that may act by custom."""
    patterns = tuple(names) or ACTING
    found = {
        str(path.relative_to(root)): path for pattern in patterns for path in root.glob(pattern) if path.is_file()
    }
    (root / ".agents").mkdir(exist_ok=True)
    with mock.patch.dict(os.environ, {VARIABLE: str(state)} if state is not None else {}):
        allowed.allow(root, {name: path.read_bytes() for name, path in found.items()}, AT)
