"""Paste one line into a pane of ours, and submit it. The last way to reach a CLI; the caller decides when.

Never ``send-keys``: keys go to copy mode where a human has scrolled back, and are lost; a pasted buffer reaches the
program and leaves the human's place. Each buffer has a name of its own and is deleted by its paste.
"""

from __future__ import annotations

import secrets

from orchestrator.base.errors import Environment
from orchestrator.base.public_names import AGENT_TAG
from orchestrator.tmux.command_words import literal
from orchestrator.tmux.panes import RUN, TAGGED
from orchestrator.tmux.screen_capture import PaneTag
from orchestrator.tmux.server_address import TmuxSocket, is_gone
from orchestrator.tmux.servers import tmux

RETURN = "\r"
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


def _paste(socket: TmuxSocket, pane_id: str, whose: PaneTag, text: str, how: list[str]) -> bool:
    buffer = f"orchestrator-{secrets.token_hex(6)}"
    commands = [
        ["set-buffer", "-b", buffer, text],
        ["paste-buffer", *how, "-d", "-b", buffer, "-t", pane_id],
        ["display-message", "-p", "done"],
    ]
    try:
        return tmux(socket).guarded(pane_id, _free(whose), *commands) == "done"
    except Environment as error:
        if is_gone(error):
            return False
        raise


def _free(whose: PaneTag) -> str:
    tag = f"#{{&&:#{{==:#{{{AGENT_TAG}}},{literal(whose.agent_id)}}},#{{==:#{{{RUN}}},{literal(whose.run_id)}}}}}"
    free = f"#{{&&:#{{==:#{{pane_dead}},0}},{UNSELECTED}}}"
    return f"#{{&&:#{{&&:{TAGGED},{tag}}},{free}}}"
