"""Seconds since the machine was started, those in which it slept among them.

CLOCK_MONOTONIC stands still while Linux sleeps and goes on while macOS does; `time.monotonic` stands still on both.
"""

from __future__ import annotations

import time

_CLOCK: int = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)  # the first is of Linux alone


def seconds() -> float:
    """They never go back, and nobody can set them."""
    return time.clock_gettime(_CLOCK)
