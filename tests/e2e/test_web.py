"""The web pages in Debian's Chromium: shown, followed, accessible, silent; and a real CLI that is answered there."""

import os
import re
import signal

import pytest

from tests.e2e import axe
from tests.e2e.agent import QUICK, Agent
from tests.e2e.clis import Missing
from tests.e2e.conftest import unable
from tests.e2e.test_opencode import of_the_user
from tests.e2e.world import START_S
from tests.support import browser
from tests.support.documented import orchestrator
from tests.support.stage import until
from tests.support.web_pages import opened_site

WIDTHS = (360, 800, 1400)
PAGES = ("/", "/inbox", "/timeline", "/runs", "/files", *(
    f"/agents/unit?tab={tab}" for tab in ("screen", "task", "result", "log", "diff", "records", "files")
))  # fmt: skip
EVIL = "<img src=x onerror=document.title='evil'><script>document.title='evil'</script>"


@pytest.fixture(autouse=True)
def chromium():
    if browser.program() is None:
        unable("Chromium is not installed: make test-web installs it, or apt-get install chromium")


@pytest.fixture
def team(stage):
    """Three agents: one works, one has failed, one is idle; their texts are hostile."""
    for name in ("unit", "lint", "docs"):
        assert "error" not in orchestrator(stage, "agent", "create", name, "--role", EVIL, "--engine", "shell")
    orchestrator(stage, "task", "add", "lint", "--command", f"echo '{EVIL}'; sleep 600")
    orchestrator(stage, "task", "add", "unit", "--command", f'echo "{EVIL}"; exit 3', "--wait")
    (stage.root / ".agents/agents/unit/artifacts/page.html").write_text(EVIL)
    return stage


def link(site, at=0):
    return f"{site.url}/#t={site.tokens[at]}"


def go(page, path):
    """Follow a link of the site, as its own links do."""
    page.evaluate(
        "path => { history.pushState(null, '', path); dispatchEvent(new PopStateEvent('popstate')); }", path
    )
    page.wait_for_selector("main h1")


def decided(page):
    """The dialog has closed, since the answer was carried out; fails with what the dialog says instead."""
    page.wait_for_selector("dialog:not([open]), dialog[open] .result:not(:empty)", state="attached")
    refused = page.locator("dialog[open] .result")
    assert refused.count() == 0, refused.inner_text()


@pytest.mark.parametrize("dark", [False, True])
def test_every_page_fits_is_accessible_and_complains_of_nothing(team, dark):
    try:
        axe.script()
    except Missing as error:
        unable(str(error))
    with opened_site(team) as site, browser.opened(link(site), dark=dark) as (page, complaints):
        page.wait_for_selector("tbody tr")
        for path in PAGES:
            go(page, path)
            for width in WIDTHS:
                page.set_viewport_size({"width": width, "height": 800})
                assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), (path, width)
            assert axe.violations(page) == [], path
        go(page, "/inbox")
        page.get_by_role("button", name="Dismiss").click()
        page.wait_for_selector("dialog[open]")
        assert axe.violations(page) == []
        assert "evil" not in page.title()
        page.keyboard.press("Escape")
        page.evaluate("document.documentElement.removeAttribute('lang')")
        assert axe.violations(page) != [], "axe looks"
        assert complaints == []


def test_a_page_is_live_and_keeps_its_token_in_the_tab_alone(team):
    with opened_site(team) as site, browser.opened(link(site)) as (page, complaints):
        row = page.locator("tr[data-key=docs]")
        row.wait_for()
        assert page.url == f"{site.url}/"
        assert page.context.cookies() == [] and page.evaluate("localStorage.length") == 0
        orchestrator(team, "task", "add", "docs", "--command", "true", "--wait")
        row.get_by_text("1/0").wait_for()
        assert page.title().startswith("project")
        page.reload()
        row.wait_for()
        page.get_by_role("link", name="docs").click()
        page.get_by_role("link", name="result").click()
        page.locator("details", has_text="result").first.wait_for()
        page.go_back()
        page.locator("a[aria-current=page]", has_text="screen").wait_for()
        other = page.context.new_page()
        other.goto(f"{site.url}/")
        other.get_by_text("This page needs a token").wait_for()
        assert "docs" not in other.content()
        assert [line for line in complaints if "401" not in line] == []


