"""The app of top over snapshots made by hand: every key and view, with Textual's pilot."""

import re

import pytest

from orchestrator.faces.top.key_bindings import ACTIONS
from orchestrator.faces.top.tab_texts import TabReader
from orchestrator.faces.top.team_screen import TeamScreen
from orchestrator.faces.top.timeline_view import TimelineView
from orchestrator.faces.top.top_dialogs import ListDialog
from tests.support.top_team import (
    Requests,
    agent,
    asking,
    busy,
    drive,
    item,
    lines_of_screen,
    opened,
    settled,
    shown,
    snapshot,
    team,
    team_of,
    top_of,
    until,
)


def test_the_team_is_shown_with_what_needs_a_human_first():
    app = top_of(team())

    async def play(pilot):
        lines = lines_of_screen(app)
        assert lines[0].startswith(" shop · 4 agents · 1 needs you · 1 busy · 2 idle")
        assert lines[2].startswith("▶ ◐ asks")
        assert "asks to use Bash: rm -rf build" in lines[3]
        assert "w01" in lines[4]
        await until(pilot, lambda: "$ make" in shown(app))

    drive(app, play)


def test_news_are_shown_and_the_chosen_agent_stays_chosen():
    app = top_of(team())

    async def play(pilot):
        await pilot.press("j", "j")
        key = team_of(app).table.key
        app.source.publish(snapshot([busy("a0", "new"), busy("w01", "other words"), agent("unit"), agent("writer")]))
        await until(pilot, lambda: "other words" in shown(app))
        assert team_of(app).table.key == key
        app.source.publish(snapshot([busy("w01", "x")]))
        await until(pilot, lambda: team_of(app).table.key == "agent:w01")

    drive(app, play)


@pytest.mark.parametrize(
    ("keys", "chosen"),
    [
        (["j"], "w01"), (["down", "j"], "unit"), (["G"], "writer"), (["end", "k"], "unit"), (["G", "g"], "c1"),
        (["up"], "c1"), (["G", "j"], "writer"), (["pagedown"], "writer"), (["G", "pageup"], "c1"), (["G", "home"], "c1"),
    ],
)  # fmt: skip
def test_keys_move_the_choice(keys, chosen):
    app = top_of(team())

    async def play(pilot):
        await pilot.press(*keys)
        assert team_of(app).table.key == f"agent:{chosen}"
        assert any(line.startswith("▶") and chosen in line for line in lines_of_screen(app))

    drive(app, play)


def test_a_filter_acts_while_it_is_typed_and_escape_ends_it():
    app = top_of(team())

    async def play(pilot):
        await pilot.press("slash", "u", "n")
        await until(pilot, lambda: "w01" not in shown(app))
        assert "unit" in shown(app)
        await pilot.press("enter")
        await settled(pilot)
        assert "/un" in lines_of_screen(app)[0]
        await pilot.press("escape")
        await until(pilot, lambda: "w01" in shown(app))
        await pilot.press("slash", "z", "z")
        await until(pilot, lambda: "no row fits" in shown(app))
        await pilot.press("escape")
        await until(pilot, lambda: "w01" in shown(app))

    drive(app, play)


def test_needs_me_shows_only_what_needs_a_human_and_all_again():
    app = top_of(team())

    async def play(pilot):
        await pilot.press("exclamation_mark")
        await until(pilot, lambda: "w01" not in shown(app))
        assert "c1" in shown(app)
        await pilot.press("exclamation_mark")
        await until(pilot, lambda: "w01" in shown(app))

    drive(app, play)


def test_tabs_are_chosen_by_key_number_and_click():
    app = top_of(team())

    async def play(pilot):
        seen = []
        for _ in range(6):
            await pilot.press("tab")
            seen.append(team_of(app).tabs.tab)
        assert seen == ["task", "result", "log", "diff", "records", "screen"]
        await pilot.press("shift+tab")
        assert team_of(app).tabs.tab == "records"
        for number, tab in enumerate(("screen", "task", "result", "log", "diff", "records"), 1):
            await pilot.press(str(number))
            assert team_of(app).tabs.tab == tab
        at = team_of(app).tabs.text.index("task")
        await pilot.click("#tabs", offset=(at, 0))
        assert team_of(app).tabs.tab == "task"

    drive(app, play)


