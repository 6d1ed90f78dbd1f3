"""Finds the description of a spawn mode by its name."""

from __future__ import annotations

from functools import cache
from importlib import import_module

from orchestrator.spawn.modes.mode_names import MODES
from orchestrator.spawn.modes.spawn_mode import SpawnMode


@cache
def mode_of(name: str) -> SpawnMode:
    """The mode of that name; KeyError if there is none."""
    if name not in MODES:
        raise KeyError(name)
    mode = import_module(f"orchestrator.spawn.modes.{name}").MODE
    assert isinstance(mode, SpawnMode)
    return mode
