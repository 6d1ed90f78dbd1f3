"""What top does about the chosen agent: answers, its pane, its tasks, a restart; with Textual's pilot."""

from pathlib import Path

import pytest

from orchestrator.faces.top.team_screen import TeamScreen
from orchestrator.faces.top.top_dialogs import ListDialog
from tests.support.top_team import (
    agent,
    asking,
    drive,
    item,
    lines_of_screen,
    opened,
    settled,
    shown,
    snapshot,
    team,
    top_of,
    until,
)

HERE = Path.cwd()
QUESTION = {"question": "Which port?", "header": "Port", "multi": False, "options": [{"label": "80", "description": ""}, {"label": "8080", "description": "a test"}]}  # fmt: skip


@pytest.mark.parametrize(
    ("key", "decision", "typed", "text"),
    [
        ("a", "approve", "", ""), ("A", "always", "", ""), ("r", "release", "", ""), ("d", "deny", "not now", "not now"),
        ("d", "deny", "", ""),
    ],
)  # fmt: skip
def test_a_decision_shows_the_whole_text_and_answers_exactly_that_item(key, decision, typed, text):
    app = top_of(team())

    async def play(pilot):
        await opened(pilot, key)
        assert "rm -rf build/c1 &&" in shown(app)
        assert "/shop" in shown(app)
        assert app.requests.answered == []
        await pilot.press(*("space" if char == " " else char for char in typed), "enter")
        await until(pilot, lambda: app.requests.answered)
        assert app.requests.answered == [("aaaa0001", decision, text)]
        await until(pilot, lambda: "c1:" in lines_of_screen(app)[-1])

    drive(app, play)


def test_going_back_decides_nothing():
    app = top_of(team())

    async def play(pilot):
        await opened(pilot, "a")
        await pilot.press("escape")
        await until(pilot, lambda: isinstance(app.screen, TeamScreen))
        assert app.requests.answered == []

    drive(app, play)


def test_an_item_that_is_over_meanwhile_is_not_answered_any_more():
    app = top_of(team())

    async def play(pilot):
        await opened(pilot, "a")
        other = item("bbbb0002", "c1", asked="curl evil", text="asks to use Bash: curl evil")
        app.source.publish(snapshot([asking("c1", other)], [other], version=2))
        await until(pilot, lambda: "meanwhile" in shown(app))
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.screen, TeamScreen))
        assert app.requests.answered == []

    drive(app, play)


def test_a_refusal_of_the_daemon_is_said():
    app = top_of(team())
    app.requests.over = True

    async def play(pilot):
        await opened(pilot, "a")
        await pilot.press("enter")
        await until(pilot, lambda: "is over" in lines_of_screen(app)[-1])

    drive(app, play)


@pytest.mark.parametrize("key", ["a", "A", "d", "r", "i", "n"])
def test_an_agent_that_asks_nothing_is_not_answered(key):
    app = top_of(team())

    async def play(pilot):
        await pilot.press("j", key)
        await until(pilot, lambda: "asks nothing" in lines_of_screen(app)[-1])
        assert isinstance(app.screen, TeamScreen)

    drive(app, play)


def test_without_a_daemon_nothing_is_answered_and_the_head_says_so():
    app = top_of(team(live=False))

    async def play(pilot):
        assert "no daemon answers" in lines_of_screen(app)[0]
        await pilot.press("a")
        await until(pilot, lambda: "no daemon" in lines_of_screen(app)[-1])
        assert app.requests.answered == []

    drive(app, play)


def test_a_text_that_was_cut_cannot_be_approved():
    cut = item("aaaa0001", "c1", cut=True, answers=["deny", "release"])
    app = top_of(snapshot([asking("c1", cut)], [cut]))

    async def play(pilot):
        await pilot.press("a")
        await until(pilot, lambda: "does not work" in lines_of_screen(app)[-1])
        assert app.requests.answered == []

    drive(app, play)


@pytest.mark.parametrize("key", ["n", "a"])
def test_a_question_is_answered_by_a_field_for_each(key):
    asks = item("qqqq0001", "c1", "question", questions=[QUESTION, QUESTION], asked="", answers=["answer", "release"])
    app = top_of(snapshot([asking("c1", asks)], [asks]))

    async def play(pilot):
        await opened(pilot, key)
        assert "1. Which port?" in shown(app)
        assert "2 8080: a test" in shown(app)
        await pilot.press("2", "enter", "8", "1", "enter")
        await until(pilot, lambda: app.requests.answered)
        assert app.requests.answered == [("qqqq0001", "answer", "1: 2\n2: 81")]

    drive(app, play)


def test_an_item_of_the_records_is_noted():
    failed = item("eeee0001", "unit", "error", holds=False, answers=["dismiss"])
    app = top_of(snapshot([agent("unit")], [failed]))

    async def play(pilot):
        await opened(pilot, "i")
        await pilot.press("enter")
        await until(pilot, lambda: app.requests.answered == [("eeee0001", "dismiss", "")])

    drive(app, play)


def test_a_task_is_given_in_words_with_title_and_files():
    app = top_of(team())

    async def play(pilot):
        await opened(pilot, "j", "t")
        await pilot.press("h", "i", "enter", "x", "tab", "T", "tab", "a", "ctrl+s")
        await until(pilot, lambda: app.requests.commands)
        words, stdin = app.requests.commands[0]
        assert words[:5] == ("task", "add", "id:w01", "--file", "-")
        assert words[5:] == ("--title=T", "--attach", str(HERE / "a"))
        assert stdin == "hi\nx"
        await until(pilot, lambda: "queued" in lines_of_screen(app)[-1])

    drive(app, play)