def test_a_tab_is_enlarged_searched_and_scrolled():
    app = top_of(team())
    app.requests.lines = [f"line {number}" for number in range(200)]

    async def play(pilot):
        view = team_of(app).view
        await until(pilot, lambda: "line 1" in shown(app))
        await pilot.press("v")
        await until(pilot, lambda: "w01" not in shown(app))
        await pilot.press("s", *"150")
        await pilot.press("enter")
        await until(pilot, lambda: view.match_line == 150)
        assert "line 150" in shown(app)
        await pilot.press("less_than_sign")
        await pilot.press("greater_than_sign")
        assert view.match_line == 150
        await pilot.press("J", "K", "G", "g")
        assert view.scroll_offset.y == 0
        await pilot.press("j", "pagedown", "k", "pageup", "ctrl+d", "ctrl+u")
        await pilot.press("s", *"nowhere")
        await pilot.press("enter")
        await until(pilot, lambda: "is not in this tab" in lines_of_screen(app)[-1])
        await pilot.press("escape")
        await until(pilot, lambda: "w01" in shown(app))

    drive(app, play)


def test_titles_stand_above_their_columns_after_news_that_came_while_a_tab_was_enlarged(monkeypatch):
    monkeypatch.setattr(TeamScreen, "_each_second", lambda _: None)
    app = top_of(team())

    async def play(pilot):
        assert lines_of_screen(app)[1].split() == ["AGENT", "FOR", "TASK"]
        await pilot.press("v")
        await until(pilot, lambda: "w01" not in shown(app))
        app.source.publish(snapshot([busy("w01", "other words"), *team()["agents"][:1]]))
        await settled(pilot)
        await pilot.press("escape")
        await until(pilot, lambda: "other" in shown(app))
        await until(pilot, lambda: lines_of_screen(app)[1].split()[1:] == ["FOR", "TASK"])

    drive(app, play, size=(30, 10))


def test_a_match_beyond_the_edge_of_a_screen_comes_into_view():
    app = top_of(team())
    app.requests.lines = ["x" * 200 + "needle", "y"]

    async def play(pilot):
        await until(pilot, lambda: "xxx" in shown(app))
        await pilot.press("s", *"needle", "enter")
        await until(pilot, lambda: "needle" in "\n".join(lines_of_screen(app)[5:-1]))

    drive(app, play)


@pytest.mark.parametrize(("engine", "rules"), [("claude", 1), ("shell", 2)])
def test_what_a_pane_showed_is_not_broken_in_the_log_and_a_file_is(engine, rules, monkeypatch):
    app = top_of(snapshot([agent("a", engine=engine)]))
    monkeypatch.setattr(TabReader, "read", lambda *_: ["─" * 120])

    async def play(pilot):
        await pilot.press("4")
        await until(pilot, lambda: sum("─" * 30 in line for line in lines_of_screen(app)[6:]) == rules)

    drive(app, play)


def test_a_hidden_screen_is_not_asked_for_and_an_unseen_one_neither():
    app = top_of(team())

    async def play(pilot):
        await until(pilot, lambda: app.requests.asked)
        await pilot.press("2")
        await settled(pilot)
        asked = len(app.requests.asked)
        team_of(app)._each_second()
        await settled(pilot)
        assert len(app.requests.asked) == asked
        await pilot.press("1")
        await until(pilot, lambda: len(app.requests.asked) > asked)
        await settled(pilot)
        app.face.seen = False
        await settled(pilot)  # what was on its way before
        asked = len(app.requests.asked)
        team_of(app)._each_second()
        await settled(pilot)
        assert len(app.requests.asked) == asked

    drive(app, play)


