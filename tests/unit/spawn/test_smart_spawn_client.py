"""Asking the Smart Spawn API for a plan, and planning here when it gives none."""

import asyncio
import gzip
import json
import re

import httpx2
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from orchestrator.base.errors import BadRequest
from orchestrator.spawn import model_table, smart_spawn_client
from orchestrator.spawn.modes.mode_names import MODES
from orchestrator.spawn.run_data import RequestedRole, RunRequest, RunSettings

TABLE = model_table.shipped()
URL = "http://planner.test/api"
KEY = "sk-or-v1-never-told"
THREE = "design it; build it; test it"
MODEL = {"id": "openai/gpt-5"}
STEPS = {
    "decomposed": True,
    "steps": [{"step": 1, "task": "one", "model": MODEL}, {"step": 2, "task": "two", "model": None}],
}
TASKS = [
    {"id": "swarm-1", "description": "one", "dependsOn": [], "model": MODEL, "wave": 7},
    {"id": "swarm-2", "description": "two", "dependsOn": ["swarm-1"], "model": {"id": "x-ai/grok-4"}, "wave": 0},
    {"id": "swarm-3", "description": "three", "dependsOn": ["swarm-1"], "model": MODEL, "wave": 0},
]
GOOD = {
    "pick": {"data": {"id": "openai/gpt-5", "reason": "best"}},
    "recommend": {"data": [{"model": {"id": f"p{at}/m"}, "reason": "r"} for at in range(5)]},
    "decompose": STEPS,
    "swarm": {"decomposed": True, "dag": {"tasks": TASKS}},
    "roles/compose": {
        "hasRole": True, "persona": "writer", "personaTitle": "Writer", "stack": ["react"], "domain": None,
        "format": None, "guardrails": [], "fullPrompt": "## Role: Writer\n\n---\n\n## Task\n\nthe task",
    },
    "status": {"data": {"status": "ok", "modelCount": 42}},
}  # fmt: skip


class Api:
    """A stand-in of the Smart Spawn API; ``answers`` by path: JSON, a Response, or a function of the request."""

    def __init__(self, **answers):
        self.answers = {**GOOD, **{name.replace("__", "/"): one for name, one in answers.items()}}
        self.asked = []

    async def __call__(self, request):
        path = request.url.path.removeprefix("/api/")
        self.asked.append((path, request))
        answer = self.answers[path]
        if callable(answer):
            answer = answer(request)
        if asyncio.iscoroutine(answer):
            answer = await answer
        return answer if isinstance(answer, httpx2.Response) else httpx2.Response(200, json=answer)

    @property
    def paths(self):
        return [path for path, _ in self.asked]


def make(api, mode, task=THREE, frozen=None, **asked):
    async def run():
        headers = {"Authorization": f"Bearer {KEY}", "Cookie": KEY}
        async with httpx2.AsyncClient(transport=httpx2.MockTransport(api), headers=headers) as client:
            one = RunRequest(task=task, mode=mode, **asked)
            return await smart_spawn_client.make_plan(one, frozen or RunSettings(planner_url=URL), TABLE, client)

    return asyncio.run(run())


def reach(api, url=URL):
    async def run():
        async with httpx2.AsyncClient(transport=httpx2.MockTransport(api)) as client:
            return await smart_spawn_client.reachable(RunSettings(planner_url=url), client)

    return asyncio.run(run())


@pytest.mark.parametrize(
    ("mode", "paths", "nodes"),
    [
        ("single", ["pick"], [("single", "openai/gpt-5", ())]),
        (
            "collective",
            ["recommend"],
            [("collective-1", "p0/m", ()), ("collective-2", "p1/m", ()), ("collective-3", "p2/m", ())],
        ),
        ("cascade", ["pick", "pick"], [("cheap", "openai/gpt-5", ()), ("premium", "openai/gpt-5", ("cheap",))]),
        (
            "swarm",
            ["swarm"],
            [
                ("swarm-1", "openai/gpt-5", ()),
                ("swarm-2", "x-ai/grok-4", ("swarm-1",)),
                ("swarm-3", "openai/gpt-5", ("swarm-1",)),
            ],
        ),
    ],
)
def test_each_mode_is_planned_by_its_own_calls(mode, paths, nodes):
    api = Api()
    made = make(api, mode)
    assert api.paths == paths
    assert made.source == "smart-spawn-api"
    assert made.notes == ()
    assert [(one.id, one.model, one.needs) for one in made.nodes if one.kind == "task"] == nodes


