"""Further tools of an agent: who gets them, who may call them, and what a call shows of the agent."""

from dataclasses import replace

import pytest
from pydantic import BaseModel

from orchestrator.base.errors import BadRequest, Conflict, Environment
from orchestrator.base.toolsets import GSD_TOOLS
from orchestrator.core import supervision
from orchestrator.core.connection import ConnectionOrigin
from orchestrator.protocol.tool_calls import Arguments, Call, Client, Tool
from orchestrator.team import agent_toolsets
from orchestrator.team.life import launch_files
from orchestrator.team.roster import delivery
from tests.support.team import Team


@pytest.fixture
def anyio_backend():
    return "asyncio"


@pytest.fixture
def team(tmp_path):
    made = Team(tmp_path)
    yield made
    made.close()


class Nothing(Arguments):
    pass


class Answer(BaseModel):
    asked: int


def a_tool(name="gsd_phase_status", run=None):
    async def count(call, _arguments):
        call.client.env["asked"] = call.client.env.get("asked", 0) + 1
        return {"asked": call.client.env["asked"]}

    return Tool(name, "t", "d", Nothing, Answer, run or count, read_only=True)


TOOL = a_tool()


def offered(*tools):
    return {"gsd": lambda _client: {tool.name: tool for tool in tools or (TOOL,)}}


def client(agent_id="a1", epoch=1, secret="s"):
    return Client(
        ConnectionOrigin("c", "/p"),
        "relay",
        "agent",
        ("agent",),
        agent_id=agent_id,
        epoch=epoch,
        secret=secret,
        env={},
    )


async def an_agent(team, *, toolsets=("gsd",), name="a1", **options):
    entry = await team.agent(name, **options)
    if toolsets:
        entry.state.spec["toolsets"] = list(toolsets)
    return entry


async def asks(team, who, tool=TOOL.name, tools=None):
    found = agent_toolsets.tools(team.roster, who, tools or offered())[tool]
    return await found.run(Call(who, "c:1", 0.0, print), Nothing())


@pytest.mark.anyio
async def test_the_tools_are_those_of_the_toolsets_in_the_record_of_its_start(team):
    await an_agent(team)
    await an_agent(team, name="plain", toolsets=())
    await an_agent(team, name="other", toolsets=("else",))
    assert list(agent_toolsets.tools(team.roster, client(), offered())) == [TOOL.name]
    for other in ("plain", "other", "nobody"):
        assert agent_toolsets.tools(team.roster, client(other), offered()) == {}
    assert agent_toolsets.tools(team.roster, client(), {}) == {}
    assert agent_toolsets.tools(team.roster, replace(client(), agent_id=None), offered()) == {}


@pytest.mark.anyio
async def test_a_tool_is_shown_as_the_master_sees_it_and_made_once_for_all_agents(team):
    await an_agent(team)
    await an_agent(team, name="b1")
    one = agent_toolsets.tools(team.roster, client(), offered())[TOOL.name]
    assert one.listed == TOOL.listed
    assert agent_toolsets.tools(team.roster, client("b1"), offered())[TOOL.name] is one


@pytest.mark.anyio
async def test_the_living_agent_is_answered(team):
    await an_agent(team)
    who = client()
    assert await asks(team, who) == {"asked": 1}
    assert await asks(team, who) == {"asked": 2}


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("who", "kind", "code"),
    [
        (client(secret="0" * 32), Conflict, "replaced"),
        (client(secret=""), Conflict, "replaced"),
        (client(epoch=0), Conflict, "replaced"),
        (client(epoch=2), Conflict, "replaced"),
    ],
)
async def test_who_cannot_prove_to_be_it_is_refused_before_anything_runs(team, who, kind, code):
    await an_agent(team)
    with pytest.raises(kind) as refused:
        await asks(team, who)
    assert refused.value.code == code and "asked" not in who.env


