"""Makes, starts, kills and ends the three hosts of the fleet's demo and their database, all on this machine.

Writes to a new folder in ``.demo/`` and to a new temporary directory, because paths of sockets must be short. Starts
a private PostgreSQL server and three private tmux servers. Ends only these servers and the processes of its projects.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from orchestrator.base.errors import Environment
from orchestrator.cli import demo_project
from orchestrator.cli.demo_project import DemoProject, environment, living
from orchestrator.edge import project_location
from orchestrator.fleet.private_cluster import PrivateCluster

if TYPE_CHECKING:
    from orchestrator.fleet.owner_session import Session

HOSTS = ("laptop", "box-1", "box-2")
"""The master is on the first; the last is lost."""
PROJECT = "texttally"
JOIN_S = 60.0
_FILE = "fleet.json"
_SHORT = re.compile(r"orchestrator-demo-\w{8}")
_MARK = "demo"
KILLED_ROUNDS, KILLED_PAUSE_S = 4, 0.5
_END = """
import sys
from pathlib import Path
from orchestrator.cli.demo_hosts import end_killed
end_killed(Path(sys.argv[1]))
"""


@dataclass
class DemoFleet:
    """One demo on disk: ``home`` has a folder for each host; ``short`` the run directories and the database."""

    home: Path
    short: Path
    hosts: dict[str, DemoProject] = field(default_factory=dict)
    cluster: PrivateCluster | None = None

    @contextlib.contextmanager
    def owner(self) -> Iterator[Session]:
        """A connection of the owner of the database."""
        from orchestrator.fleet import owner_session  # noqa: PLC0415  (loads the driver)

        assert self.cluster is not None
        with owner_session.session(self.cluster.dsn()) as connection:
            yield connection


def prepare(demos: Path) -> DemoFleet:
    """Make the folders of a demo. Environment: ``no_tmux``, ``io_failed``."""
    home = demo_project.new_home(demos)
    with demo_project.writing(home):
        demo_project.make_home(demos, home)
        short = Path(tempfile.mkdtemp(prefix="orchestrator-demo-"))
        short.chmod(0o711)  # the user of the server goes through it
        (short / _MARK).write_text(str(home))
        servers = {host: f"orchestrator-demo-{os.getpid()}-{number}" for number, host in enumerate(HOSTS, 1)}
        (home / _FILE).write_text(json.dumps({"short": short.name, "tmux_sockets": servers}) + "\n")
    return DemoFleet(home, short, {host: DemoProject(home / host, socket) for host, socket in servers.items()})


def start_database(fleet: DemoFleet) -> str:
    """Start a PostgreSQL server with the tables of a fleet and let the hosts in; its version.

    Environment: ``no_postgres`` where no server can be run.
    """
    from orchestrator.fleet import administration, migrations  # noqa: PLC0415  (load the driver)

    fleet.cluster = PrivateCluster(parent=fleet.short, tcp=False)
    fleet.cluster.create()
    fleet.cluster.start()
    with fleet.owner() as connection, demo_project.writing(fleet.home):
        migrations.migrate(connection)
        for host, place in fleet.hosts.items():
            role = administration.add_host(connection, PROJECT, host).role
            fleet.hosts[host] = _made(fleet, place, host, fleet.cluster.dsn(user=role))
        return str(connection.info.parameter_status("server_version")).split()[0]


def _made(fleet: DemoFleet, place: DemoProject, host: str, dsn: str) -> DemoProject:
    """The host on disk, with the settings that `fleet init` and `host add` write on real machines."""
    own = place.home / "home"
    own.mkdir(parents=True)
    run = fleet.short / host
    run.mkdir(mode=0o700)
    demo_project.copy_sample(place)
    variables = {
        "HOME": str(own),
        "XDG_CONFIG_HOME": str(own / ".config"),
        "SMART_SPAWN_MCP_HOME": str(own / "spawn"),
        "ORCHESTRATOR_RUN_BASE": str(run),
        "ORCHESTRATOR_FLEET_DSN": dsn,
        "ORCHESTRATOR_FLEET_PROJECT": PROJECT,
        "ORCHESTRATOR_FLEET_HOST": host,
        "ORCHESTRATOR_FLEET_ACCEPT": json.dumps({"hosts": [HOSTS[0]], "engines": ["shell"]}),
        # A server that is gone: else the pane that the demo is started in would be taken for the master's.
        "TMUX": f"{fleet.short / 'no-tmux'},1,0",
        "TMUX_PANE": "",
    }
    program = place.home / "orchestrator"  # for whoever looks at a kept demo
    made = DemoProject(place.home, place.tmux_socket, variables)
    own_words = {
        name: environment(made)[name] for name in (*variables, "ORCHESTRATOR_PROJECT", "ORCHESTRATOR_STATE_DIR")
    }
    program.write_text(_script(own_words, place.project))
    program.chmod(0o755)
    return made


def _script(variables: dict[str, str], root: Path) -> str:
    exports = "".join(f"export {name}={shlex.quote(value)}\n" for name, value in sorted(variables.items()))
    start = f'cd {shlex.quote(str(root))} && exec {shlex.join(project_location.own_command())} "$@"\n'
    return f"#!/bin/sh\n# orchestrator on this host of the demo\n{exports}{start}"


def start_hosts(fleet: DemoFleet) -> None:
    """Start the daemons; returns when each has a lease. Environment ``fleet_away`` if one gets none."""
    from orchestrator.fleet import administration  # noqa: PLC0415  (loads the driver)

    with ThreadPoolExecutor(len(fleet.hosts)) as pool:
        list(pool.map(lambda place: demo_project.own(place, "daemon", "start"), fleet.hosts.values()))
    until = time.monotonic() + JOIN_S
    with fleet.owner() as connection:
        while True:
            missing = [row.host for row in administration.hosts(connection, PROJECT) if not row.lease_left_s]
            if not missing:
                return
            if time.monotonic() > until:
                said = demo_project.own(fleet.hosts[missing[0]], "daemon", "status").stdout.strip()
                raise Environment("fleet_away", f"{missing[0]} did not join the fleet: {said[-500:]}")
            time.sleep(0.1)


def kill(place: DemoProject) -> int:
    """End all of a host at once, as the end of its machine does; how many processes."""
    killed: set[int] = set()
    for pids in demo_project.looks(place):
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        killed |= set(pids)
    return len(killed)


def stop(fleet: DemoFleet) -> list[str]:
    """Stop the daemons of the hosts, whose agents have ended; which processes did not end, in words."""
    alive = [place for place in fleet.hosts.values() if living(place)]
    with ThreadPoolExecutor(len(HOSTS)) as pool:
        outlived = [pid for pids in pool.map(demo_project.end, alive) for pid in pids]
    return [f"process {pid} was still running" for pid in outlived]


def end(fleet: DemoFleet) -> list[str]:
    """End whatever runs of hosts and database at once and remove the short directory; what is left, in words."""
    left = []
    for place in fleet.hosts.values():
        kill(place)
        demo_project.end_tmux(place)
    for directory in fleet.short.glob("orchestrator-pg-*"):
        cluster = PrivateCluster(directory=directory)
        cluster.remove()
        if cluster.pid is not None:
            left.append(f"process {cluster.pid} is still running")
    shutil.rmtree(fleet.short, ignore_errors=True)
    return left + [f"{fleet.short} could not be removed"] * fleet.short.exists()


@contextlib.contextmanager
def watched(fleet: DemoFleet) -> Iterator[None]:
    """Meanwhile a process waits for the end of this one: if it is killed, it ends and removes all of the demo."""
    ending = [sys.executable, "-P", "-c", _END, str(fleet.home)]
    watch = ["sh", "-c", 'read -r over || exec "$@"', "sh", *ending]
    with subprocess.Popen(
        watch, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    ) as process:
        try:
            yield
        finally:
            with contextlib.suppress(BrokenPipeError):
                process.communicate(b"over\n")


def end_killed(home: Path) -> None:
    """End and remove the demo of a process that was killed; what it was just starting comes late."""
    for fleet in earlier(home.parent):
        if fleet.home == home:
            for _ in range(KILLED_ROUNDS):
                end(fleet)
                time.sleep(KILLED_PAUSE_S)
            remove(fleet)


def remove(fleet: DemoFleet) -> list[str]:
    """Remove the folder of a demo that has ended, and ``.demo`` if nothing else is in it; what is left, in words."""
    shutil.rmtree(fleet.home, ignore_errors=True)
    demos = fleet.home.parent
    if {path.name for path in demos.iterdir()} == {".gitignore"}:
        shutil.rmtree(demos, ignore_errors=True)
    return [f"{fleet.home} could not be removed"] if fleet.home.exists() else []


def earlier(demos: Path) -> list[DemoFleet]:
    """The demos that were kept. A folder may come with a clone: only what this user's demo made counts."""
    fleets = []
    for file in sorted(demos.glob(f"*/{_FILE}")):
        with contextlib.suppress(OSError, ValueError, LookupError, TypeError, AttributeError):
            read = json.loads(file.read_text())
            short = Path(tempfile.gettempdir(), read["short"])
            sockets = {host: str(read["tmux_sockets"][host]) for host in HOSTS}
            ours = _SHORT.fullmatch(read["short"]) and short.lstat().st_uid == os.geteuid()
            if (
                ours
                and (short / _MARK).read_text() == str(file.parent)
                and all(demo_project.SERVER.fullmatch(socket) for socket in sockets.values())
            ):
                hosts = {host: DemoProject(file.parent / host, socket) for host, socket in sockets.items()}
                fleets.append(DemoFleet(file.parent, short, hosts))
    return fleets
