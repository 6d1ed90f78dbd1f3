"""Every step in the life of a stored run: each compares and sets, and writes its events, in the caller's transaction.

Each function takes the connection first, and ``at`` (RFC 3339 UTC) after its other values. ``token`` is the fence: it
rises with each change of owner, and a step with another number, or for an ended run, changes nothing and returns
False (None, 0). Events get the next number of their run, from 1 without gaps. Messages are stored as given: callers
have masked them.
"""

# ruff: noqa: S608, PLR0917 - the SQL is put together from our own words; steps are called with a row's values in order
from __future__ import annotations

import itertools
import sqlite3
from collections.abc import Callable, Collection, Mapping
from dataclasses import asdict, replace

import orjson

from orchestrator.base.errors import BadRequest
from orchestrator.spawn import ddl, queries
from orchestrator.spawn.callers import caller_kind
from orchestrator.spawn.ddl import OPEN
from orchestrator.spawn.queries import node_key
from orchestrator.spawn.row_writes import add_event, end_run, fenced_run, insert, store_artifact, update_node_sums
from orchestrator.spawn.run_data import (
    NODE_ENDED,
    RUN_ENDED,
    ArtifactRow,
    AttemptRow,
    EndedAttempt,
    EventLevel,
    NodeEnd,
    NodeStatus,
    RunOutcome,
    RunOwner,
    RunPlan,
    RunRow,
    RunStatus,
)
from orchestrator.spawn.run_seals import with_mac

_HELD = f"id = ? AND token = ? AND status IN {OPEN}"
_ATTEMPT = "run_id = ? AND node_id = ? AND attempt = ? AND state = 'running'"
_ENDED_NODES = str(tuple(sorted(NODE_ENDED)))


def create(con: sqlite3.Connection, row: RunRow, at: str) -> RunRow:
    """Put the run in the queue, after all others; returns the run as it is stored.

    A second call with the same ``req`` (not empty) answers the run of the first. ``row.owner`` is who creates it.
    """
    there = queries.by_req(con, row.req)
    if there is not None:
        return there
    (number,) = con.execute("SELECT COALESCE(MAX(number), 0) + 1 FROM runs").fetchone()
    row = replace(row, number=number, status="queued", created_at=at, updated_at=at, active=False)
    request, owner = row.request, row.owner
    insert(
        con,
        "runs",
        id=row.id,
        number=number,
        task=request.task,
        mode=request.mode,
        budget=request.budget,
        context=request.context or None,
        params_json=request.model_dump_json(),
        settings_json=row.settings.model_dump_json(),
        status=row.status,
        created_at=at,
        updated_at=at,
        project=row.project,
        req=row.req,
        origin=row.origin,
        key_fp=row.key_fp,
        estimated_steps=row.estimated_steps,
        token=row.token,
        **({f"owner_{name}": value for name, value in asdict(owner).items()} if owner else {}),
    )
    add_event(con, row.id, None, "info", "run created", at)
    return row


def cancel(con: sqlite3.Connection, run_id: str, at: str) -> str:
    """Cancel a run (C33); BadRequest ``unknown_spawn_run``.

    ``finished``: it had ended, nothing changed. ``canceled``: no daemon executed it, so it has ended now.
    ``canceling``: its owner sees ``cancel_requested`` and ends it.
    """
    run = con.execute("SELECT status, active, cancel_requested FROM runs WHERE id = ?", (run_id,)).fetchone()
    if run is None:
        raise BadRequest("unknown_spawn_run", f"no run has the id {run_id[:80]!r}")
    if run["status"] in RUN_ENDED:
        return "finished"
    con.execute("UPDATE runs SET cancel_requested = 1 WHERE id = ?", (run_id,))
    if run["active"]:
        if not run["cancel_requested"]:
            add_event(con, run_id, None, "warning", "cancel requested", at)
        return "canceling"
    # Attempts that a daemon's death cut off were paid for, as far as anybody knows.
    for attempt in queries.attempts(con, run_id):
        if attempt.state == "running":
            values = (at, run_id, attempt.node_id, attempt.attempt)
            con.execute(f"UPDATE attempts SET state = 'lost', finished_at = ? WHERE {_ATTEMPT}", values)
            update_node_sums(con, run_id, attempt.node_id)
    con.execute(
        "UPDATE nodes SET status = 'canceled', error = 'canceled', retry_at = NULL, finished_at = ? "
        f"WHERE run_id = ? AND status NOT IN {_ENDED_NODES}",
        (at, run_id),
    )
    end_run(con, run_id, "canceled", "canceled", at)
    add_event(con, run_id, None, "warning", "run canceled", at)
    return "canceled"


