"""What to announce to a person, and when: each thing that needs somebody once, each end of all work once. Pure.

`Announcements` decides what is due; `Announcement` is the wording of what is announced together.
"""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import PurePath
from typing import Literal, NamedTuple

from orchestrator.base.text_width import columns_of, cut
from orchestrator.core.attach_command import attach_command
from orchestrator.core.glyphs import NEEDS_HUMAN, OUTCOME, STATUS, Glyph
from orchestrator.core.task_words import short_line

REMEMBERED = 10_000
"""How many announced items are remembered: an item that shows up again is not announced again."""
NAMES_MAX = 4
TEXT_MAX = 200
NAME_MAX = 40
TEXT_LEAST = 24
"""Minimum columns of the text. If fewer are left, the line has no command."""


class Notice(NamedTuple):
    """One thing to announce: an item needs a human, an agent or a task has failed, or all tasks of a run have ended.

    ``item`` is the id of its item of the inbox, ``item_kind`` the kind of that item, ``since`` when it began; all are
    empty for ``all_done``, whose ``text`` counts what has ended. ``host`` is the other host of its agent.
    """

    kind: Literal["needs_human", "failed", "all_done"]
    run_id: str
    text: str = ""
    agent_id: str = ""
    name: str = ""
    item: str = ""
    item_kind: str = ""
    since: str = ""
    host: str = ""

    @property
    def link(self) -> str:
        """The command that leads to it."""
        return attach_command(self.agent_id, self.host) if self.agent_id else "orchestrator status"

    def as_dict(self) -> dict[str, str]:
        return {**self._asdict(), "link": self.link}


class RunWork(NamedTuple):
    """How many tasks of a run have not ended, ended in ``result``, or in ``error``; canceled ones are not counted."""

    unfinished: int
    results: int
    errors: int

    @property
    def ended(self) -> int:
        return self.results + self.errors


NO_WORK = RunWork(0, 0, 0)


class Announcements:
    """What was announced of a team, and what is due."""

    def __init__(self) -> None:
        self._known: dict[str, None] = {}  # ids of items, the oldest first
        self._due: dict[str, Notice] = {}
        self._runs: dict[str, RunWork] | None = None  # as last seen
        self._announced: dict[str, RunWork] = {}  # the work of each run when its end was announced last

    @property
    def waiting(self) -> bool:
        """Whether anything is due."""
        return bool(self._due)

    def concerns(self, run_id: str) -> bool:
        """Whether anything of the run is due."""
        return any(notice.run_id == run_id for notice in self._due.values())

    def seen(self, items: Iterable[Notice], runs: Mapping[str, RunWork], started: str) -> None:
        """Take everything that needs somebody now, and the work of all runs.

        What began before ``started`` (RFC 3339) is known: an earlier daemon has announced it. What is over before it
        was announced is not announced.
        """
        now = {notice.item: notice for notice in items}
        for item in [key for key, due in self._due.items() if due.kind != "all_done" and key not in now]:
            del self._due[item]
        for item, notice in now.items():
            if notice.since < started:
                self._remember(item)
            elif item not in self._known:
                self._due[item] = notice
        self._work(runs)

    def due(self, in_front: Collection[str] = ()) -> list[Notice]:
        """Take what is due, except of agents whose pane is ``in_front`` of a person: that stays due."""
        due = {key: notice for key, notice in self._due.items() if notice.agent_id not in in_front}
        for key, notice in due.items():
            del self._due[key]
            if notice.kind != "all_done":
                self._remember(key)
            elif self._runs is not None and notice.run_id in self._runs:
                self._announced[notice.run_id] = self._runs[notice.run_id]
        return list(due.values())

    def _work(self, runs: Mapping[str, RunWork]) -> None:
        if self._runs is None:
            self._announced = dict(runs)
        for run_id, work in runs.items():
            key, before = f"all_done {run_id}", self._announced.get(run_id, NO_WORK)
            if work.ended < before.ended:  # the files of ended agents were removed
                before = self._announced[run_id] = work
            if work.unfinished:
                self._due.pop(key, None)
            elif work.ended > before.ended:
                self._due[key] = Notice("all_done", run_id, _counted(work, before))
        self._runs = dict(runs)

    def _remember(self, item: str) -> None:
        self._known[item] = None
        if len(self._known) > REMEMBERED:
            del self._known[next(iter(self._known))]


