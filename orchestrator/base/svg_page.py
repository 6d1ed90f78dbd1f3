"""The kit of every drawing and page: escaped text, an SVG sheet, a page with tables that loads nothing. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from unicodedata import east_asian_width

PAGE_STYLE = (
    "body{font:15px/1.5 system-ui,sans-serif;margin:2rem;color:#1f2328;background:#fff}"
    "h1{font-size:1.4rem}h2{font-size:1.1rem;margin-top:2rem}h1,h2,p{overflow-wrap:anywhere}"
    "pre{white-space:pre-wrap;overflow-wrap:anywhere}.scroll{overflow:auto;max-height:90vh;"
    "border:1px solid #d0d7de;border-radius:6px}table{border-collapse:collapse;width:100%;font-size:13px}"
    "th,td{border-bottom:1px solid #d0d7de;padding:.3rem .6rem;text-align:left;vertical-align:top;"
    "overflow-wrap:break-word;max-width:36em}th{position:sticky;top:0;background:#f6f8fa}"
    "@media(prefers-color-scheme:dark){body{color:#e6edf3;background:#0d1117}th{background:#161b22}"
    ".scroll,th,td{border-color:#30363d}}"
)


def escaped(text: object, columns: int = 0) -> str:
    """Text as it may stand in XML and HTML, also in quotes; cut to ``columns`` if given."""
    shown = _visible(text)
    return escape(cut(shown.replace("\n", " "), columns) if columns else shown, quote=True)


def escaped_end(text: object, columns: int) -> str:
    """As `escaped`, cut at its beginning: the end of a path says most."""
    return escape(cut(_visible(text).replace("\n", " ")[::-1], columns)[::-1], quote=True)


def cut(text: str, columns: int) -> str:
    """The first ``columns`` of a text, with an ellipsis where something is missing."""
    used = 0
    for at, c in enumerate(text):
        used += 2 if east_asian_width(c) in "WF" else 1
        if used > columns:
            return text[: max(0, at - 1)] + "…"
    return text


def svg_sheet(
    body: Sequence[str], size: tuple[float, float], *, name: str, title: str, about: str, head: Sequence[str] = ()
) -> str:
    """One SVG of ``size``, with a title and a description for readers who do not see it.

    ``body`` and ``head`` (comments, a style) are markup; ``title`` and ``about`` are plain text. ``name`` keeps the
    ids of several drawings on one page apart.
    """
    width, height = (f"{round(length, 1):.10g}" for length in size)
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}"',
            f'viewBox="0 0 {width} {height}" role="img" aria-labelledby="{name}-title {name}-about">',
            *head,
            f'<title id="{name}-title">{escaped(title, 400)}</title>',
            f'<desc id="{name}-about">{escaped(about, 4000)}</desc>',
            f'<rect class="sheet" width="{width}" height="{height}"/>',
            *body,
            "</svg>\n",
        ]
    )


def page(title: str, mark: str, body: Iterable[str], style: str = "") -> str:
    """One HTML file that loads nothing: its own policy forbids scripts and every address.

    ``mark`` stands in its first bytes and says who wrote it. ``body`` and ``style`` are markup.
    """
    head = [
        "<!doctype html>",
        '<html lang="en"><head><meta charset="utf-8">',
        f'<meta name="generator" content="{escaped(mark)}">',
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">",
        '<meta name="viewport" content="width=device-width">',
        f"<title>{escaped(title)}</title><style>{PAGE_STYLE}{style}</style></head><body>",
    ]
    return "\n".join([*head, *body, "</body></html>\n"])


def scrolled(drawing: str) -> str:
    """A drawing in a frame of its own on a page; empty text where nothing is drawn."""
    return f'<div class="scroll" tabindex="0">{drawing}</div>' if drawing else ""


def table(title: str, heads: Sequence[str], rows: Iterable[Sequence[object]]) -> list[str]:
    """A table under its heading; nothing without rows. Each cell keeps its own writing direction."""
    lines = [f"<tr>{''.join(f'<td><bdi>{escaped(cell)}</bdi></td>' for cell in row)}</tr>" for row in rows]
    if not lines:
        return []
    head = "".join(f'<th scope="col">{escaped(name)}</th>' for name in heads)
    opened = f'<div class="scroll" tabindex="0"><table><caption>{escaped(title)}</caption><tr>{head}</tr>'
    return [f"<h2>{escaped(title)} as a table</h2>", opened, *lines, "</table></div>"]


def _visible(text: object) -> str:
    return "\n".join(line if line.isprintable() else _coded(line) for line in str(text).split("\n"))


def _coded(line: str) -> str:
    return "".join(c if c.isprintable() else c.encode("unicode_escape", "surrogatepass").decode() for c in line)
