"""Looking at silent agents: real records and a clock that moves by hand, with screens instead of tmux."""

import asyncio
import dataclasses
import json
import os
from datetime import datetime, timedelta

import pytest

from orchestrator.base.clock import rfc3339
from orchestrator.core import decisions, records, supervision
from orchestrator.core.screens import LogFinding, Screen, ScreenFinding, ScreenPattern, seconds_left
from orchestrator.engines import table
from orchestrator.team.life import cli_logs, creation, readiness
from orchestrator.team.life.screen_watch import EVERY_S, UNSEEN_LOOKS, ScreenWatch
from orchestrator.team.roster import delivery
from orchestrator.team.roster.agent_views import meta_of, row, status_of
from tests.support.hook_channels import composer
from tests.support.pure_team import BUDGET
from tests.support.team import Team, settle

pytestmark = pytest.mark.anyio

ASKS = Screen(lines=("Do you want to run rm?", "❯ 1. Yes"))
LIMITED = Screen(lines=("usage limit reached, resets at 15:00",))
RETRYING = Screen(lines=("API Error 529, retrying in 8 s",))
TRUST = Screen(lines=("Do you trust this folder?",))
BUSY = Screen(lines=("thinking",))
LINE = Screen(lines=("thinking", ">"))  # with an empty input line
HIDDEN = Screen(lines=("thinking", "a menu"))
PATTERNS = (
    ScreenPattern("permission", r"Do you want to run (\S+)\?", "asks to run {1}"),
    ScreenPattern("trust", r"Do you trust this folder", "asks whether the folder is trusted"),
    ScreenPattern("rate_limit", r"usage limit reached, resets at (\S+)", "usage limit", until=1),
    ScreenPattern("api_error", r"API Error (\d+), retrying in (\d+) s", "error {1}, tries again in {2} s"),
)


class Panes:
    """What `TeamPanes` is to the looks: the screens are the test's."""

    def __init__(self):
        self.screens = {}
        self.looks = []  # the agents of each look
        self.lines = ["last words"]

    async def look(self, run, entries):
        self.looks.append([entry.agent_id for entry in entries])
        return {entry.agent_id: self.screens[entry.agent_id] for entry in entries if entry.agent_id in self.screens}

    async def last_lines(self, run, pane_id):
        return self.lines


class Scene:
    """A team whose engine has patterns, and the watch over its screens."""

    def __init__(self, team):
        self.team = team
        self.panes = Panes()
        self.tended = []
        self.screen_watch = ScreenWatch(team.roster, self.panes, self.tended.append)

    async def agent(self, name="a1", *, ready=True, screen=None):
        entry = await self.team.agent(name, ready=ready)
        entry.pane_id, entry.process = f"%{name}", "alive"
        if screen is not None:
            self.panes.screens[name] = screen
        self.screen_watch.begin(entry)
        return entry

    async def looks(self, count):
        """Let the time of so many looks pass."""
        for _ in range(count):
            await self.team.clock.advance(EVERY_S)
            for _ in range(3):
                await settle()

    def records(self, agent="a1"):
        found = [json.loads(line) for line in self.team.paths.outbox(agent).read_text().splitlines()]
        for record in found:
            records.OUTBOX.validate_python(record)
        return found

    def told(self, agent="a1"):
        """What the records say of blocking: (type, kind, reason)."""
        kinds = ("blocked", "unblocked")
        return [(r["type"], r.get("kind"), r["reason"]) for r in self.records(agent) if r["type"] in kinds]


@pytest.fixture
async def scene(tmp_path, monkeypatch):
    shell = dataclasses.replace(table.ENGINES["shell"], patterns=PATTERNS, composer=composer)
    monkeypatch.setitem(table.ENGINES, "shell", shell)
    team = Team(tmp_path, ready_timeout_s=60.0)
    made = Scene(team)
    yield made
    await made.screen_watch.close()
    team.close()


def wait(scene, agent="a1", req="w:1"):
    return asyncio.ensure_future(
        delivery.wait_for_command(scene.team.roster, agent, 1, timeout_s=45.0, age_s=0.0, req=req)
    )


