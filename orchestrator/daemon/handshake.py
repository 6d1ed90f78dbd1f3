"""The handshake of a connection: reads it, answers or refuses it, and builds the client that it is from then on.

Carries them over the connection's streams. Who may come in at all is the door's to judge, and with which rights
`peers`.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
from collections.abc import Iterable

import orjson

from orchestrator.base.errors import BadRequest, OrchestratorError
from orchestrator.core.connection import ConnectionOrigin
from orchestrator.daemon.hello import Hello
from orchestrator.daemon.peers import Peer
from orchestrator.edge import project_location
from orchestrator.protocol.tool_calls import Client
from orchestrator.protocol.traffic import Incoming, TooLong
from orchestrator.trust.admission import Admission

HELLO_S = 15.0


async def first_line(incoming: Incoming, writer: asyncio.StreamWriter) -> bytes | None:
    """The handshake of a connection; None if its first line is not one, which it has been answered."""
    try:
        return await asyncio.wait_for(incoming.line(), HELLO_S)
    except TooLong as error:
        await refuse(writer, BadRequest("bad_argument", f"the first line is not a handshake: {error}"))
    except TimeoutError:
        await refuse(writer, BadRequest("bad_argument", f"no handshake within {HELLO_S:.0f} s"))
    return None


async def refuse(writer: asyncio.StreamWriter, error: OrchestratorError) -> None:
    """Answer a connection why it is not served, in place of our handshake."""
    # Not orjson: a path that is no UTF-8 stands in the message as it came.
    writer.write(json.dumps({"hello": {"error": error.as_dict()}}).encode() + b"\n")
    await writer.drain()


def ours(boot_id: str) -> bytes:
    """What the daemon says to a connection that it serves."""
    said = {
        "proto": project_location.PROTO,
        "version": project_location.VERSION,
        "install": project_location.INSTALL,
        "pid": os.getpid(),
        "boot": boot_id,
    }
    return orjson.dumps({"hello": said}) + b"\n"


def client_of(hello: Hello, peer: Peer, admitted: Admission, since: str) -> Client:
    """The client of a hello from this process, with the rights it was admitted with; ``since`` is when it came.

    Of what the hello says of its process only its terminal counts: where a master's panes are looked for.
    """
    # The environment an agent inherits is that of the first pid: of a relay's CLI, and of our own command itself,
    # for the shell above it may have exported a key since it was started.
    pids = peer.line if hello.kind == "cli" else peer.line[1:]
    leads = admitted.rights == "master" and hello.kind == "relay" and "team" in hello.toolsets
    client = Client(
        ConnectionOrigin(hello.conn, hello.cwd, hello.tmux, hello.tmux_pane, hello.tty, pids, leads),
        hello.kind,
        admitted.rights,
        tuple(hello.toolsets),
        boot=hello.boot,
        since=since,
        why_refused=admitted.why if admitted.rights == "refused" else None,
        ages=_ages(hello.pending),
        call_limit_s=hello.call_limit_s,
        peer=peer.pid,
        peer_start=peer.start,
        env=hello.env if admitted.rights != "reader" else {},  # nothing it brings is used, its keys least of all
    )
    if hello.agent is not None:
        client.agent_id, client.epoch, client.secret = hello.agent.id, hello.agent.epoch, hello.agent.secret
    return client


def _ages(pending: Iterable[tuple[str | int, int]]) -> dict[str, float]:
    """Seconds by the key under which a tool call looks for its age; an id that no JSON can carry has none."""
    ages: dict[str, float] = {}
    for key, age_ms in pending:
        with contextlib.suppress(TypeError):
            ages[orjson.dumps(key).decode()] = age_ms / 1000
    return ages
