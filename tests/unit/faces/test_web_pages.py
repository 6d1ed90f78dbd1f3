"""The content of the web pages: escaped by construction, sent in parts, shared by all who look. No server, no I/O."""

import asyncio
import json
import re
from pathlib import Path

import pytest

from orchestrator.base.errors import BadRequest, NotReady
from orchestrator.core.model_usage import NO_MODEL
from orchestrator.faces.web.agent_page import agent_page
from orchestrator.faces.web.bug_lines import BugLines
from orchestrator.faces.web.html_elements import Markup, element, joined, path_to, preformatted
from orchestrator.faces.web.live_pages import KEEP_S, MOST_STREAMS, SETTLED_S, LivePages
from orchestrator.faces.web.page_content import PageContent, PageRequest
from orchestrator.faces.web.page_parts import failure_page, inbox_page, run_parts, team_page
from orchestrator.faces.web.site_pages import EVERY_S, SitePages
from tests.support.team import FakeClock, settle

TEAM = PageRequest("team")
EVIL = "</td><script>x</script>\"'`&\u202e\x1b[31m\ud800"


def row(agent_id, **facts):
    return {
        "agent_id": agent_id, "name": agent_id, "role": "r", "engine": "shell", "status": "idle", "reason": "",
        "queue_depth": 0, "running_task_id": None, "running_task_title": None, "attempt": None,
        "since": "2026-11-26T20:00:00.000Z", "finished": {}, "last_task": None, "cancel_requested": False, "host": None,
        "needs_human": False, "waits_for": None, "usage": None, "diff": None, "screen_line": "", **facts,
    }  # fmt: skip


def item(item_id="3f2a91bc", **facts):
    return {
        "id": item_id, "kind": "permission", "agent_id": "c1", "name": "c1", "run_id": "", "task_id": None,
        "task_title": None, "since": "2026-11-26T20:00:00.000Z", "until": None, "holds": True, "text": "asks to use Bash",
        "tool": "Bash", "cwd": "/p", "asked": "make", "questions": None, "answers": ["approve", "always", "deny"],
        "by": "hook", "cut": False, **facts,
    }  # fmt: skip


def snapshot(*rows, inbox=(), runs=(), **facts):
    totals = {
        "agents": len(rows),
        "need_you": 0,
        "busy": 0,
        "idle": len(rows),
        "ended": 0,
        "finished": {},
        "usage": None,
    }
    return {
        "version": 1, "boot": "b", "at": "2026-11-26T20:00:00.000Z", "project": "/p", "title": "p", "live": True,
        "totals": totals, "agents": list(rows), "inbox": list(inbox), "runs": list(runs), **facts,
    }  # fmt: skip


class NoCalls:
    """A daemon that shows an empty screen."""

    def screen(self, agent_id, lines=0):
        return []


def request_of(tab):
    return PageRequest("agent", agent="c1", tab=tab)


def html_of(page):
    return page.frame + "".join(part for slot in page.slots.values() for part in slot.values())


def test_text_becomes_markup_only_escaped_also_in_attributes():
    made = element(
        "a", EVIL, Markup("<b>ours</b>"), None, 5, href=EVIL, class_="x", data_key=EVIL, hidden=True, open=False
    )
    assert re.sub(r"<b>ours</b>", "", made).count("<") == 2
    assert "script>" not in made.replace("script&gt;", "") and "\u202e" not in made and "\x1b" not in made
    assert "<b>ours</b>" in made and " hidden>" in made and "open" not in made
    assert made.count('"') == 6, "no attribute is ended by its text"
    assert type(made + EVIL) is str, "a sum with text is no markup any more"
    assert element("p", made + EVIL).count("&lt;b&gt;") == 1
    assert joined(["<", Markup("<")]) == "&lt;<"
    assert preformatted("a\tb\r\nc").endswith(">a       b\nc</pre>")
    assert path_to("agents", "../x?y#z") == "/agents/..%2Fx%3Fy%23z"


@pytest.mark.parametrize(
    "field", ["name", "agent_id", "screen_line", "running_task_title", "host", "status", "reason"]
)
def test_hostile_words_of_a_row_stay_words(field):
    hostile = row("c1", **{field: EVIL}) if field != "agent_id" else row(EVIL)
    made = html_of(team_page(snapshot(hostile | {"running_task_id": "t1", "waits_for": None}, title=EVIL)))
    assert "<script" not in made and "\u202e" not in made and "\x1b" not in made


@pytest.mark.parametrize(
    "field", ["name", "agent_id", "text", "tool", "cwd", "asked", "task_title", "kind", "since", "until"]
)
def test_hostile_words_of_an_item_stay_words(field):
    questions = [{"question": EVIL, "header": EVIL, "multi": True, "options": [{"label": EVIL, "description": EVIL}]}]
    made = html_of(inbox_page(snapshot(inbox=[item(**{field: EVIL}, questions=questions)])))
    assert "<script" not in made and "\u202e" not in made and "\x1b" not in made
    run = {"kind": EVIL, "id": EVIL, "title": EVIL, "status": EVIL, "since": EVIL, "done": 1, "failed": 1, "total": 2,
           "wave": 1, "waves": 2, "cost_usd": 0.5, "needs_human": True}  # fmt: skip
    assert "<script" not in "".join(run_parts(snapshot(runs=[run]), heading=True).values())


