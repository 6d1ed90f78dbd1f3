"""Draws a project's code graph as one page: hotspots, blast radius, and tables that say all that is drawn. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from orchestrator.base.drawing_text import said
from orchestrator.gsd.picture.drawing import (
    MARK,
    STYLE,
    Facts,
    counts_said,
    directory,
    hotspots_svg,
    learned,
    rings_svg,
)

_STYLE = (
    "body{font:15px/1.5 system-ui,sans-serif;margin:2rem;color:#1f2328;background:#fff}"
    "h1{font-size:1.4rem}h2{font-size:1.1rem;margin-top:2rem}h1,h2,p{overflow-wrap:anywhere}.scroll{overflow:auto;"
    "max-height:90vh;border:1px solid #d0d7de;border-radius:6px}table{border-collapse:collapse;width:100%;"
    "font-size:13px}th,td{border-bottom:1px solid #d0d7de;padding:.3rem .6rem;text-align:left;vertical-align:top;"
    "overflow-wrap:break-word;max-width:36em}th{position:sticky;top:0;background:#f6f8fa}"
    "@media(prefers-color-scheme:dark){body{color:#e6edf3;background:#0d1117}th{background:#161b22}"
    ".scroll,th,td{border-color:#30363d}}"
)


def html(picture: Facts) -> str:
    """The page of a project; ``picture`` is what `orchestrator.gsd.picture.chosen` gives.

    One file that loads nothing and may load nothing: its own policy forbids scripts and every address. What is drawn
    says more when the pointer rests on it, and stands in the tables below for those who do not see it.
    """
    name = said(picture["project"], 120)
    centre = picture.get("centre")
    parts = [
        "<!doctype html>",
        '<html lang="en"><head><meta charset="utf-8">',
        f'<meta name="generator" content="{MARK}">',
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">",
        '<meta name="viewport" content="width=device-width">',
        f"<title>Code graph of {name}</title><style>{_STYLE}{STYLE}</style></head><body>",
        f"<h1>Code graph of <bdi>{name}</bdi></h1>",
        f"<p>{said(_counts(picture))}</p>",
        "<h2>Hotspots: the files most others depend on</h2>",
        _scrolled(hotspots_svg(picture)) or "<p>No file is known that another one depends on.</p>",
    ]
    if centre is not None:
        parts += [
            f"<h2>Blast radius: what depends on <bdi>{said(centre['path'])}</bdi></h2>",
            *([f"<p><bdi>{said(centre['purpose'])}</bdi></p>"] if centre.get("purpose") else []),
            _scrolled(rings_svg(picture)),
        ]
    parts += _table(
        "Hotspots", ("rank", "file", "dependents", "type", "directory", "purpose"), _hotspot_rows(picture)
    )
    if centre is not None:
        parts += _table("Blast radius", _BLAST_HEADS, map(_blast_row, picture["dependents"]))
        unlisted = picture["counts"]["total"] - len(picture["dependents"])
        told = f"{counts_said(picture)}." + (f" {unlisted} of them are not listed." if unlisted else "")
        parts.append(f"<p>{said(told)}</p>")
    return "\n".join([*parts, "</body></html>\n"])


_BLAST_HEADS = ("steps", "file", "mark", "type", "depends on", "learned from", "purpose")


def _counts(picture: Facts) -> str:
    told = [f"{picture['files']} files", f"{picture['edges']} dependencies"]
    if picture.get("dangling"):
        told.append(f"{picture['dangling']} more lead to nothing that is known")
    sources = picture.get("sources") or {}
    if sources:
        told.append("from " + ", ".join(f"{name} ({day})" if day else str(name) for name, day in sources.items()))
    return " · ".join(told)


def _hotspot_rows(picture: Facts) -> Iterable[Sequence[object]]:
    for rank, one in enumerate(picture["hotspots"], 1):
        path = str(one["path"])
        yield rank, path, one["dependents"], one.get("type", ""), directory(path), one.get("purpose", "")


def _blast_row(one: Facts) -> Sequence[object]:
    marks = ", ".join(word for word in ("critical", "test") if one.get(word))
    return (
        one["depth"], one["path"], marks, one.get("type", ""), one.get("through_path", ""), learned(one),
        one.get("purpose", ""),
    )  # fmt: skip


def _scrolled(drawn: str) -> str:
    return f'<div class="scroll" tabindex="0">{drawn}</div>' if drawn else ""


def _table(title: str, heads: Sequence[str], rows: Iterable[Sequence[object]]) -> list[str]:
    lines = [f"<tr>{''.join(f'<td><bdi>{said(cell)}</bdi></td>' for cell in row)}</tr>" for row in rows]
    if not lines:
        return []
    head = "".join(f'<th scope="col">{said(name)}</th>' for name in heads)
    opened = f'<div class="scroll" tabindex="0"><table><caption>{title}</caption><tr>{head}</tr>'
    return [f"<h2>{title} as a table</h2>", opened, *lines, "</table></div>"]
