"""Requests of CLIs and their answers: each is answered once, by a record first, and never without a human or a rule."""

import asyncio
import json
from dataclasses import replace

import pytest

from orchestrator.base.errors import BadRequest, Conflict, Environment
from orchestrator.core import blocked, records
from orchestrator.core.screens import Screen, ScreenFinding
from orchestrator.core.state import REMEMBERED_ERRORS
from orchestrator.engines.permission_requests import Asked
from orchestrator.engines.screen_dialogs import dialog_of
from orchestrator.engines.table import ENGINES
from orchestrator.team.people.answer_words import Answerer, GivenAnswer
from orchestrator.team.people.approvals import Approvals
from orchestrator.team.people.dialog_answers import DialogAnswers
from orchestrator.team.people.inbox_answers import InboxAnswers
from orchestrator.team.roster import delivery
from orchestrator.team.roster.agent_entry import AgentEntry
from orchestrator.team.roster.remote_facts import RemoteFacts
from tests.support.team import Team, settle
from tests.unit.engines.test_table import SCREENS, screen_of

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend():
    return "asyncio"


HUMAN = Answerer("cli", "ada")
BASH = Asked("permission", "Bash", "rm -rf build && make\n# \u202eevil", "asks to use Bash: rm -rf build", cwd="/p")
QUESTION = Asked(
    "question",
    "AskUserQuestion",
    "Which one?",
    "asks a question: Which one?",
    questions=({"question": "Which one?"},),
)


class Way:
    """A hook that waits; what it was told."""

    def __init__(self, *, there=True):
        self.told, self.there = [], there

    def check(self, _decision, _text):
        """It can be answered in any way."""

    def decide(self, decision, text):
        self.told.append((decision, text))
        return self.there


class Panes:
    """A pane that shows a recorded screen; the keys pressed in it."""

    def __init__(self):
        self.screen, self.keys, self.stands = Screen(), [], True

    async def look_at_agent(self, _entry):
        return self.screen

    async def press(self, _entry, key, shown):
        assert len(shown) > 1
        if self.stands:
            self.keys.append(key)
        return self.stands


class Rules:
    """One rule, if any."""

    def __init__(self):
        self.rule, self.made, self.covers = None, [], True

    def can_cover(self, _asked):
        return self.covers

    def matching(self, _asked):
        return self.rule

    async def add(self, asked, by, at):
        assert by.acts_as == "human"
        assert at
        self.made.append(asked)
        return "r1"


class Scene:
    def __init__(self, team):
        self.team, self.panes, self.rules = team, Panes(), Rules()
        self.next_daemon()

    def next_daemon(self):
        """Only the records are known."""
        self.approvals = Approvals(self.team.roster, self.rules)
        self.inbox = InboxAnswers(self.team.roster, self.approvals, DialogAnswers(self.panes))

    async def begin(self, **config):
        self.entry = await self.team.agent()
        return self

    def ask(self, asked=BASH, *, key="k", shows=True, way=None):
        way = way or Way()
        self.approvals.requested(self.entry, key, asked, way, dialog_meanwhile=shows)
        return way

    def only(self):
        (item,) = self.inbox.items(self.entry)
        return item

    async def answer(self, decision, text="", *, item=None, by=HUMAN, req=None):
        return await self.inbox.answer(item or self.only().item_id, GivenAnswer(decision, text, by, req=req))

    def records(self, *types):
        lines = self.team.paths.outbox("a1").read_text().splitlines()
        found = [json.loads(line) for line in lines]
        for record in found:
            records.OUTBOX.validate_python(record)
        return [record for record in found if record["type"] in types]


@pytest.fixture
async def scene(tmp_path):
    made = await Scene(Team(tmp_path)).begin()
    yield made
    await made.approvals.close()
    made.team.close()


async def test_a_request_is_an_item_with_the_whole_text_and_blocks_the_agent_at_once(scene):
    way = scene.ask()
    item = scene.only()
    assert (item.kind, item.tool, item.cwd, item.by, item.holds) == ("permission", "Bash", "/p", "hook", True)
    assert item.asked == "rm -rf build && make\n# \\u202eevil"
    assert item.answers == ("approve", "always", "deny")
    assert scene.entry.state.blocks["permission"].reason == "asks to use Bash: rm -rf build"
    assert way.told == []


