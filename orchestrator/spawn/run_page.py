"""Draws a spawn run as one page: the drawing, tables of its nodes, models and events, its whole task. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from orchestrator.base.drawing_text import said
from orchestrator.spawn.picture_words import Facts, dollars, seconds, totals
from orchestrator.spawn.run_picture import MARK, svg

_STYLE = (
    "body{font:15px/1.5 system-ui,sans-serif;margin:2rem;color:#1f2328;background:#fff}"
    "h1{font-size:1.4rem}h2{font-size:1.1rem;margin-top:2rem}.scroll{overflow:auto;max-height:80vh;"
    "border:1px solid #d0d7de;border-radius:6px}pre{white-space:pre-wrap;overflow-wrap:anywhere}"
    "table{border-collapse:collapse;width:100%;font-size:13px}th,td{border-bottom:1px solid #d0d7de;"
    "padding:.3rem .6rem;text-align:left;vertical-align:top;overflow-wrap:break-word;max-width:36em}"
    "th{position:sticky;top:0;background:#f6f8fa}"
    "@media(prefers-color-scheme:dark){body{color:#e6edf3;background:#0d1117}th{background:#161b22}"
    ".scroll,th,td{border-color:#30363d}}"
)


def html(picture: Facts) -> str:
    """The page of a run with its drawing ``svg``.

    One file that loads nothing: its own policy forbids scripts and every address. The boxes show more under the
    pointer.
    """
    run, nodes, events = picture["run"], picture["nodes"], picture["events"]
    parts = [
        "<!doctype html>",
        '<html lang="en"><head><meta charset="utf-8">',
        f'<meta name="generator" content="{MARK}">',
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">",
        '<meta name="viewport" content="width=device-width">',
        f"<title>Spawn run {said(run['run_id'])}</title><style>{_STYLE}</style></head><body>",
        f"<h1>Spawn run {said(run['run_id'])}</h1>",
        f"<p>{said(' · '.join(totals(run)))}</p>",
        f"<p>created {said(run.get('created_at') or '-')}, started {said(run.get('started_at') or '-')},",
        f"finished {said(run.get('finished_at') or '-')}, project {said(run.get('project') or '-')}</p>",
        f"<pre>{said(run.get('task') or '')}</pre>",
        f'<div class="scroll" tabindex="0">{svg(picture)}</div>',
        *_table("Nodes", _NODE_HEADS, map(_node_cells, nodes)),
        *_table("Models", ("model", "nodes", "cost", "tokens"), map(_model_cells, run.get("models") or ())),
        *_table("Events", ("seq", "time", "level", "node", "what"), map(_event_cells, events)),
        "</body></html>\n",
    ]
    return "\n".join(parts)


_NODE_HEADS = (
    "node", "kind", "wave", "model", "status", "needs", "attempts", "re-runs", "time", "cost", "cost from", "tokens",
    "task", "error",
)  # fmt: skip


def _node_cells(node: Facts) -> list[object]:
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
        dollars(node.get("usd")),
        node.get("cost_source") or "",
        _tokens(node),
        node.get("task") or "",
        node.get("error") or "",
    ]


def _model_cells(row: Facts) -> list[object]:
    return [row["model"], row.get("nodes", ""), dollars(row.get("usd")), _tokens(row)]


def _event_cells(row: Facts) -> list[object]:
    return [row.get("seq", ""), row.get("ts", ""), row.get("level", ""), row.get("node_id") or "", row.get("message")]


def _tokens(row: Facts) -> str:
    return f"{row.get('prompt_tokens') or 0} + {row.get('completion_tokens') or 0}"


def _table(title: str, heads: Sequence[str], rows: Iterable[Sequence[object]]) -> list[str]:
    lines = [f"<tr>{''.join(f'<td>{said(cell)}</td>' for cell in row)}</tr>" for row in rows]
    if not lines:
        return []
    head = "".join(f'<th scope="col">{said(name)}</th>' for name in heads)
    return [f"<h2>{title}</h2>", f'<div class="scroll" tabindex="0"><table><tr>{head}</tr>', *lines, "</table></div>"]
