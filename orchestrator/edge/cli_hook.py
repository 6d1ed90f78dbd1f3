"""The hook: a CLI runs it at certain events. It reports each to the daemon and awaits its word at two of them.

These are the end of a turn, and the moment at which an agent's CLI asks its user for a permission. Started with
``-IS`` and alive as long as its agent is parked, so it imports almost nothing: of our own package only what asks the
system. It reads stdin, looks at its ancestors, speaks to a daemon that runs already, and prints one
JSON object. Whatever goes wrong it prints ``{}`` and exits 0: a broken hook must never break a turn of the user's
CLI, which then asks its user itself.
"""
# Neither pathlib nor contextlib: they would cost megabytes for as long as the agent is parked.
# ruff: noqa: PTH109, PTH110, PTH112, PTH116, PTH118, PTH120, PTH123, SIM105

from __future__ import annotations

import json
import os
import pwd
import select
import time

from orchestrator.base.platform.basic_facts import ProcessEnd, boot_id, own_ancestors, why_unsupported

try:  # what `socket` adds, enums and selectors, is 1 MB
    import _socket as socket
except ImportError:
    import socket  # type: ignore[no-redef]
try:  # as above, enums
    import _signal as signal  # type: ignore[import-not-found]
except ImportError:
    import signal
try:  # hashlib loads OpenSSL: 4 MB for one digest
    from _sha256 import sha256  # type: ignore[import-not-found]
except ImportError:
    try:
        from _sha2 import sha256  # type: ignore[import-not-found]
    except ImportError:
        from hashlib import sha256

PROTO = 1  # as in edge.project_location, like the names below; a test compares
TURN_ENDS = ("Stop", "AfterAgent")  # at these events and the next a daemon that has just died is waited for
ASKS = ("PermissionRequest", "BeforeTool")  # events at which the daemon may answer what the CLI asks its user
AGENT_ID, AGENT_EPOCH, AGENT_SECRET = (f"ORCHESTRATOR_AGENT_{name}" for name in ("ID", "EPOCH", "SECRET"))
EVENT_FACTS = (  # small facts of an event that the daemon may need; never a prompt or a transcript
    "stop_hook_active", "source", "reason", "trigger", "notification_type", "message", "title", "tool_name",
    "agent_id",
)  # fmt: skip
PATHS = ("cwd", "transcript_path")  # small facts too, whole
ASKED_FACTS = ("tool_input", "details")  # what a permission is asked for: objects
ASKED_NAMES = ("command", "file_path", "filePath", "path", "url")  # of them, if the event is too long to be read
CUT = 300
ASKED_CUT = 4000
PATH_MAX = 4096
STDIN_MAX = 1 << 20
STDIN_S = 10.0
RETRY_S = 30.0
PACE_S = 1.0
GREET_S = 20.0  # a daemon that has sent nothing for this long is stopped or hangs
LOOK_S = 60.0  # between two checks that the daemon that holds a request still responds
NOTHING = "{}"

JsonObject = dict[str, object]


def main() -> int:
    """Handle one event; always 0, and one JSON object on stdout."""
    output = NOTHING
    try:
        for number in (signal.SIGHUP, signal.SIGTERM):  # a CLI under nohup hands on that it ignores them
            signal.signal(number, signal.SIG_DFL)
        if why_unsupported() is None and not os.isatty(0):
            output = answer(read_event(0))
    except BaseException:  # noqa: BLE001 - also an interrupt: the CLI must get its JSON
        output = NOTHING
    try:
        os.write(1, output.encode() + b"\n")
    except OSError:
        pass  # nobody reads it any more
    return 0


# -- what happened ----------------------------------------------------------------------------------------------


def read_event(fd: int) -> JsonObject:
    """The event on ``fd``, read to its end; of one over 1 MiB only its flat facts of the first part, and ``cut``."""
    buffer = b""
    until = time.monotonic() + STDIN_S
    while (remaining_s := until - time.monotonic()) > 0 and select.select([fd], [], [], remaining_s)[0]:
        data = os.read(fd, 1 << 16)
        if not data:
            break
        if len(buffer) < STDIN_MAX:
            buffer += data
        if len(buffer) < STDIN_MAX and buffer.rstrip().endswith(b"}"):  # some CLI may keep its end open
            try:
                return dict(json.loads(buffer))
            except ValueError:
                continue
    if len(buffer) >= STDIN_MAX:
        text = buffer.decode(errors="replace")
        names = ("hook_event_name", "session_id", *PATHS, *EVENT_FACTS)
        facts = {name: value for name in names if (value := flat(text, name)) is not None}
        facts["cut"] = True
        asked = {name: value for name in ASKED_NAMES if (value := flat(text, name)) is not None}
        return {**facts, "tool_input": asked} if asked else facts
    return dict(json.loads(buffer))