def test_the_keyboard_alone_answers_and_a_link_that_reads_shows_no_button(team):
    with opened_site(team, "--share") as site:
        with browser.opened(link(site, 1)) as (page, complaints):
            go(page, "/inbox")
            page.locator("article").wait_for()
            assert page.get_by_role("button", name="Dismiss").count() == 0
        with browser.opened(link(site)) as (page, complaints):
            go(page, "/inbox")
            button = page.get_by_role("button", name="Dismiss")
            button.focus()
            page.keyboard.press("Enter")
            page.wait_for_selector("dialog[open]")
            page.keyboard.press("Escape")
            page.wait_for_selector("dialog:not([open])", state="attached")
            assert button.evaluate("button => button === document.activeElement")
            page.keyboard.press("Enter")
            page.keyboard.press("Shift+Tab")
            page.keyboard.press("Enter")
            page.get_by_text("Nothing waits for you.").wait_for()
            assert complaints == []
    assert [each["decision"] for each in team.records("unit") if each["type"] == "answered"] == ["dismiss"]


def test_a_page_that_nobody_sees_follows_nothing_and_a_server_that_ends_is_said(team):
    with browser_of(team) as (site, page):
        go(page, "/agents/lint?tab=screen")
        page.locator("pre", has_text="onerror").wait_for()
        site.human.type("\x03")
        assert site.human.end() == 130
        page.get_by_role("alert").get_by_text("No connection").wait_for()


def test_a_page_whose_connection_fell_silent_says_so_and_finds_its_way_back(team):
    """As after a sleep of the machine, or of a tunnel: nothing ends the connection, and nothing comes."""
    with browser_of(team) as (_site, page):
        row = page.locator("tr[data-key=docs]")
        row.wait_for()
        page.clock.install()
        page.clock.fast_forward(30_000)
        assert page.get_by_role("alert").count() == 0
        (server,) = (pid for pid, words in team.processes().items() if re.match(r"\S*python.* web --port", words))
        os.kill(server, signal.SIGSTOP)
        try:
            page.clock.fast_forward(60_000)
            page.get_by_role("alert").get_by_text("No connection").wait_for()
        finally:
            os.kill(server, signal.SIGCONT)
        page.get_by_role("alert").wait_for(state="hidden")
        orchestrator(team, "task", "add", "docs", "--command", "true", "--wait")
        row.get_by_text("1/0").wait_for()


def test_a_dialog_waits_for_the_reply_to_its_own_answer(team):
    """The page may show that the item is gone before the reply has come: nobody else has answered it."""
    with browser_of(team) as (_site, page):
        page.get_by_role("link", name="Inbox").click()
        page.get_by_role("button", name="Dismiss").click()
        held = []
        page.route("**/answer", lambda route: held.append((route, route.fetch())))
        dialog = page.locator("dialog[open]")
        dialog.get_by_role("button", name="Dismiss").click()
        page.get_by_text("Nothing waits for you.").wait_for()
        (route, response), *more = until(lambda: dialog.count() and held)  # the page may be faster than the reply
        assert dialog.locator(".result").text_content() == ""
        assert not more, "one answer alone"
        route.fulfill(response=response)
        dialog.wait_for(state="detached")


def test_going_back_closes_a_question_and_claims_nothing(team):
    with browser_of(team) as (_site, page):
        page.get_by_role("link", name="Inbox").click()
        page.get_by_role("button", name="Dismiss").click()
        page.wait_for_selector("dialog[open]")
        page.go_back()
        page.wait_for_selector("tbody tr")
        page.wait_for_selector("dialog:not([open])", state="attached")
        assert "elsewhere" not in page.content()


def browser_of(stage):
    import contextlib

    @contextlib.contextmanager
    def both():
        with opened_site(stage) as site, browser.opened(link(site)) as (page, _):
            yield site, page

    return both()


SHELLS = {
    "codex": lambda command: ("exec_command", {"cmd": command, "sandbox_permissions": "require_escalated", "justification": "x"}),
    "gemini": lambda command: ("run_shell_command", {"command": command, "description": "does it"}),
    "opencode": lambda command: ("bash", {"command": command, "description": "does it"}),
}  # fmt: skip


