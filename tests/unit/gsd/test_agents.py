"""What a role's `toolsets` becomes on the way to an agent: its record, its CLI's restriction, its rules; the words."""

import json
import re
import tomllib
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import jsonschema
import pytest

from orchestrator.base import package_data, toolsets
from orchestrator.base.toolsets import GSD_TOOLS, READ_ONLY, tools_of
from orchestrator.core import prompts, record_types, records, supervision
from orchestrator.core.schemas import SCHEMAS
from orchestrator.engines import claude, codex, gemini, opencode
from orchestrator.engines.table import ENGINES
from orchestrator.journal.log_reader import read_all
from tests.support import launches
from tests.support.pure_team import Desk

OWN = ("wait_for_command", "emit_event")
LAUNCH = replace(launches.LAUNCH, shipped={"opencode.js": "// plugin"})
LOGS = Path(__file__).resolve().parents[2] / "logs" / "v1"


# -- the names ------------------------------------------------------------------------------------------------------


def test_there_are_the_twelve_tools_and_nothing_that_is_no_toolset_to_give():
    assert READ_ONLY == {"gsd": GSD_TOOLS}
    assert len(set(GSD_TOOLS)) == 12 and all(re.fullmatch(r"gsd_[a-z_]+", name) for name in GSD_TOOLS)
    assert tools_of(["gsd"]) == tools_of(["team", "gsd", "gsd"]) == GSD_TOOLS
    assert tools_of([]) == tools_of(["team", "squad", "smartspawn", "agent"]) == ()


def test_the_record_of_a_start_takes_the_toolsets_there_are_and_no_other():
    assert records.Starting.model_json_schema()["properties"]["toolsets"]["items"] == {
        "const": next(iter(READ_ONLY)), "type": "string",
    }  # fmt: skip


# -- the rows -------------------------------------------------------------------------------------------------------


def of_claude(wish):
    allowed = json.loads(claude.ROW.prepare(wish).files["settings.json"])["permissions"]["allow"]
    return [name.removeprefix("mcp__orchestrator__") for name in allowed]


def of_codex(wish):
    argv = codex.ROW.prepare(wish).argv
    told = "\n".join(word for flag, word in pairwise(argv) if flag == "--config")
    server = tomllib.loads(told)["mcp_servers"]["orchestrator"]
    assert set(server["tools"]) == set(server["enabled_tools"])
    assert {one["approval_mode"] for one in server["tools"].values()} == {"approve"}
    return server["enabled_tools"]


def of_gemini(wish):
    return json.loads(gemini.ROW.prepare(wish).files["home/.gemini/settings.json"])["mcpServers"]["orchestrator"][
        "includeTools"
    ]


def settings_of_opencode(wish):
    return json.loads(opencode.ROW.prepare(wish).env[opencode.CONTENT])


def of_opencode(wish):
    said = settings_of_opencode(wish)["permission"]
    return [
        name.removeprefix("orchestrator_")
        for name in said
        if name.startswith("orchestrator_") and said[name] == "allow"
    ]


@pytest.mark.parametrize("restriction", [of_claude, of_codex, of_gemini, of_opencode])
def test_a_cli_is_given_the_two_tools_and_exactly_those_that_the_role_adds(restriction):
    assert tuple(restriction(LAUNCH)) == OWN
    assert tuple(restriction(replace(LAUNCH, queries=GSD_TOOLS))) == (*OWN, *GSD_TOOLS)


def test_every_row_that_restricts_tools_is_looked_at_here():
    """A row whose words name an agent's tool must name the further ones too."""
    restricting = set()
    for name, row in ENGINES.items():
        wish = replace(LAUNCH, command=("x",))
        made = row.prepare(wish)
        words = " ".join([*made.argv, *made.env.values(), *made.files.values()])
        if "emit_event" in words.replace(LAUNCH.rules, ""):
            restricting.add(name)
    assert restricting == {"claude", "codex", "gemini", "opencode"}


def test_nothing_of_a_launch_without_further_tools_is_other_than_it_was():
    for row in (claude.ROW, codex.ROW, gemini.ROW, opencode.ROW):
        made = row.prepare(LAUNCH)
        assert "gsd_" not in " ".join([*made.argv, *made.env.values(), *made.files.values()]), row.name


def test_opencodes_subagents_may_ask_too_and_its_plugin_consents_as_for_the_two():
    said = settings_of_opencode(replace(LAUNCH, queries=GSD_TOOLS))
    assert {*said["agent"]["general"]["permission"]} == {f"orchestrator_{name}" for name in OWN}
    assert said["plugin"][-1][1]["queries"] == [f"orchestrator_{name}" for name in GSD_TOOLS]
    assert "options?.queries" in package_data.plugin(opencode.PLUGIN)


# -- records --------------------------------------------------------------------------------------------------------

START = {
    "v": 1, "seq": 1, "at": "2026-01-01T00:00:00.000Z", "epoch": 1, "by": "orchestrator", "type": "starting",
    "name": "a", "role": "gsd-planner", "engine": "shell", "run_id": "run-1", "cwd": "/p", "policies": {},
    "crc": "00000000",
}  # fmt: skip


@pytest.mark.parametrize(
    ("said", "fits"),
    [({}, True), ({"toolsets": []}, True), ({"toolsets": ["gsd"]}, True), ({"toolsets": ["team"]}, False),
     ({"toolsets": "gsd"}, False), ({"toolsets": None}, False)],
)  # fmt: skip
def test_a_starting_record_may_carry_the_toolsets_and_models_and_schemas_agree(said, fits):
    record = START | said
    assert jsonschema.Draft202012Validator(package_data.schema("outbox")).is_valid(record) is fits
    if fits:
        records.OUTBOX.validate_python(record)
    else:
        with pytest.raises(ValueError, match="toolsets"):
            SCHEMAS["outbox"].validate_python(record)