def flat(text: str, name: str) -> object:
    """The value after ``"name":``, which cannot occur inside a JSON string; if the value is cut, its beginning.

    Returns None if the name is missing.
    """
    at = text.find(f'"{name}":')
    if at < 0:
        return None
    value = text[at + len(name) + 3 :].lstrip()
    begins = value[:ASKED_CUT]
    for known in (value, begins + '"', begins.rpartition("\\")[0] + '"'):  # an escape may be cut too
        try:
            return json.JSONDecoder().raw_decode(known)[0]
        except ValueError:
            continue
    return None


def event_line(facts: JsonObject, *, asks: bool = False) -> bytes:
    """The line for the daemon: the event's name, session and small facts; with ``asks`` also all that it asks for."""
    data: JsonObject = {}
    for name in PATHS:
        value = facts.get(name)
        if isinstance(value, str) and len(value) <= PATH_MAX:
            data[name] = value
    for name in EVENT_FACTS:
        value = facts.get(name)
        if isinstance(value, dict | list):
            value = json.dumps(value)
        if isinstance(value, str):
            value = value if asks else value[:CUT]
        if value is not None:
            data[name] = value
    for name in ASKED_FACTS:
        if name in facts:
            data[name] = facts[name] if asks else asked_fact(facts[name])
    if asks and facts.get("cut"):
        data["cut"] = True
    event = {"event": str(facts.get("hook_event_name", "")), "session": facts.get("session_id"), "data": data}
    return json.dumps(event, separators=(",", ":")).encode() + b"\n"


def asked_fact(value: object) -> object:
    """An object without its long values: a daemon that shows a command shows only how it begins."""
    if not isinstance(value, dict):
        return str(value)[:CUT]
    if len(json.dumps(value)) <= ASKED_CUT:
        return value
    return {
        str(name)[:CUT]: (member if isinstance(member, str) else json.dumps(member))[: ASKED_CUT - CUT]
        for name, member in list(value.items())[:16]
    }


# -- which daemon -----------------------------------------------------------------------------------------------


def run_dirs(root: str) -> list[str]:
    """Those run directories of a project (`project_location.run_dir`) that are there and safe, the one in use first.

    Whether somebody holds `.agents/lock` is not asked: in a directory that a stranger's word names nobody listens,
    and then the other one is tried.
    """
    name = sha256(os.fsencode(os.path.realpath(root))).hexdigest()[:16]
    base = os.environ.get("ORCHESTRATOR_RUN_BASE") or f"/tmp/orchestrator-{os.geteuid()}"  # noqa: S108 - owner checked
    state = state_dir()
    ways = [[base, f"{base}/{name}"], [state, f"{state}/run", f"{state}/run/{name}"]]
    if text_of(f"{root}/.agents/lock", 64).split()[:1] == ["state"]:
        ways.reverse()
    return [steps[-1] for steps in ways if all(is_private(step) for step in steps)]


def is_stopped(directory: str) -> bool:
    """Whether the daemon was stopped by hand since this boot, as `project_location.is_stopped` judges."""
    if not os.path.lexists(f"{directory}/stopped"):
        return False
    stopped_in, boot = text_of(f"{directory}/stopped").strip(), boot_id()
    return stopped_in in ("", boot) or not boot


def state_dir() -> str:
    """The user's state directory, as `trust.state_dir` names it; an empty string for a user without one."""
    named = os.environ.get("ORCHESTRATOR_STATE_DIR", "")
    if named.startswith("/"):
        return named
    try:
        home = pwd.getpwuid(os.geteuid()).pw_dir
    except KeyError:
        home = os.environ.get("HOME", "")
    return f"{home}/.local/state/orchestrator" if home.startswith("/") else ""


def is_private(path: str) -> bool:
    """Whether it is a directory of this user that is closed to others."""
    try:
        directory_stat = os.lstat(path)
    except OSError:
        return False
    return directory_stat.st_mode & 0o170077 == 0o040000 and directory_stat.st_uid == os.geteuid()


