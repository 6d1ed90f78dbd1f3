"""Every word a hook can be told, over real journals and a clock that moves by hand."""

import asyncio
import dataclasses
import json
import random

import pytest

from orchestrator.core import blocked, decisions, records, supervision
from orchestrator.core.screens import ScreenFinding
from orchestrator.engines.table import ENGINES
from orchestrator.team.roster import delivery
from orchestrator.team.roster.agent_views import status_of
from orchestrator.team.wake.parking import AFTER_LISTED_S, HEED_S, LISTED_S
from tests.support.hook_channels import PLUGIN, ROW, Line, Lot
from tests.support.pure_team import BUDGET
from tests.support.team import Team, settle

pytestmark = pytest.mark.anyio


@pytest.fixture
async def lot(tmp_path, monkeypatch):
    monkeypatch.setitem(ENGINES, "parker", ROW)
    monkeypatch.setitem(ENGINES, "plugged", PLUGIN)
    team = Team(tmp_path)
    lot = Lot(team)
    yield lot
    await lot.parking.close()
    team.close()


def wait(lot, timeout_s=0.0, req="w:1"):
    call = delivery.wait_for_command(lot.team.roster, "a1", 1, timeout_s=timeout_s, age_s=0.0, req=req, parks=True)
    return asyncio.ensure_future(call)


async def enqueue(lot, task_id="t-1"):
    await delivery.enqueue(lot.team.roster, "a1", task_id=task_id, payload=1, req=f"m:{task_id}")
    await settle()


async def emit(lot, kind, req="e:1"):
    await delivery.emit_event(lot.team.roster, "a1", 1, kind=kind, task_id=None, payload=None, done=None, req=req)


def outbox(lot, *types):
    found = [json.loads(line) for line in lot.team.paths.outbox("a1").read_text().splitlines()]
    for record in found:
        records.OUTBOX.validate_python(record)
    return [record for record in found if not types or record["type"] in types]


def log(lot):
    """The parks and wakes on disk, each wake with its reason."""
    return [record.get("reason", "parked") for record in outbox(lot, "parked", "woken")]


async def test_a_park_is_ended_by_a_task_and_by_nothing_else(lot):
    await lot.begin()
    line = await lot.tell("Stop")
    assert (line.said, lot.entry.turn, log(lot)) == (None, "parked", ["parked"])
    await lot.team.clock.advance(3600)
    lot.entry.changed.notify()
    await settle()
    assert line.said is None
    await enqueue(lot)
    assert line.said == "wake"
    assert "wait_for_command" in line.words[0]["reason"]
    assert "t-1" not in line.words[0]["reason"]
    assert log(lot) == ["parked", "a task waits"]
    assert lot.entry.turn == "working"


async def test_a_task_that_waits_already_wakes_at_once_and_leaves_no_record(lot):
    await lot.begin()
    await enqueue(lot)
    assert (await lot.tell("Stop")).said == "wake"
    assert log(lot) == []


async def test_a_stop_and_a_cancel_end_a_park(lot):
    await lot.begin()
    line = await lot.tell("Stop")
    await lot.team.roster.commit(
        lot.entry, decisions.stop(lot.entry.state, force=False, req="m:1", at="2026-01-01T00:00:00.000Z")
    )
    await settle()
    assert line.said == "wake"
    assert log(lot)[-1] == "it must stop"
    assert (await wait(lot))["command"] == {"kind": "stop"}
    assert (await lot.tell("Stop")).said == "release"


async def test_an_agent_that_keeps_its_task_is_told_three_times_and_then_blocked(lot):
    await lot.begin()
    await enqueue(lot)
    await wait(lot)
    for _ in range(3):
        line = await lot.tell("Stop")
        assert line.said == "wake"
        assert "t-1" in line.words[0]["reason"]
        assert len(line.words[0]["reason"]) <= 500
    assert (await lot.tell("Stop")).said == "release"
    assert outbox(lot, "blocked")[0]["reason"] == "ends its turns without reporting"
    assert lot.entry.turn == "ended"
    await emit(lot, "result")
    assert [record["type"] for record in outbox(lot)][-2:] == ["result", "unblocked"]
    assert (await lot.tell("Stop")).said is None


