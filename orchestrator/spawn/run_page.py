"""Draws a spawn run as one page: the drawing, tables of its nodes, models and events, its whole task. Pure."""

from __future__ import annotations

from orchestrator.base.svg_page import escaped, page, scrolled, table
from orchestrator.spawn.picture_words import PictureJson, dollars, maybe_charged, seconds, totals
from orchestrator.spawn.run_picture import MARK, svg


def html(picture: PictureJson) -> str:
    """The page of a run with its drawing ``svg``.

    One file that loads nothing: its own policy forbids scripts and every address. The boxes show more under the
    pointer.
    """
    run, nodes, events = picture["run"], picture["nodes"], picture["events"]
    body = [
        f"<h1>Spawn run {escaped(run['run_id'])}</h1>",
        f"<p>{escaped(' · '.join(totals(run)))}</p>",
        f"<p>created {escaped(run.get('created_at') or '-')}, started {escaped(run.get('started_at') or '-')},",
        f"finished {escaped(run.get('finished_at') or '-')}, project {escaped(run.get('project') or '-')}</p>",
        f"<pre>{escaped(run.get('task') or '')}</pre>",
        scrolled(svg(picture)),
        *(f"<p>{escaped(note)}</p>" for note in run.get("notes") or ()),
        *table("Nodes", _NODE_HEADS, map(_node_cells, nodes)),
        *table("Models", ("model", "nodes", "cost", "tokens"), map(_model_cells, run.get("models") or ())),
        *table("Events", ("seq", "time", "level", "node", "what"), map(_event_cells, events)),
    ]
    return page(f"Spawn run {run['run_id']}", MARK, body)


_NODE_HEADS = (
    "node", "kind", "wave", "model", "status", "needs", "attempts", "re-runs", "time", "cost", "cost from", "tokens",
    "task", "error",
)  # fmt: skip


def _node_cells(node: PictureJson) -> list[object]:
    return [
        node["node_id"],
        node.get("kind", ""),
        node.get("wave", ""),
        node.get("model", ""),
        node.get("status", ""),
        ", ".join(node["needs"]),
        node.get("attempts") or 0,
        node.get("reruns") or 0,
        seconds(node.get("seconds")),
        _cost(node),
        node.get("cost_source") or "",
        _tokens(node),
        node.get("task") or "",
        node.get("error") or "",
    ]


def _model_cells(row: PictureJson) -> list[object]:
    return [row["model"], row.get("nodes", ""), _cost(row), _tokens(row)]


def _event_cells(row: PictureJson) -> list[object]:
    return [row.get("seq", ""), row.get("ts", ""), row.get("level", ""), row.get("node_id") or "", row.get("message")]


def _cost(row: PictureJson) -> str:
    return "; ".join(filter(None, (dollars(row.get("usd")), maybe_charged(row))))


def _tokens(row: PictureJson) -> str:
    return f"{row.get('prompt_tokens') or 0} + {row.get('completion_tokens') or 0}"
