"""Doctor's checks of file permissions and of leftovers of crashes. Reads only."""

from __future__ import annotations

import socket as sockets
import stat
from collections.abc import Iterator
from pathlib import Path

from orchestrator.base.errors import OrchestratorError
from orchestrator.base.final_states import FINAL_LIVES
from orchestrator.base.platform import file_trees
from orchestrator.cli.doctor_finding import DoctorFinding
from orchestrator.cli.output import space
from orchestrator.edge import project_location, temporary_directories
from orchestrator.edge.project_location import Project
from orchestrator.edge.temporary_directories import name_of_agent

SHOWN = 5


def permissions(place: Project) -> Iterator[DoctorFinding]:
    """Files that may hold secrets must be accessible to the user only."""
    open_to_others = []
    for path in sorted((place.root / ".agents" / "agents").glob("*/engine/*")):
        try:
            file_stat = path.lstat()
        except OSError:
            continue
        if stat.S_ISREG(file_stat.st_mode) and file_stat.st_mode & 0o077:
            open_to_others.append(path)
    for path in open_to_others[:SHOWN]:
        yield DoctorFinding(
            "permissions", "bad", f"{path} is open to other users", f"chmod go= {path}, or doctor --fix", str(path)
        )
    if not open_to_others:
        yield DoctorFinding("permissions", "ok", "run directory and launch files are accessible to you only")


def leftovers(place: Project) -> Iterator[DoctorFinding]:
    """Sockets without a daemon, panes without an agent, unfinished files."""
    findings = [*_sockets(place), *_panes(place), *_unfinished(place)]
    yield from findings
    if not findings:
        yield DoctorFinding("leftovers", "ok", "none")


def temporary(place: Project) -> Iterator[DoctorFinding]:
    """How much is in the temporary directories of agents and squad members."""
    from orchestrator.team.roster import offline_view  # noqa: PLC0415

    owners = {
        name_of_agent(row["agent_id"]): row["agent_id"]
        for row in offline_view.agents(place.root)
        if row["status"] != "deleted"
    }
    of_agents: dict[str, int] = {}
    members: list[int] = []
    left: list[int] = []
    places = [directory / project_location.TEMPORARY for directory in project_location.run_dirs(place.root)]
    for path in temporary_directories.listed(places):
        size = file_trees.measure(path)[1]
        if path.name in owners:
            of_agents[owners[path.name]] = of_agents.get(owners[path.name], 0) + size
        else:
            (members if temporary_directories.is_members(path.name) else left).append(size)
    words = [f"{agent_id} {space(size)}" for agent_id, size in sorted(of_agents.items(), key=lambda item: -item[1])]
    words += [f"squad members {space(sum(members))}"] if members else []
    total = space(sum(of_agents.values()) + sum(members))
    shown = ", ".join(words[:SHOWN]) + (", …" if len(words) > SHOWN else "")
    yield DoctorFinding("temporary files", "ok", f"{total}: {shown}" if words else "none")
    if left:
        what = f"{space(sum(left))} of ended agents and members: {len(left)} directories"
        yield DoctorFinding("temporary files", "note", what, "remove them: orchestrator gc --apply")


def _sockets(place: Project) -> Iterator[DoctorFinding]:
    """Sockets that no process listens on."""
    here = project_location.run_dir(place.root)
    sockets = sorted(
        path for base in project_location.run_bases() for path in base.glob(f"*/{project_location.SOCKET}")
    )
    dead = [path for path in sockets if _refuses(path)]
    for path in dead:
        if path.parent == here:
            yield DoctorFinding("leftovers", "note", f"{path}: its daemon has ended; the next one replaces it")
    others = [path for path in dead if path.parent != here]
    if others:
        step = "remove those unused for long: orchestrator gc --apply"
        yield DoctorFinding(
            "leftovers", "note", f"{len(others)} run directories of other projects' killed daemons", step
        )


def _refuses(path: Path) -> bool:
    """Whether no process listens on the socket."""
    with sockets.socket(sockets.AF_UNIX) as sock:
        sock.setblocking(False)
        try:
            sock.connect(str(path))
        except ConnectionRefusedError:
            return True
        except OSError:
            return False
    return False


def _panes(place: Project) -> Iterator[DoctorFinding]:
    from orchestrator.team.roster import offline_view  # noqa: PLC0415
    from orchestrator.tmux import panes  # noqa: PLC0415
    from orchestrator.tmux.server_address import TmuxSocket  # noqa: PLC0415

    runs = {run["run_id"]: run["tmux_socket"] for run in offline_view.runs(place.root)}
    live = {row["agent_id"] for row in offline_view.agents(place.root) if row["status"] not in FINAL_LIVES}
    for socket in sorted({str(path) for path in runs.values() if path and Path(path).exists()}):
        try:
            tagged = panes.list_tagged(TmuxSocket(path=socket))
        except OrchestratorError:
            continue  # the server is gone, and its panes with it
        for pane in tagged:
            if pane.run_id in runs and pane.agent_id not in live:
                step = f"look at it, then: orchestrator gc --apply, or tmux -S {socket} kill-pane -t {pane.pane_id}"
                what = f"pane {pane.pane_id} of agent {pane.agent_id}, which has ended"
                yield DoctorFinding("leftovers", "note", what, step)


def _unfinished(place: Project) -> Iterator[DoctorFinding]:
    from orchestrator.team.recovery import damage_report  # noqa: PLC0415

    home = place.root / ".agents"
    for path in sorted(home.glob("*/*/*.torn")):
        yield DoctorFinding(
            "leftovers", "note", f"{path}: an unfinished last line, kept after a crash; no caller has seen it"
        )
    for path in sorted(home.glob("*/*/*.quarantine-*")):
        yield DoctorFinding(
            "leftovers", "note", f"{path}: a damaged file, kept by doctor --fix", "look at it, then remove it"
        )
    half = damage_report.half_written_of(place.root)
    if half:
        step = "remove them: orchestrator doctor --fix"
        yield DoctorFinding("leftovers", "note", f"{len(half)} half-written files, the first: {half[0]}", step)
