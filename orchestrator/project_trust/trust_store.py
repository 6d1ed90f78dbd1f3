"""Puts what the user has allowed of the project's files into the store, and takes it out again, with our errors."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from orchestrator.base.clock import rfc3339
from orchestrator.base.errors import BadRequest, Environment
from orchestrator.journal.project_files import ensure_agents_dir, failure
from orchestrator.team.roster.roster import Roster
from orchestrator.trust import allowed
from orchestrator.trust.state_dir import StateDirUnsafe


def allow(roster: Roster, files: Mapping[str, bytes]) -> None:
    """Allow these contents of the project's files. Makes `.agents/` if it is missing, because it has the identity.

    BadRequest ``no_project``, Environment ``state_dir_unsafe``, ``disk_full`` or ``io_failed``.
    """
    if roster.root in (Path("/"), Path.home()):
        raise BadRequest("no_project", f"{roster.root} is no project")
    ensure_agents_dir(roster.paths)
    with _state_dir_errors(roster):
        allowed.allow(roster.root, files, rfc3339(roster.clock.now()))


def revoke(roster: Roster, names: Collection[str] | None) -> list[str]:
    """Revoke what was allowed for these files (None: all); returns their names. Environment as `allow`."""
    with _state_dir_errors(roster):
        return allowed.revoke(roster.root, names)


@contextmanager
def _state_dir_errors(roster: Roster) -> Iterator[None]:
    try:
        yield
    except StateDirUnsafe as error:
        raise Environment("state_dir_unsafe", str(error)) from error
    except OSError as error:
        raise failure(allowed.Allowed(roster.root).place or roster.paths.home, error) from error
