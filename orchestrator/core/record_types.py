"""The types of records: which log each goes into, which are synced and broadcast, and a record before it is written.

Pure; data only. The form of the records is in `records.py`.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

from orchestrator.base.final_states import TERMINAL

UNSYNCED = frozenset({"delivered", "ack", "progress", "parked", "woken"})
"""May be lost by a power cut: redelivery covers them. All others are durable before they are seen."""

INBOX_TYPES = frozenset({"task", "cancel", "restart", "stop", "lost"})
OUTBOX_TYPES = frozenset(
    {
        "starting", "ready", "delivered", "ack", "progress", "cancel_requested", "result", "error", "canceled",
        "requeued", "parked", "woken", "stalled", "recovered", "blocked", "unblocked", "exited", "restarted",
        "failed", "stopped", "deleted", "answered", "lost", "late",
    }
)  # fmt: skip
LIFECYCLE = frozenset(
    {
        "starting", "ready", "stalled", "recovered", "blocked", "unblocked", "exited", "restarted", "failed",
        "stopped", "deleted", "requeued", "late",
    }
)  # fmt: skip
BROADCAST_TYPES = TERMINAL | LIFECYCLE
"""What the run's broadcast repeats (R-E2): every terminal event and every lifecycle change."""

BROADCAST_PAYLOAD_BYTES = 2048
"""Larger payloads stay in the outbox; the broadcast then says ``payload_bytes``."""

EXITS = {
    "exit": "its program exited by itself",
    "signal": "a signal ended its program",
    "pane_closed": "its pane was closed and its program with it",
    "vanished": "its program ended and its pane went with it",
    "tmux_gone": "the tmux server ended",
    "pid_reused": "its process is gone, and its pid belongs to another program now",
    "restart": "it was ended because a restart was asked for",
    "timed_out": "it was ended because its task ran out of time",
    "host_lost": "its host was lost",
}
"""How a launch of a CLI can end: ``how`` of `exited`."""


LOG_VERSION = 1
"""Version of the meaning of records; a host takes over an agent only if it reads the version of its logs."""


class Draft(NamedTuple):
    """A record that a decision makes, before the journal adds ``v``, ``seq``, ``mac`` and ``crc``."""

    log: Literal["inbox", "outbox"]
    type: str
    fields: dict[str, Any]