def text_of(path: str, limit: int = 1 << 14) -> str:
    """What a small regular file says; an empty string for anything else. Never blocks."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, ValueError):
        return ""
    try:
        return os.fsdecode(os.read(fd, limit)) if os.fstat(fd).st_mode & 0o170000 == 0o100000 else ""
    except OSError:
        return ""
    finally:
        os.close(fd)


def project_of(cwd: str) -> str | None:
    """The nearest directory at or above ``cwd`` whose daemon has a socket; of a git worktree also its main tree."""
    at = os.path.realpath(cwd)
    while True:
        for root in (at, main_tree(at)):
            if root and any(os.path.exists(f"{directory}/socket") for directory in run_dirs(root)):
                return root
        above = os.path.dirname(at)
        if above == at:
            return None
        at = above


def main_tree(at: str) -> str | None:
    """The main tree of the git worktree at ``at``, a real path; else None (`project_location.worktree_at`)."""
    named = text_of(f"{at}/.git")
    if not named.startswith("gitdir:"):
        return None
    try:
        own = joined(at, named.removeprefix("gitdir:"))
        common, back = joined(own, text_of(f"{own}/commondir")), joined(own, text_of(f"{own}/gitdir"))
        owners = os.stat(f"{at}/.git").st_uid, os.geteuid()
        if back != f"{at}/.git" or own.rpartition("/")[0] != f"{common}/worktrees":
            return None
        main, name = os.path.split(common)
        return main if name == ".git" and os.stat(f"{own}/gitdir").st_uid in owners else None
    except (OSError, ValueError):
        return None


def joined(base: str, text: str) -> str:
    """The real path that a file of git names, relative to ``base`` unless it is absolute."""
    return os.path.realpath(os.path.join(base, text.lstrip(" ").rstrip("\r\n")))


def agent(root: str) -> JsonObject | None:
    """The agent we speak for; its secret from the environment, or from its launch file where the CLI strips it."""
    agent_id, epoch = os.environ.get(AGENT_ID, ""), os.environ.get(AGENT_EPOCH, "")
    if not agent_id or "/" in agent_id or not epoch.isdecimal():
        return None
    secret = os.environ.get(AGENT_SECRET)
    if secret is None:
        try:
            with open(f"{root}/.agents/agents/{agent_id}/engine/launch.json", encoding="utf-8") as file:
                launch = json.load(file)
            secret = launch["secret"] if launch["epoch"] == int(epoch) else ""
        except (OSError, ValueError, LookupError, TypeError):
            secret = ""
    return {"id": agent_id, "epoch": int(epoch), "secret": secret}


def handshake_line(root: str, cwd: str, conn: str, boot: int, who: JsonObject | None) -> bytes:
    """The first line of every connection, in the shape of `daemon_connection.handshake_line`."""
    hello = {
        "proto": PROTO,
        "project": root,
        "install": os.path.dirname(os.path.realpath(__file__)),
        "conn": conn,
        "boot": boot,
        "kind": "hook",
        "cwd": cwd,
        "tmux": os.environ.get("TMUX"),
        "tmux_pane": os.environ.get("TMUX_PANE"),
        "pids": own_ancestors()[0],
        "agent": who,
    }
    return json.dumps({"hello": hello}, separators=(",", ":")).encode() + b"\n"


# -- its word ---------------------------------------------------------------------------------------------------


def answer(facts: JsonObject) -> str:
    """Tell the daemon and wait for its word; what the CLI is to read."""
    cwd = facts.get("cwd")
    if not isinstance(cwd, str) or not os.path.isdir(cwd):
        cwd = os.getcwd()
    is_agent = AGENT_ID in os.environ
    root = os.environ.get("ORCHESTRATOR_PROJECT") if is_agent else project_of(cwd)
    if not root or not run_dirs(root):
        return NOTHING
    who = agent(root) if is_agent else None
    if is_agent and who is None:
        return NOTHING
    name = facts.get("hook_event_name")
    asks, parks = is_agent and name in ASKS, name in TURN_ENDS
    line, conn, boot = event_line(facts, asks=asks), os.urandom(8).hex(), 0
    facts.clear()  # as much again, for as long as it is held
    parent = watched_parent()
    patient = asks or (is_agent and parks)
    until = time.monotonic() + RETRY_S
    while True:
        sock = connect(root, str(who["id"]) if who else "")
        if sock is not None:
            boot += 1
            hello = handshake_line(os.path.realpath(root), cwd, conn, boot, who)
            look = None
            if asks and who:  # without a dialog meanwhile, a daemon that hangs would lock the human out
                look = root, str(who["id"]), handshake_line(os.path.realpath(root), cwd, "look", 1, who)
            greeted, word = exchange(sock, hello + line, parent, look)
            sock.close()
            if word is not None:
                return word
            patient = asks or parks
            if greeted or not asks:
                until = time.monotonic() + RETRY_S
        # Stopped by hand: it comes back when the user wants it. A CLI that shows no question meanwhile cannot wait.
        if any(is_stopped(directory) for directory in run_dirs(root)):
            patient, until = patient and not asks, time.monotonic() + RETRY_S
        if not patient or time.monotonic() >= until or gone(parent, PACE_S):
            return NOTHING


def connect(root: str, agent_id: str) -> socket.socket | None:
    """A connection to the daemon, for an agent by its own socket where that answers; None when nothing listens."""
    for directory in run_dirs(root):
        for name in (agent_socket(agent_id), "socket") if agent_id else ("socket",):
            sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            sock.settimeout(5.0)
            try:
                sock.connect(f"{directory}/{name}")
            except OSError:
                sock.close()
            else:
                return sock
    return None


def agent_socket(agent_id: str) -> str:
    """The name of an agent's own socket, as `project_location.agent_socket` has it."""
    return f"a{sha256(os.fsencode(agent_id)).hexdigest()[:5]}"