@pytest.mark.parametrize("key", ["1", "4"])
def test_what_tmux_shows_is_asked_for_by_the_second_and_not_for_each_record(key):
    app = top_of(team())

    async def play(pilot):
        await pilot.press(key)
        await until(pilot, lambda: app.requests.asked)
        app.face.seen = False  # so that no second that passes counts
        await settled(pilot)
        asked = len(app.requests.asked)
        for seq in range(5):
            rows = [{**row, "last_event_seq": 100 + seq} for row in app.face.snapshot["agents"]]
            app.source.publish({**app.face.snapshot, "agents": rows, "version": 100 + seq})
            await until(pilot, lambda seq=seq: app.face.snapshot["version"] == 100 + seq)
            await settled(pilot)
        assert len(app.requests.asked) == asked
        app.face.seen = True
        for _ in range(5):
            team_of(app)._each_second()
        await until(pilot, lambda: len(app.requests.asked) > asked)

    drive(app, play)


def test_help_is_filtered_by_typing_and_does_what_is_chosen():
    app = top_of(team())

    async def play(pilot):
        await opened(pilot, "question_mark", dialog=ListDialog)
        await pilot.press(*"restart")
        await until(pilot, lambda: "next row" not in shown(app))
        await opened(pilot, "enter")
        assert "restart c1" in shown(app)

    drive(app, play)


def test_the_palette_has_every_action_and_every_command():
    ran = []
    app = top_of(team(), commands=[("task list", "List tasks."), ("merge", "Merge commits.")])
    team_of(app)._in_front = lambda command, after, *, pause=False: ran.append(command)

    async def play(pilot):
        await opened(pilot, "colon", dialog=ListDialog)
        assert {choice.value for choice in app.screen._choices} >= {action.name for action in ACTIONS}
        await pilot.press(*"merg", "tab", *"c1")
        await pilot.press("enter")
        await until(pilot, lambda: ran == [["true", "merge", "c1"]])

    drive(app, play)


def test_the_mouse_chooses_a_row_and_a_second_click_goes_there(monkeypatch):
    monkeypatch.setenv("TMUX", "/nowhere/socket,1,0")
    app = top_of(team())

    async def play(pilot):
        await pilot.click("#team", offset=(5, 2))
        assert team_of(app).table.key == "agent:w01"
        await pilot.click("#team", offset=(5, 3), times=2)
        await until(pilot, lambda: app.requests.quiet)
        assert team_of(app).table.key == "agent:unit"

    drive(app, play)


def test_q_quits_and_changes_nothing():
    app = top_of(team())

    async def play(pilot):
        await pilot.press("q")
        await until(pilot, lambda: app._exit)
        assert (app.requests.answered, app.requests.commands, app.requests.quiet) == ([], [], [])

    drive(app, play)


def test_rebound_keys_act_and_are_shown():
    app = top_of(team(), keys={"approve": "y", "quit": "f10"})

    async def play(pilot):
        assert "y approve" in lines_of_screen(app)[-1]
        await pilot.press("a")
        assert "does nothing" in lines_of_screen(app)[-1]
        await opened(pilot, "y")
        await pilot.press("escape", "f10")
        await until(pilot, lambda: app._exit)

    drive(app, play)


def test_texts_of_strangers_are_no_markup_and_act_on_no_terminal():
    bad = "[red]x[/red] \x1b[31m\u202eabc 한글 [@click=app.quit]y[/]"
    asks = item("aaaa0001", "c1", text=bad, asked=bad, tool=bad, cwd=bad)
    app = top_of(snapshot([asking("c1", asks, name=bad)], [asks]))
    app.requests.lines = [bad]

    async def play(pilot):
        await until(pilot, lambda: "[red]x[/red]" in "\n".join(lines_of_screen(app)[5:]))
        assert "\x1b" not in shown(app)
        assert "\u202e" not in shown(app)
        await opened(pilot, "a")
        assert "[@click=app.quit]y[/]" in shown(app)
        assert "\\u202e" in shown(app)

    drive(app, play)


