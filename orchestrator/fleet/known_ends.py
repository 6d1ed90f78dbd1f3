"""How far the mirrors of own agents went when this host last renewed its lease, in the run directory, for this boot.

While the database is away a start cannot compare logs with their mirrors. A machine that has booted since may run on
an older copy of its disk, and a log that ends before the noted end is one: neither goes on before it was compared.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path

import structlog

from orchestrator.fleet.fleet_agent_ids import fleet_id
from orchestrator.team.roster.agent_entry import AgentEntry

log = structlog.get_logger()

Ends = Mapping[str, tuple[int, int]]
"""By id in the fleet: the last record of the mirrored inbox and outbox."""


class KnownEnds:
    """The notes of one host in a file; without a file nothing is known, and nothing is doubted."""

    def __init__(self, file: Path | None, boot: str) -> None:
        self._file = file
        self._boot = boot
        self._kept: Ends | None = None

    def keep(self, ends: Ends) -> None:
        """Note them, if they have changed. Not synced: another boot does not ask for them."""
        if self._file is None or ends == self._kept:
            return
        new = self._file.with_name(f"{self._file.name}.new")
        try:
            new.write_text(json.dumps({"boot": self._boot, "ends": ends}))
            os.replace(new, self._file)  # noqa: PTH105  (the name says that it replaces)
        except OSError as error:
            log.warning("the ends of the mirrors were not noted", error=str(error))
            return
        self._kept = ends

    def doubted(self, entries: Iterable[AgentEntry]) -> list[AgentEntry]:
        """The agents whose logs may be older than their mirrors."""
        if self._file is None:
            return []
        known = self._read()
        return [entry for entry in entries if _older(entry, known.get(fleet_id(entry.agent_id)))]

    def _read(self) -> dict[str, tuple[int, int]]:
        assert self._file is not None
        try:
            content = json.loads(self._file.read_text())
            if content["boot"] != self._boot:
                return {}
            return {name: (int(inbox), int(outbox)) for name, (inbox, outbox) in content["ends"].items()}
        except (OSError, ValueError, LookupError, TypeError, AttributeError):
            return {}


def _older(entry: AgentEntry, end: tuple[int, int] | None) -> bool:
    return end is None or entry.inbox.last_seq < end[0] or entry.outbox.last_seq < end[1]
