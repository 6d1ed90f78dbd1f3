"""The names of the spawn modes, as callers give them and runs store them. Costs no import."""

from __future__ import annotations

from typing import Literal, get_args

Mode = Literal["single", "collective", "cascade", "plan", "swarm"]
"""Each name is that of a file of this package, which describes the mode as `MODE`."""
MODES: tuple[Mode, ...] = get_args(Mode)
