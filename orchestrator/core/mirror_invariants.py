"""The invariants that `orchestrator verify --fleet` checks: an agent's logs here against their mirror and its posts.

Pure. `invariants` checks each log by itself; here stands what only the database can show.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from orchestrator.base.final_states import TERMINAL
from orchestrator.core.invariants import Violation

MIRROR_KINDS: dict[str, str] = {
    "mirror_missing": "the fleet's database does not know an agent that is alive here",
    "mirror_gap": "the mirror of a log leaves lines out",
    "mirror_differs": "a line here differs from its mirror",
    "mirror_ahead": "the mirror has lines that the owner's log has lost",
    "fence_falls": "a line was mirrored under an older fence than one before it, or under one that was never given",
    "fence_in_launch": "one launch has records of two owners",
    "post_differs": "a record names a post that the database has as another one, or leaves out between others",
}
"""Kind of violation -> its meaning, in one clause; docs/recovery.md lists them all."""

_POSTED = frozenset({"task", "cancel", "restart", "stop"})
"""Records of the inbox that a post of the same kind causes."""
SKIPPED = 1_000_000
"""Numbers of posts that are left out after a restore or a failover: `raise_numbers` of the schema."""
_OF_LAUNCH = frozenset({"ready", "ack", "progress", *TERMINAL})
"""Records that the CLI of a launch causes; a delivery may be assumed by the next owner."""


class HeldLine(NamedTuple):
    """A line of a log here, and its place."""

    line: bytes
    file: str
    number: int


class MirrorLine(NamedTuple):
    """A line of the mirror and the fence under which it was shipped."""

    seq: int
    fence: int
    line: bytes


class PostHead(NamedTuple):
    """What was accepted for an agent: its kind, and the task that it is about."""

    kind: str
    task_id: str | None


@dataclass
class ComparedLog:
    """A log here beside its mirror, both from the beginning."""

    file: str
    here: Sequence[HeldLine] = ()
    mirror: Sequence[MirrorLine] = ()


@dataclass
class ComparedAgent:
    """One agent as this host and the database have it. ``own``: this host is its owner, so its logs are the truth.

    ``fence`` is the database's, None if it does not know the agent; ``posts`` are only read for own agents.
    """

    agent: str
    own: bool
    fence: int | None
    inbox: ComparedLog
    outbox: ComparedLog
    posts: Mapping[int, PostHead] | None = field(default=None)


def mirror_faults(compared: ComparedAgent) -> Iterator[Violation]:
    """All that is wrong with an agent's mirror; what is not shipped yet is nothing wrong."""
    if compared.fence is None:
        if compared.own and not _deleted(compared.outbox):
            yield Violation(
                "mirror_missing", "the database has no such agent", compared.outbox.file, agent=compared.agent
            )
        return
    for log in (compared.inbox, compared.outbox):
        yield from _prefix(compared, log)
        yield from _fences(compared, log)
    yield from _launches(compared)
    if compared.posts is not None:
        yield from _posts(compared, compared.posts)


def unshipped(compared: ComparedAgent) -> int:
    """How many lines of an own agent the mirror does not have yet."""
    return (
        sum(max(0, len(log.here) - len(log.mirror)) for log in (compared.inbox, compared.outbox))
        if compared.own
        else 0
    )


def lost_posts(compared: ComparedAgent) -> int:
    """How many records are of posts that a restored or failed-over database lost; they count as before."""
    if compared.posts is None:
        return 0
    posts = compared.posts
    refs = {int(_record(held.line).get("ref") or 0) for held in compared.inbox.here} - {0} - posts.keys()
    return sum(1 for ref in refs if _forgotten(ref, posts) or _after_all(ref, posts))


def passed_posts(compared: ComparedAgent) -> int:
    """How many posts the owner has gone past: a restore lost them, and a later one has them again."""
    refs = {int(_record(held.line).get("ref") or 0) for held in compared.inbox.here}
    last = max(refs, default=0)
    posts = (compared.posts or {}).items()
    return sum(1 for seq, post in posts if post.kind in _POSTED and seq < last and seq not in refs)