def dismiss_budget(con: sqlite3.Connection, run_id: str, who: str, at: str) -> bool:
    """Record that ``who`` dismissed the run's used-up budget; False if already dismissed."""
    if queries.budget_dismissed(con, run_id):
        return False
    message = f"{who} dismissed the inbox item: its budget is used up"
    return add_event(con, run_id, None, "info", message, at, ddl.dismissal_of(run_id))


# -- owners ---------------------------------------------------------------------------------------------------------


def release(con: sqlite3.Connection, run_id: str, token: int, at: str) -> bool:
    """Take the run from its owner, which is dead or ends; after that a writer with the old token changes nothing."""
    freed = con.execute(
        "UPDATE runs SET owner_host = NULL, owner_boot_id = NULL, owner_pid = NULL, owner_start = NULL, active = 0, "
        f"token = token + 1 WHERE {_HELD}",
        (run_id, token),
    )
    return bool(freed.rowcount) and add_event(con, run_id, None, "info", "left by its daemon", at)


def take_over(con: sqlite3.Connection, run_id: str, token: int, owner: RunOwner, at: str) -> int | None:
    """Give the run to an owner: its new token, or None if another was faster. It keeps its place in the queue."""
    taken = con.execute(
        "UPDATE runs SET owner_host = ?, owner_boot_id = ?, owner_pid = ?, owner_start = ?, active = 0, "
        f"token = token + 1 WHERE {_HELD}",
        (owner.host, owner.boot_id, owner.pid, owner.start, run_id, token),
    )
    if not taken.rowcount:
        return None
    add_event(con, run_id, None, "info", f"taken over by the daemon with pid {owner.pid} on {owner.host}", at)
    return token + 1


def begin(
    con: sqlite3.Connection, run_id: str, token: int, at: str, counts: Callable[[sqlite3.Row], bool] = lambda _: True
) -> bool:
    """Take one of the places of MAX_PARALLEL_RUNS (the run's own setting), if there is one left for it.

    All runs of the home count for which ``counts`` says so, given their rows with the column ``mac``: those that have
    a place, and those before it in the queue that could take one (they have an owner, and wait for no key). True also
    when it has its place already.
    """
    run = fenced_run(con, run_id, token)
    if run is None or run["active"]:
        return run is not None
    others = con.execute(
        with_mac(
            f"id <> ? AND status IN {OPEN} "
            "AND (active = 1 OR (number < ? AND owner_host IS NOT NULL AND waiting = 0))"
        ),
        (run_id, run["number"]),
    )
    places = queries.settings(run["settings_json"]).max_parallel_runs
    if len(list(itertools.islice(filter(counts, others), places))) >= places:
        return False
    con.execute(
        "UPDATE runs SET active = 1, waiting = 0, status = 'running', started_at = COALESCE(started_at, ?) "
        "WHERE id = ?",
        (at, run_id),
    )
    return add_event(con, run_id, None, "info", "run resumed" if run["started_at"] else "run started", at)


def wait_for_daemon(con: sqlite3.Connection, run_id: str, token: int, message: str, at: str) -> bool:
    """Let the run wait, without counting as running, for a daemon that can execute it; recorded once."""
    run = fenced_run(con, run_id, token)
    if run is None:
        return False
    con.execute("UPDATE runs SET active = 0, waiting = 1 WHERE id = ?", (run_id,))
    return bool(run["waiting"]) or add_event(con, run_id, None, "warning", message, at)


def end_wait(con: sqlite3.Connection, run_id: str, token: int, at: str) -> bool:
    """Its owner can execute it: the run waits in the queue again."""
    run = fenced_run(con, run_id, token)
    if run is None:
        return False
    con.execute("UPDATE runs SET waiting = 0 WHERE id = ?", (run_id,))
    return not run["waiting"] or add_event(con, run_id, None, "info", "no longer waiting", at)


# -- plan and nodes -------------------------------------------------------------------------------------------------


