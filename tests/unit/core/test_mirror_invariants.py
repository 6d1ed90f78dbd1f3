"""Each violation of a mirror is found where it was planted, and a sound one has none."""

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from orchestrator.core.mirror_invariants import (
    MIRROR_KINDS,
    SKIPPED,
    ComparedAgent,
    ComparedLog,
    HeldLine,
    MirrorLine,
    PostHead,
    lost_posts,
    mirror_faults,
    passed_posts,
    unshipped,
)

INBOX = [{"type": "task", "task_id": "t", "ref": 2}, {"type": "cancel", "task_id": "t", "ref": 3}, {"type": "stop"}]
OUTBOX = [
    {"type": "starting", "by": "orchestrator"},
    {"type": "ready", "by": "agent"},
    {"type": "delivered", "by": "orchestrator", "task_id": "t", "assumed": True},
    {"type": "exited", "by": "orchestrator"},
    {"type": "restarted", "by": "orchestrator"},
    {"type": "result", "by": "agent", "task_id": "t"},
]
POSTS = {1: PostHead("create", None), 2: PostHead("task", "t"), 3: PostHead("cancel", "t"), 4: PostHead("task", "u")}


def lines(records):
    return [json.dumps({"seq": seq, **record}).encode() for seq, record in enumerate(records, 1)]


def compared(records, fences):
    here = lines(records)
    return ComparedLog(
        "log",
        [HeldLine(line, "log", number) for number, line in enumerate(here, 1)],
        [MirrorLine(seq, fence, line) for seq, (line, fence) in enumerate(zip(here, fences, strict=True), 1)],
    )


def sound(**changed):
    one = ComparedAgent(
        "a", True, 2, compared(INBOX, [1, 1, 2]), compared(OUTBOX, [1, 1, 2, 2, 2, 2]), posts=dict(POSTS)
    )
    return replace(one, **changed)


def kinds(one):
    return {fault.kind for fault in mirror_faults(one)}


def test_a_sound_mirror_has_no_faults():
    assert kinds(sound()) == set()


def test_what_is_not_shipped_yet_is_counted_and_no_fault():
    one = sound()
    one.outbox.mirror = one.outbox.mirror[:-2]
    assert (kinds(one), unshipped(one)) == (set(), 2)
    assert unshipped(replace(one, own=False)) == 0


def test_a_replica_may_be_behind_its_mirror():
    one = sound(own=False, posts=None)
    one.outbox.here = one.outbox.here[:2]
    assert kinds(one) == set()
    assert kinds(replace(one, own=True)) == {"mirror_ahead"}


def missing(one):
    one.fence = None


def gap(one):
    one.inbox.mirror = [one.inbox.mirror[0], one.inbox.mirror[2]]


def differs(one):
    one.outbox.here[1] = one.outbox.here[1]._replace(line=one.outbox.here[1].line.replace(b"ready", b"READY"))


def spaced(one):
    one.outbox.here[1] = one.outbox.here[1]._replace(line=one.outbox.here[1].line + b" ")


def ahead(one):
    one.inbox.here = one.inbox.here[:-1]


def falls(one):
    one.outbox.mirror[5] = one.outbox.mirror[5]._replace(fence=1)


def never_given(one):
    one.fence = 1


def in_launch(one):
    one.outbox = compared([OUTBOX[0], OUTBOX[1], OUTBOX[5]], [1, 1, 2])


def no_post(one):
    del one.posts[2]


def other_kind(one):
    one.posts[2] = PostHead("stop", None)


def other_task(one):
    one.posts[2] = PostHead("task", "u")


PLANTED = [
    (missing, "mirror_missing"), (gap, "mirror_gap"), (differs, "mirror_differs"), (spaced, "mirror_differs"),
    (ahead, "mirror_ahead"), (falls, "fence_falls"), (never_given, "fence_falls"), (in_launch, "fence_in_launch"),
    (no_post, "post_differs"), (other_kind, "post_differs"), (other_task, "post_differs"),
]  # fmt: skip


@pytest.mark.parametrize(("plant", "kind"), PLANTED, ids=lambda value: getattr(value, "__name__", value))
def test_a_planted_violation_is_found(plant, kind):
    one = sound()
    plant(one)
    assert kind in kinds(one)


def test_every_kind_is_planted_and_documented():
    assert {kind for _, kind in PLANTED} == set(MIRROR_KINDS)
    text = Path("docs/recovery.md").read_text("utf-8")
    assert {
        kind: meaning
        for kind, meaning in re.findall(r"^\| `(\w+)` \| (.*) \|$", text, re.MULTILINE)
        if kind in MIRROR_KINDS
    } == MIRROR_KINDS


def test_a_deleted_agent_that_the_database_has_forgotten_is_no_fault():
    one = sound(fence=None)
    one.outbox = compared([*OUTBOX, {"type": "deleted"}], [1, 1, 2, 2, 2, 2, 2])
    assert kinds(one) == set()


@pytest.mark.parametrize(
    ("later", "found"), [(SKIPPED + 3, set()), (SKIPPED, {"post_differs"}), (3, {"post_differs"})]
)
def test_a_post_that_a_failover_lost_is_no_fault_once_numbers_were_skipped(later, found):
    one = sound()
    one.posts = {seq: post for seq, post in one.posts.items() if seq < 2} | {later: PostHead("stop", None)}
    assert kinds(one) == found


@pytest.mark.parametrize(
    ("posts", "lost"),
    [
        (POSTS, 0),
        ({1: POSTS[1]}, 2),  # the promoted server has none of them, and nothing was accepted since
        ({1: POSTS[1], 2: POSTS[2]}, 1),
        ({1: POSTS[1], SKIPPED + 3: PostHead("stop", None)}, 2),
    ],
)
def test_posts_that_a_failover_lost_are_counted_and_no_fault(posts, lost):
    one = sound(posts=posts)
    assert kinds(one) == set()
    assert lost_posts(one) == lost
    assert lost_posts(sound(posts=None)) == 0


@pytest.mark.parametrize(
    ("more", "passed"),
    [({}, 0), ({4: PostHead("task", "new")}, 0), ({1: PostHead("create", None)}, 0), ({1: PostHead("task", "u")}, 1)],
)
def test_posts_that_the_owner_has_gone_past_are_counted_and_no_fault(more, passed):
    one = sound(posts=POSTS | more)
    assert kinds(one) == set()
    assert passed_posts(one) == passed
    assert passed_posts(sound(posts=None)) == 0
