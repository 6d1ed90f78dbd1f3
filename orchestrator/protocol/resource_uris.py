"""The URIs of our resources, taken apart. Pure."""

from __future__ import annotations

from typing import NamedTuple
from urllib.parse import parse_qs, unquote, urlsplit

from orchestrator.base.errors import BadRequest

NDJSON = "application/x-ndjson"
TAIL = 200
TAIL_MAX = 10_000


class ResourceUri(NamedTuple):
    """``scheme://owner/path?tail=…``; ``tail`` is how many of the last records are asked for."""

    scheme: str
    owner: str
    path: list[str]
    tail: int


def parts_of_uri(uri: str) -> ResourceUri:
    """The parts of a URI; BadRequest ``bad_argument`` for a tail that is no number."""
    split = urlsplit(uri)
    path = [unquote(part) for part in split.path.split("/") if part]
    tail = parse_qs(split.query).get("tail", [str(TAIL)])[-1]
    if not tail.isdecimal() or not 1 <= int(tail) <= TAIL_MAX:
        raise BadRequest("bad_argument", f"tail must be a number from 1 to {TAIL_MAX}, not {tail!r}")
    return ResourceUri(split.scheme, unquote(split.netloc), path, int(tail))


def unknown_resource(uri: str) -> BadRequest:
    """The error for a URI that leads to nothing."""
    return BadRequest("unknown_resource", f"no resource has the URI {uri!r}")
