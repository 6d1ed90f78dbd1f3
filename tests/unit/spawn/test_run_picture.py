"""The drawing of a spawn run: well-formed whatever is in it, loading nothing, true about waves, times and cost."""

import re
import xml.etree.ElementTree as ET
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.base.clock import rfc3339
from orchestrator.base.svg_page import escaped
from orchestrator.spawn.picture_words import critical_path, dollars, instant, seconds, spans_of, totals
from orchestrator.spawn.run_page import html
from orchestrator.spawn.run_picture import COLOURS, MARK, mode_picture, svg
from tests.support.drawn_pages import seen
from tools import docs

SVG = "{http://www.w3.org/2000/svg}"
BEGIN = datetime(2026, 2, 28, 23, 59, 55, tzinfo=UTC)
HOSTILE = "</script></title></style>-->\"'&<b onload=x>]]>\x00\x1b[2J\x9f\u202e\ud800\ufffe"


def at(offset):
    return rfc3339(BEGIN + timedelta(seconds=offset))


def node(name, *needs, wave=0, times=None, status="completed", **more):
    row = {"node_id": name, "kind": "task", "wave": wave, "model": "m", "status": status, "needs": list(needs)}
    if times:
        row |= {"started_at": at(times[0]), "seconds": times[1] - times[0]}
        row |= {} if status == "running" else {"finished_at": at(times[1])}
    return row | {"attempts": 1, "reruns": 0, "usd": 0.0125} | more


def picture(*nodes, events=(), **run):
    known = {"run_id": "r-1", "mode": "swarm", "status": "completed", "task": "Ship it", "updated_at": at(20)}
    return {"run": known | run, "nodes": list(nodes), "events": list(events)}


def texts(drawn):
    return [element.text for element in ET.fromstring(drawn).iter(f"{SVG}text")]


def boxes(drawn):
    """Where each node's box stands: id -> (x, y)."""
    found = {}
    for group in ET.fromstring(drawn).iter(f"{SVG}g"):
        rect, words = group.find(f"{SVG}rect"), group.findall(f"{SVG}text")
        if rect is not None and rect.get("rx") == "7":
            found[words[0].text] = (float(rect.get("x")), float(rect.get("y")))
    return found


RUN = picture(
    node("a", times=(0, 3)),
    node("b", times=(0, 5)),
    node("c", "a", wave=1, times=(3, 7), status="failed", error="the model is gone"),
    node("d", "a", "b", wave=1, times=(6, 9), attempts=3, reruns=1),
    node("merged", "a", "b", "d", wave=2, times=(9, 11), kind="merge"),
)


def test_every_box_says_node_model_status_time_cost_and_what_was_tried_again():
    words = texts(svg(RUN))
    assert {"a", "m", "completed · 3.0 s · $0.0125", "failed · 4.0 s · $0.0125", "3 attempts, re-run 1x"} <= set(
        words
    )
    assert {"wave 0", "wave 1", "wave 2", "critical path"} <= set(words)
    hints = [element.text for element in ET.fromstring(svg(RUN)).iter(f"{SVG}title")]
    assert any("the model is gone" in hint for hint in hints)


def test_a_node_stands_right_of_all_it_needs_also_when_its_wave_says_otherwise():
    found = boxes(svg(picture(node("a", wave=5), node("b", "a", wave=0), node("c", "b", wave=0))))
    assert found["a"][0] < found["b"][0] < found["c"][0]


def test_no_two_boxes_of_a_swarm_of_200_overlap_and_none_is_left_out():
    first = [node(f"n-{n}") for n in range(150)]
    rest = [node(f"m-{n}", f"n-{n}", wave=1) for n in range(49)]
    merged = node("merged", *(one["node_id"] for one in first + rest), wave=2)
    drawn = svg(picture(*first, *rest, merged))
    found = boxes(drawn)
    assert len(found) == len(set(found.values())) == 200
    columns = {}
    for x, y in found.values():
        columns.setdefault(x, []).append(y)
    assert max(map(len, columns.values())) <= 25
    assert min(abs(x - y) for x in columns for y in columns if x != y) >= 204
    sheet = ET.fromstring(drawn)
    assert float(sheet.get("width")) > max(columns) + 204