@pytest.mark.anyio
async def test_an_agent_without_a_launch_and_one_that_has_ended_are_refused(team):
    entry = await an_agent(team)
    entry.secret = None
    with pytest.raises((BadRequest, Conflict)) as refused:
        await asks(team, client())
    assert refused.value.code == "replaced"
    entry.secret = "s"
    at = "2026-01-01T00:00:01.000Z"
    await team.roster.commit(entry, supervision.exited(entry.state, at=at, how="signal", reason="gone"))
    with pytest.raises(Conflict) as refused:
        await asks(team, client())
    assert refused.value.code == "replaced"


@pytest.mark.anyio
async def test_a_query_leaves_no_record_and_makes_nobody_ready(team):
    entry = await an_agent(team, ready=False)
    before = entry.outbox.last_seq
    await asks(team, client())
    assert entry.outbox.last_seq == before and entry.state.life == "starting"


async def with_a_task(team, entry):
    await delivery.enqueue(team.roster, entry.agent_id, task_id="t", payload={}, req="m:1")
    got = await delivery.wait_for_command(team.roster, entry.agent_id, 1, timeout_s=0, age_s=0, req="c:0")
    assert got["command"]["kind"] == "task"


@pytest.mark.anyio
async def test_a_query_of_one_that_holds_a_task_is_a_sign_of_life_and_lifts_stalled(team):
    entry = await an_agent(team)
    await with_a_task(team, entry)
    calls = entry.calls
    await team.clock.advance(400)
    at = "2026-01-01T00:10:00.000Z"
    await team.roster.commit(entry, supervision.stalled(entry.state, at=at, reason="silent"))
    assert entry.state.stalled
    await asks(team, client())
    assert entry.state.stalled is None and entry.last_call == team.clock.monotonic()
    assert entry.calls == calls, "a wake is heeded by a call of the loop alone"


@pytest.mark.anyio
async def test_a_long_query_counts_until_its_end(team):
    async def slow(_call, _arguments):
        await team.clock.advance(200)
        return {"asked": 1}

    entry = await an_agent(team)
    await with_a_task(team, entry)
    await asks(team, client(), tools=offered(a_tool(run=slow)))
    assert entry.last_call == team.clock.monotonic()


@pytest.mark.anyio
async def test_a_query_of_one_without_a_task_shows_no_idleness_and_ends_no_park(team):
    entry = await an_agent(team)
    entry.turn = "parked"
    await asks(team, client())
    assert entry.last_call is None and entry.turn == "parked" and entry.last_call_wall == team.clock.now()


@pytest.mark.anyio
async def test_a_full_disk_keeps_nobody_from_an_answer(team, monkeypatch):
    entry = await an_agent(team)
    await with_a_task(team, entry)
    at = "2026-01-01T00:10:00.000Z"
    await team.roster.commit(entry, supervision.stalled(entry.state, at=at, reason="silent"))

    def full(*_):
        raise Environment("disk_full", "no room")

    monkeypatch.setattr(team.roster, "write", full)
    assert await asks(team, client()) == {"asked": 1}


WHERE = {
    "claude": "settings.json",
    "codex": "launch.json",
    "gemini": "home/.gemini/settings.json",
    "opencode": "launch.json",
}


@pytest.mark.anyio
@pytest.mark.parametrize("engine", WHERE)
@pytest.mark.parametrize("toolsets", [["gsd"], None])
async def test_the_launch_of_a_cli_is_told_of_them_by_the_record_of_its_start_alone(team, engine, toolsets):
    entry = await team.agent()
    spec = {**entry.state.spec, "engine": engine, **({"toolsets": toolsets} if toolsets else {})}
    home = str(team.paths.root)
    launch_files.write(team.roster, entry, spec, 1, {"HOME": home, "PATH": "/usr/bin"})
    place = team.paths.engine_dir(entry.agent_id)
    restriction = (place / WHERE[engine]).read_text()
    rules = "\n".join(path.read_text() for path in place.rglob("*") if path.is_file())
    for name in GSD_TOOLS:
        assert (
            f"orchestrator_{name}" in restriction or f'"{name}' in restriction or f"__{name}" in restriction
        ) is bool(toolsets), name
    assert ("You also have tools" in rules) is bool(toolsets)
