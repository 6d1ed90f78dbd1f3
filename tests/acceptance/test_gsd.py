"""Project intelligence through the MCP surface over stdio: detection, the twelve tools, resources and prompts (B3)."""

import json

import jsonschema
import pytest

from tests.support.gsd_trees import TREES, unpack, write
from tests.support.stage import alive, processes_with, tree, until

TOOLS = [
    "gsd_query_intel", "gsd_blast_radius", "gsd_phase_relevant_files", "gsd_codebase_patterns",
    "gsd_similar_past_work", "gsd_verify_behavior", "gsd_verify_artifact", "gsd_requirement_status",
    "gsd_phase_status", "gsd_pre_edit_check", "gsd_untraceable_requirements", "gsd_get_conventions",
]  # fmt: skip
ARGUMENTS = {
    "gsd_query_intel": {"query": "auth"},
    "gsd_blast_radius": {"file": "src/db.ts"},
    "gsd_phase_relevant_files": {"phase_goal": "users log in"},
    "gsd_codebase_patterns": {"query": "routes"},
    "gsd_similar_past_work": {"current_goal": "users log in"},
    "gsd_verify_behavior": {"must_have": "users can log in"},
    "gsd_verify_artifact": {"must_exist": "src/db.ts"},
    "gsd_requirement_status": {"requirement_id": "AUTH-01"},
    "gsd_phase_status": {},
    "gsd_pre_edit_check": {"file": "src/db.ts"},
    "gsd_untraceable_requirements": {},
    "gsd_get_conventions": {},
}
FIXED = {
    "gsd://intel/summary": "text/markdown",
    "gsd://intel/hotspots": "text/markdown",
    "gsd://intel/conventions": "application/json",
    "gsd://project/vision": "text/markdown",
    "gsd://project/requirements/pending": "application/json",
    "gsd://requirements/pending": "application/json",
    "gsd://project/decisions": "text/markdown",
    "gsd://roadmap/current-phase": "text/markdown",
    "gsd://phase/current": "text/markdown",
}
FORMS = [
    "gsd://intel/entity/{id}", "gsd://phase/{n}", "gsd://phase/{n}/plan", "gsd://phase/{n}/plans",
    "gsd://phase/{n}/plan/{id}", "gsd://phase/{n}/context", "gsd://phase/{n}/research", "gsd://phase/{n}/summary",
    "gsd://phase/{n}/verification", "gsd://phase/{n}/uat",
]  # fmt: skip
PROMPTS = [f"spawn{sign}{who}" for sign in "/_" for who in ("planner", "executor", "verifier")]
NO_PROJECT = "No GSD project detected. Run /gsd:new-project or /gsd:analyze-codebase first."
HANDSHAKE = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
PLAN = """---
phase: 02-login
plan: 01
type: execute
wave: 1
depends_on: []
files_modified: [src/db.ts, src/api/auth.ts]
autonomous: true
must_haves:
  truths: ["Users can log in"]
  artifacts: [{path: src/api/auth.ts, provides: "login route"}]
  key_links: [{from: src/api/auth.ts, to: src/db.ts, via: import}]
---
<objective>Log users in.</objective>
<tasks><task type="auto"><name>Task 1: The route</name><files>src/api/auth.ts</files><action>Write it.</action></task></tasks>
"""
SHOP = {
    ".planning/PROJECT.md": "# Shop\n\n## What This Is\n\nA shop for tea.\n\n## Core Value\n\nTea in a minute.\n\n"
    "## Key Decisions\n\n| Decision | Rationale | Outcome |\n|---|---|---|\n| SQLite | One file | ✓ Good |\n",
    ".planning/REQUIREMENTS.md": "## v1 Requirements\n\n### Authentication\n\n- [x] **AUTH-01**: Users sign up\n"
    "- [ ] **AUTH-02**: Users log in\n\n## Traceability\n\n| Requirement | Phase | Status |\n|---|---|---|\n"
    "| AUTH-01 | Phase 1 | Complete |\n| AUTH-02 | Phase 2 | Pending |\n",
    ".planning/ROADMAP.md": "# Roadmap\n\n- [x] **Phase 1: Start** - begin\n- [ ] **Phase 2: Login** - log in\n\n"
    "## Phase Details\n\n### Phase 1: Start\n**Goal**: A page is served.\n\n### Phase 2: Login\n**Goal**: Users log "
    "in.\n**Requirements**: AUTH-02\n**Success Criteria** (what must be TRUE):\n  1. A user sees her name\n",
    ".planning/phases/02-login/02-01-PLAN.md": PLAN,
    ".planning/phases/02-login/02-RESEARCH.md": "# Research\n\nUse sessions.\n",
    ".planning/intel/entities/src-db.md": "---\npath: src/db.ts\ntype: service\n---\n# db.ts\n\n## Purpose\n\n"
    "Keeps users in SQLite.\n\n## Exports\n\n- `query(sql)`\n\n## Dependencies\n\nNone.\n",
    ".planning/intel/entities/src-api-auth.md": "---\npath: src/api/auth.ts\ntype: api\n---\n# auth.ts\n\n## Purpose\n\n"
    "Logs users in.\n\n## Dependencies\n\n- [[src-db]] - users\n",
    ".planning/intel/conventions.json": '{"version":1,"naming":{"exports":{"dominant":"camelCase","count":9,'
    '"percentage":90}},"directories":{},"suffixes":{}}',
    ".planning/intel/summary.md": "# Codebase Intelligence Summary\n\nTwo files.\n",
    "src/db.ts": "export function query(sql: string) { return sql }\n",
    "src/api/auth.ts": "import { query } from '../db'\nexport const login = () => query('x')\n",
}  # fmt: skip


