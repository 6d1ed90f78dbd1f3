"""How often something may happen: buckets that fill with time. Pure; the time is passed in."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable

MOST_KEYS = 4096


class RateLimit:
    """At most ``burst`` at once and ``rate`` per second in the long run, for each key by itself.

    Of more than ``MOST_KEYS`` keys the one that was used longest ago is forgotten.
    """

    def __init__(self, *, rate: float, burst: float) -> None:
        self._rate, self._burst = rate, burst
        self._levels: OrderedDict[Hashable, tuple[float, float]] = OrderedDict()

    def take(self, key: Hashable, now: float) -> bool:
        """Whether it may happen now; if so, it is counted."""
        level, at = self._levels.pop(key, (self._burst, now))
        level = min(self._burst, level + max(0.0, now - at) * self._rate)
        allowed = level >= 1.0
        self._levels[key] = level - 1.0 if allowed else level, now
        if len(self._levels) > MOST_KEYS:
            self._levels.popitem(last=False)
        return allowed