def test_the_critical_path_goes_back_over_what_was_waited_for_longest():
    assert critical_path(RUN["nodes"], spans_of(RUN)) == ["b", "d", "merged"]
    drawn = ET.fromstring(svg(RUN))
    marked = [one for one in drawn.iter(f"{SVG}path") if one.get("class") == "edge critical"]
    assert len(marked) == 2
    assert len([one for one in drawn.iter(f"{SVG}rect") if one.get("class") == "critical"]) == 3
    assert "critical path: 3 nodes, 10.0 s of work in 11.0 s" in texts(svg(RUN))


def test_a_cycle_of_needs_ends_the_search_for_the_critical_path():
    nodes = [node("a", "b", times=(0, 1)), node("b", "a", times=(0, 2))]
    assert critical_path(nodes, spans_of(picture(*nodes))) == ["a", "b"]
    ET.fromstring(svg(picture(*nodes)))


def test_the_time_line_shows_each_attempt_and_runs_to_the_last_thing_known():
    tries = [
        {"state": "failed", "started_at": at(0), "finished_at": at(1)},
        {"state": "lost", "started_at": at(3), "finished_at": at(4)},
        {"state": "running", "started_at": at(5), "finished_at": None},
    ]
    one = node("a", times=(0, 0), status="running", attempts_list=tries)
    bars = [
        (rect.get("class"), float(rect.get("x")), float(rect.get("width")))
        for rect in ET.fromstring(svg(picture(one))).iter(f"{SVG}rect")
        if rect.get("height") == "12" and rect.get("rx") is None
    ]
    assert [kind.split()[1] for kind, *_ in bars] == ["s-failed", "s-failed", "s-running"]
    assert [(round(x), round(width)) for _, x, width in bars] == [(200, 36), (308, 36), (380, 540)]


def test_instants_count_across_months_and_leap_days_as_the_calendar_does():
    days = [
        datetime(year, month, 28, tzinfo=UTC) for year in (1999, 2000, 2024, 2026, 2100) for month in range(1, 13)
    ]
    for day in days:
        for more in (1, 2, 4, 40):
            later = day + timedelta(days=more, seconds=more)
            assert instant(rfc3339(later)) - instant(rfc3339(day)) == pytest.approx(more * 86401)
    assert instant(None) is instant("yesterday") is None


def test_a_run_that_has_not_begun_has_no_time_line_and_no_critical_path():
    words = texts(svg(picture(node("a", status="queued", usd=None))))
    assert "critical path" not in words
    assert "queued" in words
    assert texts(svg(picture()))[0] == "Ship it"


@pytest.mark.parametrize("status", COLOURS)
def test_a_status_is_told_by_a_word_and_by_a_colour_in_light_and_dark(status):
    drawn = svg(picture(node("a", status=status)))
    assert f'class="box s-{status}"' in drawn
    assert status in texts(drawn)
    assert drawn.count(f".s-{status}{{fill") == 2
    assert "@media(prefers-color-scheme:dark)" in drawn


def hostile():
    events = [{"seq": 1, "ts": HOSTILE, "level": HOSTILE, "node_id": HOSTILE, "message": HOSTILE}]
    one = node(HOSTILE, model=HOSTILE, task=HOSTILE, error=HOSTILE, reason=HOSTILE, status=HOSTILE)
    other = node("b", HOSTILE, wave=1, cost_source=HOSTILE, retry_at=HOSTILE, times=(0, 1))
    models = [{"model": HOSTILE, "usd": HOSTILE, "nodes": HOSTILE}]
    return picture(one, other, events=events, run_id=HOSTILE, task=HOSTILE, mode=HOSTILE, models=models)


def test_hostile_words_stay_words_in_the_svg():
    drawn = svg(hostile())
    drawn.encode()
    sheet = ET.fromstring(drawn)
    assert {element.tag.removeprefix(SVG) for element in sheet.iter()} <= {
        "svg", "title", "desc", "style", "rect", "g", "text", "path", "line",
    }  # fmt: skip
    assert not any(name.startswith("on") for element in sheet.iter() for name in element.attrib)
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e\ufffe]", drawn)


def test_hostile_words_stay_words_in_the_page():
    page = html(hostile())
    page.encode()
    found = seen(page)
    assert "script" not in found.tags
    assert "b" not in found.tags
    assert not {name for name in found.attributes if name.startswith("on") or name in ("src", "href", "style")}
    assert "</script>" in " ".join(found.words)