async def test_any_call_in_between_begins_the_count_anew(lot):
    await lot.begin()
    await enqueue(lot)
    await wait(lot)
    for number in range(9):
        assert (await lot.tell("Stop")).said == "wake", number
        await emit(lot, "progress", req=f"e:{number}")
    assert outbox(lot, "blocked") == []


async def test_an_agent_that_never_called_is_told_to_and_released_in_the_end(lot):
    await lot.begin(ready=False)
    assert [(await lot.tell("Stop")).said for _ in range(4)] == ["wake", "wake", "wake", "release"]
    assert outbox(lot, "blocked")[0]["reason"] == "ends its turns without a call"
    assert outbox(lot, "parked", "woken") == []


async def test_the_newest_hook_wins(lot):
    await lot.begin()
    first = await lot.tell("Stop")
    second = await lot.tell("Stop")
    assert (first.said, second.said) == ("release", None)
    await lot.end(first)
    assert lot.entry.turn == "parked"
    await enqueue(lot)
    assert second.said == "wake"
    assert first.words == [{"answer": "release"}]
    assert log(lot) == ["parked", "a task waits"]


async def test_a_human_who_types_is_let_in_at_once(lot):
    await lot.begin()
    line = await lot.tell("Stop")
    prompt = await lot.tell("UserPromptSubmit")
    assert (line.said, prompt.said, lot.entry.turn) == ("release", "none", "working")
    assert log(lot) == ["parked", "a message was typed"]
    assert (await lot.tell("Stop")).said is None


async def test_a_queued_message_and_an_esc_seen_on_the_screen_let_the_turn_end(lot):
    await lot.begin()
    line = await lot.tell("Stop")
    lot.parking.human(lot.entry)
    assert (line.said, lot.entry.turn) == ("release", "human")  # a command of the CLI begins no turn
    line = await lot.tell("Stop")
    lot.parking.stale(lot.entry)
    assert (line.said, lot.entry.turn) == ("release", "human")
    lot.parking.stale(lot.entry)
    assert len(line.words) == 1


@pytest.mark.parametrize(
    ("event", "data"), [("SessionStart", {"source": "clear"}), ("PostCompact", {"trigger": "manual"})]
)
async def test_a_command_that_has_ended_leaves_the_cli_at_its_prompt(lot, event, data):
    await lot.begin()
    line = await lot.tell("Stop")
    lot.parking.human(lot.entry)
    assert line.said == "release"
    assert (await lot.tell(event, **data)).said == "none"
    assert (lot.entry.turn, lot.entry.at_prompt, lot.rested[-1]) == ("ended", True, "ended")
    await lot.tell("Notification", notification_type="idle_prompt")
    assert lot.entry.at_prompt
    await lot.tell("UserPromptSubmit")
    assert (lot.entry.turn, lot.entry.at_prompt) == ("working", False)


async def test_an_agent_that_has_called_is_no_longer_at_its_prompt(lot):
    await lot.begin()
    await lot.tell("SessionStart", source="clear")
    assert (await wait(lot))["status"] == "timeout"
    assert (lot.entry.turn, lot.entry.at_prompt) == ("working", False)


@pytest.mark.parametrize(
    ("event", "data"), [("SessionStart", {"source": "compact"}), ("PostCompact", {"trigger": "auto"})]
)
async def test_a_compaction_in_the_middle_of_a_turn_does_not_end_it(lot, event, data):
    await lot.begin()
    await lot.tell("UserPromptSubmit")
    await lot.tell(event, **data)
    assert (lot.entry.turn, lot.entry.at_prompt) == ("working", False)


async def test_a_hook_its_cli_ends_and_an_interrupt_mean_a_human(lot):
    await lot.begin()
    line = await lot.tell("Stop")
    await lot.end(line)
    assert (lot.entry.turn, line.said) == ("human", None)
    assert lot.rested[-1] == "human"
    await enqueue(lot)
    assert line.said is None
    line = await lot.tell("Stop")
    assert line.said == "wake"
    assert (await lot.tell("Interrupt")).said == "none"
    assert lot.entry.turn == "human"


