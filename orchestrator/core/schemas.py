"""The schema of every file of ours, by its name in `.agents-schema/`. Pure.

Only checks and generators need it: a daemon starts without the models of records.
"""

from __future__ import annotations

from typing import Any

from pydantic import TypeAdapter

from orchestrator.core.file_models import (
    CollectedFile,
    IdentityFile,
    LaunchFile,
    Meta,
    MirrorFile,
    ProcessFile,
    RunFile,
    SquadFile,
)
from orchestrator.core.records import BROADCAST, INBOX, OUTBOX

SCHEMAS: dict[str, TypeAdapter[Any]] = {
    "inbox": INBOX,
    "outbox": OUTBOX,
    "broadcast": BROADCAST,
    "meta": TypeAdapter(Meta),
    "run": TypeAdapter(RunFile),
    "identity": TypeAdapter(IdentityFile),
    "launch": TypeAdapter(LaunchFile),
    "process": TypeAdapter(ProcessFile),
    "collected": TypeAdapter(CollectedFile),
    "mirror": TypeAdapter(MirrorFile),
    "squad": TypeAdapter(SquadFile),
}
"""The config schema is added by `orchestrator.config.keys`."""