class Scene:
    """One daemon, and directories below its project: a made-up GSD project, real ones, and one without any."""

    def __init__(self, stage):
        self.stage = stage
        self.shop = write(stage.root / "shop", SHOP)
        self.none = stage.root / "none"
        self.none.mkdir()

    def connect(self, cwd, toolsets="gsd", version="2025-06-18", **env):
        wire = self.stage.wire({**self.stage.env, **env}, "--toolsets", toolsets, cwd=cwd)
        wire.said = wire.begin(version)
        return wire


@pytest.fixture(scope="module")
def scene(shared_stage):
    return Scene(shared_stage)


@pytest.fixture(scope="module")
def shop(scene):
    """A client in the made-up project."""
    return scene.connect(scene.shop)


@pytest.fixture(scope="module")
def outside(scene):
    """A client where there is no project."""
    return scene.connect(scene.none)


def code_of(answer):
    return answer["error"]["code"]


def read(wire, uri):
    """A resource's type and text."""
    answer = wire.ask("resources/read", {"uri": uri})
    (one,) = answer["result"]["contents"]
    assert one["uri"] == uri
    return one["mimeType"], one["text"]


def refused(wire, method, params):
    """The code of the error that a request is answered with."""
    error = wire.ask(method, params)["error"]
    assert error["code"] == -32602
    return error["data"]["code"]


def prompt(wire, name, **arguments):
    answer = wire.ask("prompts/get", {"name": name, "arguments": arguments})
    return answer["result"]["messages"][0]["content"]["text"]


# -- who it is, and what it offers (B3.1, B3.3, B3.7, C29) ----------------------------------------------------------


@pytest.mark.parametrize("version", HANDSHAKE)
def test_alone_it_is_the_server_of_the_document_and_offers_nothing_else(scene, version):
    wire = scene.connect(scene.shop, version=version)
    said = wire.said["serverInfo"]
    assert (said["name"], said["version"]) == ("gsd", "1.0.0")
    assert "gsd_query_intel" in wire.said["instructions"]
    assert [one["name"] for one in wire.ask("tools/list")["result"]["tools"]] == TOOLS
    assert [one["name"] for one in wire.ask("prompts/list")["result"]["prompts"]] == PROMPTS
    assert {one["uri"]: one["mimeType"] for one in wire.ask("resources/list")["result"]["resources"]} == FIXED
    templates = wire.ask("resources/templates/list")["result"]["resourceTemplates"]
    assert [one["uriTemplate"] for one in templates] == FORMS
    assert templates[0]["name"] == "gsd://intel/entity/:id"


