"""Notifications of a team: what is sent where and when, and that a channel which fails or hangs harms nobody."""

from __future__ import annotations

import asyncio
import inspect
import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from orchestrator.base.errors import Environment
from orchestrator.core import blocked
from orchestrator.core.inbox_items import InboxItem, recorded_items
from orchestrator.core.screens import ScreenFinding
from orchestrator.team.people import notification_programs, notifications
from orchestrator.team.people.notification_programs import NotificationProgram, ProgramCall, ProgramFailed
from orchestrator.team.people.notifications import AGAIN_S, BATCH_S, LOOK_S, Notifications
from orchestrator.team.roster import delivery
from orchestrator.team.roster.agent_entry import AgentEntry
from orchestrator.tmux import clients
from orchestrator.tmux.clients import AttachedClient
from tests.support.team import Team, settle

pytestmark = pytest.mark.anyio


def terminal(name: str = "tty", pane: str = "%0", windows: tuple[str, ...] = ("@1",), **facts: Any) -> AttachedClient:
    usual: dict[str, Any] = {"width": 200, "focused": True, "utf8": True, "control": False, "version": (3, 3)}
    return AttachedClient(name, f"/dev/{name}", "$0", pane, frozenset(windows), **usual | facts)


class FakeTmux:
    """The terminals of the run's tmux server, and what they were shown."""

    def __init__(self) -> None:
        self.terminals = [terminal()]
        self.shown: list[tuple[str, str]] = []
        self.rung: list[str] = []
        self.needs: list[tuple[str, int]] = []
        self.looks = 0
        self.error: Environment | None = None

    def attached(self, _socket: object) -> list[AttachedClient]:
        self.looks += 1
        return self.terminals

    def show_message(self, _socket: object, client: AttachedClient, text: str) -> None:
        if self.error is not None:
            raise self.error
        self.shown.append((client.name, text))

    def ring(self, client: AttachedClient) -> bool:
        self.rung.append(client.name)
        return True

    def set_needs(self, _socket: object, window: str, _run_id: str, count: int) -> None:
        self.needs.append((window, count))


class Scene:
    """A team with notifications that have begun."""

    def __init__(self, root: Path, tmux: FakeTmux, **config: Any) -> None:
        self.team, self.tmux = Team(root, **config), tmux
        self.notifications = Notifications(self.team.roster, lambda entry: recorded_items(entry.state))

    def begin(self) -> None:
        self.team.roster.listeners.append(self.notifications.seen)
        self.notifications.begin()

    async def agent(self, name: str) -> AgentEntry:
        entry = await self.team.agent(name)
        entry.pane_id = f"%{name[1:]}"
        return entry

    async def block(self, entry: AgentEntry, reason: str = "asks to use Bash: make") -> None:
        at = notifications.rfc3339(self.team.clock.now())
        drafts = blocked.explained(entry.state, ScreenFinding("permission", reason), at=at)
        await self.team.roster.commit(entry, drafts)
        await settle()

    async def unblock(self, entry: AgentEntry) -> None:
        at = notifications.rfc3339(self.team.clock.now())
        await self.team.roster.commit(entry, blocked.unblock(entry.state, {"permission"}, at=at, reason="answered"))

    async def pass_time(self, seconds: float = LOOK_S + BATCH_S) -> None:
        await self.team.clock.advance(seconds)


@pytest.fixture
def tmux(monkeypatch: pytest.MonkeyPatch) -> FakeTmux:
    fake = FakeTmux()
    for name in ("attached", "show_message", "ring", "set_needs"):
        monkeypatch.setattr(clients, name, getattr(fake, name))

    async def direct(work: Callable[..., Any], *args: Any, **named: Any) -> Any:
        answer = work(*args, **named)
        return await answer if inspect.isawaitable(answer) else answer

    monkeypatch.setattr(asyncio, "to_thread", direct)
    return fake


@pytest.fixture
def scene(tmp_path: Path, tmux: FakeTmux) -> Iterator[Scene]:
    scene = Scene(tmp_path, tmux)
    yield scene
    scene.team.close()


async def test_an_agent_that_asks_is_announced_once_with_the_way_to_it(scene: Scene) -> None:
    scene.begin()
    entry = await scene.agent("a7")
    await scene.block(entry)
    assert scene.tmux.shown == []
    await scene.pass_time()
    assert scene.tmux.shown == [("tty", "◐ a7: asks to use Bash: make · orchestrator attach a7")]
    await scene.unblock(entry)
    await scene.pass_time(600)
    assert len(scene.tmux.shown) == 1
    await scene.block(entry)
    await scene.pass_time()
    assert len(scene.tmux.shown) == 2