def test_a_decomposed_task_is_a_chain_and_a_step_without_a_model_gets_one():
    made = make(Api(), "plan")
    assert [(one.id, one.task, one.needs) for one in made.nodes] == [
        ("step-1", "one", ()),
        ("step-2", "two", ("step-1",)),
        ("merged", THREE, ("step-1", "step-2")),
    ]
    assert made.source == "smart-spawn-api"
    assert "named no model" in made.notes[0]
    assert made.nodes[1].model in TABLE.models


def test_a_cascade_asks_for_a_cheap_model_and_for_another_one():
    api = Api(pick=lambda request: {"data": {"id": f"p/{request.url.params['budget']}"}})
    made = make(api, "cascade", budget="high")
    assert [one.model for one in made.nodes] == ["p/low", "p/high", "p/high"]
    assert api.asked[1][1].url.params["exclude"] == "p/low"


@pytest.mark.parametrize("mode", ["plan", "swarm"])
def test_a_task_the_api_does_not_split_is_one_node_with_the_apis_model(mode):
    api = Api(**{name: {"decomposed": False, "reason": "no"} for name in ("decompose", "swarm")})
    made = make(api, mode)
    assert [(one.id, one.model) for one in made.nodes] == [("single", "openai/gpt-5")]
    assert made.source == "smart-spawn-api"
    assert "cannot be split" in made.notes[0]


def test_a_get_carries_the_task_on_one_line_of_200_units_and_a_post_all_of_it():
    task = "first line\n\twith a \x07 bell \ud800" + " and \U0001f600" * 300
    api = Api()
    make(api, "single", task=task)
    sent = api.asked[0][1].url.params["task"]
    assert sent.startswith("first line with a bell and \U0001f600")
    assert len(sent.encode("utf-16-le")) <= 400
    make(api, "swarm", task=task)
    body = json.loads(api.asked[1][1].content)
    assert body["task"].count("\U0001f600") == 300
    assert body == {**body, "budget": "medium", "maxParallel": 4}
    assert smart_spawn_client.brief("\x00\n") == "task"


def test_neither_a_key_nor_any_header_of_the_client_reaches_the_api():
    api = Api()
    for mode in ("single", "collective", "cascade", "plan", "swarm"):
        make(api, mode, role=RequestedRole(persona="writer"))
    for _, request in api.asked:
        assert KEY not in str(request.headers.raw)
        assert "authorization" not in request.headers


def test_a_role_is_composed_once_for_all_and_keeps_the_words_the_api_does_not_know():
    api = Api()
    role = RequestedRole(persona="writer", stack=("react", "cobol"), guardrails=("be kind",))
    made = make(api, "swarm", role=role)
    assert api.paths == ["swarm", "roles/compose"]
    sent = json.loads(api.asked[1][1].content)
    assert (sent["persona"], sent["stack"], sent["guardrails"]) == ("writer", ["react", "cobol"], ["be kind"])
    assert "domain" not in sent
    assert {one.system for one in made.nodes} == {"## Role: Writer\n\nYou work with: cobol.\n\nRules:\n- be kind"}


def test_a_role_the_api_knows_nothing_of_stands_in_its_own_words():
    api = Api(roles__compose={"hasRole": False, "fullPrompt": "the task"})
    assert make(api, "single", role=RequestedRole(persona="a pirate")).nodes[0].system == "You are a pirate."
    own = Api()
    assert make(own, "single", role=RequestedRole(persona="writer"), role_body="mine").nodes[0].system == "mine"
    assert own.paths == ["pick"]


def test_engines_need_no_models_of_the_api_but_its_splitting():
    api = Api()
    assert make(api, "collective", engines=("claude",)).source == "local"
    assert api.paths == []
    made = make(api, "swarm", engines=("claude",))
    assert made.source == "smart-spawn-api"
    assert {one.model for one in made.nodes} == {"engine:claude"}
    single = make(Api(swarm={"decomposed": False}), "swarm", engines=("claude",))
    assert [one.model for one in single.nodes] == ["engine:claude"]


def refused(request):
    raise httpx2.ConnectError(f"no route to host, {KEY}")


def closed(request):
    raise RuntimeError("closed")