@pytest.mark.parametrize(("decision", "told"), [("approve", "approve"), ("always", "approve"), ("deny", "deny")])
async def test_an_answer_is_a_record_and_reaches_the_cli_once(scene, decision, told):
    way = scene.ask()
    found = scene.only().item_id
    answer = await scene.answer(decision, "not here" if decision == "deny" else "")
    assert (answer["ok"], answer["item"], answer["agent_id"]) == (True, found, "a1")
    assert [word for word, _ in way.told] == [told]
    (record,) = scene.records("answered")
    assert (record["item"], record["decision"], record["tool"]) == (found, decision, "Bash")
    assert record["who"] == {"face": "cli", "user": "ada", "acts_as": "human"}
    assert record.get("rule") == ("r1" if decision == "always" else None)
    assert scene.rules.made == ([BASH] if decision == "always" else [])
    assert scene.entry.state.blocks == {}
    assert scene.inbox.items(scene.entry) == []
    with pytest.raises(Conflict, match="answered already") as refused:
        await scene.answer("approve", item=found)
    assert refused.value.code == "item_over"
    assert len(way.told) == 1


async def test_of_two_answers_at_once_the_first_counts(scene):
    way = scene.ask()
    found = scene.only().item_id
    given = [GivenAnswer("approve", "", HUMAN), GivenAnswer("deny", "", HUMAN)]
    first, second = await asyncio.gather(
        *(scene.inbox.answer(found, answer) for answer in given), return_exceptions=True
    )
    assert first["decision"] == "approve"
    assert second.code == "item_over"
    assert way.told == [("approve", "")]


async def test_nothing_is_decided_when_its_record_cannot_be_written(scene):
    way = scene.ask()
    with scene.team.full_disk(), pytest.raises(Environment):
        await scene.answer("approve")
    assert way.told == []
    await scene.answer("approve")
    assert way.told == [("approve", "")]


async def test_a_hook_that_comes_back_after_the_daemon_died_is_answered_from_the_record(scene):
    scene.ask()
    found = scene.only().item_id
    await scene.answer("deny", "use make clean")
    scene.next_daemon()
    way = scene.ask()
    assert way.told == [("deny", "use make clean")]
    assert scene.inbox.items(scene.entry) == []
    assert len(scene.records("answered")) == 1
    with pytest.raises(Conflict):
        await scene.answer("approve", item=found)


async def test_an_answer_sent_again_after_the_daemon_died_is_told_what_is_recorded(scene):
    scene.ask()
    found = scene.only().item_id
    first = await scene.answer("always", req="c1:2")
    scene.next_daemon()
    assert await scene.answer("always", item=found, req="c1:2") == first
    for another in ("c1:3", "c2:2", None):
        with pytest.raises(Conflict) as over:
            await scene.answer("always", item=found, req=another)
        assert over.value.code == "item_over"
    assert len(scene.records("answered")) == 1
    assert scene.rules.made == [BASH]


async def test_an_answer_whose_caller_goes_still_reaches_the_cli(scene, monkeypatch):
    way, on_disk, commit = scene.ask(), asyncio.Event(), scene.team.roster.commit

    async def slow(entry, drafts):
        await commit(entry, drafts)
        await on_disk.wait()

    monkeypatch.setattr(scene.team.roster, "commit", slow)
    calling = asyncio.ensure_future(scene.answer("approve"))
    await settle()
    calling.cancel()
    await asyncio.gather(calling, return_exceptions=True)
    assert (calling.cancelled(), way.told, len(scene.records("answered"))) == (True, [], 1)
    on_disk.set()
    await settle()
    assert way.told == [("approve", "")]


async def test_a_hook_that_comes_back_without_an_answer_is_the_same_item(scene):
    scene.ask()
    found = scene.only().item_id
    scene.next_daemon()
    scene.ask()
    assert scene.only().item_id == found


