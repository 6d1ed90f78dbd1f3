"""Tokens and cost for commands that read files, at the prices of the settings."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, cast

from orchestrator.base import lazy_imports
from orchestrator.base.errors import OrchestratorError

if TYPE_CHECKING:
    from orchestrator.core.model_usage import Prices
    from orchestrator.team.people.recorded_figures import Recorded


def figures_here(root: Path) -> Callable[[str, str], Recorded]:
    """As `recorded_figures`; settings that cannot be read have no prices."""
    from orchestrator.config import sources  # noqa: PLC0415  (loads pydantic)

    with lazy_imports.missing("rich"):  # for the colours of logs, and nothing is logged here
        from orchestrator.team.people.recorded_figures import recorded_figures  # noqa: PLC0415

    prices: Prices = {}
    with contextlib.suppress(OrchestratorError):
        prices = cast("Prices", sources.load(root, os.environ).config.prices)
    return recorded_figures(root, prices)