FAULTS = {
    "refused": refused,
    "closed": closed,
    "not HTTP": lambda request: (_ for _ in ()).throw(httpx2.RemoteProtocolError("x")),
    "429": httpx2.Response(429, headers={"Retry-After": "1"}, json={"error": {"code": "RATE_LIMITED"}}),
    "500": httpx2.Response(500, text="oops"),
    "404": httpx2.Response(404, json={"error": {"code": "NO_MODEL"}}),
    "redirect": httpx2.Response(302, headers={"Location": "http://elsewhere.test/"}),
    "HTML": httpx2.Response(200, text="<html>"),
    "empty": httpx2.Response(200, text=""),
    "a list": [],
    "nothing in it": {},
    "nulls": {"data": None, "decomposed": None, "dag": None},
    "wrong types": {"data": 4, "decomposed": "yes", "steps": {}, "dag": []},
    "no pieces": {"data": [], "decomposed": True, "steps": [], "dag": {"tasks": []}},
    "useless pieces": {"data": [None, {}], "decomposed": True, "steps": [{}, 1], "dag": {"tasks": [None, {"id": 1}]}},
    "deep": httpx2.Response(200, text="[" * 200_000),
    "packed": lambda request: httpx2.Response(
        200, headers={"Content-Encoding": "gzip"}, stream=httpx2.ByteStream(gzip.compress(b'{"data":{"id":"a/b"}}'))
    ),
    "huge": httpx2.Response(200, content=b'{"a":"' + b"x" * (5 << 20) + b'"}'),
}


@pytest.mark.parametrize("fault", sorted(FAULTS))
@pytest.mark.parametrize("mode", ["single", "collective", "cascade", "plan", "swarm"])
def test_whatever_is_wrong_with_the_api_the_whole_plan_is_made_here_and_it_is_said_why(mode, fault):
    answer = FAULTS[fault]
    made = make(Api(**dict.fromkeys(("pick", "recommend", "decompose", "swarm"), answer)), mode)
    here = make(Api(), mode, frozen=RunSettings(planner_url=""))
    assert made.source == "local"
    assert made.nodes == here.nodes
    assert "the local planner was used" in made.notes[0]
    assert KEY not in made.notes[0]
    assert here.notes == ()


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ("redirect", "HTTP 302"),
        ("429", "HTTP 429"),
        ("HTML", "no JSON"),
        ("a list", "no JSON object"),
        ("huge", "over 4 MiB"),
        ("refused", "ConnectError"),
        ("nulls", "no model"),
        ("packed", "packed"),
    ],
)
def test_the_note_names_the_call_and_what_was_wrong_with_it(fault, words):
    made = make(Api(pick=FAULTS[fault]), "single")
    assert made.notes[0].startswith("the Smart Spawn API gave no usable plan (/pick: ")
    assert words in made.notes[0]


def test_a_role_that_cannot_be_composed_makes_the_whole_plan_local():
    made = make(Api(roles__compose=httpx2.Response(500)), "swarm", role=RequestedRole(persona="writer"))
    assert made.source == "local"
    assert "/roles/compose: HTTP 500" in made.notes[0]
    assert made.nodes[0].system == "You are writer."


@pytest.mark.parametrize(("limit", "words"), [("CALL_S", "/pick: no answer within"), ("ALL_S", "too slow")])
def test_an_api_that_does_not_answer_in_time_is_left(monkeypatch, limit, words):
    monkeypatch.setattr(smart_spawn_client, limit, 0.01)
    made = make(Api(pick=lambda request: asyncio.Event().wait()), "single")
    assert made.source == "local"
    assert words in made.notes[0]


def test_what_is_malformed_in_a_good_answer_is_mended_and_the_api_stays_the_source():
    tasks = [
        {"id": "../../etc", "description": "one", "dependsOn": ["b", "ghost"], "model": None},
        {"id": "b", "description": "two", "dependsOn": ["../../etc", 4], "model": {"id": "agent:builder"}},
        {"id": "b", "description": "  ", "model": MODEL},
        {"description": "three\x00\x1b[0m", "dependsOn": "b", "model": "openai/gpt-5"},
    ]
    made = make(Api(swarm={"decomposed": True, "dag": {"tasks": tasks}}), "swarm")
    assert made.source == "smart-spawn-api"
    assert [(one.id, one.needs) for one in made.nodes] == [
        ("etc", ()),
        ("b", ("etc",)),
        ("swarm-3", ("b",)),
        ("merged", ("etc", "b", "swarm-3")),
    ]
    assert all(one.model in TABLE.models for one in made.nodes)
    assert made.nodes[2].task == "three  [0m"
    told = "\n".join(made.notes)
    for word in ("ghost", "form a cycle", "agent:builder", "no task", "not a list of ids", "named no model"):
        assert word in told


def test_what_may_not_be_asked_is_refused_before_the_api_is():
    api = Api()
    with pytest.raises(BadRequest):
        make(api, "plan", merge={"model": "a/b"}, frozen=RunSettings(planner_url=URL, deny=("a/*",)))
    assert api.paths == []


