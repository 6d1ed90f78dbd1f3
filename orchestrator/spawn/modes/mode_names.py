"""The names of the spawn modes, as callers give them and runs store them. Costs no import."""

from __future__ import annotations

from typing import Literal, get_args

SpawnModeName = Literal["single", "collective", "cascade", "plan", "swarm", "debate"]
"""Each name is that of a file of this package, whose `MODE` describes the mode."""
MODES: tuple[SpawnModeName, ...] = get_args(SpawnModeName)