def test_beside_other_toolsets_it_is_one_of_them(scene):
    wire = scene.connect(scene.shop, "team,gsd")
    assert wire.said["serverInfo"]["name"] == "orchestrator"
    assert "agents_create" in wire.said["instructions"]
    assert "gsd_query_intel" in wire.said["instructions"]
    names = [one["name"] for one in wire.ask("tools/list")["result"]["tools"]]
    assert names[-12:] == TOOLS
    assert "agent_create" in names
    assert [one["name"] for one in wire.ask("prompts/list")["result"]["prompts"]] == ["lead_team", "agent", *PROMPTS]
    forms = [one["uriTemplate"] for one in wire.ask("resources/templates/list")["result"]["resourceTemplates"]]
    assert "agent://{id}/meta" in forms
    assert forms[-len(FORMS) :] == FORMS


def test_other_connections_have_none_of_it(scene):
    wire = scene.connect(scene.shop, "team,squad")
    assert not set(TOOLS) & {one["name"] for one in wire.ask("tools/list")["result"]["tools"]}
    assert code_of(wire.tool("gsd_phase_status")) == "unknown_tool"
    assert [one["name"] for one in wire.ask("prompts/list")["result"]["prompts"]] == ["lead_team", "agent"]
    assert wire.ask("prompts/get", {"name": "spawn/planner"})["error"]["code"] == -32602
    assert refused(wire, "resources/read", {"uri": "gsd://intel/summary"}) == "unknown_resource"


def test_the_tools_are_described_for_every_client_and_cost_few_tokens(shop):
    listed = shop.ask("tools/list")["result"]["tools"]
    for tool in listed:
        jsonschema.Draft202012Validator.check_schema(tool["inputSchema"])
        jsonschema.Draft202012Validator.check_schema(tool["outputSchema"])
        assert tool["inputSchema"]["additionalProperties"] is False
        assert "anyOf" not in json.dumps(tool)
        assert "$ref" not in json.dumps(tool)
        assert tool["inputSchema"]["properties"]["project_root"]["default"] == ""
        hints = tool["annotations"]
        assert (hints["readOnlyHint"], hints["destructiveHint"], hints["idempotentHint"]) == (True, False, True)
        assert hints["openWorldHint"] is False
        assert 40 < len(tool["description"]) < 140
    shown = json.dumps([{key: tool[key] for key in ("name", "description", "inputSchema")} for tool in listed])
    assert len(shown) / 4 < 2000, "tokens, about"


def test_the_arguments_are_those_of_the_documents_with_their_defaults(shop):
    asked = {tool["name"]: tool["inputSchema"] for tool in shop.ask("tools/list")["result"]["tools"]}

    def defaults(name):
        return {
            key: value.get("default") for key, value in asked[name]["properties"].items() if key != "project_root"
        }

    assert defaults("gsd_query_intel") == {
        "query": None, "include_purposes": True, "include_blast_radius": False, "include_exports": False,
        "max_results": 10, "type_filter": "all",
    }  # fmt: skip
    types = set(asked["gsd_query_intel"]["properties"]["type_filter"]["enum"])
    assert types >= {"service", "api", "util", "component", "model", "config", "all", "hook", "controller", "feature"}
    assert defaults("gsd_blast_radius") == {"file": None, "max_depth": 3, "change_type": "any"}
    changes = set(asked["gsd_blast_radius"]["properties"]["change_type"]["enum"])
    assert changes >= {"any", "signature_change", "behavior_change", "deletion"}
    assert defaults("gsd_verify_behavior") == {"must_have": None, "check_type": "behavior"}
    kinds = set(asked["gsd_verify_artifact"]["properties"]["check_type"]["enum"])
    assert kinds == {"behavior", "endpoint", "artifact", "file", "export", "component", "test", "any"}
    assert defaults("gsd_phase_relevant_files") == {
        "phase_goal": None, "include_purposes": True, "include_blast_radius": True,
    }  # fmt: skip
    assert defaults("gsd_codebase_patterns") == {"query": None, "include_examples": True}
    assert defaults("gsd_similar_past_work") == {"current_goal": None, "include_summaries": False}
    assert defaults("gsd_requirement_status") == {"requirement_id": None}
    assert defaults("gsd_phase_status") == {"phase": ""}
    assert defaults("gsd_pre_edit_check") == {"file": None, "planned_change": "", "change_type": "any"}
    assert defaults("gsd_get_conventions") == {"type": "all", "directory": ""}
    assert defaults("gsd_untraceable_requirements") == {}


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("gsd_query_intel", {}),
        ("gsd_query_intel", {"query": ""}),
        ("gsd_query_intel", {"query": "x", "max_results": 0}),
        ("gsd_query_intel", {"query": "x", "max_results": 101}),
        ("gsd_query_intel", {"query": "x", "max_results": "10"}),
        ("gsd_query_intel", {"query": "x", "type_filter": "poem"}),
        ("gsd_query_intel", {"query": "x" * 10_000}),
        ("gsd_query_intel", {"query": "x", "project": "."}),
        ("gsd_blast_radius", {"file": "x", "max_depth": 0}),
        ("gsd_blast_radius", {"file": "x", "max_depth": 11}),
        ("gsd_blast_radius", {"file": "x", "change_type": "poem"}),
        ("gsd_verify_behavior", {"must_have": "x", "check_type": "poem"}),
        ("gsd_phase_status", {"phase": [2]}),
        ("gsd_phase_status", {"project_root": 7}),
    ],
)
def test_a_bad_argument_is_refused_by_name(shop, name, arguments):
    answer = shop.tool(name, arguments)
    assert code_of(answer) == "bad_argument"
    wrong = next(reversed(arguments), "query")
    assert wrong in answer["error"]["message"]


