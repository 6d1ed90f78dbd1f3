"""The path of the home of spawn runs, and whether it holds runs that have not ended. Changes nothing.

Kept light, because each daemon imports this file at its start; the rest is loaded when there are runs.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Mapping
from pathlib import Path

from orchestrator.base.errors import BadRequest
from orchestrator.spawn.database_opening import looked_at
from orchestrator.spawn.ddl import STOPPED_UNSEEN
from orchestrator.spawn.run_seals import HomeIdentity, Seals

HOME = "SMART_SPAWN_MCP_HOME"
DEFAULT_HOME = "~/.smart-spawn-mcp"
SHOWN = 80


def home_of(env: Mapping[str, str]) -> Path:
    """The home that SMART_SPAWN_MCP_HOME names, ``~/`` expanded; BadRequest ``bad_config`` for a relative path.

    A relative path would mean another home in each directory in which a CLI is started (C30).
    """
    given = env.get(HOME, "").strip() or DEFAULT_HOME
    if "\0" in given:
        raise bad(HOME, given, "an absolute path")
    if given == "~" or given.startswith("~/"):
        base = env.get("HOME", "").strip()
        path = (Path(base) if base else Path.home()) / given[2:]
    else:
        path = Path(given)
    if not path.is_absolute():
        raise bad(HOME, given, "an absolute path, or one that begins with ~/")
    return path


def has_work(path: Path, project: str) -> bool:
    """Whether a daemon has to open this home; creates and changes nothing.

    True if the home has runs of this machine that have not ended, or a run of the project that its budget has
    stopped and nobody has dismissed. If the home has no identity of this machine, its database is not opened.
    """
    own = HomeIdentity(path).recognize()
    if own is None:
        return False
    with contextlib.suppress(sqlite3.Error), looked_at(path) as con:
        return con is not None and (
            any(True for _ in Seals(own).open_runs(con)) or bool(con.execute(STOPPED_UNSEEN, (project,)).fetchone())
        )
    return False


def bad(name: str, given: str, wanted: str) -> BadRequest:
    """The error for a variable with a wrong value."""
    return BadRequest("bad_config", f"{name} is {given[:SHOWN]!r}", f"set it to {wanted}", variable=name)
