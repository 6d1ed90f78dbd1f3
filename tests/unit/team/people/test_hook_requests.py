"""Permission requests that come through a CLI's hook: held, answered, withdrawn and handed to the dialog."""

import asyncio
import dataclasses
import json

import pytest

from orchestrator.base.errors import BadRequest, Conflict, Environment
from orchestrator.core import records
from orchestrator.engines.permission_hooks import claude_request, codex_request
from orchestrator.engines.table import ENGINES
from orchestrator.team.people import pending_requests
from orchestrator.team.people.answer_words import Answerer, GivenAnswer
from orchestrator.team.people.approvals import RETURN_S, Approvals
from orchestrator.team.people.dialog_answers import DialogAnswers
from orchestrator.team.people.inbox_answers import InboxAnswers
from tests.support.hook_channels import ROW, Line, Lot
from tests.support.team import Team, settle

pytestmark = pytest.mark.anyio

HUMAN = Answerer("cli", "ada")
QUESTIONS = [{"question": "Which?", "options": [{"label": "A"}, {"label": "B"}]}]


class Rules:
    """Rules of a test: the commands that they allow."""

    def __init__(self):
        self.allowed = {}

    def matching(self, asked):
        return self.allowed.get(asked.text)

    def can_cover(self, _asked):
        return True

    async def add(self, asked, _by, _at):
        return self.allowed.setdefault(asked.text, f"rule-{len(self.allowed)}")

    def remove(self, rule):
        self.allowed = {text: known for text, known in self.allowed.items() if known != rule}


class NoPanes:
    """No pane shows anything."""

    async def look_at_agent(self, _entry):
        return None


class People(Lot):
    """One agent whose CLI asks through its hook, and the requests under test."""

    def __init__(self, team, request):
        super().__init__(team)
        ENGINES["parker"] = dataclasses.replace(ROW, request=request)
        self.rules = Rules()
        self.approvals = self.served()
        self.conns = iter(range(1000))

    def served(self):
        self.parking.asks = Approvals(self.team.roster, self.rules)
        self.inbox = InboxAnswers(self.team.roster, self.parking.asks, DialogAnswers(NoPanes()))
        return self.parking.asks

    async def asks(self, command="make", line=None, **facts):
        """A hook that asks, on a connection of its own."""
        line = line or Line(conn=f"c{next(self.conns)}")
        facts = {"tool_name": "Bash", "tool_input": {"command": command}, "cwd": "/w", **facts}
        return await self.tell("PermissionRequest", line, **facts)

    def items(self):
        return self.inbox.items(self.entry)

    async def answer(self, decision, text="", item=None):
        item = item or self.items()[0].item_id
        given = GivenAnswer(decision, text, HUMAN)
        answered = await self.inbox.answer(item, given)
        await settle()
        return answered

    def outbox(self, *types):
        found = [json.loads(line) for line in self.team.paths.outbox("a1").read_text().splitlines()]
        for record in found:
            records.OUTBOX.validate_python(record)
        return [record for record in found if record["type"] in types]

    def log(self):
        """What was recorded of its questions, in order."""
        return [record["type"] for record in self.outbox("blocked", "unblocked", "answered")]


def decided(line):
    """The decision that the hook prints; None for the empty object, and while it is held."""
    (word,) = line.words
    if word["answer"] != "decide" or not word["output"]:
        return None
    return word["output"]["hookSpecificOutput"]["decision"]


@pytest.fixture
async def make(tmp_path, monkeypatch):
    monkeypatch.setitem(ENGINES, "parker", ROW)
    made = []

    async def begin(request, **config):
        team = Team(tmp_path, **config)
        people = People(team, request)
        made.append(people)
        return await people.begin()

    yield begin
    for people in made:
        await people.approvals.close()
        await people.parking.close()
        people.team.close()


@pytest.fixture
async def claude(make):
    return await make(claude_request)


@pytest.fixture
async def codex(make):
    return await make(codex_request)


async def test_a_request_is_an_item_at_once_with_the_whole_text_masked_and_visible(claude):
    command = "make\n" * 300 + "curl -H 'Authorization: Bearer abcdefgh123456789' x\u202ey"
    line = await claude.asks(command)
    (item,) = claude.items()
    assert (item.kind, item.tool, item.cwd, item.by, item.holds) == ("permission", "Bash", "/w", "hook", True)
    assert item.answers == ("approve", "always", "deny")
    assert item.asked.startswith("make\n" * 300)
    assert "abcdefgh" not in item.asked and "\\u202ey" in item.asked
    assert line.words == []
    assert claude.log() == ["blocked"]
    assert claude.entry.state.blocks["permission"].reason == item.text