# -- answers (B3.8 to B3.16) ----------------------------------------------------------------------------------------


def test_every_answer_is_what_its_output_schema_says_and_names_its_project(scene, shop):
    schemas = {tool["name"]: tool["outputSchema"] for tool in shop.ask("tools/list")["result"]["tools"]}
    for name, arguments in ARGUMENTS.items():
        answer = shop.tool(name, arguments)
        assert "error" not in answer, (name, answer)
        jsonschema.validate(answer, schemas[name])
        assert answer["project_root"] == str(scene.shop)


@pytest.mark.parametrize("name", TREES)
def test_every_tool_answers_about_every_real_tree(scene, tmp_path_factory, name):
    if not (scene.stage.root / name).exists():
        unpack(name, scene.stage.root)
    wire = scene.connect(scene.stage.root / name)
    schemas = {tool["name"]: tool["outputSchema"] for tool in wire.ask("tools/list")["result"]["tools"]}
    for tool, arguments in ARGUMENTS.items():
        answer = wire.tool(tool, arguments)
        if tool == "gsd_requirement_status":
            assert "error" not in answer or code_of(answer) == "unknown_requirement"
        else:
            assert "error" not in answer, (tool, answer)
        jsonschema.validate(answer, schemas[tool])
        if "error" not in answer:
            assert answer["project_root"] == str(scene.stage.root / name)
    for uri, mime in FIXED.items():
        told, text = read(wire, uri)
        assert told == mime
        assert text.strip()
        if mime == "application/json":
            json.loads(text)
    for one in PROMPTS:
        assert prompt(wire, one).strip()


def test_the_phase_and_the_requirements_of_a_project_are_told(shop):
    found = shop.tool("gsd_phase_status")
    assert (found["current_phase"], found["phase_name"]) == ("2", "Login")
    assert [(plan["id"], plan["status"]) for plan in found["plans"]] == [("02-01", "pending")]
    assert shop.tool("gsd_requirement_status", {"requirement_id": "AUTH-02"})["status"] == "pending"
    assert code_of(shop.tool("gsd_requirement_status", {"requirement_id": "AUTH-9"})) == "unknown_requirement"
    assert code_of(shop.tool("gsd_phase_status", {"phase": "77"})) == "unknown_phase"


def test_the_code_graph_of_a_project_is_told(shop):
    found = shop.tool("gsd_query_intel", {"query": "users", "include_blast_radius": True})["files"]
    assert {one["path"] for one in found} == {"src/db.ts", "src/api/auth.ts"}
    blast = shop.tool("gsd_blast_radius", {"file": "src/db.ts"})
    assert (blast["directDependents"], blast["transitiveDependents"], blast["totalAffected"]) == (1, 0, 1)
    assert blast["criticalFiles"] == ["src/api/auth.ts"]
    assert shop.tool("gsd_verify_artifact", {"must_exist": "src/db.ts", "check_type": "file"})["exists"] is True


