"""The first words of a connection: its hello, ours or a refusal, and the client that it is from then on.

Carries them over the connection's streams, and reads the environment of the processes that a hello names; who may
come in at all is the door's to judge.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
from collections.abc import Callable, Iterable
from dataclasses import replace

import orjson

from orchestrator import project
from orchestrator.errors import BadRequest, OrchestratorError
from orchestrator.processes import environ_of
from orchestrator.server.door import Hello
from orchestrator.server.toolset import Client
from orchestrator.server.traffic import Incoming, TooLong
from orchestrator.team.entry import Origin

HELLO_S = 15.0
MEMBER_DEPTH = 16
"""How far above itself a process is looked for a squad member: its programs hand their environment on."""


async def first_line(incoming: Incoming, writer: asyncio.StreamWriter) -> bytes | None:
    """What a connection says first; None when it says nothing that could be a hello, and has been told so."""
    try:
        return await asyncio.wait_for(incoming.line(), HELLO_S)
    except TooLong as error:
        await refuse(writer, BadRequest("bad_argument", f"the first line is no hello: {error}"))
    except TimeoutError:
        await refuse(writer, BadRequest("bad_argument", f"no hello within {HELLO_S:.0f} s"))
    return None


async def refuse(writer: asyncio.StreamWriter, error: OrchestratorError) -> None:
    """Tell a connection in place of our hello why it is not served."""
    # Not orjson: a path that is no UTF-8 stands in the message as it came.
    writer.write(json.dumps({"hello": {"error": error.as_dict()}}).encode() + b"\n")
    await writer.drain()


def ours(boot_id: str) -> bytes:
    """What the daemon says to a connection that it serves."""
    said = {
        "proto": project.PROTO,
        "version": project.VERSION,
        "install": project.INSTALL,
        "pid": os.getpid(),
        "boot": boot_id,
    }
    return orjson.dumps({"hello": said}) + b"\n"


def client_of(hello: Hello, peer: int, since: str, inside_agent: Callable[[tuple[int, ...]], bool]) -> Client:
    """The client that a hello makes; ``peer`` is the pid that the system knows, ``since`` when it came.

    ``inside_agent`` tells whether a process descends from one of our panes: it is no master.
    """
    # The environment an agent inherits is that of the first pid: of a relay's CLI, and of our own command itself,
    # for the shell above it may have exported a key since it was started.
    pids = (peer, *hello.pids) if hello.kind == "cli" and peer else tuple(hello.pids)
    origin = Origin(hello.conn, hello.cwd, hello.tmux, hello.tmux_pane, hello.tty, pids)
    client = Client(
        origin,
        hello.kind,
        "master",
        tuple(hello.toolsets),
        boot=hello.boot,
        since=since,
        ages=_ages(hello.pending),
        call_limit_s=hello.call_limit_s,
        peer=peer,
        env=hello.env,
    )
    if hello.agent is not None:
        client.role = "agent"
        client.agent_id, client.epoch, client.secret = hello.agent.id, hello.agent.epoch, hello.agent.secret
    elif "agent" in client.toolsets:
        client.role = "refused"
        client.why_refused = BadRequest("not_an_agent", "this relay speaks for an agent, and names none")
    elif inside_agent(hello.pids):
        client.role = "refused"
        client.why_refused = BadRequest("not_for_agents", "this process runs in an agent's pane")
    elif _inside_member((peer, *hello.pids)):
        client.role = "refused"
        client.why_refused = BadRequest(
            "not_for_agents", "this process runs in a squad member", "do your task and end with its result"
        )
    if client.role == "master" and client.kind == "relay" and "team" in client.toolsets:
        client.origin = replace(origin, leads=True)
    return client


def _inside_member(pids: tuple[int, ...]) -> bool:
    """Whether one of the processes was started with a squad member's mark."""
    return any(project.MEMBER_ENV in environ_of(pid) for pid in pids[:MEMBER_DEPTH])


def _ages(pending: Iterable[tuple[str | int, int]]) -> dict[str, float]:
    """Seconds by the key under which a tool call looks for its age; an id that no JSON can carry has none."""
    found: dict[str, float] = {}
    for key, age_ms in pending:
        with contextlib.suppress(TypeError):
            found[orjson.dumps(key).decode()] = age_ms / 1000
    return found
