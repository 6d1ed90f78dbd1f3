"""When a call must be answered before its client gives up: known CLIs bound how long one call may last. Pure."""

from __future__ import annotations

from orchestrator.engines.table import call_limit_s
from orchestrator.protocol.tool_calls import Client

MARGIN_S = 15.0
"""Between our answer and the client's limit: a busy machine needs some of it to carry the answer."""


def answer_by_s(client: Client) -> float | None:
    """Seconds within which a call of this client must be answered; None: no limit is known.

    The limit that its relay was started with counts, or else the default of its CLI. If a limit is too short for the
    whole margin, half of it remains.
    """
    limit = client.call_limit_s or call_limit_s(client.name)
    return None if limit is None else max(limit - MARGIN_S, limit / 2)