@given(st.text(), st.integers(0, 40))
def test_whatever_the_text_it_is_sound_xml(text, cells):
    shown = ET.fromstring(f'<a b="{escaped(text, cells)}">{escaped(text, cells)}</a>')
    assert shown.text is None or not cells or len(shown.text) <= cells + 12


def test_wide_characters_take_two_columns_of_the_room():
    assert escaped("한국어문서", 6) == "한국…"
    assert escaped("abcdef", 6) == "abcdef"


@pytest.mark.parametrize("draw", [svg, html])
def test_what_is_drawn_loads_nothing_and_can_be_known_as_ours(draw):
    drawn = draw(RUN)
    assert MARK in drawn[:400]
    drawn = drawn.replace("http://www.w3.org/2000/svg", "")
    assert not re.search(r"https?:|//|url\(|@import|@font-face|<script|<link|<img|<iframe", drawn)


def test_the_page_has_tables_of_nodes_models_and_events_and_the_whole_task():
    events = [{"seq": 1, "ts": at(0), "level": "warning", "node_id": "c", "message": "HTTP 503"}]
    models = [{"model": "lab/m", "usd": 1.5, "nodes": 4, "prompt_tokens": 10, "completion_tokens": 20}]
    page = html(RUN | {"events": events, "run": RUN["run"] | {"models": models, "task": "x" * 5000}})
    words = seen(page).words
    assert {"HTTP 503", "lab/m", "$1.50", "10 + 20", "x" * 5000, "the model is gone"} <= set(words)
    assert page.count('scope="col"') == 14 + 4 + 5


def test_a_screen_reader_is_told_what_is_seen():
    sheet = ET.fromstring(svg(RUN))
    assert sheet.get("role") == "img"
    named = {element.get("id"): element.text for element in sheet if element.get("id")}
    assert list(named) == sheet.get("aria-labelledby").split()
    assert named["spawn-title"] == "Spawn run r-1"
    assert "d completed after a, b" in named["spawn-about"]


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, "-"), ("x", "-"), ("NaN", "-"), (0, "$0.00"), ("0.00005", "<$0.0001"), (0.0125, "$0.0125"), (2, "$2.00"),
        ("12.346", "$12.35"),
    ],
)  # fmt: skip
def test_amounts_keep_what_counts_of_them(value, shown):
    assert dollars(value) == shown


@pytest.mark.parametrize(
    ("value", "shown"),
    [(None, "-"), (0.04, "0.0 s"), (59, "59.0 s"), (61.4, "1 min 01 s"), (3600, "1 h 00 min"), (7384, "2 h 03 min")],
)
def test_durations_are_told_as_humans_tell_them(value, shown):
    assert seconds(value) == shown


@pytest.mark.parametrize(
    ("limit", "shown"), [(5.0, ["$0.0100 of $5.00", "7 + 9 tokens"]), (None, [])], ids=["models", "squads and agents"]
)
def test_money_and_tokens_are_told_only_where_there_is_a_price(limit, shown):
    usd = limit and 0.01
    run = {"mode": "single", "cost": {"usd": usd, "limit_usd": limit, "prompt_tokens": 7, "completion_tokens": 9}}
    assert totals(run) == ["single", *shown]


def test_what_may_have_been_charged_is_told_apart_in_drawing_and_page():
    unknown = {"usd": 0.01, "maybe_charged_usd": 0.41}
    told = picture(node("a", **unknown), cost={**unknown, "limit_usd": 5}, notes=["odd <model>"])
    assert " ".join(texts(svg(told))).count("$0.4100 may have been charged") == 2
    page = html(told)
    assert "$0.0100; $0.4100 may have been charged" in page
    assert "odd &lt;model&gt;" in page


def test_the_pictures_of_the_modes_are_current():
    drawn = docs.pictures()
    assert [path.stem for path in drawn] == ["single", "collective", "cascade", "plan", "swarm", "debate"]
    assert not any("…" in text for text in drawn.values()), "a word is too long for its box"
    assert [path.name for path in drawn if path.read_text("utf-8") != drawn[path]] == [], "run: python tools/docs.py"


def test_there_is_no_picture_of_a_mode_that_does_not_exist():
    with pytest.raises(KeyError):
        mode_picture("chaos")
