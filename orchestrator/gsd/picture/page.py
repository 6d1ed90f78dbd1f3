"""Draws a project's code graph as one page: hotspots, blast radius, and tables that say all that is drawn. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from orchestrator.base.svg_page import cut, escaped, page, scrolled, table
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


def html(picture: Facts) -> str:
    """The page of a project; ``picture`` is what `orchestrator.gsd.picture.chosen` gives.

    One file that loads nothing and may load nothing: its own policy forbids scripts and every address. What is drawn
    says more when the pointer rests on it, and stands in the tables below for those who do not see it.
    """
    name = escaped(picture["project"], 120)
    centre = picture.get("centre")
    parts = [
        f"<h1>Code graph of <bdi>{name}</bdi></h1>",
        f"<p>{escaped(_counts(picture))}</p>",
        "<h2>Hotspots: the files most others depend on</h2>",
        scrolled(hotspots_svg(picture)) or "<p>No file is known that another one depends on.</p>",
    ]
    if centre is not None:
        parts += [
            f"<h2>Blast radius: what depends on <bdi>{escaped(centre['path'])}</bdi></h2>",
            *([f"<p><bdi>{escaped(centre['purpose'])}</bdi></p>"] if centre.get("purpose") else []),
            scrolled(rings_svg(picture)),
        ]
    parts += table("Hotspots", ("rank", "file", "dependents", "type", "directory", "purpose"), _hotspot_rows(picture))
    if centre is not None:
        parts += table("Blast radius", _BLAST_HEADS, map(_blast_row, picture["dependents"]))
        unlisted = picture["counts"]["total"] - len(picture["dependents"])
        told = f"{counts_said(picture)}." + (f" {unlisted} of them are not listed." if unlisted else "")
        parts.append(f"<p>{escaped(told)}</p>")
    return page(f"Code graph of {cut(picture['project'], 120)}", MARK, parts, STYLE)


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