# -- what is looked at --------------------------------------------------------------------------------------------


async def test_a_dialog_of_a_waiting_request_is_gone_once_the_input_line_is_back_twice(scene):
    entry, gone, items = await scene.agent(screen=ASKS), [], ["i1"]
    scene.screen_watch.waits_with_dialog = lambda _entry: items[-1]
    scene.screen_watch.on_dialog_gone = lambda entry: (gone.append(entry.agent_id), items.append(""))
    await scene.looks(3)
    for screen in (LINE, HIDDEN, LINE, ASKS, LINE):  # only two looks in a row count, and the dialog begins them anew
        scene.panes.screens["a1"] = screen
        await scene.looks(1)
    assert gone == []
    await scene.looks(1)
    assert gone == ["a1"]
    await scene.looks(5)
    assert gone == ["a1"] and entry.agent_id == "a1"


async def test_a_parked_agent_whose_subagent_asks_is_blocked_while_its_dialog_shows(scene):
    entry = await scene.agent(screen=ASKS)
    entry.finding = ScreenFinding("permission", "asks to run rm")
    await scene.looks(2)
    entry.turn = "parked"
    await scene.looks(2)
    assert "permission" in entry.state.blocks
    scene.panes.screens["a1"] = LINE
    await scene.looks(2)
    assert "permission" not in entry.state.blocks


async def test_a_dialog_that_was_never_seen_is_waited_for_longer(scene):
    gone, items = [], ["i1"]
    scene.screen_watch.waits_with_dialog = lambda _entry: items[-1]
    scene.screen_watch.on_dialog_gone = lambda entry: gone.append(entry.agent_id)
    await scene.agent(screen=LINE)
    await scene.looks(UNSEEN_LOOKS - 1)
    items.append("i2")  # another request: its looks begin anew
    await scene.looks(UNSEEN_LOOKS - 1)
    assert gone == []
    await scene.looks(1)
    assert gone == ["a1"]


async def test_an_agent_inside_wait_for_command_is_never_looked_at(scene):
    await scene.agent(screen=ASKS)
    call = wait(scene)
    await scene.looks(10)
    assert scene.panes.looks == []
    assert not call.done()
    call.cancel()


async def test_a_silent_agent_is_looked_at_after_five_seconds_and_again(scene):
    entry = await scene.agent(screen=BUSY)
    entry.called(scene.team.clock)
    await scene.looks(2)
    assert scene.panes.looks == []
    await scene.looks(3)
    assert scene.panes.looks == [["a1"]] * 3
    assert scene.told() == []


async def test_an_engine_without_patterns_is_not_looked_at(scene, monkeypatch):
    monkeypatch.setitem(table.ENGINES, "shell", dataclasses.replace(table.ENGINES["shell"], patterns=()))
    await scene.agent(screen=ASKS)
    await scene.agent("a2", screen=ASKS, ready=False)
    await scene.looks(6)
    assert scene.panes.looks == []


async def test_all_agents_of_a_run_take_one_look(scene):
    for name in ("a1", "a2", "a3"):
        await scene.agent(name, screen=BUSY, ready=False)
    await scene.looks(1)
    assert [sorted(names) for names in scene.panes.looks] == [["a1", "a2", "a3"]]


async def test_nothing_ticks_when_no_agent_lives(scene):
    saves = scene.team.roster.checkpoints._look  # their moment depends on the disk

    def alarms():
        return [one for one in scene.team.clock.alarms if not one.canceled and one.callback != saves]

    entry = await scene.agent(screen=BUSY)
    await scene.looks(1)
    assert alarms()
    entry.process = "gone"
    await scene.looks(2)
    assert alarms() == []


# -- what a look means --------------------------------------------------------------------------------------------