def test_what_changes_on_the_disk_is_answered_at_once(scene):
    root = write(scene.stage.root / "moving", SHOP)
    wire = scene.connect(root)
    assert wire.tool("gsd_requirement_status", {"requirement_id": "AUTH-02"})["status"] == "pending"
    for status in ("Blocked", "Complete", "In Progress"):
        text = SHOP[".planning/REQUIREMENTS.md"].replace("Pending", status)
        (root / ".planning" / "REQUIREMENTS.md").write_text(text)
        wanted = {"Blocked": "blocked", "Complete": "completed", "In Progress": "in_progress"}[status]
        assert wire.tool("gsd_requirement_status", {"requirement_id": "AUTH-02"})["status"] == wanted


def test_nothing_is_written_into_a_project_whatever_is_asked(scene):
    root = write(scene.stage.root / "untouched", SHOP)
    before = tree(root)
    wire = scene.connect(root)
    for name, arguments in ARGUMENTS.items():
        wire.tool(name, arguments)
    for uri in FIXED:
        read(wire, uri)
    for name in PROMPTS:
        prompt(wire, name)
    assert tree(root) == before


# -- which project (B3.2, C27) --------------------------------------------------------------------------------------


def test_a_project_is_found_from_any_directory_below_it(scene):
    wire = scene.connect(scene.shop / "src" / "api")
    assert wire.tool("gsd_phase_status")["project_root"] == str(scene.shop)


def test_without_a_project_each_tool_says_so_in_the_documents_words(outside):
    for name, arguments in ARGUMENTS.items():
        answer = outside.tool(name, arguments)
        assert (code_of(answer), answer["error"]["message"]) == ("no_gsd_project", NO_PROJECT), name


def test_a_project_that_is_begun_later_is_found_by_the_next_call(scene):
    root = scene.stage.root / "later"
    root.mkdir()
    wire = scene.connect(root)
    assert code_of(wire.tool("gsd_phase_status")) == "no_gsd_project"
    write(root, SHOP)
    assert wire.tool("gsd_phase_status")["current_phase"] == "2"


def test_the_argument_names_a_project_and_must_stay_inside(scene, shop):
    other = write(scene.stage.root / "shop" / "inner", {".planning/PROJECT.md": "# Inner\n"})
    assert shop.tool("gsd_phase_status", {"project_root": "inner"})["project_root"] == str(other)
    assert shop.tool("gsd_phase_status", {"project_root": str(other)})["project_root"] == str(other)
    assert code_of(shop.tool("gsd_phase_status", {"project_root": str(scene.stage.root)})) == "path_escape"
    assert code_of(shop.tool("gsd_phase_status", {"project_root": "../none"})) == "path_escape"
    assert code_of(shop.tool("gsd_phase_status", {"project_root": "a\0b"})) == "bad_argument"
    assert code_of(shop.tool("gsd_phase_status", {"project_root": "no-such"})) == "bad_argument"


def test_the_connections_variable_comes_before_its_directory_and_is_its_own(scene):
    other = write(scene.stage.root / "other", {".planning/STATE.md": "# State\n"})
    wire = scene.connect(scene.shop, GSD_PROJECT_ROOT=str(other))
    assert wire.tool("gsd_untraceable_requirements")["project_root"] == str(other)
    assert scene.connect(scene.shop).tool("gsd_phase_status")["project_root"] == str(scene.shop)
    bad = scene.connect(scene.shop, GSD_PROJECT_ROOT="/no/such").tool("gsd_phase_status")
    assert code_of(bad) == "bad_config"
    assert "GSD_PROJECT_ROOT" in bad["error"]["message"]


