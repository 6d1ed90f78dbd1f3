"""A million tasks that ended long ago, in the tables of a fleet as its functions leave them. In SQL, for it is quick.

They belong to deleted agents that no `gc` has removed, of the host that was lost: no daemon loads them. Each has its
post, and in the mirror the lines of its task, its delivery and its result, with the sizes of the benchmark's own tasks.
"""

from __future__ import annotations

from typing import Any

import psycopg

TASKS, AGENTS = 1_000_000, 500
_EACH = TASKS // AGENTS
_POSTS = """
insert into orchestrator_fleet.post (project, agent, seq, kind, task_id, req, by_host, at, position, body)
select %(project)s, 'old-' || a, n, 'task', 'old-' || a || '-' || n, 'c:' || a || '.' || n, %(host)s,
    now() - interval '30 d', 1, json_build_object('payload', json_build_object('command', 'true', 'note', repeat('x', 160)))
from generate_series(1, %(agents)s) a, generate_series(1, %(each)s) n
"""
_INBOX = """
insert into orchestrator_fleet.log (project, agent, log, seq, fence, type, task_id, line)
select project, agent, 'i', seq, 1, 'task', task_id, json_build_object(
    'v', 1, 'seq', seq, 'at', '2026-01-01T00:00:00.000Z', 'type', 'task', 'epoch', 1, 'task_id', task_id,
    'payload', body::json -> 'payload', 'position', 1, 'req', req, 'ref', seq, 'crc', '01234567')
from orchestrator_fleet.post where project = %(project)s and agent like 'old-%%'
"""
_OUTBOX = """
insert into orchestrator_fleet.log (project, agent, log, seq, fence, type, task_id, line)
select project, agent, 'o', 2 * seq - 1 + k, 1, (array['delivered', 'result'])[k + 1], task_id, json_build_object(
    'v', 1, 'seq', 2 * seq - 1 + k, 'at', '2026-01-01T00:00:00.000Z', 'type', (array['delivered', 'result'])[k + 1],
    'epoch', 1, 'task_id', task_id, 'attempt', 1, 'payload', json_build_object('exit_code', 0), 'by', 'agent',
    'req', req, 'crc', '01234567')
from orchestrator_fleet.post, generate_series(0, 1) k where project = %(project)s and agent like 'old-%%'
"""
_AGENT = """
insert into orchestrator_fleet.agent (project, agent, host, home, run_id, req, engine, on_host_lost, in_seq, out_seq,
    ended, life, log_v)
select %(project)s, 'old-' || a, %(host)s, %(host)s, 'run-old', 'c:' || a, 'command', 'wait', %(each)s, 2 * %(each)s,
    %(each)s, 'deleted', 1
from generate_series(1, %(agents)s) a
"""
_QUEUE = """
insert into orchestrator_fleet.queue (project, agent, host, next, last, tasks, closing)
select project, agent, host, in_seq, in_seq, in_seq, true from orchestrator_fleet.agent
where project = %(project)s and agent like 'old-%%'
"""


def insert(owner: psycopg.Connection[Any], project: str, host: str) -> None:
    """Insert them, and let the server look at the tables as its autovacuum does some time later."""
    values = {"project": project, "host": host, "agents": AGENTS, "each": _EACH}
    for statement in (_POSTS, _INBOX, _OUTBOX, _AGENT, _QUEUE):
        owner.execute(statement, values)
    for table in ("post", "log", "agent", "queue"):
        owner.execute(f"vacuum (analyze) orchestrator_fleet.{table}".encode())
    owner.execute("checkpoint")