def test_a_page_that_cannot_be_made_names_a_command_and_no_tool():
    made = html_of(failure_page(snapshot(), BadRequest("unknown_agent", "no agent is called 'x'")))
    assert "orchestrator agent list" in made and "agent_list" not in made


@pytest.mark.parametrize(
    ("until", "shown"),
    [
        ("2026-11-26T23:00:00.000Z", 'datetime="2026-11-26T23:00:00.000Z" data-moment'),
        ("3pm (Europe/Berlin)", "<bdi>3pm (Europe/Berlin)</bdi>"),
    ],
)
def test_the_end_of_a_limit_is_an_instant_or_what_the_cli_says(until, shown):
    made = html_of(inbox_page(snapshot(inbox=[item(kind="rate_limit", until=until)])))
    assert shown in made and ("data-moment" in shown) == ("data-moment" in made)


def test_an_item_shows_its_whole_text_and_the_answers_that_work_now():
    made = html_of(inbox_page(snapshot(inbox=[item(asked="first\nlast", answers=["approve", "deny", "unknown"])])))
    assert "first\nlast</pre>" in made
    assert re.findall(r'data-decision="(\w+)"', made) == ["approve", "deny"]
    cut = html_of(inbox_page(snapshot(inbox=[item(cut=True, answers=["deny"])])))
    assert "not the whole text" in cut and "approve" not in cut


@pytest.mark.parametrize(
    ("label", "word"), [("Red", "Red"), ("Blue, dark", "2"), ("a\nb", "2"), (" x", "2"), ("a:b", "2"), ("", "2")]
)
def test_an_option_is_named_by_its_number_where_its_label_could_not_come_back(label, word):
    options = [{"label": "first", "description": ""}, {"label": label, "description": ""}]
    question = {"question": "Which?", "header": "", "multi": False, "options": options}
    made = html_of(inbox_page(snapshot(inbox=[item(kind="question", questions=[question])])))
    assert re.findall(r'<input type="radio" name="3f2a91bc-0" value="([^"]*)">', made) == ["first", word]


def test_a_screen_keeps_its_columns_and_shows_what_would_reorder_it_as_a_code(tmp_path):
    class Calls(NoCalls):
        def screen(self, agent_id, lines=0):
            return ["\u23bf \xa0$ make", "a\u202eb"]

    shown = agent_page(tmp_path, request_of("screen"), snapshot(row("c1")), Calls())
    assert "\u23bf  $ make\na\\u202eb" in shown.slots["tab"]["screen"]


def test_an_agent_without_a_model_has_no_cost(tmp_path):
    free = {"input": 0, "cached": 0, "output": 0, "cost_usd": 0.0, "unknown": NO_MODEL}
    paid = free | {"cost_usd": 0.5, "unknown": ""}

    def facts(usage):
        page = agent_page(tmp_path, request_of("screen"), snapshot(row("c1", usage=usage)), NoCalls())
        return page.slots["facts"]["facts"]

    assert "<dt>Cost</dt>" in facts(paid) and "<dt>Cost</dt>" not in facts(free)


def test_a_team_without_agents_and_an_inbox_without_items_say_so():
    assert "no agents" in html_of(team_page(snapshot()))
    assert "Nothing waits for you." in html_of(inbox_page(snapshot()))
    assert "no daemon answers" in html_of(team_page(snapshot(live=False)))


def sent(before, after):
    text = after.message_after(before).decode()
    return json.loads(text.split("data: ", 1)[1]) if text else None


def page(frame="f", **slots):
    return PageContent(Markup(frame), slots)


def test_only_parts_that_changed_are_sent_with_the_order_of_all():
    first = page(rows={"a": Markup("1"), "b": Markup("2")}, head={"h": Markup("x")})
    assert sent(None, first) == {
        "frame": "f",
        "slots": {
            "rows": {"order": ["a", "b"], "parts": {"a": "1", "b": "2"}},
            "head": {"order": ["h"], "parts": {"h": "x"}},
        },
    }
    assert sent(first, page(rows={"a": Markup("1"), "b": Markup("2")}, head={"h": Markup("x")})) is None
    assert sent(
        first, page(rows={"b": Markup("2"), "a": Markup("3"), "c": Markup("4")}, head={"h": Markup("x")})
    ) == {"slots": {"rows": {"order": ["b", "a", "c"], "parts": {"a": "3", "c": "4"}}}}
    assert sent(first, page(rows={"b": Markup("2")}, head={"h": Markup("x")})) == {
        "slots": {"rows": {"order": ["b"], "parts": {}}}
    }
    assert "frame" in sent(first, page("other", rows={"a": Markup("1")}))
    assert first.message_after(None) is first.message_after(None), "all who come new get the same bytes"


