"""Paste one line into a pane of ours, submit it, or press a dialog's key. The caller decides when.

Never ``send-keys``: keys go to copy mode where a human has scrolled back, and are lost; a pasted buffer reaches the
program and leaves the human's place. Each buffer has a name of its own and is deleted by its paste.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Sequence

from orchestrator.base.errors import Environment
from orchestrator.base.public_names import AGENT_TAG
from orchestrator.tmux.command_words import literal
from orchestrator.tmux.panes import RUN, TAGGED
from orchestrator.tmux.screen_capture import PaneTag
from orchestrator.tmux.server_address import TmuxSocket, is_gone
from orchestrator.tmux.servers import tmux

RETURN = "\r"
SHOWN_MAX = 12
LINE_MAX = 100
"""Of a dialog, the lines that tmux looks for before it presses a key, and of each so many characters."""
UNSELECTED = "#{&&:#{!=:#{selection_present},1},#{!=:#{selection_active},1}}"
"""A condition for tmux: no human selects text in the pane.

From tmux 3.5 on a selection just begun is not yet "present"; one that waits to be copied is no longer "active".
"""


def paste(socket: TmuxSocket, pane_id: str, whose: PaneTag, line: str) -> bool:
    """Paste ``line`` as typed text (bracketed where the program asks for it), without submitting it.

    Does nothing and returns False if the pane is gone, dead, another agent's, or a human selects text in it.
    Check and act are one invocation. Raises as `Tmux.run`.
    """
    return _paste(socket, pane_id, whose, line, ["-p"])


def submit(socket: TmuxSocket, pane_id: str, whose: PaneTag) -> bool:
    """A carriage return, under the same conditions and with the same errors as ``paste``."""
    return _paste(socket, pane_id, whose, RETURN, ["-r"])


def press(socket: TmuxSocket, pane_id: str, whose: PaneTag, key: str, shown: Sequence[str]) -> bool:
    """One key, under the same conditions, and only while each line of ``shown`` is on the screen.

    tmux looks and presses in one go, so that the key cannot reach another dialog. Raises as ``paste``.
    """
    lines = [line for line in map(_pattern, shown) if line][-SHOWN_MAX:]
    return _paste(socket, pane_id, whose, key, ["-r"], shown=lines)


def _pattern(line: str) -> str:
    """A regular expression for the line that has no character with a meaning for tmux's formats."""
    # A character outside ASCII may be several to a tmux whose locale is another one.
    loose = "".join(
        c if c.isascii() and (c.isalnum() or c == " ") else "." if c.isascii() else ".*" for c in line.strip()
    )
    return loose[:LINE_MAX] if re.search(r"[A-Za-z0-9]", loose) else ""


def _paste(
    socket: TmuxSocket, pane_id: str, whose: PaneTag, text: str, how: list[str], *, shown: Sequence[str] = ()
) -> bool:
    buffer = f"orchestrator-{secrets.token_hex(6)}"
    commands = [
        ["set-buffer", "-b", buffer, text],
        ["paste-buffer", *how, "-d", "-b", buffer, "-t", pane_id],
        ["display-message", "-p", "done"],
    ]
    try:
        return tmux(socket).guarded(pane_id, _free(whose, shown), *commands) == "done"
    except Environment as error:
        if is_gone(error):
            return False
        raise


def _free(whose: PaneTag, shown: Sequence[str] = ()) -> str:
    tag = f"#{{&&:#{{==:#{{{AGENT_TAG}}},{literal(whose.agent_id)}}},#{{==:#{{{RUN}}},{literal(whose.run_id)}}}}}"
    free = f"#{{&&:#{{==:#{{pane_dead}},0}},{UNSELECTED}}}"
    condition = f"#{{&&:#{{&&:{TAGGED},{tag}}},{free}}}"
    for line in shown:
        condition = f"#{{&&:{condition},#{{!=:#{{C/r:{line}}},0}}}}"
    return condition
