"""The artifacts of an agent as files to look at: listed, and opened so that no link leads out. Reads only."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Any, BinaryIO

from orchestrator.base.errors import BadRequest
from orchestrator.journal.project_files import Paths, check_id, confine, failure, list_artifacts


def listed(root: Path, agent_id: str) -> list[dict[str, Any]]:
    """The agent's artifacts: ``[{name, bytes, modified_at}]``; links are left out."""
    return list_artifacts(Paths(root).artifacts(check_id(agent_id, "agent_id")))


def opened(root: Path, agent_id: str, name: str) -> tuple[BinaryIO, int]:
    """An artifact to be read, and its size; BadRequest ``path_escape`` or ``unknown_resource``.

    The file that was opened is checked, not only its name: an agent may replace a directory by a link meanwhile.
    """
    directory = Paths(root).artifacts(check_id(agent_id, "agent_id"))
    path = confine(directory, name, what="artifact")
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        raise _unknown(name) from None
    except OSError as error:
        raise failure(path, error) from error
    try:
        facts = os.fstat(fd)
        inside = Path(f"/proc/self/fd/{fd}").readlink().is_relative_to(directory.resolve())
        if inside and stat.S_ISREG(facts.st_mode):
            return os.fdopen(fd, "rb"), facts.st_size
    except OSError as error:
        os.close(fd)
        raise failure(path, error) from error
    os.close(fd)
    raise _unknown(name) if inside else BadRequest("path_escape", f"artifact {name!r} leaves {directory}")


def _unknown(name: str) -> BadRequest:
    return BadRequest("unknown_resource", f"no artifact is called {name!r}")
