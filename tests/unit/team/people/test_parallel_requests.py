"""Requests that come side by side, or may not be asked at all: of opencode's plugin, and of the other CLIs' hooks."""

import dataclasses

import pytest

from orchestrator.core.screens import Screen
from orchestrator.engines import gemini_approvals, opencode_approvals
from orchestrator.engines.claude import ROW as CLAUDE
from orchestrator.engines.gemini import ROW as GEMINI
from orchestrator.engines.opencode import ROW as OPENCODE
from orchestrator.engines.table import ENGINES
from tests.support.hook_channels import ROW, Line
from tests.support.team import Team
from tests.unit.team.people.test_hook_requests import People

pytestmark = pytest.mark.anyio


@pytest.fixture
async def make(tmp_path, monkeypatch):
    monkeypatch.setitem(ENGINES, "parker", ROW)
    made = []

    async def begin(engine, **config):
        team = Team(tmp_path, **config)
        people = People(team, engine.request)
        made.append(people)
        changes = {
            "request": engine.request, "hook_events": engine.hook_events, "parks": engine.parks, "shows": engine.shows,
        }  # fmt: skip
        ENGINES["parker"] = dataclasses.replace(ROW, **changes)
        return await people.begin()

    yield begin
    for people in made:
        await people.approvals.close()
        await people.parking.close()
        people.team.close()


async def plugin_asks(people, line, *commands):
    for number, command in enumerate(commands, 1):
        metadata = {"command": command}
        await people.tell("permission.asked", line, request=f"p{number}", tool_name="bash", metadata=metadata)


def asked(people):
    return [item.asked for item in people.items()]


async def test_all_requests_of_a_plugin_are_items_and_end_one_by_one(make):
    people = await make(OPENCODE)
    line = Line(keeps=True)
    await plugin_asks(people, line, "one", "two", "three")
    assert asked(people) == ["one", "two", "three"]
    first = people.items()[0].item_id
    await people.answer("approve", item=first)
    assert line.words == [{"answer": "decide", "request": "p1", "reply": "once"}]
    # opencode tells that it was answered, as it does for an answer in its pane.
    await people.tell("permission.replied", line, request="p1")
    await people.tell("permission.replied", line, request="p3")
    assert asked(people) == ["two"] and people.entry.finding.reason == "asks to use bash: two"
    await people.tell("permission.replied", line, request="p2")
    assert not asked(people) and people.entry.finding is None and people.entry.turn == "working"
    assert [record["decision"] for record in people.outbox("answered")] == ["approve"]


async def test_a_plugin_that_comes_back_tells_the_same_requests_again(make):
    people = await make(OPENCODE)
    line = Line(keeps=True)
    await plugin_asks(people, line, "one", "two")
    before = [item.item_id for item in people.items()]
    await people.end(line)
    assert [item.by for item in people.items()] == ["screen"]  # its dialog is still open
    again = Line(keeps=True)
    await people.tell("start", again, source="reconnect")
    await people.tell("session.busy", again)
    await plugin_asks(people, again, "one", "two")
    assert [item.item_id for item in people.items()] == before
    await people.answer("deny", "no", item=before[1])
    assert again.words[-1] == {"answer": "decide", "request": "p2", "reply": "reject", "message": "no"}


async def call(people, command, **given):
    """A call of Gemini CLI's shell tool; the connection of its hook."""
    line = Line(conn=f"c{next(people.conns)}")
    tool_input = {"command": command, **given}
    return await people.tell("BeforeTool", line, tool_name="run_shell_command", tool_input=tool_input)


async def test_calls_that_run_side_by_side_are_held_side_by_side(make):
    people = await make(GEMINI)
    people.approvals.faces = 1
    first, harmless, second = [await call(people, command) for command in ("make", "ls", "npm test")]
    assert harmless.said == "none"
    assert asked(people) == ["make", "npm test"] and first.said is second.said is None
    await people.answer("approve", item=people.items()[1].item_id)
    marked = second.words[0]["output"]["hookSpecificOutput"]["tool_input"]
    assert gemini_approvals.approval_mark(people.entry.secret) in marked["dir_path"]
    assert asked(people) == ["make"]
    # The turn is over: a human has pressed Esc and typed something else.
    await people.tell("BeforeAgent")
    assert not asked(people) and first.words == [{"answer": "decide", "output": {}}]


async def test_without_a_face_the_cli_decides_and_nothing_is_said_to_block_it(make):
    people = await make(GEMINI)
    line = await call(people, "make")
    assert line.words == [{"answer": "decide", "output": {}}]
    assert not people.items() and not people.log()


async def test_what_its_pane_was_asked_once_stays_there(make):
    people = await make(GEMINI)
    people.approvals.faces = 1
    released = await call(people, "make one")
    await people.answer("release")
    assert released.words[0]["output"] == {}
    assert (await call(people, "make two && ls")).words == [{"answer": "decide", "output": {}}]
    assert (await call(people, "npm test")).said is None
    # Another launch has another session, in which nobody has allowed anything.
    people.entry.state.epoch += 1
    assert (await call(people, "make three")).said is None