async def test_a_withdrawn_request_is_no_item_and_its_hook_is_released(scene):
    way = scene.ask()
    found = scene.only().item_id
    scene.approvals.withdrawn(scene.entry, "k", "answered in its pane")
    assert way.told == [("release", "")]
    assert scene.entry.state.blocks == {}
    with pytest.raises(Conflict, match="answered in its pane"):
        await scene.answer("approve", item=found)
    with pytest.raises(BadRequest) as unknown:
        await scene.answer("approve", item="00000000")
    assert unknown.value.code == "unknown_item"


async def test_an_answer_that_nobody_hears_any_more_says_so(scene):
    scene.ask(way=Way(there=False))
    with pytest.raises(Conflict) as over:
        await scene.answer("approve")
    assert over.value.code == "item_over"


async def test_a_cli_without_a_dialog_waits_only_while_a_face_is_open(scene):
    assert scene.ask(shows=False).told == [("release", "")]
    scene.approvals.faces = 1
    way = scene.ask(shows=False, key="k2")
    assert (way.told, scene.only().answers[-1]) == ([], "release")
    scene.approvals.faces = 0
    assert way.told == [("release", "")]
    assert scene.only().by == "screen"


async def test_a_cli_without_a_dialog_waits_no_longer_than_the_limit(scene):
    scene.approvals.faces = 1
    way = scene.ask(shows=False)
    await settle()
    await scene.team.clock.advance(599.0)
    assert way.told == []
    await scene.team.clock.advance(2.0)
    assert way.told == [("release", "")]


@pytest.mark.parametrize(("wanted", "held"), [("always", True), ("never", False)])
async def test_the_setting_decides_about_waiting_too(tmp_path, wanted, held):
    scene = await Scene(Team(tmp_path, approvals_hold=wanted)).begin()
    scene.approvals.faces = 0 if held else 1
    assert scene.ask(shows=False).told == ([] if held else [("release", "")])
    await scene.approvals.close()
    scene.team.close()


async def test_a_rule_allows_once_and_its_answer_is_a_record(scene):
    scene.rules.rule = "r7"
    way = scene.ask(shows=False)
    await settle()
    assert way.told == [("approve", "")]
    (record,) = scene.records("answered")
    assert (record["rule"], record["who"]["acts_as"]) == ("r7", "rule")
    assert scene.records("blocked") == []


async def test_a_rule_answers_no_question_and_nothing_that_was_cut(scene):
    scene.rules.rule = "r7"
    assert scene.ask(QUESTION).told == []
    assert scene.ask(replace(BASH, cut=True), key="k2").told == []
    await settle()
    assert scene.records("answered") == []


async def test_only_a_human_makes_a_rule(scene):
    way = scene.ask()
    with pytest.raises(BadRequest):
        await scene.answer("always", by=Answerer("cli", "ada", "master"))
    assert (way.told, scene.rules.made) == ([], [])


async def test_always_is_offered_only_where_a_rule_can_cover_what_is_asked(scene):
    scene.rules.covers = False
    way = scene.ask()
    assert scene.only().answers == ("approve", "deny")
    with pytest.raises(BadRequest) as refused:
        await scene.answer("always")
    assert (refused.value.code, way.told, scene.rules.made) == ("cannot_answer", [], [])


async def test_a_request_that_was_cut_can_only_be_denied(scene):
    scene.ask(replace(BASH, cut=True))
    for decision in ("approve", "always", "answer"):
        with pytest.raises(BadRequest) as refused:
            await scene.answer(decision)
        assert refused.value.code == "cannot_answer"
    await scene.answer("deny")


async def test_a_question_is_answered_by_words(scene):
    way = scene.ask(QUESTION)
    with pytest.raises(BadRequest):
        await scene.answer("approve")
    await scene.answer("answer", "B")
    assert way.told == [("answer", "B")]


async def fails(scene, task_id):
    roster = scene.team.roster
    await delivery.enqueue(roster, "a1", task_id=task_id, payload="make check", req=f"m:{task_id}")
    await delivery.wait_for_command(roster, "a1", 1, timeout_s=0, age_s=0, req=f"w:{task_id}")
    payload = {"error": "exit 2"}
    await delivery.emit_event(
        roster, "a1", 1, kind="error", task_id=task_id, payload=payload, done=None, req=f"e:{task_id}"
    )


