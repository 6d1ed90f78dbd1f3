"""The hello, the first line of a connection: its form, and whether its version of the protocol is served."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from orchestrator.base.errors import BadRequest, Conflict
from orchestrator.edge.project_location import INSTALL, PER_CONNECTION, VERSION

HELLO_MAX = 1 << 20
COUNT_MAX = (1 << 53) - 1  # what every JSON reader keeps exactly


@dataclass(frozen=True)
class AgentClaim:
    """Who a connection says it is; only the secret proves it, and it is never shown."""

    id: str
    epoch: int
    secret: str = field(repr=False)


@dataclass(frozen=True)
class Hello:
    """The handshake of a connection. ``pending``: (request id, age in ms) of re-sent ones; ``env`` may have keys."""

    proto: int
    version: str
    install: str
    project: str
    conn: str
    boot: int
    kind: str
    cwd: str
    toolsets: tuple[str, ...]
    tmux: str | None
    tmux_pane: str | None
    tty: str | None
    pids: tuple[int, ...]
    agent: AgentClaim | None
    env: Mapping[str, str] = field(repr=False)
    pending: tuple[tuple[str | int, int], ...]
    call_limit_s: int | None = None  # how long the client lets one call run, where somebody has told the relay


def read_hello(line: bytes) -> Hello:
    """A connection's first line; ``BadRequest`` bad_argument for anything else. Unknown keys are let pass.

    Only ``proto``, ``conn`` and ``project`` must be there; of ``env`` only the per-connection variables count.
    """
    if len(line) > HELLO_MAX:
        raise BadRequest("bad_argument", f"a handshake may have at most {HELLO_MAX} bytes")
    try:
        hello = json.loads(line.decode())["hello"]
        proto, conn, project = hello["proto"], hello["conn"], hello["project"]
    except (ValueError, LookupError, TypeError, RecursionError) as error:
        raise BadRequest("bad_argument", "the first line of a connection must be a handshake") from error
    if not _count(proto) or not isinstance(conn, str) or not 0 < len(conn) <= 64 or not isinstance(project, str):
        raise BadRequest("bad_argument", "a handshake must name proto, conn and project")
    return Hello(
        proto=proto,
        version=_text(hello, "version") or "?",
        install=_text(hello, "install") or "?",
        project=project,
        conn=conn,
        boot=_take(hello, "boot", _count, 1),
        kind=_text(hello, "kind") or "relay",
        cwd=_text(hello, "cwd") or project,
        toolsets=_list(hello, "toolsets", lambda name: isinstance(name, str)),
        tmux=_text(hello, "tmux"),
        tmux_pane=_text(hello, "tmux_pane"),
        tty=_text(hello, "tty"),
        pids=_list(hello, "pids", _count),
        agent=_claim(hello.get("agent")),
        env=_variables(hello.get("env")),
        pending=tuple((key, age) for key, age in _list(hello, "pending", _is_pending)),
        call_limit_s=_take(hello, "call_limit_s", lambda value: _count(value) and value > 0, None),
    )


def negotiate(hello: Hello, own_proto: int, idle: bool) -> Literal["serve", "yield"] | Conflict:
    """Whether a connection is served, refused with the conflict, or makes the daemon end for a newer one.

    The same ``proto`` is served, whatever the version; only an ``idle`` daemon ends for a newer one.
    """
    if hello.proto == own_proto:
        return "serve"
    if hello.proto > own_proto and idle:
        return "yield"
    return Conflict(
        "proto_mismatch",
        f"the daemon ({VERSION}, proto {own_proto}, {INSTALL}) and this relay "
        f"({hello.version}, proto {hello.proto}, {hello.install}) use incompatible versions of the protocol",
    )


def _count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= COUNT_MAX


def _is_pending(value: object) -> bool:
    return (
        isinstance(value, list)
        and len(value) == 2
        and isinstance(value[0], str | int)
        and not isinstance(value[0], bool)
        and _count(value[1])
    )


def _wrong(name: str) -> BadRequest:
    return BadRequest("bad_argument", f"{name} of the hello has the wrong type")


def _take(hello: dict[str, Any], name: str, good: Any, default: Any) -> Any:
    value = hello.get(name)
    if value is None:
        return default
    if not good(value):
        raise _wrong(name)
    return value


def _text(hello: dict[str, Any], name: str) -> str | None:
    # No path and no variable has a NUL, and no program could be given one.
    text: str | None = _take(hello, name, lambda value: isinstance(value, str) and "\0" not in value, None)
    return text


def _list(hello: dict[str, Any], name: str, good: Any) -> tuple[Any, ...]:
    return tuple(_take(hello, name, lambda value: isinstance(value, list) and all(good(item) for item in value), ()))


def _claim(claim: object) -> AgentClaim | None:
    if claim is None:
        return None
    if not isinstance(claim, dict):
        raise _wrong("agent")
    agent_id, epoch, secret = claim.get("id"), claim.get("epoch"), claim.get("secret")
    if (
        not isinstance(agent_id, str)
        or not isinstance(epoch, int)
        or not _count(epoch)
        or not isinstance(secret, str)
    ):
        raise _wrong("agent")
    return AgentClaim(agent_id, epoch, secret)


def _variables(variables: object) -> dict[str, str]:
    if variables is None:
        return {}
    if not isinstance(variables, dict) or not all(isinstance(value, str) for value in variables.values()):
        raise _wrong("env")
    return {name: variables[name] for name in PER_CONNECTION if name in variables}
