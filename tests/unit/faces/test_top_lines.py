"""What the tabs of top read and how lines are broken and drawn, and the timeline as lines."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.base.errors import BadRequest, NotReady
from orchestrator.base.text_width import columns_of
from orchestrator.faces.timeline import Bar, Lane, Timeline, Wait
from orchestrator.faces.top.item_texts import given_text, item_for, item_lines, why_not
from orchestrator.faces.top.line_view import _broken
from orchestrator.faces.top.tab_line import TABS
from orchestrator.faces.top.tab_lines import text_of, without_secrets
from orchestrator.faces.top.tab_texts import LINE_MOST, MOST_LINES, TabReader
from orchestrator.faces.top.timeline_drawing import (
    TimeWindow,
    axis_line,
    details,
    lane_line,
    name_width,
    whole_of,
)
from orchestrator.team.worktrees.changes import WorktreeDiff
from tests.support.run_files import RunFiles
from tests.support.top_team import Requests, agent, busy, item

# -- lines ------------------------------------------------------------------------------------------------------------


@given(st.text(st.characters(exclude_categories=("C", "Z")) | st.just(" "), max_size=200), st.integers(2, 40))
def test_a_broken_line_loses_nothing_but_spaces_and_no_piece_is_too_wide(text, width):
    pieces = [text_of(piece) for piece in _broken([(text, "")], width)]
    assert all(columns_of(piece) <= width for piece in pieces)
    assert "".join(pieces).replace(" ", "") == text.replace(" ", "")


def test_a_very_long_line_is_broken_in_one_pass():
    assert len(_broken([("한" * 100_000, "")], 80)) == 2_500


SECRET = "sk-ant-0123456789abcdef"


def test_secrets_are_masked_also_over_several_lines_and_styles_stay():
    key = ["-----BEGIN RSA PRIVATE KEY-----", *(["MIIE" + "x" * 60] * 80), "-----END RSA PRIVATE KEY-----"]
    lines = ["a", [(f"+token = {SECRET}", "green")], "b", *key, "", "password:", "  hunter2secret", [("c", "red")]]
    shown = without_secrets(lines)
    texts = [text_of(line) for line in shown]
    assert not any(SECRET in text or "MIIE" in text or "hunter2" in text for text in texts)
    assert texts[0] == "a"
    assert texts[-1] == "c"
    assert [text.strip() for text in texts].count("") == 1
    assert without_secrets(lines[:3])[1][0][1] == "green"
    assert without_secrets(["x" * 5000, *key])[0] == "x" * 5000


@pytest.mark.parametrize("tab", TABS)
def test_no_tab_shows_a_secret(tab, tmp_path, monkeypatch):
    text = f"fine\n$ export API_KEY={SECRET}"
    files, requests = RunFiles(tmp_path), Requests()
    of_agent = files.agent("a")
    of_agent.task("t1", 10, text)
    of_agent.end("t1", 20, payload={"message": text})
    files.save()
    requests.lines = text.split("\n")
    requests.meta = lambda _: Requests().meta("a") | {"reason": text}
    change = WorktreeDiff("base", text.encode(), False, [])
    monkeypatch.setattr("orchestrator.team.worktrees.changes.diff", lambda *_: change)
    row = agent("a", last_task={"task_id": "t1"})
    shown = "\n".join(text_of(line) for line in TabReader(tmp_path, requests).read(tab, row))
    assert "fine" in shown and "API_KEY" in shown
    assert SECRET not in shown


class Broken(Requests):
    def screen(self, agent_id, lines=0):
        raise NotReady("daemon_down", "no daemon runs", "run: orchestrator daemon start")


def test_what_cannot_be_read_is_said_in_the_tab(tmp_path):
    reader = TabReader(tmp_path, Broken())
    assert reader.read("screen", agent("a")) == ["no daemon runs", "run: orchestrator daemon start"]
    assert reader.read("task", busy("a", "x"))[0]
    assert "no task yet" in text_of(reader.read("task", agent("a"))[0])
    assert "no task has ended" in text_of(reader.read("result", agent("a"))[0])


def test_an_error_in_a_tab_names_a_command_and_no_tool(tmp_path):
    class Gone(Requests):
        def screen(self, agent_id, lines=0):
            raise BadRequest("unknown_agent", "no agent is called 'a'")

    shown = str(TabReader(tmp_path, Gone()).read("screen", agent("a")))
    assert "orchestrator agent list" in shown and "agent_list" not in shown


def test_long_texts_are_bounded_and_strange_ones_made_visible(tmp_path):
    requests = Requests()
    reader = TabReader(tmp_path, requests)
    requests.lines = ["x" * (LINE_MOST + 5), "\x1b[2J\u202eevil\tend", "a\u00a0b"]
    assert reader.read("screen", agent("a"))[0].endswith("… 5 more characters")
    assert reader.read("screen", agent("a"))[1] == "\\x1b[2J\\u202eevil       end"
    assert reader.read("screen", agent("a"))[2] == "a b"
    requests.lines = ["x"] * (MOST_LINES + 3)
    assert reader.read("screen", agent("a"))[-1] == "… 3 more lines"


def test_the_end_of_the_screen_is_shown_without_empty_lines(tmp_path):
    requests = Requests()
    requests.lines = ["a", "", "b", "  ", ""]
    assert TabReader(tmp_path, requests).read("screen", agent("a")) == ["a", "", "b"]


# -- items ------------------------------------------------------------------------------------------------------------


def test_an_item_is_shown_whole_with_its_place():
    lines = [text_of(line) for line in item_lines(item("1", "c1", cut=True, until="2026-01-02T04:00:00Z"))]
    assert lines[0] == "asks to use Bash: rm -rf build"
    assert {"tool: Bash", "in: /shop", "task: clean the build dir", "rm -rf build/c1 &&", "make"} <= set(lines)
    assert "not the whole text" in lines[-1]


def test_the_item_by_which_the_agent_stands_still_is_answered_first():
    inbox = [item("1", "c1"), item("2", "c1"), item("3", "c2")]
    assert item_for(inbox, agent("c1", waits_for={"item": "2"}), "approve")["id"] == "2"
    assert item_for(inbox, agent("c1"), "approve")["id"] == "1"
    assert item_for(inbox, agent("c1"), "answer") is None
    assert "approve, always, deny, release" in why_not(inbox, agent("c1"), "answer", "c1")
    assert given_text({"questions": [1, 2]}, ["a", "b"]) == "1: a\n2: b"


# -- the timeline -------------------------------------------------------------------------------------------------------


def clock(minute, second=0):
    return f"2026-01-02T03:{minute:02}:{second:02}.000Z"


def run(end=None):
    bars = [
        Bar("t1", "make all", clock(0), clock(10), "result", 1),
        Bar("t2", "lint", clock(10), clock(20), "error", 2, "exit 2"),
        Bar("t3", "docs", clock(40), None, "", 1),
    ]
    waits = [Wait(clock(12), clock(16), "permission", "asks to use Bash", "approve", "human, top")]
    return Timeline(
        "run-1",
        clock(0),
        end,
        [Lane("a", "builder", "claude", bars=bars, waits=waits), Lane("b", "한글", "shell")],
        [],
    )


NOW = datetime(2026, 1, 2, 4, 0, tzinfo=UTC)


@pytest.mark.parametrize("width", [20, 44, 80, 220])
def test_a_lane_shows_bars_and_waits_in_their_time_and_fits(width):
    timeline = run()
    whole, names = whole_of(timeline, NOW), name_width(timeline, width)
    assert columns_of(text_of(axis_line(whole, width, names, UTC))) <= width
    line = text_of(lane_line(timeline.agents[0], whole, width, names, chosen=True))
    assert columns_of(line) <= width
    assert line.startswith("▶ build")
    assert line.index("✓") < line.index("✕") < line.index("◐") < line.index("●")
    assert columns_of(text_of(lane_line(timeline.agents[1], whole, width, names, chosen=False))) <= width
    plain = text_of(lane_line(timeline.agents[0], whole, width, names, chosen=True, ascii_only=True))
    assert plain.replace("…", "").isascii()


def test_a_bar_has_its_title_and_attempt_where_there_is_room():
    timeline = run()
    line = text_of(lane_line(timeline.agents[0], whole_of(timeline, NOW), 220, 10, chosen=False))
    assert "✓make all" in line
    assert "●docs" in line


def test_details_tell_attempts_and_waits_in_the_order_of_time():
    lines = [text_of(line) for line in details(run().agents[0], UTC)]
    assert lines[0] == "03:00:00 - 03:10:00  result  make all"
    assert lines[1] == "03:10:00 - 03:20:00  error  lint (attempt 2): exit 2"
    assert lines[2] == "03:12:00 - 03:16:00  waited for a human (permission)  asks to use Bash: approve by human, top"
    assert lines[3] == "03:40:00 - now  runs  docs"


def test_a_window_moves_and_zooms_within_the_run():
    whole = TimeWindow(0.0, 100.0)
    half = whole.zoomed(0.5, whole)
    assert half == (25.0, 75.0)
    assert half.moved(-10, whole) == (0.0, 50.0)
    assert half.moved(10, whole) == (50.0, 100.0)
    assert half.zoomed(100, whole) == whole
    assert whole.zoomed(1e-9, whole).end - whole.zoomed(1e-9, whole).begin == 1.0


def test_a_finished_run_ends_where_it_ended_and_damaged_times_do_no_harm():
    assert whole_of(run(end=clock(30)), NOW).end == datetime(2026, 1, 2, 3, 30, tzinfo=UTC).timestamp()
    odd = Timeline("r", "nonsense", None, [Lane("a", "x", "", bars=[Bar("t", "t", "?", "?", "odd", 1)])], [])
    assert lane_line(odd.agents[0], whole_of(odd, NOW), 40, 5, chosen=False)
