"""Which programs hold a relay, now or earlier in this boot: the AI CLIs that lead teams.

A daemon adds a line to the file of this boot when a relay connects; running relays are found among all processes.
Standard library only.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from orchestrator.base.platform import process_facts
from orchestrator.base.platform.process_facts import ProcessKey
from orchestrator.trust import boot_lines
from orchestrator.trust.boot_lines import BootLines
from orchestrator.trust.launched import process_key

PLACE = "holders"
RELAY = b"mcp"
WORDS = 16
"""Number of words of a command line that are looked at."""
SHELLS = frozenset({"sh", "bash", "dash", "zsh", "ksh", "fish", "busybox"})


@dataclass
class KnownHolders:
    """The programs that hold or have held a relay in this boot.

    ``above``: their ancestors, which adopt their orphans. ``sessions``: those in which a relay was started, with the
    start time of the first. ``first``: when the first of all these was started; None before.
    """

    processes: set[ProcessKey] = field(default_factory=set)
    above: set[ProcessKey] = field(default_factory=set)
    sessions: dict[int, int] = field(default_factory=dict)
    first: int | None = None

    def add(self, relay: dict[str, Any]) -> None:
        """Know the relay of a line too; ``LookupError``, ``TypeError`` or ``ValueError`` for a line that is none."""
        session, start = process_key(relay["session"], relay["start"])
        holders = {process_key(*pair) for pair in relay["holders"]}
        above = {process_key(*pair) for pair in relay["above"]}
        self.processes |= holders
        self.above |= above
        self.sessions[session] = min(start, self.sessions.get(session, start))
        self.first = min([start, *(begun for _, begun in holders), *([] if self.first is None else [self.first])])


class RelayHolders:
    """What one program knows of holders: lines of the file, each read once, and the relays that run at a look.

    May be used by several threads.
    """

    def __init__(self) -> None:
        self._known = KnownHolders()
        self._lines = BootLines(PLACE)
        self._said: set[tuple[Any, ...]] = set()
        self._lock = threading.Lock()

    def record(self, relay: int) -> None:
        """Remember who holds this relay, also in the file.

        Raises ``StateDirUnsafe``, and ``OSError`` as the disk does; this program knows the holder all the same.
        """
        line = _line_of(relay)
        if line is None:
            return
        key = (line["session"], *map(tuple, line["holders"]))
        with self._lock:
            self._known.add(line)
            if key not in self._said:
                boot_lines.append(PLACE, line)
                self._said.add(key)

    def known(self) -> KnownHolders:
        """All holders of this boot as of now. Raises ``OSError`` where no processes are listed."""
        running = [line for line in map(_line_of, relays()) if line is not None]
        with self._lock:
            for entry in self._lines.new():
                with contextlib.suppress(ValueError, LookupError, TypeError):
                    self._known.add(entry)
            for line in running:
                self._known.add(line)
            known = self._known
            return KnownHolders(set(known.processes), set(known.above), dict(known.sessions), known.first)


def _line_of(relay: int) -> dict[str, Any] | None:
    """A relay and who holds it; None if it has ended."""
    stat = process_facts.stat_of(relay)
    if stat is None or stat.ended:
        return None
    starts = ((pid, process_facts.start_time(pid)) for pid in held_by(relay))
    holders = [[pid, start] for pid, start in starts if start is not None]
    above: list[list[int]] = []
    if holders:
        with contextlib.suppress(OSError):  # it has ended meanwhile
            above = boot_lines.process_line(holders[-1][0])["above"]
    return {"session": stat.session, "start": stat.start, "holders": holders, "above": above}


def held_by(relay: int) -> Iterator[int]:
    """The processes that hold this relay: its parent, and what has started that one to carry it."""
    parent = process_facts.parent_of(relay)
    while parent is not None and parent > 1:
        yield parent
        above = process_facts.parent_of(parent)
        parent = above if above is not None and _carries(parent, above) else None


def relays() -> Iterator[int]:
    """The relays that run now."""
    yield from (pid for pid in process_facts.pids() if runs(pid, RELAY))


def runs(pid: int, command: bytes) -> bool:
    """Whether a process is `orchestrator COMMAND`: by its own name, by a Python given its path, or as a module."""
    words = process_facts.words_of(pid)[:WORDS]
    at = _at(words, command)
    return at == 0 or (at is not None and _name(words[0]).startswith("python") and all(map(_is_flag, words[1:at])))


def _carries(pid: int, above: int) -> bool:
    """Whether the process only runs a relay for its parent: a shell with one command or script, or such as `uvx`.

    Another session shows that the parent is none of its own: it was handed over when its own had ended.
    """
    words = [word for word in process_facts.words_of(pid)[:WORDS] if word]
    shell = _name(words[0] if words else b"") in SHELLS
    if not (shell and _has_command(words)) and _at(words, RELAY) is None:
        return False
    if shell and _is_interactive(above):
        return False  # a script that holds the relay itself, started by hand
    try:
        return above > 1 and os.getsid(pid) == os.getsid(above)
    except OSError:
        return False


def _has_command(words: Sequence[bytes]) -> bool:
    """Whether a shell was started for one command (`-c`) or for a script."""
    return any(_is_flag(word) and word.endswith(b"c") for word in words[1:3]) or _has_script(words)


def _has_script(words: Sequence[bytes]) -> bool:
    return any(not _is_flag(word) for word in words[1:])


def _is_interactive(pid: int) -> bool:
    """Whether the process is a shell at which somebody types."""
    words = [word for word in process_facts.words_of(pid)[:WORDS] if word]
    return bool(words) and _name(words[0]).lstrip("-") in SHELLS and not _has_command(words)


def _at(words: Sequence[bytes], command: bytes) -> int | None:
    """Where a command line names a command of ours: the place of `orchestrator` before it."""
    pairs = enumerate(pairwise(words))
    return next(
        (at for at, (word, then) in pairs if _name(word).startswith("orchestrator") and then == command), None
    )


def _name(word: bytes) -> str:
    return os.fsdecode(os.path.basename(word))  # noqa: PTH119 - one word of a command line


def _is_flag(word: bytes) -> bool:
    return word.startswith(b"-")