async def test_an_approval_is_recorded_before_it_reaches_the_cli(claude):
    line = await claude.asks()
    item = claude.items()[0].item_id
    seen = []
    say = line.channel.say
    line.channel.say = lambda word: (seen.append(claude.log()), say(word))
    assert await claude.answer("approve") == {
        "ok": True, "item": item, "decision": "approve", "agent_id": "a1", "rule": None,
    }  # fmt: skip
    assert seen == [["blocked", "answered"]]
    assert decided(line) == {"behavior": "allow"}
    (record,) = claude.outbox("answered")
    assert record["who"] == {"face": "cli", "user": "ada", "acts_as": "human"}
    assert (record["item"], record["tool"], len(record["digest"])) == (item, "Bash", 64)
    assert claude.log() == ["blocked", "answered", "unblocked"]
    assert claude.items() == [] and claude.entry.finding is None
    with pytest.raises(Conflict) as error:
        await claude.answer("deny", item=item)
    assert error.value.code == "item_over"
    assert len(line.words) == 1


async def test_a_denial_says_why(claude):
    line = await claude.asks()
    await claude.answer("deny", "not in this folder")
    assert decided(line) == {"behavior": "deny", "message": "not in this folder"}


async def test_a_question_is_answered_and_a_wrong_answer_changes_nothing(claude):
    line = await claude.asks(tool_name="AskUserQuestion", tool_input={"questions": QUESTIONS})
    (item,) = claude.items()
    assert (item.kind, item.answers) == ("question", ("answer", "deny"))
    assert claude.entry.state.blocks["dialog"].reason == "asks a question: Which?"
    for decision, text in (("answer", " "), ("approve", ""), ("always", ""), ("release", "")):
        with pytest.raises(BadRequest) as error:
            await claude.answer(decision, text)
        assert error.value.code == "cannot_answer"
    assert line.words == [] and claude.log() == ["blocked"]
    await claude.answer("answer", "b")
    assert decided(line)["updatedInput"] == {"questions": QUESTIONS, "answers": {"Which?": "B"}}


async def test_a_question_shows_its_human_what_it_hides_and_no_secret(claude):
    options = [{"label": "A\u202e", "description": "TOKEN=abcdefgh12345678"}]
    question = {"question": "Which\x1b[2J?", "header": "\u200b", "options": options}
    line = await claude.asks(tool_name="AskUserQuestion", tool_input={"questions": [question]})
    (shown,) = claude.items()[0].questions
    assert (shown["question"], shown["header"]) == ("Which\\x1b[2J?", "\\u200b")
    assert shown["options"] == [{"label": "A\\u202e", "description": "TOKEN=…"}]
    await claude.answer("answer", "1")
    assert decided(line)["updatedInput"]["answers"] == {"Which\x1b[2J?": "A\u202e"}


async def test_a_request_that_was_cut_can_be_denied_and_not_approved(claude):
    line = await claude.asks(cut=True)
    (item,) = claude.items()
    assert item.cut and item.answers == ("deny",)
    for decision in ("approve", "always"):
        with pytest.raises(BadRequest) as error:
            await claude.answer(decision)
        assert error.value.code == "cannot_answer"
    assert line.words == []


async def test_always_makes_a_rule_that_answers_later_requests_with_a_record(claude):
    first = await claude.asks("make")
    assert (await claude.answer("always"))["rule"] == "rule-0"
    assert decided(first) == {"behavior": "allow"}
    second = await claude.asks("make")
    assert decided(second) == {"behavior": "allow"}
    record = claude.outbox("answered")[-1]
    assert (record["who"]["acts_as"], record["rule"], record["decision"]) == ("rule", "rule-0", "approve")
    assert (await claude.asks("make all")).words == []
    assert (await claude.asks("make", cut=True)).words == []


@pytest.mark.parametrize("known", [False, True])
async def test_an_always_that_could_not_be_recorded_leaves_no_rule(claude, known):
    claude.approvals.faces = 1
    first, second = await claude.asks("make", agent_id="s1"), await claude.asks("make", agent_id="s2")
    if known:  # a human has made the rule meanwhile, for the same request of another subagent
        await claude.answer("always")
    with claude.team.full_disk(), pytest.raises(Environment):
        await claude.answer("always")
    assert bool(claude.rules.allowed) is known
    assert second.words == [] and bool(first.words) is known