def test_the_apis_health_is_asked_without_doing_anything():
    assert reach(Api()) == (True, "ok, 42 models")
    assert reach(Api(status={"data": {"status": "empty"}})) == (True, "empty")
    assert reach(Api(), url="") == (False, "switched off: SMART_SPAWN_API_URL is off")
    assert reach(Api(status=refused)) == (False, "/status: ConnectError")
    assert reach(Api(status={"data": 4})) == (False, "the answer does not come from a Smart Spawn API")
    assert reach(Api(), url="http://x:port") == (False, "/status: InvalidURL")


ids = st.sampled_from(["swarm-1", "a", "A", "merged", "../x", "", "plan", "\ud7ff"])
junk = st.none() | st.booleans() | st.integers() | st.text(max_size=5) | st.lists(ids, max_size=3)
model = st.one_of(junk, st.fixed_dictionaries({"id": st.sampled_from(["openai/gpt-5", "engine:x", "q/r"]) | junk}))
piece = st.fixed_dictionaries(
    {},
    optional={
        "id": ids | junk,
        "task": st.text(max_size=9) | junk,
        "description": st.text(max_size=9) | junk,
        "dependsOn": st.lists(ids | junk, max_size=4) | junk,
        "model": model,
        "reason": junk,
        "budget": st.sampled_from(["low", "high", "x"]) | junk,
    },
)
pieces = st.lists(piece | junk, max_size=8) | junk
anything = st.fixed_dictionaries(
    {},
    optional={
        "data": pieces | model,
        "decomposed": st.just(True) | junk,
        "steps": pieces,
        "dag": st.fixed_dictionaries({"tasks": pieces}) | junk,
        "hasRole": st.booleans() | junk,
        "fullPrompt": st.text(max_size=9) | junk,
        "stack": junk,
        "guardrails": junk,
    },
)
names = st.sampled_from(["openai/gpt-5", "engine:x", "q/r"])
usual = st.fixed_dictionaries(
    {"task": st.text("ab", min_size=1), "description": st.text("ab", min_size=1)},
    optional={"id": ids, "dependsOn": st.lists(ids, max_size=4), "model": st.fixed_dictionaries({"id": names})},
)
near = st.builds(
    lambda rows, name, wanted: {
        "data": {"id": name} if wanted else [{"model": {"id": name}}],
        "decomposed": True,
        "steps": rows,
        "dag": {"tasks": rows},
        "hasRole": True,
        "fullPrompt": name,
    },
    st.lists(usual | piece, max_size=8),
    names,
    st.booleans(),
)


def test_whatever_the_api_answers_the_plan_can_be_run_or_the_request_is_refused():
    seen = set()

    @given(
        st.sampled_from(MODES),
        near | anything | junk,
        st.booleans(),
        st.sampled_from([(), ("openai/*",), ("none/*",)]),
    )
    @settings(max_examples=200)
    @example("single", None, False, ("none/*",))
    @example("single", None, False, ())
    @example("collective", None, False, ())
    @example("single", {"data": {"id": "openai/gpt-5"}}, False, ())
    @example("plan", {"decomposed": True, "steps": STEPS}, False, ())
    def holds(mode, answer, role, allow):
        seen.add(runs(mode, answer, role, allow))

    holds()
    assert seen >= {"refused", ("local", 1), ("local", 4), ("smart-spawn-api", 1), ("smart-spawn-api", 4)}


STEPS = [{"id": one, "task": one, "description": one, "model": {"id": "openai/gpt-5"}} for one in "abc"]


def runs(mode, answer, role, allow):
    api = Api(**dict.fromkeys(("pick", "recommend", "decompose", "swarm", "roles__compose"), answer))
    try:
        made = make(
            api,
            mode,
            frozen=RunSettings(planner_url=URL, allow=allow),
            role=RequestedRole(stack=("c",)) if role else RequestedRole(),
        )
    except BadRequest as error:
        assert error.code == "model_not_allowed"
        assert allow == ("none/*",)
        return "refused"
    waves = {}
    for one in made.nodes:
        assert re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", one.id)
        assert ".." not in one.id
        assert set(one.needs) <= set(waves), "a node stands before what it needs"
        assert one.wave == max((waves[need] + 1 for need in one.needs), default=0)
        waves[one.id] = one.wave
        assert model_table.is_model(one.model)
        assert one.model in model_table.ModelFilter(allow)
        assert (one.kind == "merge") is (one.id == "merged")
        one.task.encode()
    assert len({name.lower() for name in waves}) == len(made.nodes)
    assert "plan" not in waves
    if len(made.nodes) > 1:
        assert made.nodes[-1].kind == "merge"
        answers = {one.id for one in made.nodes[:-1]}
        assert {need for one in made.nodes for need in one.needs} == answers
        assert mode == "debate" or set(made.nodes[-1].needs) == answers
    return made.source, len(made.nodes)