async def test_what_two_looks_explain_is_recorded_once_and_lifted_when_two_looks_miss_it(scene):
    entry = await scene.agent(screen=ASKS)
    await scene.looks(3)
    assert scene.told() == []
    await scene.looks(5)
    blocked = ("blocked", "permission", "asks to run rm")
    assert scene.told() == [blocked]
    assert status_of(entry, scene.team.clock) == ("blocked", "asks to run rm")
    scene.panes.screens["a1"] = BUSY
    await scene.looks(1)
    assert scene.told() == [blocked]
    await scene.looks(4)
    assert scene.told() == [blocked, ("unblocked", "permission", "no longer on the screen")]
    assert status_of(entry, scene.team.clock)[0] == "unknown"


async def test_what_only_one_look_shows_is_nothing(scene):
    await scene.agent(screen=BUSY)
    await scene.looks(4)
    for screen in (ASKS, BUSY, TRUST, BUSY, ASKS):
        scene.panes.screens["a1"] = screen
        await scene.looks(1)
    assert scene.told() == []


async def test_two_looks_with_work_between_them_are_not_two_in_a_row(scene):
    entry = await scene.agent(screen=ASKS)
    for _ in range(3):
        await scene.looks(3)
        assert len(scene.panes.looks) == 1
        scene.panes.looks.clear()
        entry.called(scene.team.clock)
    assert scene.told() == []


async def test_a_call_of_the_agent_lifts_it_at_once(scene):
    await scene.agent(screen=ASKS)
    await scene.looks(5)
    call = wait(scene)
    await settle()
    assert scene.told()[-1] == ("unblocked", "permission", "it called")
    call.cancel()


async def test_another_question_is_told_again_and_a_countdown_is_not(scene):
    await scene.agent(screen=ASKS)
    await scene.looks(5)
    scene.panes.screens["a1"] = Screen(lines=("Do you want to run dd?",))
    await scene.looks(3)
    scene.panes.screens["a1"] = RETRYING
    await scene.looks(2)
    scene.panes.screens["a1"] = Screen(lines=("API Error 529, retrying in 2 s",))
    await scene.looks(3)
    assert scene.told() == [
        ("blocked", "permission", "asks to run rm"),
        ("blocked", "permission", "asks to run dd"),
        ("unblocked", "permission", "no longer on the screen"),
        ("blocked", "api_error", "error 529, tries again in 8 s"),
    ]


async def test_a_limit_keeps_its_end_everywhere(scene):
    entry = await scene.agent(screen=LIMITED)
    await scene.looks(5)
    (record,) = [record for record in scene.records() if record["type"] == "blocked"]
    assert (record["kind"], record["until"], record["by"]) == ("rate_limit", "15:00", "orchestrator")
    since = record["at"]
    shown = {"kind": "rate_limit", "reason": "usage limit", "until": "15:00", "since": since}
    assert meta_of(scene.team.roster, entry)["blocked"] == shown
    assert row(scene.team.roster, entry)["status"] == "blocked"
    assert row(scene.team.roster, entry)["reason"] == "usage limit"
    scene.team.roster._publish(scene.team.roster.runs["run-1"])
    told = scene.team.roster.runs["run-1"].journal.since(0, 100, 1 << 20)[0][-1]
    records.BROADCAST.validate_python(told)
    assert {key: told[key] for key in ("type", "kind", "until", "reason")} == {
        "type": "blocked", "kind": "rate_limit", "until": "15:00", "reason": "usage limit",
    }  # fmt: skip


async def test_a_countdown_on_the_screen_is_recorded_as_the_time_of_its_end(scene, monkeypatch):
    counting = ScreenPattern("rate_limit", r"retrying in ([\dhms ]+)$", "usage limit", until=1)
    shell = dataclasses.replace(table.ENGINES["shell"], patterns=(counting,))
    monkeypatch.setitem(table.ENGINES, "shell", shell)
    await scene.agent(screen=Screen(lines=("retrying in 1m 5s",)))
    await scene.looks(5)
    (record,) = [record for record in scene.records() if record["type"] == "blocked"]
    left = datetime.fromisoformat(record["until"]) - datetime.fromisoformat(record["at"])
    assert left == timedelta(seconds=65)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("17s", 17),
        ("1m 5s", 65),
        ("1h 2m", 3720),
        ("20 seconds", 20),
        ("1.5s", 1.5),
        ("300ms", 0.3),
        ("2 hours", 7200),
    ],
)
def test_an_amount_of_time_is_read(text, seconds):
    assert seconds_left(text) == pytest.approx(seconds)


