"""Where the home of spawn runs is, and whether it holds runs that have not ended: looks that change nothing.

Light, for every daemon asks it at its start; what works with a home is loaded when there is something to do.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Mapping
from pathlib import Path

from orchestrator.base.errors import BadRequest
from orchestrator.spawn.database_opening import looked_at
from orchestrator.spawn.run_seals import HomeIdentity, Seals

HOME = "SMART_SPAWN_MCP_HOME"
DEFAULT_HOME = "~/.smart-spawn-mcp"
SHOWN = 80


def home_of(env: Mapping[str, str]) -> Path:
    """The home that SMART_SPAWN_MCP_HOME names, ``~/`` expanded; BadRequest ``bad_config`` for a relative path.

    A relative one would be another home in each directory a CLI is started in (C30).
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


def has_open_runs(path: Path) -> bool:
    """Whether a home of our form has runs of this machine that have not ended; a look that makes and changes nothing.

    The database of a home without an identity from here is not even opened.
    """
    own = HomeIdentity(path).recognize()
    if own is None:
        return False
    with contextlib.suppress(sqlite3.Error), looked_at(path) as con:
        return con is not None and any(True for _ in Seals(own).open_runs(con))
    return False


def bad(name: str, given: str, wanted: str) -> BadRequest:
    """The error for a variable whose value is not what is wanted."""
    return BadRequest("bad_config", f"{name} is {given[:SHOWN]!r}", f"set it to {wanted}", variable=name)
