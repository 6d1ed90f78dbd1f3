"""The daemon's log: lines on stderr, which is the run directory's log file. Touches descriptor 2 only."""

from __future__ import annotations

import contextlib
import logging
import os
import sys

import structlog


class _LineWriter:
    """Writes log lines to stderr; one that finds no room is dropped: what it tells of must go on all the same."""

    def msg(self, line: str) -> None:
        with contextlib.suppress(OSError):
            os.write(2, line.encode(errors="replace") + b"\n")

    debug = info = warning = error = critical = exception = log = msg


def configure_log(level: str) -> None:
    """Log lines to stderr, which is the run directory's log; secrets never get into one (no payload is logged)."""
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            structlog.processors.KeyValueRenderer(key_order=["timestamp", "level", "event"]),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(getattr(logging, level.upper())),
        logger_factory=lambda *_: _LineWriter(),
        cache_logger_on_first_use=True,
    )
    logging.basicConfig(level=logging.WARNING, stream=sys.stderr)