@pytest.mark.parametrize("size", [(20, 5), (44, 12), (59, 24), (80, 24), (120, 40), (220, 60)])
def test_every_size_shows_who_needs_a_human(size):
    app = top_of(team())

    async def play(pilot):
        assert "c1" in shown(app)
        assert len(lines_of_screen(app)) == size[1]
        await pilot.resize_terminal(20, 5)
        await settled(pilot)
        await pilot.press("2")
        await settled(pilot)
        await pilot.press("escape")
        await pilot.resize_terminal(*size)
        await settled(pilot)
        assert "c1" in shown(app)

    drive(app, play, size)


@pytest.mark.parametrize("width", [44, 60, 80, 120])
def test_a_table_that_scrolls_cuts_no_number_and_shows_that_a_text_was_cut(width):
    used = {"input": 1, "cached": 0, "output": 1, "requests": 1, "cost_usd": 12.34, "models": [], "unknown": ""}
    rows = [busy(f"w{at:02}", "a long title " * 30, usage=used, finished={"result": 3}) for at in range(40)]
    app = top_of(snapshot(rows))

    async def play(pilot):
        await settled(pilot)
        line = next(line for line in lines_of_screen(app) if "w00" in line)
        assert "…" in line
        assert width < 60 or "3/0" in line
        assert width < 80 or "$12.34" in line

    drive(app, play, (width, 16))


@pytest.mark.parametrize("width", [30, 44, 80, 120])
def test_the_head_cuts_no_number_and_always_says_that_not_all_is_shown(width):
    used = {"input": 1, "cached": 0, "output": 1, "requests": 1, "cost_usd": None, "models": [], "unknown": ""}
    rows = [busy(f"w{at}", "x", usage=used, finished={"result": 3, "error": 1}) for at in range(2)]
    waits = [item(f"i{at}", f"c{at}") for at in range(3)]
    rows += [
        asking(f"c{at}", waits[at], usage={**used, "cost_usd": 123.45}, finished={"canceled": 2}) for at in range(3)
    ]
    app = top_of(snapshot(rows, waits))

    async def play(pilot):
        head = re.sub(r" +\d\d:\d\d$", "", lines_of_screen(app)[0])
        numbers = ["5 agents", "3 need you", "2 busy", "6 ✓ 2 ✕ 6 ⊘", "$370.35 + 2 unknown"]
        shown_numbers = [part.strip() for part in head.split("·")[1:]]
        assert [number for number in numbers if number in shown_numbers] == shown_numbers != []
        assert width < 80 or shown_numbers == numbers
        await pilot.press("slash", "c", "enter", "exclamation_mark")
        await until(pilot, lambda: "needs me" in lines_of_screen(app)[0] and "/c" in lines_of_screen(app)[0])

    drive(app, play, (width, 16))


def test_an_empty_team_says_how_to_begin():
    app = top_of(snapshot())

    async def play(pilot):
        assert "orchestrator agent create" in shown(app)
        for key in ("j", "enter", "a", "x", "2", "v", "escape"):
            await pilot.press(key)
        assert isinstance(app.screen, TeamScreen)

    drive(app, play)


def test_a_run_has_a_row_with_its_own_lines():
    run = {"kind": "spawn", "id": "r-12345678", "title": "three designs", "status": "running", "since": None, "done": 2,
           "failed": 0, "total": 5, "wave": 1, "waves": 3, "cost_usd": 0.12, "needs_human": False}  # fmt: skip
    app = top_of(snapshot([agent("a")], runs=[run]))

    async def play(pilot):
        await pilot.press("G")
        await until(pilot, lambda: "orchestrator spawn status r-12345678" in shown(app))
        assert "$0.12" in shown(app)

    drive(app, play)


def test_the_timeline_opens_and_closes():
    app = top_of(team(), requests=Requests())

    async def play(pilot):
        await pilot.press("T")
        await until(pilot, lambda: isinstance(app.screen, TimelineView))
        await pilot.press("h", "plus", "minus", "0", "j", "escape")
        await until(pilot, lambda: isinstance(app.screen, TeamScreen))

    drive(app, play)