async def test_a_hook_that_ends_with_its_process_is_no_human(lot):
    await lot.begin()
    line = await lot.tell("Stop")
    lot.entry.process = "gone"
    await lot.end(line)
    assert lot.entry.turn == "unknown"


async def test_one_park_lasts_no_longer_than_the_engine_allows(lot):
    await lot.begin()
    line = await lot.tell("Stop")
    await lot.team.clock.advance(ROW.park_limit_s - 1)
    assert line.said is None
    await lot.team.clock.advance(1)
    assert (line.said, lot.entry.turn) == ("release", "rested")
    assert lot.rested[-1] == "rested"
    lot.entry.process = "alive"
    assert status_of(lot.entry, lot.team.clock) == ("idle", "at its prompt; a task wakes it by a pasted line")
    await lot.tell("UserPromptSubmit")
    assert status_of(lot.entry, lot.team.clock)[0] == "unknown"


async def test_after_a_park_that_nothing_can_follow_an_agent_is_not_idle(lot, monkeypatch):
    monkeypatch.setitem(ENGINES, "parker", dataclasses.replace(ROW, composer=None))
    await lot.begin()
    await lot.tell("Stop")
    await lot.team.clock.advance(ROW.park_limit_s)
    lot.entry.process = "alive"
    assert (lot.entry.turn, status_of(lot.entry, lot.team.clock)[0]) == ("ended", "unknown")


async def test_a_wake_that_no_call_follows_is_taken_for_swallowed(lot):
    await lot.begin()
    await lot.tell("Stop")
    await enqueue(lot)
    await lot.team.clock.advance(HEED_S - 0.1)
    assert lot.entry.turn == "working"
    await lot.team.clock.advance(0.1)
    assert (lot.entry.turn, lot.rested[-1]) == ("unknown", "unknown")


async def test_a_wake_that_a_call_follows_is_not(lot):
    await lot.begin()
    await lot.tell("Stop")
    await enqueue(lot)
    call = wait(lot)
    await settle()
    assert (await call)["command"]["task_id"] == "t-1"
    await lot.team.clock.advance(HEED_S * 3)
    assert lot.entry.turn == "working"


async def test_a_call_of_a_parked_agent_ends_the_park(lot):
    await lot.begin()
    line = await lot.tell("Stop")
    call = wait(lot, timeout_s=5.0)
    await settle()
    assert (line.said, log(lot)) == ("release", ["parked", "it called"])
    await enqueue(lot)
    assert (await call)["command"]["task_id"] == "t-1"


async def test_a_turn_that_ends_during_a_wait_ends_the_wait(lot):
    await lot.begin()
    call = wait(lot, timeout_s=50.0)
    await settle()
    line = await lot.tell("Stop")
    assert (await call)["status"] == "timeout"
    await enqueue(lot)
    assert line.said == "wake"
    assert lot.entry.state.lease is None


async def test_park_is_offered_after_empty_waits_and_only_to_who_can_be_woken(lot):
    await lot.begin()
    answers = [await wait(lot) for _ in range(3)]
    assert not any("park" in answer for answer in answers)
    await lot.tell("SessionStart", source="startup")
    answer = await wait(lot)
    assert answer["park"] is True
    assert "your turn" in answer["reminder"]
    await enqueue(lot)
    assert "park" not in await wait(lot)
    await emit(lot, "result")
    assert lot.entry.empty_waits == 0
    assert ["park" in await wait(lot) for _ in range(2)] == [False, True]
    lot.entry.hook_epoch = 0
    assert "park" not in await wait(lot)


async def test_after_a_restart_of_the_daemon_the_records_prove_who_can_be_woken(lot):
    await lot.begin(ready=False)
    await lot.tell("SessionStart", source="startup")
    await wait(lot)
    assert outbox(lot, "ready")[0]["wakes"] is True
    lot.entry.hook_epoch = 0  # what a new daemon knows of hooks
    assert ["park" in await wait(lot) for _ in range(3)][-1] is True


