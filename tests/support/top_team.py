"""A team for tests of top: snapshots made by hand, requests that are only noted, and the app over both."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

from orchestrator.base.errors import Conflict
from orchestrator.core.attention import in_order, totals
from orchestrator.faces.top.key_bindings import bindings_for
from orchestrator.faces.top.top_app import TopApp
from orchestrator.faces.top.top_dialogs import TextDialog
from orchestrator.faces.top.top_face import TopFace

AT = "2026-01-02T03:04:05.000Z"


def agent(agent_id, status="idle", **more):
    return {
        "agent_id": agent_id, "name": agent_id, "role": "", "engine": "claude", "status": status, "reason": "",
        "tmux_pane_id": "%1", "queue_depth": 0, "running_task_id": None, "running_task_title": None, "attempt": None,
        "since": AT, "finished": {}, "last_task": None, "cancel_requested": False, "last_event_seq": 1,
        "run_id": "run-1", "created_at": AT, "host": None, "needs_human": False, "waits_for": None, "usage": None,
        "diff": None, "screen_line": "", **more,
    }  # fmt: skip


def busy(agent_id, title, **more):
    return agent(agent_id, "busy", running_task_id=f"t-{agent_id}", running_task_title=title, attempt=1, **more)


def item(item_id, agent_id, kind="permission", **more):
    return {
        "id": item_id, "kind": kind, "agent_id": agent_id, "name": agent_id, "run_id": "run-1", "task_id": "t-1",
        "task_title": "clean the build dir", "since": AT, "until": None, "holds": True,
        "text": "asks to use Bash: rm -rf build", "tool": "Bash", "cwd": "/shop",
        "asked": "rm -rf build/c1 &&\nmake", "questions": None,
        "answers": ["approve", "always", "deny", "release"], "by": "hook", "cut": False, **more,
    }  # fmt: skip


def asking(agent_id, inbox_item, **more):
    waits = {key: inbox_item[key] for key in ("kind", "text", "since", "until")} | {"item": inbox_item["id"]}
    return busy(agent_id, "clean the build dir", needs_human=True, waits_for=waits, **more) | {"status": "blocked"}


def snapshot(agents=(), inbox=(), runs=(), *, live=True, version=1):
    return {
        "version": version, "boot": "b", "at": AT, "project": "/shop", "title": "shop", "live": live,
        "totals": totals(agents), "agents": in_order(agents), "inbox": list(inbox),
        "runs": list(runs),
    }  # fmt: skip


def team(**more):
    """One that asks, one at work, two at rest."""
    asks = item("aaaa0001", "c1")
    rows = [asking("c1", asks), busy("w01", "make check"), agent("unit"), agent("writer")]
    return snapshot(rows, [asks], **more)


class Snapshots:
    """What `SnapshotClient` is to the app."""

    def __init__(self, first):
        self._changed = threading.Condition()
        self._snapshot, self._number = first, 1

    def latest(self):
        return self._snapshot

    def publish(self, newer):
        with self._changed:
            self._snapshot, self._number = newer, self._number + 1
            self._changed.notify_all()

    def wait(self, number, timeout_s):
        with self._changed:
            self._changed.wait_for(lambda: self._number != number, min(timeout_s, 0.2))
            return self._number


class Requests:
    """Notes what top asks; answers as told."""

    def __init__(self):
        self.answered, self.commands, self.quiet, self.asked = [], [], [], []
        self.over = False
        self.said = self.refuses = ""
        self.lines = ["$ make", "ok"]
        self.tasks = []

    def answer(self, wanted, decision, text=""):
        self.answered.append((wanted, decision, text))
        if self.over:
            raise Conflict("item_over", f"item {wanted} is over: answered in its pane")
        return {"ok": True}

    def ask(self, method, params):
        self.asked.append((method, params))
        return {"agent_id": params["agent_id"], "tmux_pane_id": "%7", "tmux_socket": "/nowhere/socket"}

    def screen(self, agent_id, lines=0):
        self.asked.append(("screen", agent_id))
        return list(self.lines)

    def meta(self, agent_id):
        return {"agent_id": agent_id, "engine": "claude", "tasks": self.tasks, "status": "idle", "reason": ""}

    def command(self, *words, stdin=""):
        self.commands.append((words, stdin))
        if self.refuses:
            return 1, self.refuses
        return 0, "t-9: queued at position 1"

    def command_line(self, *words):
        return ["true", *words]

    def run_quietly(self, command):
        self.quiet.append(command)
        return 0, self.said


def top_of(first, *, root=Path("/nowhere"), keys=(), requests=None, **more):
    """The app over these; ``app.source`` publishes, ``app.requests`` noted."""
    requests = requests or Requests()
    source = Snapshots(first)
    app = TopApp(TopFace(root, requests, **more), source, bindings_for(dict(keys)))
    app.source, app.requests = source, requests
    return app


def lines_of_screen(app):
    """What the terminal shows, line by line."""
    width = app.size.width
    strips = app.screen._compositor.render_strips()
    return ["".join(segment.text for segment in strip)[:width].rstrip() for strip in strips]


def shown(app):
    """What the terminal shows."""
    return "\n".join(lines_of_screen(app))


def drive(app, play, size=(80, 24)):
    """Run the app headless and ``play`` on it."""

    async def run():
        async with app.run_test(size=size) as pilot:
            await settled(pilot)
            await play(pilot)

    asyncio.run(run())


async def settled(pilot):
    """Wait until the app and its threads have nothing more to do."""
    for _ in range(3):
        await pilot.pause()
        await asyncio.to_thread(lambda: None)
    await pilot.pause(0.05)


async def until(pilot, look):
    for _ in range(400):
        if look():
            return
        await pilot.pause(0.01)
    raise AssertionError("waited in vain:\n" + "\n".join(lines_of_screen(pilot.app)))


async def opened(pilot, *keys, dialog=TextDialog):
    """Press the keys, and wait until they have opened a dialog; one that was there before does not count."""
    before = pilot.app.screen
    await pilot.press(*keys)
    await until(pilot, lambda: pilot.app.screen is not before and isinstance(pilot.app.screen, dialog))
    await settled(pilot)


def team_of(app):
    """The app's main view."""
    return app._team