def store_plan(
    con: sqlite3.Connection, run_id: str, token: int, plan: RunPlan, artifact: ArtifactRow, at: str
) -> bool:
    """Store the plan, once: its nodes, its artifact, its notes as warnings. False when there is one already."""
    run = fenced_run(con, run_id, token)
    if run is None or run["planned"]:
        return False
    retries = queries.settings(run["settings_json"]).retries
    for place, node in enumerate(plan.nodes, 1):
        insert(
            con,
            "nodes",
            id=node_key(run_id, node.id),
            run_id=run_id,
            place=place,
            kind=node.kind,
            wave=node.wave,
            depends_on_json=orjson.dumps(node.needs).decode(),
            task=node.task,
            model=node.model,
            prompt="",  # ours is made from the answers of others, when the node begins
            meta_json=orjson.dumps({"tier": node.tier, "reason": node.reason}).decode(),
            role_json=orjson.dumps({"system": node.system}).decode(),
            status="queued",
            max_retries=retries,
        )
    con.execute("UPDATE runs SET planned = 1, plan_source = ? WHERE id = ?", (plan.source, run_id))
    store_artifact(con, run_id, artifact)
    for text in plan.notes:
        add_event(con, run_id, None, "warning", text, at)
    return add_event(con, run_id, None, "info", f"planned {len(plan.nodes)} nodes ({plan.source})", at)


def claim_attempt(con: sqlite3.Connection, run_id: str, token: int, attempt: AttemptRow, at: str) -> bool:
    """Begin an attempt and reserve its price, which counts once this is committed.

    Its number must be the one after the node's last. The run must be running and not be canceling. An attempt whose
    caller has no price never gets one.
    """
    run = fenced_run(con, run_id, token)
    if run is None or not run["active"] or run["cancel_requested"]:
        return False
    claimed = con.execute(
        "UPDATE nodes SET status = 'running', attempt = ?, retry_at = NULL, error = NULL, "
        "started_at = COALESCE(started_at, ?) "
        "WHERE id = ? AND attempt = ? AND status IN ('queued', 'retry_pending') "
        "AND NOT EXISTS (SELECT 1 FROM attempts WHERE run_id = ? AND node_id = ? AND state = 'running')",
        (
            *(attempt.attempt, at, node_key(run_id, attempt.node_id), attempt.attempt - 1),
            *(run_id, attempt.node_id),
        ),
    )
    if not claimed.rowcount:
        return False
    insert(
        con,
        "attempts",
        run_id=run_id,
        node_id=attempt.node_id,
        attempt=attempt.attempt,
        token=attempt.token,
        state="running",
        reserved=str(attempt.reserved),
        model=attempt.model,
        started_at=at,
        cost_source="reserved" if caller_kind(attempt.model) == "model" else "none",
    )
    again = f" (attempt {attempt.attempt})" if attempt.attempt > 1 else ""
    return add_event(con, run_id, attempt.node_id, "info", f"asks {attempt.model}{again}", at)


def end_attempt(
    con: sqlite3.Connection,
    run_id: str,
    token: int,
    ended: EndedAttempt,
    artifact: ArtifactRow | None,
    at: str,
) -> bool:
    """End an attempt, exactly once: store its cost, the new state of its node, and its artifact.

    A node that has ended otherwise meanwhile stays unchanged. A cost of None with the source ``reserved``: the whole
    reservation counts.
    """
    if fenced_run(con, run_id, token) is None:
        return False
    attempt, row = ended.attempt, ended.row
    cost = None if attempt.cost is None else str(attempt.cost)
    updated = con.execute(
        "UPDATE attempts SET state = ?, cost = ?, cost_source = ?, tokens_prompt = ?, tokens_completion = ?, "
        "model = CASE ? WHEN '' THEN model ELSE ? END, finished_at = ?, error = ? "
        f"WHERE {_ATTEMPT}",
        (
            *(attempt.state, cost, attempt.cost_source, attempt.prompt_tokens, attempt.completion_tokens),
            *(attempt.model, attempt.model, at, row.error, run_id, attempt.node_id, attempt.attempt),
        ),
    )
    if not updated.rowcount:
        return False
    con.execute(
        "UPDATE nodes SET status = ?, error = ?, retry_at = ?, finish_reason = ?, answered_by = ?, "
        "retry_count = retry_count + ?, finished_at = ? WHERE id = ? AND status = 'running'",
        (
            *(row.status, row.error, row.retry_at, row.finish_reason, attempt.model, row.status == "retry_pending"),
            *(at if row.status in NODE_ENDED else None, node_key(run_id, attempt.node_id)),
        ),
    )
    update_node_sums(con, run_id, attempt.node_id)
    if artifact is not None:
        store_artifact(con, run_id, artifact)
    return add_event(con, run_id, attempt.node_id, ended.level, ended.message, at)