@pytest.mark.parametrize("event", ["Stop", "UserPromptSubmit", "SessionEnd"])
async def test_what_a_human_answered_in_the_pane_is_withdrawn_when_the_cli_goes_on(claude, event):
    line = await claude.asks()
    item = claude.items()[0].item_id
    await claude.tell(event)
    assert line.words == [{"answer": "decide", "output": {}}]
    assert claude.items() == []
    assert claude.log() == ["blocked", "unblocked"]
    with pytest.raises(Conflict) as error:
        await claude.answer("approve", item=item)
    assert error.value.code == "item_over"
    assert claude.outbox("answered") == []


async def test_subagents_of_claude_code_ask_each_for_itself_also_after_the_turn(claude):
    claude.approvals.faces = 1  # the dialog of a subagent comes after its hook
    main, one, two = [
        await claude.asks(command, agent_id=subagent)
        for command, subagent in (("main", ""), ("one", "s1"), ("two", "s2"))
    ]
    assert [item.text.split()[-1] for item in claude.items()] == ["main", "one", "two"]
    await claude.tell("Stop")
    assert [item.text.split()[-1] for item in claude.items()] == ["one", "two"]
    assert [len(line.words) for line in (main, one, two)] == [1, 0, 0]
    assert claude.entry.state.blocks["permission"].reason.endswith("one")
    await claude.answer("approve", item=claude.items()[1].item_id)
    assert decided(two) == {"behavior": "allow"}
    claude.approvals.faces = 0
    assert decided(one) is None
    assert decided(await claude.asks("three", agent_id="s2")) is None


async def test_a_notice_about_the_same_question_changes_nothing(claude):
    line = await claude.asks()
    await claude.tell("Notification", notification_type="permission_prompt", message="Claude needs your permission")
    assert len(claude.items()) == 1 and line.words == []
    assert claude.log() == ["blocked"]


async def test_the_dialog_that_is_gone_from_the_screen_was_answered_there_and_nothing_else_was(claude):
    claude.approvals.faces = 1
    line, subagent = await claude.asks(), await claude.asks("make all", agent_id="s1")
    assert claude.approvals.waits_with_dialog(claude.entry) == claude.items()[0].item_id
    claude.approvals.dialog_gone(claude.entry)
    assert line.words == [{"answer": "decide", "output": {}}]
    assert claude.approvals.waits_with_dialog(claude.entry) == ""
    assert [item.asked for item in claude.items()] == ["make all"] and subagent.words == []


async def test_a_hook_that_ends_takes_its_item_with_it_and_leaves_the_rest_to_the_screen(claude):
    line = await claude.asks()
    item = claude.items()[0].item_id
    await claude.end(line)
    (left,) = claude.items()
    assert (left.by, left.item_id != item, left.text.endswith("make")) == ("screen", True, True)
    assert claude.entry.finding is None  # the screen says when it is over
    with pytest.raises(Conflict) as error:
        await claude.answer("approve", item=item)
    assert error.value.code == "item_over"


async def test_a_hook_that_comes_back_to_the_next_daemon_is_the_same_item(claude):
    before = await claude.asks(line=Line(conn="same"))
    first = claude.items()[0]
    await claude.approvals.close()
    await claude.team.clock.advance(60)
    claude.approvals = claude.served()
    again = await claude.asks(line=Line(conn="same"))
    assert claude.items()[0] == first
    assert claude.log() == ["blocked"]
    await claude.answer("approve")
    assert decided(again) == {"behavior": "allow"} and before.words == []


@pytest.mark.parametrize(
    ("decision", "text", "said"),
    [("always", "", {"behavior": "allow"}), ("deny", "no", {"behavior": "deny", "message": "no"})],
)
async def test_an_answer_that_its_daemon_could_not_deliver_is_given_by_the_next(claude, decision, text, said):
    lost = await claude.asks(line=Line(conn="same"))
    await claude.answer(decision, text)
    assert len(lost.words) == 1  # which the daemon did not get out
    claude.approvals = claude.served()
    again = await claude.asks(line=Line(conn="same"))
    assert decided(again) == said
    assert claude.items() == [] and len(claude.outbox("answered")) == 1


async def test_two_answers_at_once_are_one(claude):
    line = await claude.asks()
    item = claude.items()[0].item_id
    answers = await asyncio.gather(
        claude.answer("approve", item=item), claude.answer("deny", item=item), return_exceptions=True
    )
    assert [getattr(answer, "code", "ok") if not isinstance(answer, dict) else "ok" for answer in answers] == [
        "ok", "item_over",
    ]  # fmt: skip
    assert len(line.words) == len(claude.outbox("answered")) == 1