SPEC = ("name", "role", "engine", "run_id", "cwd", "policies", "toolsets")


def test_the_toolsets_of_a_start_stay_the_agents_over_its_lives_and_old_starts_have_none():
    desk = Desk()
    desk.start()
    assert tools_of(desk.agent.spec.get("toolsets") or ()) == ()
    named = Desk("named")
    spec = {**START, "toolsets": ["gsd"]}
    named.write([supervision.starting("named", at=named.at(), req="c:0", spec={key: spec[key] for key in SPEC})])
    named.ready()
    assert tools_of(named.agent.spec["toolsets"]) == GSD_TOOLS
    old = next(read_all(LOGS / "outbox.jsonl", record_types.OUTBOX_TYPES))
    assert old["type"] == "starting" and "toolsets" not in old


# -- the words ------------------------------------------------------------------------------------------------------


def test_the_rule_names_every_further_tool_once_and_keeps_the_loop_first():
    told = prompts.queries_rule(GSD_TOOLS)
    assert re.findall(r"`(\w+)`", told) == list(GSD_TOOLS)
    assert "change nothing" in told and "never instead of the loop" in told and "\n" not in told


PLACES = {
    "gsd_planner": {
        "project", "vision", "goal", "phase", "summary", "conventions", "relevant_files", "requirements",
    },
    "gsd_executor": {"project", "goal", "phase", "summary", "conventions", "relevant_files", "plan", "blast"},
    "gsd_verifier": {"project", "goal", "phase", "summary", "relevant_files", "must_haves", "requirements"},
}  # fmt: skip


@pytest.mark.parametrize("name", PLACES)
def test_a_prompt_is_filled_completely_and_every_value_stands_in_a_line_of_its_own(name):
    text = package_data.prompt(name)
    assert set(re.findall(r"\{([a-z][a-z0-9_]*)\}", text)) == PLACES[name]
    for place in PLACES[name] - {"project"}:
        # A value may be a sentence, a list or a page: it must not stand within a sentence of ours.
        assert re.search(rf"^#+ [^\n]+\n\n\{{{place}\}}$", text, re.MULTILINE), place
    filled = prompts.render(text, dict.fromkeys(PLACES[name], "none known"))
    assert not re.search(r"\{[a-z_]+\}", filled)
    assert filled.count("none known") == len(PLACES[name])


ORDER = ("gsd_phase_relevant_files", "gsd_codebase_patterns", "gsd_similar_past_work")


@pytest.mark.parametrize(
    "text", [package_data.prompt("gsd_planner"), (package_data.roles() / "gsd-planner.md").read_text()]
)
def test_a_planner_looks_at_files_then_patterns_then_past_work_then_plans(text):
    first, second, third = (
        re.search(rf"^{n}\. \*\*{word}\*\* `(\w+)`", text, re.MULTILINE)
        for n, word in enumerate(("First", "Second", "Third"), 1)
    )
    assert (first[1], second[1], third[1]) == ORDER
    assert re.search(r"^4\. \*\*Then\*\* plan", text, re.MULTILINE)
    assert first.start() < second.start() < third.start()


@pytest.mark.parametrize(
    "text", [package_data.prompt("gsd_executor"), (package_data.roles() / "gsd-executor.md").read_text()]
)
def test_an_executor_checks_what_an_edit_reaches_and_spares_more_than_ten_dependents(text):
    assert "`gsd_blast_radius`" in text and "`gsd_pre_edit_check`" in text
    high = text[text.index("**more than 10 dependents**") :].lower()
    assert high.index("backward compatible") < high.index("deprecate") < high.index("migration path")


@pytest.mark.parametrize(
    "text", [package_data.prompt("gsd_verifier"), (package_data.roles() / "gsd-verifier.md").read_text()]
)
def test_a_verifier_uses_the_three_tools_and_takes_null_for_not_passed(text):
    assert all(
        f"`{name}`" in text for name in ("gsd_verify_behavior", "gsd_verify_artifact", "gsd_requirement_status")
    )
    assert all(f"`{value}`" in text for value in ("true", "false", "null"))
    assert re.search(r"null is not\s+passed", text, re.IGNORECASE)


@pytest.mark.parametrize(
    "path",
    sorted(package_data.roles().glob("gsd-*.md")) + [package_data.roles().parent / f"{name}.md" for name in PLACES],
    ids=lambda path: path.stem,
)
def test_every_tool_they_name_is_one_and_they_serve_those_who_have_none(path):
    text = path.read_text()
    named = set(
        re.findall(r"(?<![\w/])gsd_[a-z_]+", text.replace("mcp__gsd__", "").replace("mcp__orchestrator__", ""))
    )
    assert named and named <= set(GSD_TOOLS)
    assert re.search(r"if\s+you\s+have\s+(these\s+tools|them)", text, re.IGNORECASE)
    assert "`mcp__gsd__" in text and "`mcp__orchestrator__" in text
    for block in re.findall(r"`(\{\"[^`]+\})`", text):
        assert isinstance(json.loads(block), dict)


def test_an_unknown_toolset_in_an_old_or_foreign_record_gives_nothing():
    assert toolsets.tools_of(["gsd2", "team"]) == ()