class Announcement(NamedTuple):
    """What is said of notices that are announced together: a sign, one line, and the command that leads there."""

    sign: Glyph
    text: str
    link: str

    def line(self, width: int = 0, *, ascii_only: bool = False, project: str = "") -> str:
        """Sign, text and command in one line of at most ``width`` columns (0: any number).

        The text is cut to make room for the command. If fewer than ``TEXT_LEAST`` columns are left, the command is
        left out.
        ``project`` is the project's directory, for a reader in another directory.
        """
        sign, text, link = self.sign.ascii if ascii_only else self.sign.sign, self.text, self.link
        if project:
            text = f"{short_line(PurePath(project).name, NAME_MAX)}: {text}"
            link = link.replace("orchestrator", f"orchestrator -C {shlex.quote(project)}", 1)
        end = f" {'-' if ascii_only else '·'} {link}"
        whole = f"{sign} {text}{end}"
        if not width or columns_of(whole) <= width:
            return whole
        room = width - columns_of(f"{sign} {end}")
        if room < TEXT_LEAST:
            return f"{sign} {text}"
        return f"{sign} {cut(text, room, '...' if ascii_only else '…')}{end}"


def announcement(notices: Sequence[Notice]) -> Announcement:
    """The wording of these notices, of which there is at least one; what needs a human first."""
    needs = [notice for notice in notices if notice.kind == "needs_human"]
    failed = [notice for notice in notices if notice.kind == "failed" and notice.item_kind != "error"]
    errors = [notice for notice in notices if notice.kind == "failed" and notice.item_kind == "error"]
    done = [notice for notice in notices if notice.kind == "all_done"]
    parts = []
    if len(needs) == 1:
        parts.append(f"{needs[0].name}: {needs[0].text or 'needs you'}")
    elif needs:
        parts.append(_named(needs, "needs you", "agents need you"))
    if len(failed) == 1:
        parts.append(_with(f"{failed[0].name} failed", failed[0].text))
    elif failed:
        parts.append(_named(failed, "failed", "agents failed"))
    if len(errors) == 1:
        parts.append(_with(f"{errors[0].name}: task failed", errors[0].text))
    elif errors:
        parts.append(f"{len(errors)} tasks failed: {_names(errors)}")
    parts += [_with("all tasks have ended", notice.text) for notice in done]
    first = (needs or failed or errors or done)[0]
    several = len({notice.agent_id for notice in (*needs, *failed, *errors)}) > 1
    sign = NEEDS_HUMAN if needs else STATUS["failed"] if failed or errors else OUTCOME["result"]
    link = "orchestrator inbox" if several else first.link
    return Announcement(sign, short_line(" · ".join(parts), TEXT_MAX), link)


def _with(sentence: str, detail: str) -> str:
    return f"{sentence}: {detail}" if detail else sentence


def _named(notices: Sequence[Notice], singular: str, plural: str) -> str:
    count = len({notice.agent_id for notice in notices})
    return f"{_names(notices)} {singular}" if count == 1 else f"{count} {plural}: {_names(notices)}"


def _names(notices: Sequence[Notice]) -> str:
    names = list({notice.agent_id: notice.name for notice in notices}.values())
    more = len(names) - NAMES_MAX
    return ", ".join(names[:NAMES_MAX]) + (f" and {more} more" if more > 0 else "")


def _counted(work: RunWork, before: RunWork) -> str:
    counts = {"result": work.results - before.results, "error": work.errors - before.errors}
    return " ".join(f"{max(0, count)} {OUTCOME[outcome].sign}" for outcome, count in counts.items() if count > 0)
