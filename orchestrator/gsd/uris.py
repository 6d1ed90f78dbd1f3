"""The gsd:// resources: which there are, and how a URI is taken apart (B3.21 to B3.28, C24). Pure.

Apart from the texts (`pages`), because the daemon lists them without loading what reads a project.
"""

from __future__ import annotations

from typing import NamedTuple
from urllib.parse import unquote, urlsplit

from orchestrator.base.errors import BadRequest

MARKDOWN, JSON, PLAIN = "text/markdown", "application/json", "text/plain"


class Row(NamedTuple):
    """A resource, or a form of URIs (with ``{...}``), as clients are shown it."""

    uri: str
    name: str
    mime: str
    about: str


ROWS = (
    Row("gsd://intel/summary", "codebase summary", MARKDOWN, "what is known of the code, in short"),
    Row("gsd://intel/hotspots", "hotspots", MARKDOWN, "the ten files most others depend on"),
    Row("gsd://intel/conventions", "conventions", JSON, "naming, directories and file suffixes of the code"),
    Row("gsd://project/vision", "vision", MARKDOWN, "what the project is, and its core value"),
    Row("gsd://project/requirements/pending", "pending requirements", JSON, "requirements not yet completed"),
    Row("gsd://requirements/pending", "pending requirements (short form)", JSON, "the same"),
    Row("gsd://project/decisions", "decisions", MARKDOWN, "key decisions made so far"),
    Row("gsd://roadmap/current-phase", "current phase", MARKDOWN, "the phase under way, as the roadmap has it"),
    Row("gsd://phase/current", "current phase (short form)", MARKDOWN, "the same"),
)
FORMS = (
    Row("gsd://intel/entity/{id}", "gsd://intel/entity/:id", MARKDOWN, "what is known of one file, by its id"),
    Row("gsd://phase/{n}", "phase", MARKDOWN, "a phase: goal, criteria, plans; n may be current"),
    Row("gsd://phase/{n}/plan", "phase plan", MARKDOWN, "the plan that is next, or the last one"),
    Row("gsd://phase/{n}/plans", "phase plans", MARKDOWN, "the plans of a phase and how far they are"),
    Row("gsd://phase/{n}/plan/{id}", "one plan", MARKDOWN, "a plan by its id (03-02)"),
    Row("gsd://phase/{n}/context", "phase context", MARKDOWN, "what was decided before planning"),
    Row("gsd://phase/{n}/research", "phase research", MARKDOWN, "what was found out before planning"),
    Row("gsd://phase/{n}/summary", "phase summaries", MARKDOWN, "what was done in the phase"),
    Row("gsd://phase/{n}/verification", "phase verification", MARKDOWN, "whether the phase reached its goal"),
    Row("gsd://phase/{n}/uat", "phase UAT", MARKDOWN, "what a human tested"),
)


def parts_of(uri: str) -> list[str]:
    """The parts of a gsd:// URI, decoded: ``["intel", "entity", "src-lib-db"]``; BadRequest ``unknown_resource``."""
    try:
        split = urlsplit(uri)
        if split.scheme == "gsd" and not split.query and not split.fragment:
            return [split.netloc, *(unquote(part) for part in split.path.split("/") if part)]
    except ValueError:
        pass  # a bracket that is no address: no form of ours
    raise unknown(uri)


def unknown(uri: str) -> BadRequest:
    """The error for a URI of no form there is."""
    return BadRequest("unknown_resource", f"no resource has the URI {uri[:200]!r}")