async def test_a_first_prompt_is_held_until_the_cli_has_our_tools(lot):
    await lot.begin(ready=False)
    line = await lot.tell("UserPromptSubmit")
    await lot.team.clock.advance(LISTED_S - 1)
    assert line.said is None
    lot.entry.listed_epoch = 1
    lot.entry.changed.notify()
    await lot.team.clock.advance(AFTER_LISTED_S)
    assert line.said == "none"
    assert (await lot.tell("UserPromptSubmit")).said == "none"


async def test_a_first_prompt_is_not_held_for_ever(lot):
    await lot.begin(ready=False)
    line = await lot.tell("UserPromptSubmit")
    await lot.team.clock.advance(LISTED_S)
    assert line.said == "none"


async def test_questions_the_cli_tells_are_findings_until_it_goes_on(lot):
    await lot.begin()
    await lot.tell("PermissionRequest", tool_name="Bash")
    assert lot.entry.finding is not None
    assert (lot.entry.finding.kind, lot.entry.finding.reason) == ("permission", "asks to use Bash")
    await lot.tell("UserPromptSubmit")
    assert lot.entry.finding is None
    await lot.tell("Notification", message="Claude needs your permission to use Bash")
    assert lot.entry.finding.kind == "permission"
    await lot.tell("Notification", message="hello")
    assert lot.entry.finding is not None
    await lot.tell("Stop")
    assert lot.entry.finding is None


async def test_a_question_names_the_tool_and_its_input_and_a_vaguer_notice_does_not_replace_it(lot):
    await lot.begin()
    await lot.tell("PermissionRequest", tool_name="Bash", tool_input={"command": "API_KEY=hunter2hunter2 make"})
    exact = lot.entry.finding
    assert exact == ScreenFinding("permission", "asks to use Bash: API_KEY=… make")
    await lot.tell("Notification", notification_type="permission_prompt", message="Claude needs your permission")
    assert lot.entry.finding == exact
    # The same once it is recorded, and its words are the screen's to lift.
    at = "2026-01-01T00:00:00.000Z"
    await lot.team.roster.commit(lot.entry, blocked.explained(lot.entry.state, exact, at=at))
    lot.entry.finding = None
    await lot.tell("Notification", notification_type="permission_prompt", message="Claude needs your permission")
    assert lot.entry.finding is None


async def test_a_notice_that_names_the_tool_is_exact(lot):
    await lot.begin()
    details = {"type": "exec", "title": "Confirm Shell Command", "command": "touch a", "rootCommand": "touch"}
    said = {"notification_type": "ToolPermission", "message": "Tool Confirm Shell Command requires execution"}
    await lot.tell("Notification", **said, details=details)
    assert lot.entry.finding == ScreenFinding("permission", "asks to use Shell: touch a")
    await lot.tell("Notification", **said, details={**details, "command": "touch b"})
    assert lot.entry.finding == ScreenFinding("permission", "asks to use Shell: touch b")


async def test_a_second_question_is_a_second_record_even_if_it_has_the_same_words(lot):
    await lot.begin()
    at = "2026-01-01T00:00:00.000Z"
    for _ in range(2):
        await lot.tell("PermissionRequest", tool_name="Bash", tool_input={"command": "touch a"})
        await lot.team.roster.commit(lot.entry, blocked.explained(lot.entry.state, lot.entry.finding, at=at))
        await lot.team.roster.commit(lot.entry, blocked.explained(lot.entry.state, lot.entry.finding, at=at))
    assert [record["type"] for record in outbox(lot, "blocked", "unblocked")] == ["blocked", "unblocked", "blocked"]


async def test_an_unknown_event_is_answered_and_proves_the_channel(lot):
    await lot.begin()
    assert (await lot.tell("SomethingNew")).said == "none"
    assert lot.entry.hook_epoch == 1
    assert lot.entry.session == "s-1"