class Rooted:
    """A client that has roots, and answers when it is asked for them."""

    def __init__(self, scene, cwd, declared=True):
        self.wire = scene.stage.wire(None, "--toolsets", "gsd", cwd=cwd)
        asked = {
            "protocolVersion": "2025-06-18",
            "capabilities": {"roots": {"listChanged": True}} if declared else {},
            "clientInfo": {"name": "rooted", "version": "1"},
        }
        assert "result" in self.wire.ask("initialize", asked)
        self.wire.send({"method": "notifications/initialized"})
        self.answered = 0

    def asked(self):
        return self.wire.told("roots/list")

    def reply(self, **said):
        """Answer the next question for roots."""
        question = until(lambda: self.asked()[self.answered :])[0]
        self.answered += 1
        self.wire.send({"id": question["id"], **said})

    def root_of(self, *uris, **said):
        """The project of a call during which the client says which roots it has."""
        call = self.wire.start("gsd_phase_status")
        self.reply(**(said or {"result": {"roots": [{"uri": uri} for uri in uris]}}))
        return self.wire.outcome(self.wire.answer(call))


def test_a_clients_roots_come_before_its_directory_are_asked_once_and_again_when_they_change(scene):
    other = write(scene.stage.root / "rooted one", {".planning/PROJECT.md": "# One\n"})
    client = Rooted(scene, scene.shop)
    assert client.root_of("file:///no/such", other.as_uri())["project_root"] == str(other)
    assert client.wire.tool("gsd_phase_status")["project_root"] == str(other)
    named = client.wire.tool("gsd_phase_status", {"project_root": str(scene.shop)})
    assert named["project_root"] == str(scene.shop), "of the working directory's tree"
    assert len(client.asked()) == 1
    client.wire.send({"method": "notifications/roots/list_changed"})
    assert client.root_of(scene.shop.as_uri())["project_root"] == str(scene.shop)
    assert code_of(client.wire.tool("gsd_phase_status", {"project_root": str(other)})) == "path_escape"
    assert len(client.asked()) == 2


@pytest.mark.parametrize(
    "said",
    [
        {"error": {"code": -32601, "message": "no"}},
        {"result": {"roots": []}},
        {"result": {"roots": "nonsense"}},
        {"result": {}},
        {"result": {"roots": [{"uri": "https://example.com/"}]}},
    ],
)
def test_a_client_that_says_nothing_of_use_has_no_roots(scene, said):
    client = Rooted(scene, scene.shop)
    assert client.root_of(**said)["project_root"] == str(scene.shop)
    assert client.wire.tool("gsd_phase_status")["project_root"] == str(scene.shop)
    assert len(client.asked()) == 1


def test_a_client_that_never_answers_has_no_roots(scene):
    client = Rooted(scene, scene.shop)
    assert client.wire.tool("gsd_phase_status")["project_root"] == str(scene.shop)
    assert client.wire.tool("gsd_phase_status")["project_root"] == str(scene.shop)
    assert len(client.asked()) == 1


def test_a_client_without_roots_is_not_asked(scene):
    client = Rooted(scene, scene.shop, declared=False)
    assert client.wire.tool("gsd_phase_status")["project_root"] == str(scene.shop)
    assert client.asked() == []


@pytest.mark.anyio
async def test_the_modern_era_has_tools_resources_and_prompts(scene):
    from mcp import Client, StdioServerParameters
    from mcp.client.stdio import stdio_client

    (program, *args), _ = scene.stage.command("--toolsets", "gsd")
    asked = StdioServerParameters(command=program, args=args, env=scene.stage.env, cwd=str(scene.shop))
    async with Client(stdio_client(asked), mode="auto", cache=None) as client:
        assert client.protocol_version == "2026-07-28"
        assert [tool.name for tool in (await client.list_tools()).tools] == TOOLS
        answer = await client.call_tool("gsd_phase_status", {})
        assert answer.structured_content["project_root"] == str(scene.shop)
        (one,) = (await client.read_resource("gsd://project/vision")).contents
        assert "A shop for tea." in one.text
        assert "Users log in." in (await client.get_prompt("spawn/planner")).messages[0].content.text


# -- resources (B3.21 to B3.28, C24) --------------------------------------------------------------------------------