class Snapshots:
    def __init__(self):
        self.value = {"version": 1}

    def latest(self):
        return self.value

    def wait(self, number, timeout_s):
        return number


class Source:
    """Counts how often a page is made."""

    def __init__(self):
        self.made = 0
        self.lines = []
        self.error = None

    def depends_on(self, request, snapshot, now):
        return snapshot["version"]

    def content(self, request, snapshot):
        self.made += 1
        if self.error:
            raise self.error
        return page(rows={"n": Markup(f"version {snapshot['version']}")})


def live():
    clock, snapshots, source = FakeClock(), Snapshots(), Source()
    return LivePages(snapshots, source, clock, BugLines(source.lines.append)), snapshots, source, clock


@pytest.mark.anyio
async def test_all_streams_of_a_page_share_its_content():
    pages, _, source, _ = live()
    first, second = pages.messages(TEAM), pages.messages(TEAM)
    assert await anext(first) is await anext(second)
    assert source.made == 1
    await first.aclose()
    await second.aclose()


@pytest.mark.anyio
async def test_a_silent_stream_says_that_it_lives_and_a_change_is_sent():
    pages, snapshots, _, clock = live()
    stream = pages.messages(TEAM)
    await anext(stream)
    following = asyncio.create_task(anext(stream))
    for _ in range(200):
        await clock.advance(KEEP_S)
        await settle()
        if following.done():
            break
    assert (await following).startswith(b": ")
    snapshots.value = {"version": 2}
    following = asyncio.create_task(anext(stream))
    for _ in range(200):
        await clock.advance(KEEP_S)
        await asyncio.to_thread(lambda: None)
        if following.done():
            break
    assert b"version 2" in await following
    pages.end()
    await stream.aclose()


@pytest.mark.parametrize(
    "request_", [PageRequest(view) for view in ("timeline", "runs", "files")] + [PageRequest("agent", "c1", "diff")]
)
def test_a_page_that_is_read_elsewhere_is_not_made_anew_for_the_records_of_others(request_):
    pages, now, team = SitePages(Path("/nowhere"), None), 1000.0, (row("c1"), row("c2"))
    before = pages.depends_on(request_, snapshot(*team), now)
    others = snapshot(row("c1"), row("c2", last_event_seq=2), version=2)
    assert pages.depends_on(request_, others, now + 0.5) == before
    assert pages.depends_on(request_, snapshot(*team), now + EVERY_S[request_.tab or request_.view]) != before
    assert pages.depends_on(request_, snapshot(*team, inbox=[item()]), now) != before, "its head says who waits"
    assert pages.depends_on(request_, snapshot(*team, live=False), now) != before
    own = snapshot(row("c1", last_event_seq=2), row("c2"), version=2)
    assert (pages.depends_on(request_, own, now) != before) == (request_.agent == "c1")
    assert pages.depends_on(TEAM, snapshot(*team), now) != pages.depends_on(TEAM, others, now)


@pytest.mark.anyio
async def test_a_page_that_was_made_too_early_for_the_last_news_is_made_again_soon():
    pages, snapshots, source, clock = live()
    source.depends_on = lambda _request, _snapshot, now: int(now / SETTLED_S)
    stream, begun = pages.messages(PageRequest("timeline")), clock.monotonic()
    await anext(stream)
    snapshots.value = {"version": 2}
    following = asyncio.create_task(anext(stream))
    while not following.done():
        await clock.advance(0.5)
        await asyncio.to_thread(lambda: None)
        assert clock.monotonic() - begun < KEEP_S
    assert b"version 2" in await following
    pages.end()
    await stream.aclose()


@pytest.mark.anyio
async def test_a_page_that_cannot_be_made_says_why_to_all():
    pages, snapshots, source, _ = live()
    snapshots.value |= snapshot()
    source.error = BadRequest("unknown_agent", "no agent is called <x>")
    message = await anext(pages.messages(TEAM))
    assert b"no agent is called &lt;x&gt;" in message


@pytest.mark.anyio
async def test_a_page_with_a_bug_says_so_and_leaves_one_line_without_its_words():
    pages, snapshots, source, _ = live()
    snapshots.value |= snapshot()
    source.error = KeyError("a secret\x1b[31m")
    for version in (2, 3):
        snapshots.value = snapshots.value | {"version": version}
        message = await anext(pages.messages(TEAM))
        assert b"a bug in orchestrator web" in message and b"secret" not in message
    (line,) = source.lines
    assert "KeyError" in line and line.count("\n") == 1
    assert "orchestrator/faces/web/" in line and "secret" not in line and "\x1b" not in line


def test_a_place_is_given_back_also_after_an_error_and_the_last_one_is_the_last():
    pages, *_ = live()
    with pytest.raises(RuntimeError), pages.place():
        raise RuntimeError
    assert pages.streams == 0
    pages.streams = MOST_STREAMS
    with pytest.raises(NotReady), pages.place():
        pass