def _prefix(compared: ComparedAgent, log: ComparedLog) -> Iterator[Violation]:
    for due, mirrored in enumerate(log.mirror, 1):
        if mirrored.seq != due:
            text = f"after {due - 1} the mirror goes on with {mirrored.seq}"
            yield Violation("mirror_gap", text, log.file, None, mirrored.seq, compared.agent)
            return
    for held, mirrored in zip(log.here, log.mirror, strict=False):
        if held.line != mirrored.line:
            text = f"line {mirrored.seq} is another one in the mirror"
            yield Violation("mirror_differs", text, held.file, held.number, mirrored.seq, compared.agent)
            return
    if compared.own and len(log.mirror) > len(log.here):
        text = f"the mirror has {len(log.mirror)} lines, the log of the owner {len(log.here)}"
        yield Violation("mirror_ahead", text, log.file, None, len(log.here) + 1, compared.agent)


def _fences(compared: ComparedAgent, log: ComparedLog) -> Iterator[Violation]:
    last = 1
    for mirrored in log.mirror:
        if mirrored.fence < last or mirrored.fence > (compared.fence or 0):
            text = f"fence {mirrored.fence} after {last}; the agent's is {compared.fence}"
            yield Violation("fence_falls", text, log.file, None, mirrored.seq, compared.agent)
            return
        last = mirrored.fence


def _launches(compared: ComparedAgent) -> Iterator[Violation]:
    """The records of a launch are of the owner that began it: a fence begins an epoch, and no epoch spans two."""
    began = 1
    for mirrored in compared.outbox.mirror:
        record = _record(mirrored.line)
        kind = record.get("type")
        if kind in ("starting", "restarted"):
            began = mirrored.fence
        elif mirrored.fence != began and record.get("by") == "agent" and kind in _OF_LAUNCH:
            text = f"{kind} under fence {mirrored.fence}, in a launch that began under {began}"
            task = record.get("task_id")
            yield Violation("fence_in_launch", text, compared.outbox.file, None, mirrored.seq, compared.agent, task)


def _posts(compared: ComparedAgent, posts: Mapping[int, PostHead]) -> Iterator[Violation]:
    for held in compared.inbox.here:
        record = _record(held.line)
        ref, kind = record.get("ref"), str(record.get("type"))
        if not ref or kind not in _POSTED:
            continue
        post = posts.get(ref)
        task = record.get("task_id")
        if post is None and (_forgotten(ref, posts) or _after_all(ref, posts)):
            continue
        same = post is not None and post.kind == kind and (kind not in ("task", "cancel") or post.task_id == task)
        if not same:
            there = (
                "none" if post is None else f"a {post.kind} of {post.task_id}" if post.task_id else f"a {post.kind}"
            )
            text = f"the record is of post {ref}, and the database has {there}"
            yield Violation("post_differs", text, held.file, held.number, record.get("seq"), compared.agent, task)


def _forgotten(ref: int, posts: Mapping[int, PostHead]) -> bool:
    """Whether the post was lost with a database that was restored or failed over: later numbers begin far behind."""
    later = min((seq for seq in posts if seq > ref), default=0)
    return later - max((seq for seq in posts if seq < ref), default=0) > SKIPPED


def _after_all(ref: int, posts: Mapping[int, PostHead]) -> bool:
    """Whether the database has no post as late as this one: after a restore or a failover, until the next call."""
    return ref > max(posts, default=0)


def _deleted(log: ComparedLog) -> bool:
    return bool(log.here) and _record(log.here[-1].line).get("type") == "deleted"


def _record(line: bytes) -> dict[str, Any]:
    try:
        record = json.loads(line)
    except ValueError:
        return {}
    return record if isinstance(record, dict) else {}