def lose_attempt(
    con: sqlite3.Connection, run_id: str, token: int, attempt: AttemptRow, again: bool, message: str, at: str
) -> bool:
    """Give up an attempt whose end was not seen: its whole reservation counts; with ``again`` its node is queued."""
    if fenced_run(con, run_id, token) is None:
        return False
    node_id = attempt.node_id
    values = (at, message, run_id, node_id, attempt.attempt)
    lost = con.execute(f"UPDATE attempts SET state = 'lost', finished_at = ?, error = ? WHERE {_ATTEMPT}", values)
    if not lost.rowcount:
        return False
    con.execute(
        "UPDATE nodes SET status = ?, reruns = reruns + ?, error = ?, finished_at = ? "
        "WHERE id = ? AND status = 'running'",
        ("queued" if again else "failed", again, message, None if again else at, node_key(run_id, node_id)),
    )
    update_node_sums(con, run_id, node_id)
    return add_event(con, run_id, node_id, "warning" if again else "error", message, at)


def end_nodes(
    con: sqlite3.Connection,
    run_id: str,
    token: int,
    ends: Mapping[str, NodeEnd],
    states: Collection[NodeStatus],
    at: str,
) -> int:
    """End those of the nodes that are in one of these states, with an event each; how many there were."""
    if fenced_run(con, run_id, token) is None:
        return 0
    ended = 0
    which = f"id = ? AND status IN ({', '.join('?' * len(states))})"
    sql = f"UPDATE nodes SET status = ?, error = ?, retry_at = NULL, finished_at = ? WHERE {which}"
    for node_id, end in ends.items():
        if con.execute(sql, (end.status, end.error, at, node_key(run_id, node_id), *states)).rowcount:
            ended += add_event(con, run_id, node_id, end.level, end.message, at)
    return ended


def finish(con: sqlite3.Connection, run_id: str, token: int, outcome: RunOutcome, at: str) -> bool:
    """End the run, exactly once. Refused (False) while one of its nodes or attempts has not ended."""
    if fenced_run(con, run_id, token) is None:
        return False
    (left,) = con.execute(
        f"SELECT EXISTS (SELECT 1 FROM nodes WHERE run_id = ? AND status NOT IN {_ENDED_NODES}) "
        "OR EXISTS (SELECT 1 FROM attempts WHERE run_id = ? AND state = 'running')",
        (run_id, run_id),
    ).fetchone()
    if left or outcome.status not in RUN_ENDED:
        return False
    con.execute("UPDATE runs SET summary = ?, dissent = ? WHERE id = ?", (outcome.summary, outcome.dissent, run_id))
    if outcome.merged is not None:
        store_artifact(con, run_id, outcome.merged)
    end_run(con, run_id, outcome.status, outcome.error, at)
    levels: dict[RunStatus, EventLevel] = {"failed": "error", "canceled": "warning"}
    message = ": ".join(filter(None, (outcome.status, outcome.error or outcome.summary)))
    return add_event(con, run_id, None, levels.get(outcome.status, "info"), message, at)


def abandon(con: sqlite3.Connection, run_id: str, token: int, status: RunStatus, why: str, at: str) -> bool:
    """End a run that cannot continue, with all that is open: attempts in flight are lost, their nodes failed."""
    if fenced_run(con, run_id, token) is None:
        return False
    for row in queries.attempts(con, run_id):
        if row.state == "running":
            lose_attempt(con, run_id, token, row, False, why, at)
    end = NodeEnd("canceled", why, why, "error")
    open_ = {row.node.id: end for row in queries.nodes(con, run_id) if row.status not in NODE_ENDED}
    end_nodes(con, run_id, token, open_, ("queued", "running", "retry_pending"), at)
    return finish(con, run_id, token, RunOutcome(status, why, error=why), at)


def note(con: sqlite3.Connection, run_id: str, token: int, level: EventLevel, message: str, at: str) -> bool:
    """Write an event of the run and nothing else."""
    return fenced_run(con, run_id, token) is not None and add_event(con, run_id, None, level, message, at)