@pytest.mark.parametrize("kind", list(SHELLS))
def test_the_other_clis_are_answered_from_the_page_too(make_world, kind):
    world = make_world(kind, config=QUICK)
    if kind == "opencode":
        of_the_user(world)
    agent, root = Agent(world, "ann"), world.root

    def call(command):
        return dict(zip(("name", "arguments"), SHELLS[kind](command), strict=True))

    with (
        opened_site(world.stage) as site,
        browser.opened(f"{site.url}/inbox#t={site.tokens[0]}") as (page, complaints),
    ):
        page.get_by_text("Nothing waits for you.").wait_for()
        for number, decision in enumerate(("Approve", "Deny")):
            agent.give(f"t{number}", calls=[call(f"touch {root}/{decision}")], tell=True)
            item = page.locator("article", has_text=f"touch {root}/{decision}")
            item.get_by_role("button", name=decision, exact=True).click(timeout=START_S * 1000)
            page.get_by_role("dialog").get_by_role("button", name=decision, exact=True).click()
            decided(page)
            agent.end(f"t{number}")
        page.get_by_text("Nothing waits for you.").wait_for()
        assert complaints == []
    assert (root / "Approve").exists() and not (root / "Deny").exists()
    who = [each["who"] for each in agent.records() if each["type"] == "answered"]
    assert [(each["face"], each["acts_as"]) for each in who] == [("web", "human")] * 2


def test_a_real_cli_is_answered_from_the_page(make_world):
    world = make_world("claude", config=QUICK)
    agent, root = Agent(world, "clara"), world.root
    questions = [{"question": "Which one?", "header": "One", "multiSelect": False,
                  "options": [{"label": "Red", "description": "warm"}, {"label": "Blue, dark", "description": "cold"}]}]  # fmt: skip

    def shell(command):
        return {"name": "Bash", "arguments": {"command": command, "description": "Does it"}}

    with (
        opened_site(world.stage) as site,
        browser.opened(f"{site.url}/inbox#t={site.tokens[0]}") as (page, complaints),
    ):
        page.get_by_text("Nothing waits for you.").wait_for()
        command = f"touch {root}/one && " + "true && " * 200 + f"touch {root}/two"
        agent.give("t1", calls=[shell(command)], tell=True)
        item = page.locator("article", has_text="touch")
        item.wait_for(timeout=START_S * 1000)
        assert f"touch {root}/two" in item.locator(".asked").inner_text(), "the whole command is shown"
        item.get_by_role("button", name="Approve", exact=True).click()
        dialog = page.get_by_role("dialog")
        assert f"touch {root}/two" in dialog.locator(".asked").inner_text()
        dialog.get_by_role("button", name="Approve", exact=True).click()
        decided(page)
        agent.end("t1")
        assert (root / "one").exists() and (root / "two").exists()

        agent.give("t2", calls=[shell(f"rm {root}/one")], tell=True)
        item = page.locator("article", has_text=f"rm {root}/one")
        item.get_by_role("button", name="Deny").click(timeout=START_S * 1000)
        page.get_by_label("Reason").fill("keep that file")
        page.get_by_role("dialog").get_by_role("button", name="Deny").click()
        decided(page)
        assert "keep that file" in str(agent.end("t2")["payload"]["told"])
        assert (root / "one").exists()

        agent.give("t3", calls=[{"name": "AskUserQuestion", "arguments": {"questions": questions}}], tell=True)
        item = page.locator("article", has_text="Which one?")
        item.get_by_label("Blue").check(timeout=START_S * 1000)
        item.get_by_role("button", name="Answer").click()
        page.get_by_role("dialog").get_by_role("button", name="Send").click()
        decided(page)
        assert "Blue, dark" in str(agent.end("t3")["payload"]["told"])

        agent.give("t4", calls=[shell(f"rm {root}/two")], tell=True)
        item = page.locator("article", has_text=f"rm {root}/two")
        item.get_by_role("button", name="Approve", exact=True).click(timeout=START_S * 1000)
        agent.terminal.shows(r"Do you want to|Would you like to proceed")
        until(lambda: agent.terminal.press("Enter") or agent.types().count("result") == 4, START_S)
        dialog.get_by_text(re.compile("answered elsewhere")).wait_for()
        assert dialog.get_by_role("button", name="Approve", exact=True).is_disabled()
        assert complaints == []
    who = [each["who"] for each in agent.records() if each["type"] == "answered"]
    assert [(each["face"], each["acts_as"]) for each in who] == [("web", "human")] * 3