async def test_the_hook_of_a_cli_that_the_agent_has_started_is_no_word_of_its_own(lot):
    await lot.begin()
    await lot.tell("SessionStart", Line(depth=1))
    assert (await lot.tell("Stop", Line(depth=2))).said is None
    assert (await lot.tell("Stop", Line(depth=4))).said == "none"
    assert lot.entry.turn == "parked"


async def test_a_second_life_is_parked_anew_and_an_old_hook_is_let_go(lot):
    await lot.begin()
    old = await lot.tell("Stop")
    at = "2026-01-01T00:00:00.000Z"
    drafts = supervision.exited(lot.entry.state, at=at, how="exit", reason="r", code=1)
    await lot.team.roster.commit(lot.entry, drafts)
    await lot.team.roster.commit(lot.entry, supervision.after_exit(lot.entry.state, at=at, budget=BUDGET))
    await settle()
    assert old.said == "release"
    await lot.team.roster.commit(lot.entry, decisions.ready(lot.entry.state, at=at, req=None))
    assert (await lot.tell("Stop")).said is None
    assert lot.entry.hook_epoch == 2
    assert [record["epoch"] for record in outbox(lot, "parked")] == [1, 2]


async def test_a_closed_parking_answers_nobody_and_takes_nothing_for_an_esc(lot):
    await lot.begin()
    line = await lot.tell("Stop")
    await lot.parking.close()
    await lot.end(line)
    await enqueue(lot)
    late = await lot.tell("Stop")
    assert (line.words, late.words, log(lot)) == ([], [], ["parked"])


async def test_a_plugin_is_woken_again_and_again_over_one_connection(lot):
    lot.engine = "plugged"
    await lot.begin()
    line = Line(keeps=True)
    for number in range(3):
        await lot.tell("session.idle", line)
        assert lot.entry.turn == "parked"
        await lot.team.clock.advance(3600)
        await enqueue(lot, f"t-{number}")
        assert line.said == "wake"
        await wait(lot)
        await emit(lot, "result", req=f"e:{number}")
    assert [word["answer"] for word in line.words] == ["wake"] * 3
    await lot.tell("session.idle", line)
    await lot.end(line)
    assert lot.entry.turn == "unknown"


async def test_thousands_of_random_parks_lose_no_wake_and_never_say_parked_when_it_is_not(lot):
    """Whatever happens in whatever order: what is deliverable does not stay beside a held hook."""
    chance = random.Random(7)
    await lot.begin()
    lines = []
    parks = wakes = 0
    for step in range(2000):
        what = chance.choice(
            ["turn_end", "turn_end", "enqueue", "enqueue", "wait", "work", "work", "prompt", "esc", "stale", "time"]
        )
        if what == "turn_end":
            lines.append(await lot.tell("Stop"))
            parks += lot.entry.turn == "parked"
        elif what == "enqueue":
            held = lot.entry.turn == "parked"
            await enqueue(lot, f"t-{step}")
            if held:
                assert lines[-1].said == "wake"
                wakes += 1
        elif what == "wait":
            await wait(lot, req=f"w:{step}")
        elif what == "work":
            while lot.entry.state.unfinished:
                await wait(lot, req=f"w:{step}")
                await emit(lot, "result", req=f"e:{step}:{len(lot.entry.state.unfinished)}")
        elif what == "prompt":
            await lot.tell("UserPromptSubmit")
        elif what == "esc" and lines:
            await lot.end(lines[-1])
        elif what == "stale":
            lot.parking.stale(lot.entry)
        elif what == "time":
            await lot.team.clock.advance(chance.choice([0.1, 3.0, 20.0, 4000.0]))
        held = [line for line in lines if not line.channel.answered]
        assert len(held) == (lot.entry.turn == "parked")
        assert lot.entry.state.parked == (lot.entry.turn == "parked")
        if lot.entry.turn == "parked":
            waits = lot.entry.state.head() is not None and lot.entry.state.lease is None
            assert not waits
    assert all(len(line.words) <= 1 for line in lines)
    assert parks > 100
    assert wakes > 30
    kinds = [record["type"] for record in outbox(lot, "parked", "woken")]
    assert kinds == (["parked", "woken"] * len(kinds))[: len(kinds)]
