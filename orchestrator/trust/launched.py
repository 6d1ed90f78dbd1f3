"""What this user has launched since the machine was booted: the processes of agents, and who has started members.

One file per boot, shared by the daemons of all projects: an agent of one must not lead the team of another. Each
launch appends a line before its program begins. Standard library only.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from orchestrator.base.platform import ancestry, process_facts
from orchestrator.base.platform.ancestry import AgentKey
from orchestrator.base.platform.process_facts import ProcessKey
from orchestrator.trust import boot_lines, state_dir
from orchestrator.trust.boot_lines import BootLines
from orchestrator.trust.origin import KnownProcesses, ProcessOrigin, judge

PLACE = "launched"
_DONE: set[Path] = set()  # the files in which this process stands as one that starts members


def record_agent(project: str, agent_id: str) -> None:
    """Say that this process becomes the CLI of an agent.

    Raises ``StateDirUnsafe``, and ``OSError`` as the disk does.
    """
    boot_lines.append(PLACE, {"agent": agent_id, "project": project, **boot_lines.process_line(os.getpid())})


def record_members() -> None:
    """Say that this process starts squad members from now on; once is enough. Raises as ``record_agent``."""
    path = state_dir.state_dir() / PLACE / boot_lines.name_of_boot()
    if path in _DONE and path.exists():
        return
    line = boot_lines.process_line(os.getpid())
    boot_lines.append(PLACE, {"members": True, **line, "since": process_facts.now()})
    _DONE.add(path)


def own_origin() -> ProcessOrigin:
    """Where this very process comes from."""
    return judge(ancestry.lines_of(os.getpid()), Launched().known())


class Launched:
    """Reads the file of this boot, each line once. Lines that were read stay known: the file can only grow."""

    def __init__(self) -> None:
        self._known = KnownProcesses()
        self._lines = BootLines(PLACE)

    def known(self) -> KnownProcesses:
        """All launches that the file has now. An unsafe or unreadable directory adds nothing."""
        agents: dict[ProcessKey, AgentKey] = {}
        leaders: set[ProcessKey] = set()
        above: set[ProcessKey] = set()
        began: list[int] = []
        for entry in self._lines.new():
            with contextlib.suppress(ValueError, LookupError, TypeError):
                life = process_key(entry["pid"], entry["start"])
                over = {process_key(*pair) for pair in entry["above"]}
                if "agent" in entry:
                    agents[life] = (str(entry["project"]), str(entry["agent"]))
                    began.append(life[1])
                else:
                    began.append(process_key(0, entry["since"])[1])
                    leaders.add(life)
                above |= over
        if began:  # added at once: after a day of launches, one by one would take longer than most commands
            self._known.add(KnownProcesses(agents, leaders, above, min(began)))
        return self._known


def process_key(pid: object, start: object) -> ProcessKey:
    """A process as a line names it; ``TypeError`` for anything but two whole numbers."""
    if type(pid) is not int or type(start) is not int:
        raise TypeError("no pid and start time")
    return pid, start
