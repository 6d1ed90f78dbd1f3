"""Where the demo happens: a copy of the sample project, and how everything that ran there is ended.

Touches ``.demo/`` of the current directory, the copy's run directory, and its private tmux server; ends only
processes whose project is the copy.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from orchestrator.base import package_data
from orchestrator.base.errors import Environment
from orchestrator.base.final_states import FINAL_LIVES
from orchestrator.base.platform import process_facts
from orchestrator.edge import project_location
from orchestrator.tmux.installed import installed
from orchestrator.trust.state_dir import VARIABLE

GONE_S = 20.0  # for everything of ours to have ended
SERVER = re.compile(r"(orchestrator-demo-\d+(-\d)?)?")
"""The names of tmux servers that a demo may have started, and may end; empty inside the user's tmux."""


@dataclass(frozen=True)
class DemoProject:
    """One demo on disk: ``home`` holds ``project`` (the copy), ``state`` and ``demo.json``."""

    home: Path
    tmux_socket: str  # the private server's name; "" inside the user's tmux
    variables: Mapping[str, str] = field(default_factory=dict)  # set for its programs beside the usual ones

    @property
    def project(self) -> Path:
        return self.home / "project"

    @property
    def state(self) -> Path:
        """The demo's own state directory, so that nothing of it stays in the user's."""
        return self.home / "state"


def demo_dir() -> Path:
    """``.demo`` of the current directory, which holds its demos; Environment ``io_failed`` if that was removed."""
    try:
        return Path.cwd() / ".demo"
    except FileNotFoundError as error:
        raise Environment(
            "io_failed", "the current directory was removed", "go to a directory that exists"
        ) from error


def prepare(demos: Path) -> DemoProject:
    """A copy of the sample project in a new folder of ``demos``, with a configuration of its own.

    Raises Environment: ``no_tmux``, or ``io_failed`` if the copy cannot be written.
    """
    home = new_home(demos)
    place = DemoProject(home, "" if os.environ.get("TMUX") else f"orchestrator-demo-{os.getpid()}")
    with writing(home):
        make_home(demos, home)
        copy_sample(place)
        (home / "demo.json").write_text(json.dumps({"tmux_socket": place.tmux_socket}) + "\n")
    return place


def new_home(demos: Path) -> Path:
    """The folder of a demo that begins now; it does not exist yet. Environment ``no_tmux``."""
    installed()
    return demos / f"{datetime.now(UTC).astimezone():%Y%m%d-%H%M%S}-{os.getpid()}"


@contextlib.contextmanager
def writing(home: Path) -> Iterator[None]:
    """Environment ``io_failed`` with a next step for what cannot be written."""
    try:
        yield
    except OSError as error:
        raise Environment(
            "io_failed",
            f"the demo cannot write its project: {error.filename or home}: {error.strerror or error}",
            "run it in a directory that you can write to",
        ) from error


def make_home(demos: Path, home: Path) -> None:
    """Make the folder of a demo; the user's repository stays clean."""
    home.mkdir(parents=True)
    (demos / ".gitignore").write_text("*\n")


def copy_sample(place: DemoProject) -> None:
    """Copy the sample project, with a configuration of its own."""
    shutil.copytree(package_data.sample(), place.project, ignore=shutil.ignore_patterns("__pycache__"))
    (place.project / ".agents").mkdir()
    socket = f'tmux_socket = "{place.tmux_socket}"\n' if place.tmux_socket else ""
    (place.project / ".agents" / "config.toml").write_text(f"# written by orchestrator demo\n{socket}")


def environment(place: DemoProject) -> dict[str, str]:
    """The environment of everything the demo starts: its project is the copy, whatever ours is."""
    return {**os.environ, "ORCHESTRATOR_PROJECT": str(place.project), VARIABLE: str(place.state), **place.variables}


def earlier_demos(demos: Path) -> list[DemoProject]:
    """The earlier demos of which something may still run; folders that no demo wrote are left out."""
    places = []
    for file in sorted(demos.glob("*/demo.json")):
        try:
            server = json.loads(file.read_text())["tmux_socket"]
        except (OSError, ValueError, LookupError, TypeError):
            continue
        if isinstance(server, str) and SERVER.fullmatch(server):
            place = DemoProject(file.parent, server)
            if living(place):
                places.append(place)
    return places


def end(place: DemoProject) -> list[str]:
    """Delete the agents, stop the daemon, end the private tmux server; what still runs after that.

    Every step is taken, however the one before it ended.
    """
    if living(place):
        with _whatever_happens():
            _delete_agents(place)
        with _whatever_happens():
            own(place, "daemon", "stop")
    end_tmux(place)
    pids = _outlived(place)
    for pid in pids:
        with contextlib.suppress(OSError):
            os.kill(pid, signal.SIGTERM)
    if pids:
        pids = _outlived(place)
    if not pids:
        for directory in project_location.run_dirs(place.project):
            with contextlib.suppress(OSError):
                shutil.rmtree(directory)
    return [str(pid) for pid in pids]


def end_tmux(place: DemoProject) -> None:
    """End the private tmux server, if there is one."""
    if place.tmux_socket:
        with _whatever_happens():
            ending = ["tmux", "-L", place.tmux_socket, "kill-server"]
            subprocess.run(ending, capture_output=True, timeout=10, check=False)
            tmux_dir = Path(os.environ.get("TMUX_TMPDIR") or "/tmp", f"tmux-{os.getuid()}")  # noqa: S108 tmux's own
            (tmux_dir / place.tmux_socket).unlink(missing_ok=True)  # tmux leaves it behind


def _whatever_happens() -> contextlib.AbstractContextManager[None]:
    return contextlib.suppress(OSError, subprocess.TimeoutExpired, ValueError)


def _delete_agents(place: DemoProject) -> None:
    listed = own(place, "agent", "list", "--all", "--json")
    rows = json.loads(listed.stdout or "{}").get("agents", [])
    live = [row["agent_id"] for row in rows if row["status"] not in FINAL_LIVES]
    deleting = [_start(place, "agent", "delete", agent_id) for agent_id in live]
    for process in deleting:
        process.wait(GONE_S)


def _outlived(place: DemoProject) -> list[int]:
    """What still runs once everything has had its time to end."""
    until, pids = time.monotonic() + GONE_S, list[int]()
    for pids in looks(place):
        if pids and time.monotonic() >= until:
            break
    return pids


def own(place: DemoProject, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a command of ours in the demo's project."""
    return subprocess.run(
        project_location.own_command(*arguments),
        env=environment(place),
        cwd=place.project,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=GONE_S,
        start_new_session=True,  # a second Ctrl-C must not stop the cleaning up
        check=False,
    )


def _start(place: DemoProject, *arguments: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        project_location.own_command(*arguments),
        env=environment(place),
        cwd=place.project,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def looks(place: DemoProject) -> Iterator[list[int]]:
    """The living processes, look after look, until two looks in a row find none.

    A process that is just executing its program shows neither words nor environment.
    """
    empty = 0
    while empty < 2:
        pids = living(place)
        empty = 0 if pids else empty + 1
        yield pids
        time.sleep(0.05)


def living(place: DemoProject) -> list[int]:
    """Every process that works in the demo's project: named in its command line or its environment."""
    mark = os.fsencode(str(place.project))
    living_pids = []
    for pid in process_facts.pids():
        if pid == os.getpid():
            continue
        with contextlib.suppress(OSError):
            variables = process_facts.environment_of(pid)
            if b"ORCHESTRATOR_PROJECT=" + mark in variables or mark in process_facts.words_of(pid):
                living_pids.append(pid)
    return living_pids
