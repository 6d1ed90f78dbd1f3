"""The description of the package on an index: README.md, in which no link is relative. A build hook of hatchling.

A relative link works in the repository only. With a `Source` among `[project.urls]` it becomes a link to that place;
without one it becomes the name of the file, which the source distribution contains.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

LINK = re.compile(r"(!?)\[([^\]]+)\]\((?!https?://|#)([^)#]+)(#[^)]*)?\)")


def without_relative_links(text: str, source: str = "") -> str:
    """The text with every relative link made absolute below ``source``, or replaced by its words and its file.

    >>> without_relative_links("See [the docs](docs/a.md#top) and [docs/b.md](docs/b.md).")
    'See the docs (docs/a.md) and docs/b.md.'
    >>> without_relative_links("[the docs](docs/a.md#top)", "https://example.org/x/")
    '[the docs](https://example.org/x/docs/a.md#top)'
    >>> without_relative_links("![A window](docs/a.svg)")
    'A window (docs/a.svg)'
    """

    def replaced(found: re.Match[str]) -> str:
        picture, words, file, anchor = found[1], found[2], found[3], found[4] or ""
        if source:
            return f"{picture}[{words}]({source.rstrip('/')}/{file}{anchor})"
        return words if words == file else f"{words} ({file})"

    return LINK.sub(replaced, text)


class ReadmeHook(MetadataHookInterface):
    """Fills in the field `readme`, which pyproject.toml names as dynamic."""

    def update(self, metadata: dict[str, Any]) -> None:
        text = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        source = metadata.get("urls", {}).get("Source", "")
        metadata["readme"] = {"content-type": "text/markdown", "text": without_relative_links(text, source)}
