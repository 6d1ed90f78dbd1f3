"""What is drawn of a project's code graph: its hotspots, and who depends on one file, over whom. Pure."""

from __future__ import annotations

from typing import Any

from orchestrator.base.errors import BadRequest
from orchestrator.gsd.graph.kinds import is_critical, is_test
from orchestrator.gsd.graph.protocol import Graph, Node, Reached
from orchestrator.gsd.graph_snapshot import Snapshot

STEPS = 3
LISTED = 500
"""The most dependents that are told one by one; the nearest, and of those on one ring the first by path."""


def picture(snapshot: Snapshot, *, file: str = "", limit: int = 20) -> dict[str, Any]:
    """What `drawing_page.html` draws: the ``limit`` greatest hotspots, and the blast radius of ``file``.

    ``{project, files, edges, dangling, sources: {name: day}, hotspots: [{id, path, purpose, type, dependents}],
    centre: {id, path, purpose, type}|null, dependents: [{id, path, purpose, type, depth, via, through, through_path,
    critical, test}], counts: {direct, transitive, total, critical, tests, by_depth}}``. Without ``file`` the centre
    is the greatest hotspot, null where there is none. At most `LISTED` dependents, of each ring its share; the counts
    are of all within three steps. BadRequest ``bad_argument`` for a file that the graph does not have.
    """
    graph = snapshot.graph
    hot = graph.hotspots(limit)
    centre = _centre(graph, file) if file else hot[0][0] if hot else None
    planning = snapshot.planning
    name = planning.project.name if planning and planning.project else ""
    return {
        "project": name or snapshot.root.name,
        "files": len(graph.nodes),
        "edges": graph.edges,
        "dangling": graph.dangling,
        "sources": {
            source: str(facts.get("updated") or "")[:10] for source, facts in sorted(snapshot.intel.sources.items())
        },
        "hotspots": [{**_fact(node), "dependents": count} for node, count in hot],
        "centre": _fact(centre) if centre else None,
        **(_blast(graph, centre) if centre else {"dependents": [], "counts": _NONE}),
    }


_NONE = {"direct": 0, "transitive": 0, "total": 0, "critical": 0, "tests": 0, "by_depth": {}}


def _centre(graph: Graph, file: str) -> Node:
    found = graph.locate(file)
    if found.node is not None:
        return found.node
    near = (
        f"it could be: {', '.join(found.candidates[:5])}"
        if found.candidates
        else "orchestrator gsd query finds files"
    )
    raise BadRequest("bad_argument", f"the code graph has no file {file[:200]!r}", near)


def _blast(graph: Graph, centre: Node) -> dict[str, Any]:
    reached = graph.reach(centre.id, STEPS)
    by_depth: dict[int, int] = {}
    for one in reached:
        by_depth[one.depth] = by_depth.get(one.depth, 0) + 1
    direct = by_depth.get(1, 0)
    return {
        "dependents": [_dependent(graph, one) for one in _listed(reached)],
        "counts": {
            "direct": direct,
            "transitive": len(reached) - direct,
            "total": len(reached),
            "critical": sum(is_critical(one.node.path) for one in reached),
            "tests": sum(is_test(one.node.path) for one in reached),
            "by_depth": by_depth,
        },
    }


def _listed(reached: list[Reached]) -> list[Reached]:
    """Of each ring its share of `LISTED`, critical files first, in the order of the graph."""
    if len(reached) <= LISTED:
        return reached
    rings: dict[int, list[Reached]] = {}
    for one in reached:
        rings.setdefault(one.depth, []).append(one)
    out: list[Reached] = []
    left = LISTED
    for done, ring in enumerate(sorted(rings.values(), key=lambda ring: (len(ring), ring[0].depth))):
        taken = min(len(ring), left // (len(rings) - done))
        out += sorted(ring, key=lambda one: not is_critical(one.node.path))[:taken]
        left -= taken
    return sorted(out, key=lambda one: (one.depth, one.node.path, one.node.id))


def _dependent(graph: Graph, one: Reached) -> dict[str, Any]:
    through = graph.nodes.get(one.through)
    return {
        **_fact(one.node),
        "depth": one.depth,
        "via": one.via,
        "through": one.through,
        "through_path": through.path if through else "",
        "critical": is_critical(one.node.path),
        "test": is_test(one.node.path),
    }


def _fact(node: Node) -> dict[str, Any]:
    return {"id": node.id, "path": node.path, "purpose": node.purpose, "type": node.type}