def watched_parent() -> ProcessEnd | None:
    """The end of our parent, to wait for; None where the system has nothing to wait on."""
    parent = os.getppid()
    try:
        end = ProcessEnd(parent)
    except OSError:
        end = None
    if os.getppid() != parent:
        raise ProcessLookupError("our parent has just ended")
    return end


def ends(parent: ProcessEnd | None) -> select.poll:
    """A poll that knows when nobody needs us any more: our stdout's reader or our parent has gone."""
    poll = select.poll()
    poll.register(1, 0)
    if parent is not None:
        poll.register(parent.fileno(), select.POLLIN)
    return poll


def gone(parent: ProcessEnd | None, seconds: float) -> bool:
    """Wait so long; whether nobody needs us any more."""
    return bool(ends(parent).poll(seconds * 1000))


def lives(root: str, agent_id: str, hello: bytes) -> bool:
    """Whether the daemon greets a new connection. Also true if the daemon is gone: then the old connection ends."""
    sock = connect(root, agent_id)
    if sock is None:
        return True
    sock.settimeout(GREET_S)
    try:
        sock.sendall(hello)
        return bool(sock.recv(1))
    except OSError:
        return False
    finally:
        sock.close()


def exchange(
    sock: socket.socket, lines: bytes, parent: ProcessEnd | None, look: tuple[str, str, bytes] | None
) -> tuple[bool, str | None]:
    """Send ``lines`` and wait for the daemon's answer. Returns whether it sent anything, and the text to print.

    The text is None if the connection ended before the answer. With ``look``, the arguments of `lives`, it stops
    waiting for a daemon that hangs.
    """
    poll = ends(parent)
    poll.register(sock, select.POLLIN)
    buffer, greeted = b"", False
    try:
        sock.sendall(lines)
    except OSError:
        return greeted, None
    while True:
        ready = poll.poll(None if look is None else (LOOK_S if greeted else GREET_S) * 1000)
        if any(fd != sock.fileno() for fd, _ in ready):
            return greeted, NOTHING
        if not ready:
            if look is None or (greeted and lives(*look)):
                continue
            return greeted, NOTHING
        try:
            data = sock.recv(1 << 16)
        except OSError:
            return greeted, None
        if not data:
            return greeted, None
        greeted = True
        buffer += data
        *complete, buffer = buffer.split(b"\n")
        for line in complete:
            word = word_of(json.loads(line))
            if word is not None:
                return greeted, word


def word_of(message: JsonObject) -> str | None:
    """What a line of the daemon makes us print; None for one that only keeps us waiting."""
    greeting = message.get("hello")
    if isinstance(greeting, dict):
        return NOTHING if "error" in greeting else None
    if message.get("answer") == "wake":
        return json.dumps({"decision": "block", "reason": str(message.get("reason", ""))})
    if message.get("answer") == "decide" and isinstance(message.get("output"), dict):
        return json.dumps(message["output"])
    return NOTHING