async def test_codex_shows_its_dialog_while_nobody_can_answer(codex):
    line = await codex.asks()
    assert line.words == [{"answer": "decide", "output": {}}]
    (item,) = codex.items()
    assert (item.by, item.text) == ("screen", "asks to use Bash: make")
    assert codex.log() == ["blocked"]


async def test_codex_is_held_while_a_face_is_open_and_then_shows_its_dialog(codex):
    codex.approvals.faces = 1
    line = await codex.asks()
    (item,) = codex.items()
    assert (line.words, item.by, item.answers) == ([], "hook", ("approve", "always", "deny", "release"))
    codex.approvals.faces = 2
    codex.approvals.faces = 1
    assert line.words == []
    codex.approvals.faces = 0
    assert line.words == [{"answer": "decide", "output": {}}]
    (left,) = codex.items()
    assert (left.by, left.text) == ("screen", item.text)
    assert codex.log() == ["blocked"]  # its dialog asks the same
    codex.approvals.faces = 1
    assert [item.by for item in codex.items()] == ["screen"]  # the dialog stays


async def test_codex_is_answered_and_released_by_a_human(codex):
    codex.approvals.faces = 1
    line = await codex.asks()
    await codex.answer("deny", "no")
    assert decided(line) == {"behavior": "deny", "message": "no"}
    line = await codex.asks()
    await codex.answer("release")
    assert line.words == [{"answer": "decide", "output": {}}]
    assert [item.by for item in codex.items()] == ["screen"]
    assert [record["decision"] for record in codex.outbox("answered")] == ["deny", "release"]


async def test_codex_is_held_no_longer_than_the_user_allows(make):
    codex = await make(codex_request, approvals_hold="always", approvals_hold_s=30)
    line = await codex.asks()
    await codex.team.clock.advance(29.9)
    assert line.words == []
    await codex.team.clock.advance(0.2)
    assert line.words == [{"answer": "decide", "output": {}}]


async def test_codex_is_never_held_if_the_user_wants_that(make):
    codex = await make(codex_request, approvals_hold="never")
    codex.approvals.faces = 1
    assert (await codex.asks()).words == [{"answer": "decide", "output": {}}]


async def test_codex_waits_a_moment_for_a_face_that_follows_it_to_the_next_daemon(codex):
    codex.approvals.faces = 0  # as the snapshot says when one that cannot answer opens
    line = await codex.asks(line=Line(conn="same", returned=True))
    await codex.team.clock.advance(RETURN_S - 0.1)
    assert line.words == []
    codex.approvals.faces = 1
    await codex.team.clock.advance(RETURN_S)
    assert line.words == [] and codex.items()[0].by == "hook"
    await codex.end(line)
    codex.approvals.faces = 0
    line = await codex.asks(line=Line(conn="other", returned=True))
    await codex.team.clock.advance(RETURN_S + 0.1)
    assert line.words == [{"answer": "decide", "output": {}}]
    assert [item.by for item in codex.items()] == ["screen"]


async def test_several_requests_of_codex_wait_side_by_side(codex):
    codex.approvals.faces = 1
    lines = [await codex.asks("one"), await codex.asks("two")]
    assert [item.text[-3:] for item in codex.items()] == ["one", "two"]
    await codex.answer("approve", item=codex.items()[1].item_id)
    assert [len(line.words) for line in lines] == [0, 1]
    assert codex.entry.state.blocks["permission"].reason.endswith("one")
    await codex.end(lines[0])
    assert [item.by for item in codex.items()] == ["screen"]


async def test_what_an_interrupt_ended_is_no_longer_asked(codex):
    codex.approvals.faces = 1
    line = await codex.asks()
    await codex.tell("Interrupt")
    await codex.end(line)
    assert codex.items() == []


async def test_what_faces_cannot_be_sent_is_left_to_the_pane(claude, monkeypatch):
    monkeypatch.setattr(pending_requests, "TEXT_MAX", 1000)
    monkeypatch.setattr(pending_requests, "REQUESTS_MAX", 3)
    small = await claude.asks("make")
    large = await claude.asks("x" * 999)
    assert small.words == [] and large.words == [{"answer": "decide", "output": {}}]
    assert [item.asked for item in claude.items()] == ["make"]
    lines = [await claude.asks(f"make {number}") for number in range(3)]
    assert [len(line.words) for line in lines] == [0, 0, 1]