async def test_what_comes_within_two_seconds_is_one_message(scene: Scene) -> None:
    scene.begin()
    for name in ("a7", "a8", "a9"):
        await scene.block(await scene.agent(name))
        await scene.pass_time(0.5)
    await scene.pass_time()
    assert [text for _, text in scene.tmux.shown] == ["◐ 3 agents need you: a7, a8, a9 · orchestrator inbox"]


async def test_a_question_that_is_answered_within_two_seconds_disturbs_nobody(scene: Scene) -> None:
    scene.begin()
    entry = await scene.agent("a7")
    await scene.block(entry)
    await scene.pass_time(1)
    await scene.unblock(entry)
    await scene.pass_time(60)
    assert scene.tmux.shown == []


async def test_a_pane_in_front_of_a_person_is_quiet_until_the_person_looks_elsewhere(scene: Scene) -> None:
    scene.begin()
    scene.tmux.terminals = [terminal(pane="%7"), terminal("other")]
    await scene.block(await scene.agent("a7"))
    await scene.pass_time(60)
    assert scene.tmux.shown == []
    scene.tmux.terminals = [terminal(pane="%1")]
    await scene.pass_time(AGAIN_S)
    assert len(scene.tmux.shown) == 1
    looks = scene.tmux.looks
    await scene.pass_time(600)
    assert scene.tmux.looks == looks


@pytest.mark.parametrize("facts", [{"focused": False}, {"control": True}])
async def test_a_pane_in_front_of_nobody_is_announced(scene: Scene, facts: dict[str, bool]) -> None:
    scene.begin()
    scene.tmux.terminals = [terminal(pane="%7", **facts)]
    await scene.block(await scene.agent("a7"))
    await scene.pass_time()
    assert len(scene.tmux.shown) == 1


async def test_the_terminals_of_the_runs_window_are_told_else_all_of_its_server(scene: Scene) -> None:
    scene.begin()
    scene.tmux.terminals = [terminal("near"), terminal("far", windows=("@5",))]
    await scene.block(await scene.agent("a7"))
    await scene.pass_time()
    assert [name for name, _ in scene.tmux.shown] == ["near"]
    scene.tmux.terminals = [
        terminal("far", windows=("@5",), width=400),
        terminal("old", windows=(), utf8=False, width=30),
    ]
    await scene.block(await scene.agent("a8"))
    await scene.pass_time()
    root = scene.team.roster.root
    assert scene.tmux.shown[1:] == [
        ("far", f"◐ {root.name}: a8: asks to use Bash: make · orchestrator -C {root} attach a8"),
        ("old", f"! {root.name}: a8: asks to use Bash: make"),
    ]


async def test_the_end_of_all_tasks_is_announced(scene: Scene) -> None:
    scene.begin()
    entry = await scene.agent("a7")
    roster = scene.team.roster
    await delivery.enqueue(roster, "a7", task_id="t-1", payload="x", req="m:1")
    await delivery.wait_for_command(roster, "a7", 1, timeout_s=0, age_s=0, req="w:1")
    await delivery.emit_event(roster, "a7", 1, kind="ack", task_id="t-1", payload=None, done=None, req="e:1")
    await scene.pass_time()
    assert scene.tmux.shown == []
    await delivery.emit_event(roster, "a7", 1, kind="result", task_id="t-1", payload="ok", done=None, req="e:2")
    assert not entry.state.unfinished
    await scene.pass_time()
    assert scene.tmux.shown == [("tty", "✓ all tasks have ended: 1 ✓ · orchestrator status")]


async def test_a_task_that_ended_in_error_is_announced_and_holds_nobody(scene: Scene) -> None:
    scene.begin()
    entry, roster = await scene.agent("a7"), scene.team.roster
    await delivery.enqueue(roster, "a7", task_id="t1", payload="make check", req="m:1")
    await delivery.enqueue(roster, "a7", task_id="t2", payload="make", req="m:2")
    await delivery.wait_for_command(roster, "a7", 1, timeout_s=0, age_s=0, req="w:1")
    await delivery.emit_event(
        roster, "a7", 1, kind="error", task_id="t1", payload={"error": "exit 2"}, done=None, req="e:1"
    )
    await scene.pass_time()
    assert scene.tmux.shown == [("tty", "✕ a7: task failed: make check: exit 2 · orchestrator attach a7")]
    await scene.pass_time(600)
    assert len(scene.tmux.shown) == 1 and {count for _, count in scene.tmux.needs} == {0}
    await scene.block(entry)
    await scene.pass_time()
    assert scene.tmux.needs[-1] == ("@1", 1)


