"""Hooks without processes: channels that keep what they were told, and an engine whose turns end as a test says."""

from __future__ import annotations

from typing import Any

from orchestrator.core.screens import Composer, Screen, ScreenPattern
from orchestrator.engines.definition import Engine, PreparedLaunch
from orchestrator.team.wake.parking import HookChannel, HookEvent, Parking
from tests.support.team import Team, settle


def composer(screen: Screen) -> Composer:
    """A line `> ` with a draft behind it, and dialogs without one."""
    if not screen.lines or not screen.lines[-1].startswith(">"):
        return "other"
    return "draft" if screen.lines[-1][1:].strip() else "empty"


ROW = Engine(
    name="parker",
    prepare=lambda _launch: PreparedLaunch(argv=("true",)),
    tool_limit_s=60.0,
    parks="hook",
    park_limit_s=43_200.0,
    hook_events={
        "SessionStart": "start", "UserPromptSubmit": "prompt", "Stop": "turn_end", "Interrupt": "interrupt",
        "PermissionRequest": "permission", "Notification": "notice", "SessionEnd": "end", "PostCompact": "compacted",
    },
    composer=composer,
    title_idle="^idle",
    patterns=(ScreenPattern("permission", "Allow this", "asks"), ScreenPattern("interrupted", "Interrupted", "by a human")),
)  # fmt: skip
PLUGIN = Engine(
    name="plugged",
    prepare=ROW.prepare,
    tool_limit_s=60.0,
    parks="plugin",
    park_limit_s=10.0,
    hook_events={"session.idle": "turn_end"},
)


class Line:
    """One connection of a hook: what it was told, in order."""

    def __init__(
        self, *, keeps: bool = False, depth: int | None = None, conn: str = "", returned: bool = False
    ) -> None:
        self.words: list[dict[str, Any]] = []
        self.channel = HookChannel(self.words.append, keeps, depth, conn, returned)

    @property
    def said(self) -> str | None:
        """The last word; None while it is held."""
        return str(self.words[-1]["answer"]) if self.words else None


class Lot:
    """A team with one agent `a1`, and the parking under test."""

    def __init__(self, team: Team, engine: str = "parker") -> None:
        self.team, self.engine = team, engine
        self.rested: list[str] = []
        self.parking = Parking(team.roster, lambda entry: self.rested.append(entry.turn))

    async def begin(self, *, ready: bool = True) -> Lot:
        """Make the agent."""
        self.entry = await self.team.agent(ready=ready)
        self.entry.state.spec["engine"] = self.engine
        return self

    async def tell(self, event: str, line: Line | None = None, **data: Any) -> Line:
        """One event of the agent's CLI; the line it came over."""
        line = line or Line()
        self.parking.heard(self.entry, line.channel, HookEvent(event, "s-1", data))
        await settle()
        return line

    async def end(self, line: Line) -> None:
        """The connection ends from the other side."""
        self.parking.gone(self.entry, line.channel)
        await settle()