async def test_two_looks_at_its_screen_end_what_nobody_waits_for_any_more(make):
    people = await make(GEMINI)
    ENGINES["parker"] = dataclasses.replace(ENGINES["parker"], asks_no_more=GEMINI.asks_no_more)
    people.approvals.faces = 1
    held = await call(people, "make")
    idle, busy = (Screen(title=f"{sign}  x", lines=(), cursor_x=0, cursor_y=0) for sign in "◇✦")
    for screen in (idle, busy, idle):
        people.approvals.seen(people.entry, screen)
        assert asked(people) == ["make"]
    people.approvals.seen(people.entry, idle)
    assert not people.items() and held.words == [{"answer": "decide", "output": {}}]


def dialog(*about, title="Read file", question="Do you want to proceed?"):
    """The bottom of Claude Code's screen with a dialog."""
    frame = ["● Reading 3 files…", "  ⎿  /x/one", "─" * 60, f" {title}", "╌" * 60, *about, "╌" * 60]
    lines = [*frame, f" {question}", " ❯ 1. Yes", "   2. Yes, for this session", "   3. No", " Esc to cancel"]
    return Screen(title="", lines=tuple(lines), cursor_x=0, cursor_y=0)


async def reads(people, *paths):
    """The hooks of reading calls in one message of Claude Code, which asks for all of them at once."""
    lines = [Line(conn=f"c{next(people.conns)}") for _ in paths]
    for line, path in zip(lines, paths, strict=True):
        facts = {"tool_name": "Read", "tool_input": {"file_path": path}, "cwd": "/w"}
        await people.tell("PermissionRequest", line, **facts)
    return lines


def looks(people, *screens):
    for screen in screens:
        people.approvals.seen(people.entry, screen)


async def test_requests_of_one_message_of_claude_code_wait_until_their_own_dialog_has_gone(make):
    people = await make(CLAUDE)
    lines = await reads(people, "/x/one", "/x/two", "/x/three")
    one, two = (
        dialog(f" Read(/x/{name})", title=f"Read file       {at} of 3") for at, name in ((1, "one"), (2, "two"))
    )
    looks(people, one, one, one)
    assert asked(people) == ["/x/one", "/x/two", "/x/three"]
    await people.answer("approve", item=people.items()[2].item_id)  # from outside, out of order
    looks(people, one, two)
    assert asked(people) == ["/x/one", "/x/two"]  # one look may be wrong
    looks(people, two)
    assert asked(people) == ["/x/two"] and people.entry.finding.reason.endswith("/x/two")
    assert [len(line.words) for line in lines] == [1, 0, 1]
    assert lines[0].words == [{"answer": "decide", "output": {}}]
    people.approvals.dialog_gone(people.entry)
    assert not people.items()


async def test_a_dialog_that_is_alone_ends_what_was_answered_before_anyone_looked(make):
    people = await make(CLAUDE)
    lines = [await people.asks("touch a"), await people.asks("touch a b")]
    looks(people, *[dialog(" touch a b", title="Bash command")] * 2)
    assert asked(people) == ["touch a b"] and lines[0].words == [{"answer": "decide", "output": {}}]
    # Of a dialog that shows nothing of what is asked, only the newest request can be the reason.
    later = await people.asks("\n".join(["true"] * 200) + "\nlast")
    looks(people, *[dialog(" last", title="Bash command")] * 2)
    assert [len(line.words) for line in (*lines, later)] == [1, 1, 0]


async def test_the_last_of_several_dialogs_ends_permissions_but_no_question(make):
    people = await make(CLAUDE)
    await reads(people, "/x/one", "/x/two")
    questions = [{"question": "Which one?", "options": [{"label": "Red"}]}]
    await people.asks(tool_name="AskUserQuestion", tool_input={"questions": questions})
    await reads(people, "/x/t")  # a letter of every dialog
    first, last = (dialog(" Read(/x/two)", title=f"Read file       {at} of 2") for at in (1, 2))
    looks(people, first, first)
    assert len(people.items()) == 4
    looks(people, last, last)  # "one" was answered before anyone looked
    assert [item.text.split()[-1] for item in people.items()] == ["/x/two", "one?"]


async def test_a_question_on_the_screen_says_nothing_of_what_else_waits(make):
    people = await make(CLAUDE)
    (line,) = await reads(people, "/x/one")
    questions = [{"question": "Which one?", "options": [{"label": "Red"}]}]
    await people.asks(tool_name="AskUserQuestion", tool_input={"questions": questions})
    shown = dialog("Which one?", title="←  ☐ One  ✔ Submit  →", question="")
    looks(people, shown, shown, Screen(title="", lines=(), cursor_x=0, cursor_y=0))
    assert len(people.items()) == 2 and line.words == []


async def test_a_forged_mark_is_refused_whether_a_face_is_open_or_not(make):
    people = await make(GEMINI)
    mark = gemini_approvals.approval_mark(people.entry.secret)
    line = await call(people, "make", dir_path=f"./{mark}/..")
    assert line.words[0]["output"]["decision"] == "deny"
    assert not people.items() and not people.outbox("answered")


def test_the_rows_read_their_own_events():
    assert GEMINI.request is gemini_approvals.request and OPENCODE.request is opencode_approvals.request
    assert GEMINI.hook_events["BeforeTool"] == "tool" and OPENCODE.hook_events["permission.replied"] == "answered"