def test_the_fixed_resources_tell_what_the_project_says(shop):
    vision = read(shop, "gsd://project/vision")[1]
    assert "A shop for tea." in vision
    assert "Tea in a minute." in vision
    pending = json.loads(read(shop, "gsd://project/requirements/pending")[1])
    assert [one["id"] for one in pending] == ["AUTH-02"]
    assert json.loads(read(shop, "gsd://requirements/pending")[1]) == pending
    assert "SQLite" in read(shop, "gsd://project/decisions")[1]
    assert "Login" in read(shop, "gsd://roadmap/current-phase")[1]
    assert read(shop, "gsd://phase/current")[1] == read(shop, "gsd://roadmap/current-phase")[1]
    assert read(shop, "gsd://intel/summary")[1] == SHOP[".planning/intel/summary.md"]
    assert "src/db.ts" in read(shop, "gsd://intel/hotspots")[1]
    mime, conventions = read(shop, "gsd://intel/conventions")
    assert mime == "application/json"
    assert json.loads(conventions)["naming"]["exports"]["dominant"] == "camelCase"


@pytest.mark.parametrize("number", ["2", "02", "current"])
def test_the_pages_of_a_phase_tell_its_files(shop, number):
    assert "Users log in." in read(shop, f"gsd://phase/{number}")[1]
    assert read(shop, f"gsd://phase/{number}/plan") == ("text/markdown", PLAN)
    assert read(shop, f"gsd://phase/{number}/plan/02-01")[1] == PLAN
    assert "<objective>" in read(shop, f"gsd://phase/{number}/plans")[1]
    assert "Use sessions." in read(shop, f"gsd://phase/{number}/research")[1]
    for what in ("context", "summary", "verification", "uat"):
        assert what in read(shop, f"gsd://phase/{number}/{what}")[1], "it says that there is none"


def test_an_entity_is_read_by_its_id_and_never_anything_else(shop):
    assert "Keeps users in SQLite." in read(shop, "gsd://intel/entity/src-db")[1]
    assert "Keeps users in SQLite." in read(shop, "gsd://intel/entity/src%2Ddb")[1]
    for name in ("nothing", "..%2F..%2FPROJECT", "%2e%2e/%2e%2e/PROJECT", "%2Fetc%2Fpasswd", "a%00b", ":id"):
        mime, text = read(shop, f"gsd://intel/entity/{name}")
        assert (mime, text.partition(": ")[0]) == ("text/markdown", "Entity not found")


@pytest.mark.parametrize(
    "uri",
    [
        "gsd://", "gsd://intel", "gsd://intel/entity", "gsd://intel/entity/", "gsd://intel/none", "gsd://phase",
        "gsd://phase/2/none", "gsd://phase/2/plan/02-01/x", "gsd://phase/2/context/x", "gsd://project",
        "gsd://intel/summary/x", "gsd:intel/summary", "gsd://[", "gsd://intel/summary?x=1", "gsd://phase/2/plan/77",
    ],
)  # fmt: skip
def test_a_uri_of_no_resource_is_refused_by_code(shop, uri):
    assert refused(shop, "resources/read", {"uri": uri}) == "unknown_resource"


def test_a_phase_that_is_not_there_is_refused_by_code(shop):
    assert refused(shop, "resources/read", {"uri": "gsd://phase/77"}) == "unknown_phase"
    assert refused(shop, "resources/read", {"uri": "gsd://phase/..%2F..%2Fx"}) == "unknown_phase"


def test_without_a_project_resources_are_sentences_and_no_errors(outside):
    for uri, mime in FIXED.items():
        told, text = read(outside, uri)
        if uri == "gsd://intel/summary":
            assert text == "No intelligence summary available. Run /gsd:analyze-codebase."
        else:
            assert text == NO_PROJECT
        assert told == ("text/markdown" if mime == "text/markdown" else "text/plain")
    assert read(outside, "gsd://intel/entity/src%2Fdb")[1] == "Entity not found: src/db"
    assert read(outside, "gsd://phase/2/plan")[1] == NO_PROJECT


def test_a_subscriber_hears_when_the_files_of_its_project_change(scene):
    root = write(scene.stage.root / "heard", SHOP)
    wire = scene.connect(root)
    assert "result" in wire.ask("resources/subscribe", {"uri": "gsd://project/vision"})
    assert "A shop" in read(wire, "gsd://project/vision")[1]  # by now the project is held and watched

    def changed():
        (root / ".planning" / "PROJECT.md").touch()
        return wire.told("notifications/resources/updated")

    assert until(changed)[0]["params"]["uri"] == "gsd://project/vision"


# -- prompts (B3.29, B3.30) -----------------------------------------------------------------------------------------


