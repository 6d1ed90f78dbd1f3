"""What a host publishes of its agents: the rows of its snapshot and their inbox items, when they have changed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import orjson

from orchestrator.fleet.fleet_agent_ids import fleet_id
from orchestrator.team.roster.roster import Roster

MAX_BYTES = 1 << 20
"""A larger view leaves out screens and texts, which are asked for when they are needed."""


class PublishedView:
    """The view of one host. ``snapshot`` makes its snapshot; it is built only while this host owns agents.

    ``engines`` are those whose programs are there.
    """

    def __init__(
        self,
        roster: Roster,
        snapshot: Callable[[], Mapping[str, Any]],
        engines: Callable[[], Sequence[str]] = tuple,
    ) -> None:
        self._roster = roster
        self._engines = engines
        self._snapshot = snapshot
        self._last = b"{}"

    def changed(self) -> dict[str, Any] | None:
        """The view if it differs from the last one, else None."""
        view = self._made()
        encoded = orjson.dumps(view)
        if encoded == self._last:
            return None
        self._last = encoded
        return view

    def outdated(self) -> bool:
        """Whether the view differs from the last one."""
        return orjson.dumps(self._made()) != self._last

    def forget(self) -> None:
        """The last view may not have arrived: the next call returns it again, unless nothing is to be shown."""
        self._last = b"" if self._made() else b"{}"

    def _made(self) -> dict[str, Any]:
        own = {name: entry for name, entry in self._roster.agents.items() if entry.state.fleet and entry.live}
        engines = list(self._engines())
        if not own:
            return {"engines": engines} if engines else {}
        snapshot = self._snapshot()
        rows = {
            fleet_id(row["agent_id"]): {**row, "epoch": own[row["agent_id"]].state.epoch}
            for row in snapshot["agents"]
            if row["agent_id"] in own
        }
        items = [
            {**item, "agent_id": fleet_id(item["agent_id"])} for item in snapshot["inbox"] if item["agent_id"] in own
        ]
        view: dict[str, Any] = {"agents": rows, "items": items, "engines": engines}
        if len(orjson.dumps(view)) > MAX_BYTES:
            view["agents"] = {name: {**row, "screen_line": ""} for name, row in rows.items()}
            view["items"] = [{**item, "text": str(item.get("text", ""))[:300]} for item in items]
        return view