async def test_an_error_is_an_item_until_a_human_took_note(scene):
    await fails(scene, "t1")
    item = scene.only()
    assert (item.kind, item.holds, item.task_id, item.answers) == ("error", False, "t1", ("dismiss",))
    await scene.answer("dismiss")
    assert scene.inbox.items(scene.entry) == []
    scene.next_daemon()
    assert scene.inbox.items(scene.entry) == []


async def test_an_error_stays_an_item_while_the_agent_does_its_next_tasks(scene):
    await fails(scene, "t1")
    first = scene.only()
    await delivery.enqueue(scene.team.roster, "a1", task_id="t2", payload="make", req="m:t2")
    await delivery.wait_for_command(scene.team.roster, "a1", 1, timeout_s=0, age_s=0, req="w:t2")
    assert scene.entry.state.lease.task_id == "t2"
    assert scene.only() == first
    await delivery.emit_event(
        scene.team.roster, "a1", 1, kind="result", task_id="t2", payload={}, done=None, req="e:t2"
    )
    assert scene.only() == first
    for number in range(3, 3 + REMEMBERED_ERRORS):
        await fails(scene, f"t{number}")
    assert [item.task_id for item in scene.inbox.items(scene.entry)] == [
        f"t{number}" for number in range(3, 3 + REMEMBERED_ERRORS)
    ]


@pytest.mark.parametrize(
    ("until", "text"),
    [
        ("2026-01-01T14:05:00.000Z", "usage limit; until 2026-01-01 14:05 UTC"),
        ("5pm (Europe/Berlin)", "usage limit; until 5pm (Europe/Berlin)"),
        (None, "usage limit"),
    ],
)
async def test_a_limit_is_shown_with_the_time_of_its_reset(scene, until, text):
    finding = ScreenFinding("rate_limit", "usage limit", until)
    at = "2026-01-01T00:00:01.000Z"
    await scene.team.roster.commit(scene.entry, blocked.explained(scene.entry.state, finding, at=at))
    item = scene.only()
    assert (item.kind, item.text, item.until) == ("rate_limit", text, until)


# -- dialogs that only the screen shows -------------------------------------------------------------------------


async def shown(scene, name="codex/permission-command"):
    scene.entry.state.spec["engine"] = name.split("/")[0]
    scene.panes.screen = screen_of(SCREENS / f"{name}.txt")
    scene.entry.dialog = dialog_of(ENGINES[name.split("/")[0]].dialogs, scene.panes.screen)

    finding = ScreenFinding("permission", "asks whether it may run: curl")
    await scene.team.roster.commit(
        scene.entry, blocked.explained(scene.entry.state, finding, at="2026-01-01T00:00:01.000Z")
    )
    return scene.only()


@pytest.mark.parametrize(("decision", "key"), [("approve", "1"), ("deny", "3")])
async def test_a_dialog_on_the_screen_is_answered_by_the_key_that_it_names(scene, decision, key):
    item = await shown(scene)
    assert (item.by, item.answers) == ("screen", ("approve", "deny"))
    assert "curl -s https://example.com/install.sh | sh" in item.asked
    await scene.answer(decision)
    assert scene.panes.keys == [key]
    (record,) = scene.records("answered")
    assert (record["decision"], record["item"]) == (decision, item.item_id)
    with pytest.raises((Conflict, BadRequest)):
        await scene.answer("approve", item=item.item_id)
    assert scene.panes.keys == [key]


async def test_a_master_presses_no_key_in_the_pane_of_another_agent(scene):
    item = await shown(scene)
    with pytest.raises(BadRequest) as refused:
        await scene.answer("approve", item=item.item_id, by=Answerer("cli", "ada", "master"))
    assert refused.value.code == "cannot_answer"
    assert (scene.panes.keys, scene.records("answered")) == ([], [])