@pytest.mark.parametrize("text", ["", "2:08pm (UTC)", "15:00", "tomorrow", "5 soon", "s", "2026-01-01T00:00:00Z"])
def test_a_time_of_day_is_no_amount(text):
    assert seconds_left(text) is None


async def test_the_screen_does_not_lift_what_the_delivery_rule_says(scene):
    entry = await scene.agent(screen=ASKS)
    await delivery.enqueue(scene.team.roster, "a1", task_id="t1", payload=1, req="m:1")
    call = wait(scene)
    await settle()
    assert call.done()
    await delivery.emit_event(
        scene.team.roster, "a1", 1, kind="ack", task_id="t1", payload=None, done=None, req="e:1"
    )
    for n in range(4):  # three redeliveries, then the wait that holds
        last = wait(scene, req=f"w:{n + 2}")
        await scene.team.clock.advance(3.0)
    last.cancel()
    await settle()
    assert entry.state.blocks.keys() == {""}
    await scene.looks(5)
    assert entry.state.blocked.kind == "permission"
    scene.panes.screens["a1"] = BUSY
    await scene.looks(3)
    assert entry.state.blocks.keys() == {""}
    assert status_of(entry, scene.team.clock) == ("blocked", "no terminal event")


async def test_what_a_hook_tells_needs_no_second_look_and_the_screen_does_not_lift_it(scene):
    entry = await scene.agent(screen=BUSY)
    entry.called(scene.team.clock)
    entry.finding = ScreenFinding("permission", "asks to use Bash")
    await scene.looks(1)
    assert scene.told() == [("blocked", "permission", "asks to use Bash")]
    await scene.looks(5)
    assert len(scene.told()) == 1
    entry.finding = None  # a later word of the hook
    await scene.looks(2)
    assert scene.told()[-1] == ("unblocked", "permission", "no longer on the screen")


async def test_once_the_screen_shows_what_the_hook_told_it_says_when_it_is_gone(scene):
    entry = await scene.agent(screen=ASKS)
    entry.finding = ScreenFinding("permission", "asks to use Bash")
    await scene.looks(3)
    assert entry.finding is None
    scene.panes.screens["a1"] = BUSY
    await scene.looks(2)
    assert scene.told()[-1][0] == "unblocked"


async def test_what_the_clis_own_log_shows_counts_while_the_screen_explains_nothing(scene, monkeypatch):
    def explain_log(text):
        at, _, kind = text.strip().rpartition("\n")[2].partition(" ")
        return LogFinding(at, ScreenFinding(kind, "limited", "20s"), 60.0) if kind else None

    async def looks(count):
        for _ in range(count):
            await scene.looks(1)
            await asyncio.gather(*scene.screen_watch._tasks)  # the log is read in a thread

    shell = dataclasses.replace(table.ENGINES["shell"], log="cli.log", explain_log=explain_log)
    monkeypatch.setitem(table.ENGINES, "shell", shell)
    entry = await scene.agent(screen=BUSY)
    log = scene.team.paths.engine_dir("a1") / "cli.log"
    log.parent.mkdir(exist_ok=True)
    log.write_text(f"{rfc3339(scene.team.clock.now())} rate_limit\n")
    await looks(5)
    assert scene.told() == [("blocked", "rate_limit", "limited")]
    assert entry.state.blocked.until == "2026-01-01T00:17:00.000Z"
    await looks(30)  # nothing more was logged: it goes on
    assert scene.told()[1:] == [("unblocked", "rate_limit", "no longer on the screen")]
    # What was logged before the agent's last call is over.
    await scene.team.clock.advance(1.0)
    log.write_text(f"{rfc3339(scene.team.clock.now())} rate_limit\n")
    await scene.team.clock.advance(1.0)
    entry.touch(scene.team.clock)
    await looks(6)
    assert len(scene.told()) == 2
    log.write_text("x" * (cli_logs.MOST_BYTES + 1))
    await looks(1)
    assert log.read_text() == ""


