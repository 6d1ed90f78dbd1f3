"""The final states: which events end a task, and which lives of an agent are over. Pure.

Their home is here because the worker and the command line read them too, which do not load the records' models.
"""

from __future__ import annotations

TERMINAL = frozenset({"result", "error", "canceled"})
"""Exactly one of these ends a task (R-Q2)."""

FINAL_LIVES = frozenset({"deleted", "failed"})
"""Nothing of an agent in one of these runs any more; one that is `stopped` may still have a process to end."""
