"""The artifacts of an agent as files to look at: listed, and opened so that no link leads out. Reads only."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import Any, BinaryIO

from orchestrator.base.errors import BadRequest
from orchestrator.journal.project_files import Paths, check_id, confine, failure, list_artifacts

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


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
        fd = _opened_below(directory, path)
    except FileNotFoundError:
        raise _unknown(name) from None
    except (OSError, ValueError) as error:
        if isinstance(error, OSError) and error.errno not in (errno.ELOOP, errno.ENOTDIR):
            raise failure(path, error) from error
        # A link stands where none stood a moment ago.
        raise BadRequest("path_escape", f"artifact {name!r} leaves {directory}") from None
    try:
        facts = os.fstat(fd)
        if stat.S_ISREG(facts.st_mode):
            return os.fdopen(fd, "rb"), facts.st_size
    except OSError as error:
        os.close(fd)
        raise failure(path, error) from error
    os.close(fd)
    raise _unknown(name)


def _opened_below(directory: Path, path: Path) -> int:
    """A file below the directory, opened step by step so that none of the steps follows a link.

    Raises ``OSError``, and ``ValueError`` if the path is not below it.
    """
    base = directory.resolve()
    *above, last = path.relative_to(base).parts or (".",)
    at = os.open(base, _DIRECTORY)
    try:
        for step in above:
            below = os.open(step, _DIRECTORY, dir_fd=at)
            os.close(at)
            at = below
        return os.open(last, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=at)
    finally:
        os.close(at)


def _unknown(name: str) -> BadRequest:
    return BadRequest("unknown_resource", f"no artifact is called {name!r}")