def test_only_a_regular_file_is_a_log(tmp_path):
    for odd in (tmp_path / "absent", tmp_path / "link", tmp_path / "pipe", tmp_path):
        if odd.name == "link":
            odd.symlink_to("/etc/passwd")
        elif odd.name == "pipe":
            os.mkfifo(odd)
        assert cli_logs.end_of(odd) == ""
        cli_logs.empty_if_long(odd)
    log = tmp_path / "log"
    log.write_bytes(b"a" * cli_logs.MOST_BYTES + b"\xff end")
    assert cli_logs.end_of(log).endswith("\ufffd end") and len(cli_logs.end_of(log)) == cli_logs.END_BYTES


async def test_a_question_that_the_screen_names_less_exactly_is_lifted_by_the_screen(scene):
    entry = await scene.agent(screen=ASKS)
    entry.finding = ScreenFinding("dialog", "asks a question: Which one?")
    await scene.looks(6)
    assert scene.told() == [("blocked", "dialog", "asks a question: Which one?")]
    assert entry.finding is None
    scene.panes.screens["a1"] = BUSY
    await scene.looks(2)
    assert scene.told()[1:] == [("unblocked", "dialog", "no longer on the screen")]


async def test_of_a_parked_agent_only_a_human_and_a_stale_hook_are_looked_for(scene, monkeypatch):
    row_ = dataclasses.replace(table.ENGINES["shell"], human_queued=r"Queued \(", title_idle=r"^◇")
    monkeypatch.setitem(table.ENGINES, "shell", row_)
    seen = []
    scene.screen_watch.on_human = lambda entry: seen.append(("human", entry.agent_id))
    scene.screen_watch.on_stale = lambda entry: seen.append(("stale", entry.agent_id))
    entry = await scene.agent(screen=ASKS._replace(title="✦ Working", lines=(*ASKS.lines, ">")))
    entry.turn = "parked"
    await scene.looks(5)
    assert seen == []
    assert scene.told() == []
    scene.panes.screens["a1"] = Screen(title="◇ Ready", lines=("x",))
    await scene.looks(1)
    assert seen == []  # the title may lag behind for one look
    await scene.looks(1)
    assert seen == [("stale", "a1")]
    scene.panes.screens["a1"] = Screen(title="✦ Working", lines=("  Queued (press ↑ to edit):",))
    await scene.looks(1)
    assert seen[-1] == ("human", "a1")


async def test_who_parks_is_not_blocked_by_what_its_screen_still_shows(scene, monkeypatch):
    monkeypatch.setitem(table.ENGINES, "shell", dataclasses.replace(table.ENGINES["shell"], title_idle="^◇"))
    entry = await scene.agent(screen=LIMITED)
    await scene.looks(5)
    entry.turn = "parked"
    await scene.looks(1)
    assert scene.told()[-1] == ("unblocked", "rate_limit", "it is parked")
    assert status_of(entry, scene.team.clock)[0] == "parked"


async def test_a_dead_pane_explains_nothing(scene):
    await scene.agent(screen=ASKS._replace(dead=True))
    await scene.looks(6)
    assert scene.told() == []


# -- readiness ----------------------------------------------------------------------------------------------------


async def test_a_starting_agent_is_blocked_by_a_dialog_and_goes_on_when_it_is_answered(scene):
    entry = await scene.agent(ready=False, screen=TRUST)
    await scene.looks(3)
    assert status_of(entry, scene.team.clock) == ("blocked", "asks whether the folder is trusted")
    call = wait(scene)
    await settle()
    assert [record["type"] for record in scene.records()] == ["starting", "blocked", "ready", "unblocked"]
    call.cancel()