def test_each_prompt_has_two_names_and_three_optional_arguments(shop):
    for one in shop.ask("prompts/list")["result"]["prompts"]:
        assert [argument["name"] for argument in one["arguments"]] == ["phase", "phase_goal", "plan"]
        assert not any(argument.get("required") for argument in one["arguments"])
    for who in ("planner", "executor", "verifier"):
        assert prompt(shop, f"spawn/{who}") == prompt(shop, f"spawn_{who}")


def test_the_prompts_are_filled_with_the_projects_facts(shop):
    planner = prompt(shop, "spawn/planner")
    for fact in ("Shop", "A shop for tea.", "Tea in a minute.", "Users log in.", "AUTH-02", "Two files."):
        assert fact in planner
    executor = prompt(shop, "spawn/executor")
    for fact in ("<objective>Log users in.</objective>", "src/db.ts", "Users log in."):
        assert fact in executor
    verifier = prompt(shop, "spawn/verifier")
    for fact in ("Users can log in", "src/api/auth.ts", "A user sees her name", "AUTH-02"):
        assert fact in verifier
    assert "camelCase" in planner
    assert "camelCase" in executor
    for text in (planner, executor, verifier):
        assert "{" + "goal}" not in text


def test_the_prompts_say_which_tools_to_ask_and_in_which_order(shop):
    for who, words in (
        ("planner", ["gsd_phase_relevant_files", "gsd_codebase_patterns", "gsd_similar_past_work"]),
        (
            "executor",
            ["gsd_blast_radius", "more than 10 dependents", "backward compatible", "deprecate", "migration path"],
        ),
        ("verifier", ["gsd_verify_behavior", "gsd_verify_artifact", "gsd_requirement_status"]),
    ):
        text = prompt(shop, f"spawn/{who}")
        places = [text.index(word) for word in words]
        assert places == sorted(places), who


def test_the_arguments_of_a_prompt_choose_phase_goal_and_plan(shop):
    assert "A page is served." in prompt(shop, "spawn/planner", phase="1")
    assert "Sell coffee too." in prompt(shop, "spawn/planner", phase_goal="Sell coffee too.")
    assert "Log users in." in prompt(shop, "spawn/executor", plan="02-01")
    assert "Log users in." not in prompt(shop, "spawn/executor", phase="1")


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ({"goal": "x"}, "bad_argument"),
        ({"phase": "77"}, "unknown_phase"),
        ({"plan": "02-77"}, "unknown_resource"),
        ({"phase_goal": "x" * 10_000}, "bad_argument"),
    ],
)
def test_a_bad_argument_of_a_prompt_is_refused_by_code(shop, arguments, code):
    assert refused(shop, "prompts/get", {"name": "spawn/planner", "arguments": arguments}) == code


def test_an_unknown_prompt_is_told_those_that_are_offered(shop):
    error = shop.ask("prompts/get", {"name": "lead_team"})["error"]
    assert error["code"] == -32602
    assert "spawn_planner" in error["message"]
    assert "there are: lead_team" not in error["message"]


def test_without_a_project_a_prompt_says_so_and_works(outside):
    for name in PROMPTS:
        assert NO_PROJECT in prompt(outside, name)
    assert "Sell coffee too." in prompt(outside, "spawn_planner", phase_goal="Sell coffee too.")


# -- what else must hold --------------------------------------------------------------------------------------------


def test_the_team_goes_on_when_the_reading_process_is_killed(scene, shop):
    (pid,) = [
        pid for pid, command in processes_with(str(scene.stage.run_base)).items() if command.endswith(" gsd-reader ")
    ]
    import os
    import signal

    os.kill(pid, signal.SIGKILL)
    until(lambda: not alive(pid))
    assert shop.tool("gsd_phase_status")["current_phase"] == "2"


def test_progress_is_told_while_a_call_lasts_and_a_canceled_one_harms_no_other(scene):
    wire = scene.connect(scene.shop)
    calls = [wire.start("gsd_phase_relevant_files", {"phase_goal": "x"}, progressToken=at) for at in range(8)]
    for call in calls[::2]:
        wire.send({"method": "notifications/cancelled", "params": {"requestId": call}})
    for call in calls[1::2]:
        assert "error" not in wire.outcome(wire.answer(call))
