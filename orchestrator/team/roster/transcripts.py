"""Where an agent's CLI keeps the transcript of its session, as its engine says. Reads directories only."""

from __future__ import annotations

import os
import re
from pathlib import Path

from orchestrator.base.errors import OrchestratorError
from orchestrator.engines.table import ENGINES
from orchestrator.journal.project_files import Paths, read_json

_PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{5,127}")  # an id that cannot lead to another file


def transcript_of(paths: Paths, agent_id: str, engine: str, session: str | None) -> Path | None:
    """The transcript of the session: the newest file that the engine names; None if there is none.

    The CLI's environment is that of its last launch; a launch file that was not written on this machine is ignored.
    """
    row = ENGINES.get(engine)
    if row is None or row.transcript is None or not session or not _PLAIN.fullmatch(session):
        return None
    place = row.transcript(_environment(paths, agent_id), session)
    try:
        dated = [(path.stat().st_mtime_ns, path) for path in Path(place.folder).glob(place.files)]
    except OSError:  # removed meanwhile, or not ours to read
        return None
    return max(dated)[1] if dated else None


def _environment(paths: Paths, agent_id: str) -> dict[str, str]:
    try:
        launch = read_json(paths.launch(agent_id))
    except OrchestratorError:
        return dict(os.environ)
    if not paths.provenance.owns(launch, "agent", agent_id, "launch") or not isinstance(launch.get("env"), dict):
        return dict(os.environ)
    return {str(name): str(value) for name, value in launch["env"].items()}