async def test_a_cli_that_does_not_get_ready_in_time_is_failed_with_its_cause(scene):
    entry = await scene.agent(ready=False, screen=TRUST)
    scene.panes.lines = ["Do you trust this folder?"]
    await scene.looks(29)
    assert entry.state.life == "starting"
    await scene.looks(1)
    assert entry.state.life == "failed"
    record = scene.records()[-1]
    assert record["type"] == "failed"
    assert record["code"] == "not_ready"
    assert record["last_lines"] == ["Do you trust this folder?"]
    cause = "it asks whether its folder is trusted (asks whether the folder is trusted)"
    assert record["cause"] == cause
    assert record["reason"] == f"{cause}; not ready within 60 s"
    assert scene.tended == [entry]
    error = creation._as_error(entry, entry.state.failure, record["last_lines"])
    assert (error.code, error.facts["cause"], error.facts["last_lines"]) == (
        "not_ready", cause, ["Do you trust this folder?"],
    )  # fmt: skip


async def test_a_cli_that_starts_slowly_by_nature_gets_the_time_its_row_asks_for(scene, monkeypatch):
    entry = await scene.agent(ready=False, screen=BUSY)
    name = str(entry.state.spec["engine"])
    monkeypatch.setitem(table.ENGINES, name, dataclasses.replace(table.ENGINES[name], slow_start=2.0))
    await scene.looks(59)
    assert entry.state.life == "starting"
    await scene.looks(1)
    assert "within 120 s" in scene.records()[-1]["reason"]


@pytest.mark.parametrize(
    ("listed", "cause"),
    [(0, "has not asked our MCP server for tools"), (1, "its model has not called wait_for_command")],
)
async def test_without_a_word_on_the_screen_the_cause_is_how_far_it_got(scene, listed, cause):
    entry = await scene.agent(ready=False, screen=BUSY)
    entry.listed_epoch = listed
    await scene.looks(31)
    assert cause in scene.records()[-1]["cause"]


async def test_a_version_nobody_tried_is_named(scene, monkeypatch):
    row_ = dataclasses.replace(table.ENGINES["shell"], program="shell-cli", tested_versions=("1.0.0",))
    monkeypatch.setitem(table.ENGINES, "shell", row_)
    monkeypatch.setattr(readiness, "version_of", lambda program, env: "2.0.0")
    entry = await scene.agent(ready=False, screen=BUSY)
    await scene.looks(30)
    await asyncio.gather(*scene.screen_watch._tasks)  # the question runs in a thread
    assert entry.state.life == "failed"
    assert scene.records()[-1]["cause"].endswith("shell-cli 2.0.0 is not a version we have tested (1.0.0)")


async def test_an_agent_that_got_ready_or_was_asked_to_stop_is_not_failed(scene):
    ready = await scene.agent()
    stopping = await scene.agent("a2", ready=False)
    scene.team.roster.write(
        stopping, decisions.stop(stopping.state, force=False, req=None, at="2026-01-01T00:00:00.000Z")
    )
    await scene.looks(40)
    assert (ready.state.life, stopping.state.life) == ("ready", "starting")


async def test_the_time_to_get_ready_counts_anew_for_a_next_life(scene):
    entry = await scene.agent()
    await scene.looks(20)
    await scene.team.roster.commit(
        entry,
        supervision.exited(entry.state, at="2026-01-01T00:00:00.000Z", how="exit", reason="x", code=1),
    )
    await scene.team.roster.commit(
        entry, supervision.after_exit(entry.state, at="2026-01-01T00:00:00.000Z", budget=BUDGET)
    )
    assert (entry.state.life, entry.state.epoch) == ("starting", 2)
    await scene.looks(5)
    scene.screen_watch.begin(entry)
    await scene.looks(29)
    assert entry.state.life == "starting"
    await scene.looks(1)
    assert entry.state.life == "failed"


async def test_a_daemon_that_stood_still_gives_a_starting_cli_its_time(scene):
    entry = await scene.agent(ready=False, screen=TRUST)
    await scene.looks(25)
    scene.team.clock.seconds += 3600
    await scene.looks(2)
    assert entry.state.life == "starting"
    await scene.looks(10)
    assert entry.state.life == "failed"