def test_a_task_without_words_is_not_queued():
    app = top_of(team())

    async def play(pilot):
        await opened(pilot, "t")
        await pilot.press("ctrl+s")
        await until(pilot, lambda: "nothing was queued" in lines_of_screen(app)[-1])
        assert app.requests.commands == []

    drive(app, play)


def test_words_that_could_not_be_queued_are_there_again():
    app = top_of(team())
    app.requests.refuses = "agent c1 has ended"

    async def play(pilot):
        await opened(pilot, "t")
        await pilot.press("h", "i", "tab", "T", "ctrl+s")
        await until(pilot, lambda: "has ended; t shows your text again" in lines_of_screen(app)[-1])
        app.requests.refuses = ""
        await opened(pilot, "j", "t")
        assert app.screen.values == ["hi", "T", ""]
        await pilot.press("tab", "tab", "'", "ctrl+s")  # no list of files
        await until(pilot, lambda: "nothing was queued" in lines_of_screen(app)[-1])
        await opened(pilot, "t")
        assert app.screen.values == ["hi", "T", "'"]
        await opened(pilot, "escape", "t")
        assert app.screen.values == ["", "", ""]

    drive(app, play)


@pytest.mark.parametrize("key", ["t", "x", "R", "a", "d", "enter"])
def test_no_key_acts_on_an_agent_that_a_filter_hides(key):
    app = top_of(team())

    async def play(pilot):
        await pilot.press("slash", "z", "z", "enter")
        await until(pilot, lambda: "no row fits" in shown(app))
        await pilot.press(key)
        await until(pilot, lambda: "choose an agent first" in lines_of_screen(app)[-1])
        assert isinstance(app.screen, TeamScreen)

    drive(app, play)


@pytest.mark.parametrize("tasks", [0, 1, 2])
def test_a_task_is_canceled_after_a_question(tasks):
    app = top_of(team())
    app.requests.tasks = [{"task_id": f"t-{n}", "title": f"task {n}", "state": "queued"} for n in range(tasks)]

    async def play(pilot):
        await pilot.press("x")
        if not tasks:
            await until(pilot, lambda: "no unfinished task" in lines_of_screen(app)[-1])
            return
        if tasks == 2:
            await until(pilot, lambda: isinstance(app.screen, ListDialog))
            await opened(pilot, "down", "enter")
        assert app.requests.commands == []
        await pilot.press("enter")
        await until(pilot, lambda: app.requests.commands)
        assert app.requests.commands[0][0] == ("task", "cancel", "id:c1", f"t-{tasks - 1}")

    drive(app, play)


@pytest.mark.parametrize("key", ["x", "enter"])
@pytest.mark.parametrize("meanwhile", ["j", "question_mark", "slash"])
def test_what_comes_late_takes_no_key_that_was_meant_for_something_else(key, meanwhile, monkeypatch):
    monkeypatch.setenv("TMUX", "/nowhere/socket,1,0")
    app = top_of(team())
    app.requests.tasks = [{"task_id": "t-1", "title": "x", "state": "queued"}]
    came = []
    app.face.in_thread = lambda work, then, failed=None: came.append(lambda: then(work()))

    async def play(pilot):
        came.clear()
        await pilot.press(key, meanwhile)
        await settled(pilot)
        shown_before = app.screen
        for late in came:  # what it asks for in its turn comes too
            late()
        await settled(pilot)
        assert app.screen is shown_before
        assert not any({"bind-key", "switch-client"} & set(command) for command in app.requests.quiet)

    drive(app, play)


def test_a_restart_asks_first():
    app = top_of(team())

    async def play(pilot):
        await opened(pilot, "R")
        await opened(pilot, "escape", "R")
        assert app.requests.commands == []
        await pilot.press("enter")
        await until(pilot, lambda: app.requests.commands == [(("agent", "restart", "id:c1"), "")])

    drive(app, play)


@pytest.mark.parametrize("popup", [False, True])
def test_enter_goes_to_the_pane_of_the_agent_and_a_popup_closes(popup, monkeypatch):
    monkeypatch.setenv("TMUX", "/nowhere/socket,1,0")
    app = top_of(team(), popup=["display-popup", "-E", "top"] if popup else ())
    app.requests.said = "@2 0\n@1 1 %1 /dev/pts/7"

    async def play(pilot):
        await pilot.press("enter")
        await until(pilot, lambda: len(app.requests.quiet) == 3)
        facts, bind, command = app.requests.quiet
        assert facts[3:5] == ["display-message", "-p"]
        assert {"/nowhere/socket"} == {words[2] for words in app.requests.quiet}
        assert command[3:5] == ["select-window", "-t"]
        assert ("display-popup" in bind) == popup
        await until(pilot, lambda: bool(app.face.key_tables) != popup)  # Esc must open the popup again after its end
        if popup:
            await until(pilot, lambda: not app.is_running or app._exit)

    drive(app, play)


def test_outside_tmux_the_terminal_is_given_to_the_pane(monkeypatch):
    monkeypatch.delenv("TMUX", raising=False)
    app = top_of(team())

    async def play(pilot):
        await pilot.press("enter")
        await until(pilot, lambda: "cannot be given" in lines_of_screen(app)[-1])  # a test has no terminal to give

    drive(app, play)
