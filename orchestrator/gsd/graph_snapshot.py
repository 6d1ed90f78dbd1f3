"""One project as an answer sees it: its planning, its code graph, its intel store, and its files, at one moment."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from orchestrator.gsd.graph.protocol import Graph
from orchestrator.gsd.model import Intel, Planning


@dataclass(frozen=True)
class Snapshot:
    """What every answer is made of; made by `projects`.

    ``planning`` is None where there is no `.planning/` (our own index alone). ``entity`` gives the text of an entity
    file by its id, None without one; it never leaves the entities' directory. ``stale`` gives those of some
    project-relative paths whose file has changed or gone since our index was made (empty without an index).
    """

    root: Path
    planning: Planning | None
    graph: Graph
    intel: Intel
    entity: Callable[[str], str | None]
    stale: Callable[[list[str]], list[str]]