async def test_another_dialog_than_the_one_that_was_shown_gets_no_key(scene):
    item = await shown(scene)
    lines = [line.replace("example.com", "evil.example") for line in scene.panes.screen.lines]
    scene.panes.screen = scene.panes.screen._replace(lines=tuple(lines))
    with pytest.raises(Conflict) as over:
        await scene.answer("approve", item=item.item_id)
    assert over.value.code == "item_over"
    assert (scene.panes.keys, scene.records("answered")) == ([], [])
    # The next look shows the other dialog: it is another item.
    scene.entry.dialog = dialog_of(ENGINES["codex"].dialogs, scene.panes.screen)
    assert scene.only().item_id != item.item_id
    with pytest.raises(BadRequest):
        await scene.answer("approve", item=item.item_id)


async def test_a_dialog_that_goes_in_the_moment_of_the_key_gets_none(scene):
    item = await shown(scene)
    scene.panes.stands = False
    with pytest.raises(Conflict):
        await scene.answer("approve", item=item.item_id)
    assert scene.panes.keys == []
    # A human who selects text in the pane keeps the key away too: the dialog stands on, and is asked for again.
    again = await shown(scene)
    assert again.item_id != item.item_id and again.answers == item.answers
    scene.panes.stands = True
    await scene.answer("approve")
    assert scene.panes.keys == ["1"]


async def test_a_dialog_that_outlives_its_answer_is_an_item_again_and_gets_a_key_for_a_new_answer_only(scene):
    item = await shown(scene)
    scene.panes.stands = False  # as for a daemon that dies before the key
    with pytest.raises(Conflict):
        await scene.answer("approve", item=item.item_id, req="c1:2")
    scene.next_daemon()
    scene.panes.stands = True
    with pytest.raises(Conflict) as over:
        await scene.answer("approve", item=item.item_id, req="c1:2")
    assert (over.value.code, scene.panes.keys) == ("item_over", [])
    again = scene.only()
    assert (again.item_id != item.item_id, again.asked) == (True, item.asked)
    await scene.answer("deny", item=again.item_id)
    assert scene.panes.keys == ["3"]


async def test_a_key_sent_again_after_the_daemon_died_is_not_pressed_again(scene):
    item = await shown(scene)
    first = await scene.answer("approve", req="c1:2")
    scene.next_daemon()
    scene.panes.screen = Screen()
    assert await scene.answer("approve", item=item.item_id, req="c1:2") == first
    assert scene.panes.keys == ["1"]


async def test_of_two_answers_to_one_dialog_only_one_presses_a_key(scene):
    item = await shown(scene)
    given = [scene.answer(decision, item=item.item_id) for decision in ("approve", "deny")]
    first, second = await asyncio.gather(*given, return_exceptions=True)
    assert (first["decision"], second.code, scene.panes.keys) == ("approve", "item_over", ["1"])


@pytest.mark.parametrize("name", ["codex/permission-edit", "claude/permission-write"])
async def test_a_dialog_that_does_not_show_everything_gets_no_key(scene, name):
    item = await shown(scene, name)
    assert (item.cut, item.answers) == (True, ())
    with pytest.raises(BadRequest) as refused:
        await scene.answer("approve", item=item.item_id)
    assert refused.value.code == "cannot_answer"
    assert scene.panes.keys == []


async def test_a_request_of_a_hook_replaces_what_the_screen_shows(scene):
    await shown(scene, "claude/permission-bash")
    scene.ask()
    assert [item.by for item in scene.inbox.items(scene.entry)] == ["hook"]


async def test_an_item_that_another_host_does_not_show_any_more_is_over(scene):
    scene.ask()
    there = AgentEntry("far")
    there.remote = RemoteFacts("box", "run-1", items=[scene.only().as_dict() | {"id": "0a1b2c3d"}])
    scene.team.roster.replicas["far"] = there
    (item,) = scene.inbox.items(there)
    assert (item.item_id, item.agent_id, item.host) == ("0a1b2c3d", "far", "box")
    there.remote.items = ()
    with pytest.raises(Conflict, match="host box") as refused:
        await scene.answer("approve", item="0a1b2c3d")
    assert refused.value.code == "item_over"
    with pytest.raises(BadRequest) as refused:
        await scene.answer("approve", item="0a1b2c3e")
    assert refused.value.code == "unknown_item"
