"""Commands about the daemon: run, start, stop, status, restart.

Writes the markers of the run directory. Ends only a process that holds this project's lock.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from orchestrator.base import lazy_imports
from orchestrator.base.errors import BadRequest, Conflict, Environment, NotReady
from orchestrator.base.platform import process_facts
from orchestrator.cli import options, output
from orchestrator.cli.options import Json, Settings
from orchestrator.edge import project_location
from orchestrator.edge.project_location import Project
from orchestrator.faces.daemon_client import START_S, DaemonClient, marker, project_here
from orchestrator.trust import lock_word

END_S = 15.0  # a stop flushes every log and ends supervision
KILL_S = 5.0
_LOOK_AGAIN_S = 0.05

app = options.app("Control the daemon, which owns the files of this project.")


@options.command(app, "run", "orchestrator daemon run --set log_level=debug")
def run(
    root: Annotated[
        str,
        typer.Option(
            "--project", metavar="DIR", help="Project directory; default: found from the current directory upwards."
        ),
    ] = "",
    lock_fd: Annotated[int, typer.Option(hidden=True)] = -1,
    socket_fd: Annotated[int, typer.Option(hidden=True)] = -1,
    settings: Settings = [],  # noqa: B006
    as_json: Json = False,  # noqa: ARG001  (read by the error boundary)
) -> None:
    """Run the daemon in the foreground.

    For a service manager, or to watch its log.
    """
    options.refuse_agents(changes=False)  # a restarted service has neither a terminal nor its old parent
    place = project_location.named_project(Path(root)) if root else project_here()
    _apply(place, settings)
    lazy_imports.lighten_sdk()
    from orchestrator.daemon import start_up  # noqa: PLC0415  (loads the MCP SDK)

    inherited = lock_fd >= 0 and socket_fd >= 0
    code = start_up.main(place.root, lock_fd if inherited else None, socket_fd if inherited else None)
    raise typer.Exit(code)


@options.command(app, "start", "orchestrator daemon start")
def start(settings: Settings = [], as_json: Json = False) -> None:  # noqa: B006
    """Start the daemon, also after daemon stop.

    Does nothing if it already runs.
    """
    options.refuse_agents()
    place = project_here()
    _apply(place, settings)
    _show_start(_start(place), as_json=as_json)


@options.command(app, "stop", "orchestrator daemon stop")
def stop(as_json: Json = False) -> None:
    """Stop the daemon until daemon start or the next boot.

    Agents keep their panes and wait for the daemon.
    """
    options.refuse_agents()
    place = project_here()
    pid = stop_by_hand(place)
    if as_json:
        output.print_json({"ok": True, "was_running": pid is not None, "pid": pid, "project": str(place.root)})
    else:
        output.say("the daemon was not running" if pid is None else f"the daemon (pid {pid}) has stopped")
        output.say("start it again: orchestrator daemon start")


@options.command(app, "restart", "orchestrator daemon restart")
def restart(settings: Settings = [], as_json: Json = False) -> None:  # noqa: B006
    """Stop the daemon and start it again.

    Clients and agents stay connected.
    """
    options.refuse_agents()
    place = project_here()
    _apply(place, settings)
    try:
        stop_by_hand(place, restarting=True)
        daemon_status = _start(place)
    finally:
        marker(place, project_location.RESTARTING).unlink(missing_ok=True)
    _show_start(daemon_status, as_json=as_json)


@options.command(app, "status", "orchestrator daemon status --json | jq .pid")
def status(as_json: Json = False) -> None:
    """Show the running daemon.

    Exit 4 if none runs.
    """
    options.refuse_agents(changes=False)  # an agent's session must not get answers on a second connection
    place = project_here()
    with DaemonClient(place, start=False, return_s=START_S) as link:  # a busy daemon may answer late
        daemon_status = link.ask("orchestrator/status", {})
    if as_json:
        output.print_json(daemon_status)
        return
    for key in ("pid", "project", "socket", "log", "version", "install", "started_at"):
        output.say(f"{key + ':':<13}{daemon_status.get(key, '-')}")
    if project_location.word_of(Path(str(daemon_status.get("socket"))).parent) == lock_word.STATE:
        why = (
            project_location.trouble_of_first(place.root) or "the one in /tmp was not usable when the daemon started"
        )
        output.say(f"{'run in:':<13}the state directory: {why}")
    agents = daemon_status.get("agents") or {}
    output.say(f"{'agents:':<13}{agents.get('live', 0)} live of {agents.get('total', 0)}")
    for connection in daemon_status.get("connections") or []:
        who = connection.get("agent_id") or connection.get("client") or ""
        kind, pid, since = (connection.get(key) for key in ("kind", "pid", "since"))
        output.say(f"{'connection:':<13}{kind} {who} pid {pid} since {since}")
    missing = daemon_status.get("missing")
    if missing:
        output.say(f"{'missing:':<13}{len(missing)} logs are missing, the first: {missing[0]}")
        output.say(f"{'':<13}restore them, or continue without them: orchestrator daemon restart")
    error = daemon_status.get("config_error")
    if error:
        output.say(f"{'config:':<13}not applied: {error.get('message')}")


def _apply(place: Project, settings: list[str]) -> None:
    """Pass ``--set`` values to the daemon by its environment; an invalid setting is refused before the start."""
    values = options.pairs(settings, "--set")
    if not values:
        return
    from orchestrator.config import keys, sources  # noqa: PLC0415

    sources.load(place.root, os.environ, values)
    os.environ.update({keys.env_name(key.replace("-", "_")): value for key, value in values.items()})


def _start(place: Project) -> dict[str, Any]:
    for name in (project_location.STOPPED, project_location.FAILED, project_location.STARTS):
        marker(place, name).unlink(missing_ok=True)
    with DaemonClient(place, start=True) as link:
        return link.ask("orchestrator/status", {})


def _show_start(daemon_status: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        output.print_json(daemon_status)
    else:
        output.say(f"the daemon runs: pid {daemon_status.get('pid')}, project {daemon_status.get('project')}")


def stop_by_hand(place: Project, *, restarting: bool = False) -> int | None:
    """Stop the daemon and leave the stop marker; return the daemon's pid, or None if none ran.

    ``restarting``: the caller starts it again, so that calls wait for it.
    """
    coming = marker(place, project_location.RESTARTING)
    if restarting:
        _leave(coming)
    else:
        coming.unlink(missing_ok=True)  # of a restart that was killed
    lock = marker(place, project_location.LOCK)
    # The marker first: without it a relay would start another daemon as soon as this one has ended.
    project_location.write_stopped(lock.parent)
    if not _held(lock):
        return None
    pid: int | None = None
    refused = False
    try:
        with DaemonClient(place, start=False, survive=False) as link:
            pid = int(link.daemon.get("pid") or 0) or None
            link.ask("orchestrator/stop", {})
    except (NotReady, Environment, Conflict):
        pass  # it ended before it answered, hangs, or speaks another protocol: check the lock
    except BadRequest as error:
        # A system that names nobody's process: there it cannot know us, while this command knows what it comes from.
        refused = error.code == "origin_unknown"
        if not refused:
            raise
    if not refused and _within(END_S if pid else KILL_S, lambda: not _held(lock)):
        return pid or 0
    holders = _holders(lock)
    for sign in (signal.SIGTERM, signal.SIGKILL):
        for holder in holders:
            _signal(holder, sign)
        if holders and _within(KILL_S, lambda: not _held(lock)):
            return holders[0]
    raise Environment(
        "daemon_failed",
        f"the daemon of {place.root} does not end; it still holds {lock}",
        f"end the process that has {lock} open (pid {', '.join(map(str, holders)) or 'unknown'})",
    )


def _leave(mark: Path) -> None:
    os.close(os.open(mark, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))


def _held(lock: Path) -> bool:
    """Whether a daemon runs: it holds its lock from start to end."""
    try:
        fd = os.open(lock, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(fd)
    return False


def _holders(lock: Path) -> list[int]:
    """Our daemons that have the lock file open."""
    from orchestrator.base.platform import processes  # noqa: PLC0415 - loads psutil

    return [pid for pid in processes.holders_of(lock) if b"daemon" in process_facts.words_of(pid)]


def _signal(pid: int, sign: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, sign)


def _within(seconds: float, fact: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + seconds
    while not fact():
        if time.monotonic() >= deadline:
            return False
        time.sleep(_LOOK_AGAIN_S)
    return True
