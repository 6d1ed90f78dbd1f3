"""Panes that show squad members: tag, list and close them. Acts on tmux only.

They share the agents' region of a window, and every rule of ``panes`` applies to them. But they are not agents, have
none of their tags, and nothing is awaited in them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from orchestrator.base.errors import Environment
from orchestrator.tmux import panes
from orchestrator.tmux.command_words import literal
from orchestrator.tmux.server_address import TmuxSocket, is_gone
from orchestrator.tmux.servers import tmux

MEMBER = "@orchestrator_member"
# A condition for tmux: the pane is a member's.
TAGGED = f"#{{!=:#{{{MEMBER}}},}}"


@dataclass(frozen=True)
class NewMemberPane:
    """A member's pane to be made: ``mark`` names one member permanently, ``argv`` (see `begun`) needs no shell."""

    mark: str
    argv: Sequence[str]
    cwd: str
    env: Mapping[str, str] = field(default_factory=dict)
    minimum: None = None  # its output can be read in any pane that the layout grants

    @property
    def whose(self) -> str:
        """Whom the pane is for, in a sentence."""
        return f"squad member {self.mark}"

    @property
    def tags(self) -> dict[str, str]:
        """The option that marks the pane as the member's."""
        return {MEMBER: self.mark}


@dataclass(frozen=True)
class MemberPane:
    """A pane that shows a member."""

    pane_id: str
    window_id: str
    mark: str


def begun(mark: str) -> list[str]:
    """How the words in a member's pane begin, so that its pane is known also before it is tagged."""
    return ["env", f"ORCHESTRATOR_SHOWN={mark}"]


def list_members(socket: TmuxSocket, window_id: str | None = None) -> list[MemberPane]:
    """The members' panes of the server, or of one window, of every project.

    None where the server or the window is gone; else raises as `Tmux.run`.
    """
    scope = ["-t", window_id] if window_id else ["-a"]
    form = f"#{{pane_id}} #{{window_id}} #{{{MEMBER}}}"
    try:
        lines = tmux(socket).run("list-panes", *scope, "-f", TAGGED, "-F", form).split("\n")
    except Environment as error:
        if is_gone(error):
            return []
        raise
    # A window linked into several sessions is listed once for each.
    return [MemberPane(*line.split(" ", 2)) for line in dict.fromkeys(lines) if line]


def kill(socket: TmuxSocket, pane_id: str, mark: str) -> bool:
    """End the pane if it carries the member's mark at that moment; else as ``panes.kill_if``."""
    # The tag itself is part of it: an empty mark must not match the panes that carry none.
    return panes.kill_if(socket, pane_id, f"#{{&&:{TAGGED},#{{==:#{{{MEMBER}}},{literal(mark)}}}}}")