async def test_what_an_earlier_daemon_announced_is_not_announced_again(scene: Scene) -> None:
    entry = await scene.agent("a7")
    await scene.block(entry)
    await scene.pass_time(1)
    later = Notifications(scene.team.roster, lambda entry: recorded_items(entry.state))
    scene.team.roster.listeners.append(later.seen)
    later.begin()
    await scene.pass_time(60)
    assert scene.tmux.shown == []
    await scene.block(await scene.agent("a8"))
    await scene.pass_time()
    assert [text[:4] for _, text in scene.tmux.shown] == ["◐ a8"]


async def test_a_hook_that_comes_back_to_the_next_daemon_is_no_news(scene: Scene) -> None:
    entry = await scene.agent("a7")
    await scene.block(entry)
    await scene.pass_time(1)

    def items(entry: AgentEntry) -> list[InboxItem]:
        """The same question as a new item, as the hook brings it."""
        return [replace(item, item_id="new", since="2099") for item in recorded_items(entry.state)]

    later = Notifications(scene.team.roster, items)
    later.begin()
    later.seen(entry)
    await scene.pass_time(60)
    assert scene.tmux.shown == []


async def test_a_clock_that_was_set_back_hides_nothing(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    scene.begin()
    clock = scene.team.clock
    now = clock.now
    monkeypatch.setattr(clock, "now", lambda: now() - notifications.timedelta(hours=3))
    await scene.block(await scene.agent("a7"))
    await scene.pass_time()
    assert len(scene.tmux.shown) == 1


async def test_the_count_of_agents_that_need_somebody_is_kept_and_taken_away(scene: Scene) -> None:
    scene.begin()
    entry, other = await scene.agent("a7"), await scene.agent("a8")
    await scene.pass_time()
    await scene.block(entry)
    await scene.block(other)
    await scene.pass_time()
    await scene.unblock(other)
    await scene.pass_time()
    assert scene.tmux.needs == [("@1", 0), ("@1", 2), ("@1", 1)]
    await scene.notifications.close()
    assert scene.tmux.needs[-1] == ("@1", 0)


async def test_without_tmux_nothing_is_shown_there(tmp_path: Path, tmux: FakeTmux) -> None:
    scene = Scene(tmp_path, tmux, notify=["bell"])
    scene.begin()
    await scene.block(await scene.agent("a7"))
    await scene.pass_time()
    assert (tmux.shown, tmux.rung, {count for _, count in tmux.needs}) == ([], ["tty"], {0})
    scene.team.close()


async def test_a_tmux_that_refuses_delays_nothing(scene: Scene) -> None:
    scene.begin()
    scene.tmux.error = Environment("tmux_failed", "tmux refused: usage")
    await scene.block(await scene.agent("a7"))
    await scene.pass_time()
    scene.tmux.error = None
    await scene.block(await scene.agent("a8"))
    await scene.pass_time()
    assert [text[:4] for _, text in scene.tmux.shown] == ["◐ a8"]


async def test_a_tmux_that_hangs_is_asked_once(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    scene.begin()
    answer: asyncio.Future[list[AttachedClient]] = asyncio.get_running_loop().create_future()
    asked: list[object] = []
    monkeypatch.setattr(clients, "attached", lambda socket: (asked.append(socket), answer)[1])
    await scene.block(await scene.agent("a7"))
    await scene.pass_time()
    await scene.block(await scene.agent("a8"))
    await scene.pass_time(600)
    assert len(asked) == 1
    answer.set_result([terminal()])
    await scene.pass_time(AGAIN_S)
    assert [text for _, text in scene.tmux.shown] == ["◐ 2 agents need you: a7, a8 · orchestrator inbox"]


async def test_a_machine_that_slept_makes_nothing_old(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    scene.begin()
    clock = scene.team.clock
    entry = await scene.agent("a7")
    await scene.block(entry)
    now = clock.now
    monkeypatch.setattr(clock, "now", lambda: now() + notifications.timedelta(hours=8))
    await scene.pass_time()
    assert len(scene.tmux.shown) == 1


# -- programs -------------------------------------------------------------------------------------------------------


def program(tmp_path: Path, body: str) -> list[str]:
    script = tmp_path / "notifier.py"
    script.write_text(f"import json, os, sys, time\n{body}\n")
    return [sys.executable, "-IS", str(script)]


async def gone_quiet(sender: NotificationProgram) -> None:
    """Wait until the program has nothing to do."""
    await asyncio.gather(*sender._tasks)


NOTICE = notifications.Notice("needs_human", "run-1", "asks", "c1", "c1", "i1", "permission", "2026")


async def test_the_users_command_gets_json_and_no_key_of_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, scene: Scene
) -> None:
    monkeypatch.setenv("OPENROUTER_API_KEY", "sk-or-secret")
    monkeypatch.setenv("ORCHESTRATOR_SECRET", "x")
    monkeypatch.setenv("HOME", str(tmp_path))
    body = (
        f"open({str(tmp_path / 'out')!r}, 'w').write(json.dumps([sys.stdin.read(), sorted(os.environ), os.getcwd()]))"
    )
    scene.team.config = scene.team.config.model_copy(
        update={"notify": ["command"], "notify_command": program(tmp_path, body)}
    )
    scene.begin()
    await scene.block(await scene.agent("a7"))
    await scene.pass_time()
    await gone_quiet(scene.notifications._command)
    text, names, where = json.loads((tmp_path / "out").read_text())
    message = json.loads(text)
    assert (message["v"], message["need_you"], message["link"]) == (1, 1, "orchestrator attach a7")
    assert message["notices"][0]["agent_id"] == "a7"
    assert message["notices"][0]["item"] == recorded_items(scene.team.roster.agents["a7"].state)[0].item_id
    assert not [name for name in names if "KEY" in name or name.startswith("ORCHESTRATOR")]
    assert Path(where) == tmp_path


async def test_one_program_at_a_time_and_the_rest_together(tmp_path: Path) -> None:
    calls: list[int] = []
    reasons: list[str] = []

    def call(notices: Any) -> ProgramCall:
        calls.append(len(notices))
        return ProgramCall(["true"])

    sender = NotificationProgram(call, reasons.append)
    for _ in range(5):
        sender.send([NOTICE])
    await gone_quiet(sender)
    sender.send([NOTICE])
    await gone_quiet(sender)
    assert calls == [5, 1]
    assert reasons == ["", ""]


async def test_a_program_below_the_home_directory_may_be_named_with_a_tilde(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "tool").write_text('#!/bin/sh\necho "$1" > ran\n')
    (tmp_path / "tool").chmod(0o755)
    await notification_programs.run(ProgramCall(["~/tool", "~/x $(id)"]), 30.0)
    assert (tmp_path / "ran").read_text() == "~/x $(id)\n"


@pytest.mark.parametrize(
    ("argv", "limit_s"),
    [
        (["/none/such"], 9.0),
        (["false"], 9.0),
        ([""], 9.0),
        (["a\0b"], 9.0),
        (["sh", "-c", "sleep 600 & sleep 600"], 0.05),
        (
            [sys.executable, "-c", "import signal, time; signal.signal(15, 0 or signal.SIG_IGN); time.sleep(600)"],
            0.05,
        ),
    ],
)
async def test_a_program_that_fails_or_hangs_is_ended_and_reported(argv: list[str], limit_s: float) -> None:
    reasons: list[str] = []
    sender = NotificationProgram(lambda _: ProgramCall(argv, b"x" * 1_000_000), reasons.append, limit_s)
    sender.send([NOTICE])
    await gone_quiet(sender)
    assert len(reasons) == 1
    assert reasons[0]


async def test_a_program_that_reads_nothing_is_no_failure() -> None:
    await notification_programs.run(ProgramCall(["true"], b"x" * 1_000_000), 30.0)


def test_the_desktops_program_gets_its_text_as_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tool = tmp_path / "notify-send"
    tool.write_text("#!/bin/sh\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(sys, "platform", "linux")
    call = notification_programs.desktop_call("-x", "<b>$(id)</b> & `x`\n--icon=y")
    assert call.argv == [
        str(tool), "--app-name=orchestrator", "--", "-x", "&lt;b&gt;$(id)&lt;/b&gt; &amp; `x`\n--icon=y"
    ]  # fmt: skip
    monkeypatch.setenv("PATH", str(tmp_path / "none"))
    with pytest.raises(ProgramFailed):
        notification_programs.desktop_call("a", "b")


def test_a_mac_is_notified_by_a_script_that_takes_its_text_as_arguments(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tool = tmp_path / "osascript"
    tool.write_text("#!/bin/sh\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(notification_programs, "MACOS", True)
    argv = notification_programs.desktop_call('na"me', 'asks" & do shell script').argv
    assert argv[-3:] == ["--", 'na"me', 'asks" & do shell script']
    assert not [word for word in argv[:-3] if "asks" in word or "shell" in word]


def test_the_session_bus_is_known_without_its_variable(tmp_path: Path) -> None:
    (tmp_path / "bus").touch()
    env = {"XDG_RUNTIME_DIR": str(tmp_path), "GITHUB_TOKEN": "x", "LC_ALL": "C"}
    kept = notification_programs.program_environment(env)
    assert kept == {
        "XDG_RUNTIME_DIR": str(tmp_path),
        "LC_ALL": "C",
        "DBUS_SESSION_BUS_ADDRESS": f"unix:path={tmp_path}/bus",
    }
