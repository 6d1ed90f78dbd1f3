"""The launch stub: the first process of an agent's pane; it waits for the daemon and becomes the agent's CLI.

Standard library only. It reads the launch file, reads the pane's tag from tmux, records itself as an agent, and
execs. The CLI keeps its pid, so every daemon of the user knows the process before the CLI runs. No shell is involved.
"""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

from orchestrator.base.public_names import AGENT_TAG
from orchestrator.trust import launched, state_dir
from orchestrator.trust.provenance import Provenance

WAIT_S = 60.0
LOOK_EVERY_S = 0.01  # one read of a small file; tmux wait-for would cost a process per look
FROM_PANE = ("TMUX", "TMUX_PANE", "TERM", "COLORTERM")

NOT_RELEASED = 75  # EX_TEMPFAIL: the daemon did not release the launch in time
REFUSED = 78  # EX_CONFIG: the launch file or the pane is not the one this launch is meant for
NOT_FOUND = 127
NOT_STARTED = 126

USAGE = (
    "Usage: orchestrator launch AGENT_ID EPOCH --project DIR [--state DIR]   (run by the daemon, in an agent's pane)"
)


class Refusal(Exception):
    """Why the agent is not started: one sentence, and the exit status."""

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status = status


def main(arguments: Sequence[str]) -> int:
    """Become the CLI of the agent that ``arguments`` name; returns an exit status only when that fails."""
    if list(arguments) in (["-h"], ["--help"]):
        sys.stdout.write(USAGE + "\n")
        return 0
    flags = list(arguments[2::2])
    if (
        len(arguments) not in (4, 6)
        or flags not in (["--project"], ["--project", "--state"])
        or not arguments[1].isdecimal()
    ):
        sys.stderr.write(USAGE + "\n")
        return 2
    os.environ.pop(state_dir.VARIABLE, None)  # inherited from the tmux server; the daemon's value counts
    if len(arguments) == 6:
        os.environ[state_dir.VARIABLE] = arguments[5]
    agent_id, epoch, root = arguments[0], int(arguments[1]), Path(arguments[3])
    try:
        launch = read_launch(root, agent_id, epoch)
        wait_for_release(root, agent_id, epoch)
        check_pane(agent_id)
        record(root, agent_id)
        become(launch)
    except Refusal as refusal:
        # Shown in the pane, which stays open: the human and the daemon read the same sentence. It begins with an
        # empty line, because tmux scrolls the first line out of sight when it reports that the pane is dead.
        sys.stderr.write(f"\norchestrator: agent {agent_id} was not started: {refusal}\n")
        return refusal.status


def read_launch(root: Path, agent_id: str, epoch: int) -> dict[str, Any]:
    """The launch file, when it is private and meant for this epoch; raises ``Refusal``."""
    if agent_id in ("", ".", "..") or "/" in agent_id or "\0" in agent_id:
        raise Refusal(REFUSED, f"{agent_id!r} is not an agent id")
    path = root / ".agents" / "agents" / agent_id / "engine" / "launch.json"
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
        with os.fdopen(fd, "rb") as file:
            status = os.fstat(fd)
            # It decides what runs here and holds the agent's secret.
            if not stat.S_ISREG(status.st_mode) or status.st_uid != os.geteuid() or status.st_mode & 0o077:
                raise Refusal(REFUSED, f"{path} must be a regular file of this user with mode 0600")
            launch = json.load(file)
    except OSError as error:
        raise Refusal(REFUSED, f"{path} cannot be read: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise Refusal(REFUSED, f"{path} is not JSON") from error
    if not Provenance(root / ".agents").owns(launch, "agent", agent_id, "launch"):
        raise Refusal(REFUSED, f"{path} was not written by a daemon of this machine")
    if not isinstance(launch, dict) or not _is_complete(launch):
        raise Refusal(REFUSED, f"{path} lacks epoch, argv, env or cwd, or one of them has a wrong type")
    if launch["epoch"] != epoch:
        raise Refusal(REFUSED, f"this is launch {epoch}, but {path} is for launch {launch['epoch']}")
    return launch


def wait_for_release(root: Path, agent_id: str, epoch: int) -> None:
    """Wait until the daemon has tagged the pane and given it its final size; raises ``Refusal``.

    The file ``engine/go`` names the released epoch. ``tmux wait-for -S`` would not do: the daemon repeats the release
    after a restart, and a second signal takes the first one back (tmux 3.3a).
    """
    path = root / ".agents" / "agents" / agent_id / "engine" / "go"
    deadline = time.monotonic() + WAIT_S
    while time.monotonic() < deadline:
        try:
            if path.read_bytes().strip() == str(epoch).encode():
                return
        except FileNotFoundError:
            pass
        except OSError as error:
            raise Refusal(NOT_RELEASED, f"{path} cannot be read: {error.strerror}") from error
        time.sleep(LOOK_EVERY_S)
    raise Refusal(NOT_RELEASED, f"the daemon did not release it within {WAIT_S:.0f} seconds")


def check_pane(agent_id: str) -> None:
    """Check that the pane has this agent's tag; raises ``Refusal``."""
    pane = os.environ.get("TMUX_PANE", "")
    query = ["tmux", "show-options", "-pqv", "-t", pane, AGENT_TAG]
    tag = subprocess.run(query, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False).stdout.strip()
    if not pane or tag != agent_id:
        raise Refusal(REFUSED, f"pane {pane or '(none)'} has the tag {tag!r}, not {agent_id!r}")


def record(root: Path, agent_id: str) -> None:
    """Record this process as an agent's before the CLI runs; raises ``Refusal``."""
    try:
        launched.record_agent(str(root), agent_id)
    except (state_dir.StateDirUnsafe, OSError) as error:
        raise Refusal(NOT_STARTED, f"it cannot be recorded as an agent: {error}") from error


def become(launch: dict[str, Any]) -> NoReturn:
    """Exec the CLI with exactly the launch file's environment and the pane's own terminal; raises ``Refusal``."""
    env = {**launch["env"], **{name: os.environ[name] for name in FROM_PANE if name in os.environ}}
    argv, cwd = launch["argv"], launch["cwd"]
    try:
        os.chdir(cwd)
    except OSError as error:
        raise Refusal(NOT_STARTED, f"its directory {cwd} cannot be entered: {error.strerror}") from error
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # Python ignores it, and an ignored signal survives exec
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
    try:
        os.execvpe(argv[0], argv, env)  # noqa: S606 - an argv list
    except FileNotFoundError as error:
        raise Refusal(NOT_FOUND, f"{argv[0]} was not found, or the interpreter in its first line was not") from error
    except (OSError, ValueError) as error:
        raise Refusal(NOT_STARTED, f"{argv[0]} cannot be run: {error}") from error


def _is_complete(launch: dict[str, Any]) -> bool:
    argv, env = launch.get("argv"), launch.get("env")
    cwd = launch.get("cwd")
    return (
        isinstance(launch.get("epoch"), int)
        and isinstance(argv, list)
        and len(argv) > 0
        and all(isinstance(word, str) for word in argv)
        and isinstance(env, dict)
        and all(isinstance(value, str) for value in env.values())
        and isinstance(cwd, str)
        and bool(cwd)
    )
