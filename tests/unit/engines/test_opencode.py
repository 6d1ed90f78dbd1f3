"""The row of opencode: what its one variable says over the user's settings, and how the input line is read."""

import json
import os
import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from orchestrator.base import package_data
from orchestrator.base.errors import BadRequest
from orchestrator.core.model_usage import ModelRequest
from orchestrator.core.screens import Screen
from orchestrator.engines import opencode
from orchestrator.engines.definition import THEN_TYPE, HeadlessRun
from tests.support import launches
from tests.support.launches import ENV, PLACE

LAUNCH = replace(launches.LAUNCH, shipped={"opencode.js": "// plugin"})
TOOLS = ("orchestrator_wait_for_command", "orchestrator_emit_event")


def content(theirs="", **wishes):
    """What opencode reads of the variable, with what the user had in it."""
    made = opencode.prepare(replace(LAUNCH, env={**ENV, **({opencode.CONTENT: theirs} if theirs else {})}, **wishes))
    return json.loads(made.env[opencode.CONTENT])


def plugin_of(said):
    """Our plugin's address and its options: the last of the list."""
    return said["plugin"][-1]


def test_the_server_is_ours_and_waits_as_long_as_the_row_says():
    server = content()["mcp"]["orchestrator"]
    assert server["type"] == "local" and server["enabled"] is True
    assert tuple(server["command"]) == LAUNCH.mcp
    assert server["timeout"] / 1000 == opencode.ROW.tool_limit_s


def test_the_rules_stand_in_a_file_that_every_agent_of_opencode_reads():
    made = opencode.prepare(LAUNCH)
    assert content()["instructions"] == [f"{PLACE}/rules.md"]
    assert made.files["rules.md"] == LAUNCH.rules + "\n"
    assert plugin_of(content())[0] == f"file://{PLACE}/opencode.js"
    assert made.files["opencode.js"] == "// plugin"
    assert "RULES" not in " ".join(made.argv)


def test_the_users_own_content_stays_below_ours():
    theirs = {
        "model": "a/b",
        "instructions": ["NOTES.md"],
        "plugin": ["her-plugin"],
        "mcp": {"orchestrator": {"type": "local", "command": ["x"], "enabled": False}, "hers": {"type": "remote"}},
        "permission": {"bash": {"git *": "allow", "*": "ask"}, "orchestrator_emit_event": "deny", "*": "ask"},
        "agent": {"general": {"model": "a/c", "permission": {"bash": "deny"}}},
    }
    said = content(json.dumps(theirs))
    assert said["model"] == "a/b"
    assert said["instructions"] == ["NOTES.md", f"{PLACE}/rules.md"]
    assert said["plugin"][0] == "her-plugin"
    assert said["mcp"]["hers"] == {"type": "remote"}
    assert tuple(said["mcp"]["orchestrator"]["command"]) == LAUNCH.mcp and said["mcp"]["orchestrator"]["enabled"]
    assert said["permission"]["bash"] == theirs["permission"]["bash"]
    # The last rule that fits wins: a rule of hers for everything must not stand behind ours.
    names = list(said["permission"])
    assert all(names.index("*") < names.index(tool) for tool in TOOLS)
    assert said["agent"]["general"]["model"] == "a/c"
    assert said["agent"]["general"]["permission"]["bash"] == "deny"


def test_one_word_for_all_permissions_stays_the_first_rule():
    permission = content('{"permission": "ask"}')["permission"]
    assert next(iter(permission.items())) == ("*", "ask")
    assert [permission[tool] for tool in TOOLS] == ["allow", "allow"]


def test_comments_and_last_commas_are_read_as_opencode_reads_them():
    said = content('// hers\n{"model": "http://a/*b*/", /* c */ "theme": "{env:THEME}",\n "instructions": ["a,]",],}')
    assert (said["model"], said["theme"]) == ("http://a/*b*/", "{env:THEME}")
    assert said["instructions"][0] == "a,]"


@pytest.mark.parametrize("broken", ["{", '{"a": }', "nothing"])
def test_a_content_that_is_no_json_is_refused(broken):
    with pytest.raises(BadRequest) as refused:
        content(broken)
    assert refused.value.code == "bad_config"


def test_what_opencode_would_expand_is_kept_from_it_in_our_words_alone():
    made = opencode.prepare(
        replace(LAUNCH, resume="s-1", again="say {env:HOME}", env={**ENV, opencode.CONTENT: '{"theme": "{env:T}"}'})
    )
    raw = made.env[opencode.CONTENT]
    assert re.findall(r"\{env:\w+\}", raw) == ["{env:T}"]
    assert plugin_of(json.loads(raw))[1]["resume"]["prompt"] == "say {env:HOME}"


def test_the_first_life_prompts_and_a_later_one_goes_on_by_the_plugin():
    first = opencode.prepare(LAUNCH)
    assert first.argv == ("opencode", "--prompt", LAUNCH.first) and first.session is None
    assert "resume" not in plugin_of(content())[1]
    again = opencode.prepare(replace(LAUNCH, resume="ses_1", model="a/b"))
    assert again.argv == ("opencode", "--model", "a/b", "--session", "ses_1") and again.session == "ses_1"
    told = plugin_of(json.loads(again.env[opencode.CONTENT]))[1]["resume"]
    assert told == {"session": "ses_1", "prompt": LAUNCH.again, "model": "a/b"}


def test_approval_is_raised_by_what_is_asked_for():
    assert "edit" not in content()["permission"]
    assert content(approval="edits")["permission"]["edit"] == {"*": "allow"}
    assert "--auto" in opencode.prepare(replace(LAUNCH, approval="all")).argv
    assert "--auto" not in opencode.prepare(replace(LAUNCH, approval="edits")).argv


def test_subagents_get_neither_of_our_tools():
    agents = content()["agent"]
    assert {name: set(one["permission"].values()) for name, one in agents.items()} == {
        "general": {"deny"},
        "explore": {"deny"},
    }


def test_npm_is_bounded_only_where_the_user_has_not_said_otherwise():
    made = opencode.prepare(LAUNCH)
    assert {name: made.env[name] for name in opencode.NPM} == opencode.NPM
    assert plugin_of(content())[1]["forget"] == list(opencode.NPM)
    kept = opencode.prepare(replace(LAUNCH, env={**ENV, "NPM_CONFIG_FETCH_RETRIES": "7"}))
    assert "npm_config_fetch_retries" not in kept.env
    assert plugin_of(json.loads(kept.env[opencode.CONTENT]))[1]["forget"] == ["npm_config_fetch_timeout"]


def test_the_shipped_plugin_imports_nothing_but_nodes_own_modules_and_knows_the_rows_names():
    text = package_data.plugin(opencode.PLUGIN)
    assert set(re.findall(r'^import .* from "(.*)"$', text, re.MULTILINE)) >= {"node:net", "node:fs"}
    assert all(name.startswith("node:") for name in re.findall(r'from "(.*)"', text))
    assert "console." not in text
    assert THEN_TYPE in text
    named = set(re.findall(r'"((?:session|permission|question|message)\.[a-z]+)"', text))
    assert set(opencode.ROW.hook_events) - {"start"} <= named
    assert all(f'"{name}"' in text for name in (*TOOLS, opencode.CONTENT, opencode.RULES, opencode.THEIRS))


ASKED = """
const { Orchestrator } = await import(process.argv[1])
const posted = []
const _client = { post: async ({ url, path, body }) => posted.push([url, path.requestID, body]) }
const plugin = await Orchestrator({ client: { _client, postSessionIdPermissionsPermissionId: async () => {} } })
const heard = []
const link = globalThis[Symbol.for("orchestrator.link")]
link.tell = (event, data = {}) => heard.push([event, data])
const happens = (type, properties) => plugin.event({ event: { type, properties: { sessionID: "s", ...properties } } })
const patterns = ["touch a"]
const tool = { callID: "c1" }
await plugin["tool.execute.before"]({ tool: "bash", sessionID: "s", callID: "c1" }, { args: { workdir: "/w" } })
happens("permission.asked", { id: "p1", permission: "bash", patterns, tool, metadata: { command: "touch a" } })
happens("permission.asked", { id: "p2", permission: "edit", patterns, metadata: { filepath: "/x", diff: "-" } })
happens("permission.asked", { id: "p3", permission: "edit", patterns, metadata: { diff: "x".repeat(1 << 20) } })
happens("permission.asked", { id: "ours", permission: "orchestrator_emit_event", patterns })
happens("permission.replied", { requestID: "ours" })
happens("question.asked", { id: "q1", questions: [{ question: "Which?" }] })
await link.decide({ request: "p1", reply: "once" })
await link.decide({ request: "p2", reply: "reject", message: "no" })
await link.decide({ request: "p2", reply: "" })
await link.decide({ request: "gone", reply: "once" })
await link.decide({ request: "q1", answers: [["A"]] })
await link.decide({ request: "q1", reply: "reject" })
happens("permission.replied", { requestID: "p2" })
happens("question.replied", { requestID: "q1" })
console.log(JSON.stringify({ heard, posted }))
process.exit(0)
"""


@pytest.mark.skipif(shutil.which("node") is None, reason="there is no node")
def test_the_plugin_tells_every_question_whole_and_answers_as_it_is_told(tmp_path: Path):
    plugin = tmp_path / "opencode.mjs"
    plugin.write_text(package_data.plugin(opencode.PLUGIN))
    env = {"PATH": os.environ["PATH"], "ORCHESTRATOR_AGENT_ID": "a", "ORCHESTRATOR_PROJECT": str(tmp_path)}
    argv = ["node", "--input-type=module", "-e", ASKED, str(plugin)]
    done = subprocess.run(argv, env=env, capture_output=True, text=True, check=True, cwd=tmp_path)
    said = json.loads(done.stdout)
    asked = {"patterns": ["touch a"], "cwd": str(tmp_path)}
    bash = {"tool_name": "bash", "metadata": {"command": "touch a"}, "args": {"workdir": "/w"}}
    edit = {"tool_name": "edit", "metadata": {"filepath": "/x", "diff": "-"}}
    long = {"request": "p3", "tool_name": "edit", "metadata": {}, "patterns": ["touch a"], "cut": True}
    question = {"kind": "dialog", "message": "asks a question: Which?", "questions": [{"question": "Which?"}]}
    assert said["heard"] == [
        ["permission.asked", {"request": "p1", **bash, **asked}],
        ["permission.asked", {"request": "p2", **edit, **asked}],
        ["permission.asked", long],
        ["question.asked", {"request": "q1", **question, "cwd": str(tmp_path)}],
        ["permission.replied", {"request": "p2"}],
        ["permission.replied", {"request": "q1"}],
    ]
    # Nothing is sent for a request that is over, or that is left to the dialog.
    assert said["posted"] == [
        ["/permission/{requestID}/reply", "p1", {"reply": "once"}],
        ["/permission/{requestID}/reply", "p2", {"reply": "reject", "message": "no"}],
        ["/question/{requestID}/reply", "q1", {"answers": [["A"]]}],
        ["/question/{requestID}/reject", "q1", {}],
    ]


COUNTED = """
const { Orchestrator } = await import(process.argv[1])
const plugin = await Orchestrator({ client: {} })
const heard = []
globalThis[Symbol.for("orchestrator.link")].tell = (event, data = {}) => heard.push([event, data])
const happens = (type, properties) => plugin.event({ event: { type, properties } })
const none = { input: 0, output: 0, reasoning: 0, cache: { read: 0, write: 0 } }
const some = { ...none, input: 7, output: 5, cache: { read: 2, write: 1 } }
const info = { id: "m1", role: "assistant", sessionID: "s", modelID: "m", cost: 0, time: { created: 0 } }
happens("message.updated", { info: { ...info, tokens: none } })
happens("message.updated", { info: { ...info, tokens: some, cost: 0.5 } })
happens("message.updated", { info: { ...info, tokens: some, cost: 0.5 } })
happens("message.updated", { info: { ...info, id: "u1", role: "user" } })
happens("session.created", { info: { id: "child", parentID: "s" } })
happens("message.updated", { info: { ...info, id: "m2", sessionID: "child", tokens: some } })
happens("message.updated", { info: { ...info, id: "m3", tokens: { input: "x" }, time: { created: "?" } } })
console.log(JSON.stringify(heard))
process.exit(0)
"""


def heard_of(script, tmp_path):
    """What our plugin tells the daemon in that script."""
    plugin = tmp_path / "opencode.mjs"
    plugin.write_text(package_data.plugin(opencode.PLUGIN))
    env = {"PATH": os.environ["PATH"], "ORCHESTRATOR_AGENT_ID": "a", "ORCHESTRATOR_PROJECT": str(tmp_path)}
    argv = ["node", "--input-type=module", "-e", script, str(plugin)]
    done = subprocess.run(argv, env=env, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


@pytest.mark.skipif(shutil.which("node") is None, reason="there is no node")
def test_the_plugin_reports_each_model_request_once_also_those_of_subagents(tmp_path: Path):
    heard = heard_of(COUNTED, tmp_path)
    assert [(event, data["id"]) for event, data in heard] == [("message.counted", "m1"), ("message.counted", "m2")]
    request = opencode.ROW.reported_usage(heard[0][1])
    assert request == ModelRequest("m1", "m", 7, 2, 1, 5, 0.5, "1970-01-01T00:00:00.000Z")


def test_a_missing_plugin_is_said(monkeypatch, tmp_path: Path):
    monkeypatch.setitem(package_data._PLACES, "plugins", (tmp_path,))
    with pytest.raises(Exception, match="plugin opencode"):
        package_data.plugin("opencode.js")


BOX = ("talk", "", "  ┃", "  ┃", "  ┃", "  ┃  Build · Model", "  ╹▀▀▀▀▀▀▀", "   /home/ada")


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({}, "empty"),
        ({2: "  ┃  a", 3: "  ┃"}, "draft"),
        ({3: "  ┃  a"}, "draft"),
        ({4: "  ┃  a"}, "draft"),
        ({3: '  ┃  Ask anything… "Fix it"'}, "empty"),
        ({6: "  more"}, "other"),
        ({1: "  ┃ /models  Switch ┃"}, "other"),
        ({3: "  ┃     Connect a provider ┃"}, "other"),
        ({5: "  ┃"}, "other"),
    ],
)
def test_the_input_line(change, expected):
    lines = tuple(change.get(row, line) for row, line in enumerate(BOX))
    assert opencode.ROW.composer(Screen(lines=lines, cursor_x=5, cursor_y=3)) == expected


def test_a_blank_that_somebody_typed_is_a_draft():
    assert opencode.ROW.composer(Screen(lines=BOX, cursor_x=6, cursor_y=3)) == "draft"


CHAT = "ses_dfceb8d9bffeW7OJhF0jJNPCc3"
STAMP = "timestamp=2026-11-22T11:46:41.381Z level=INFO run=1cc3f771 message="
LOG = f"""\
{STAMP}init
{STAMP}created id={CHAT} slug=brave-lagoon version=1.18.33 projectID=global parentID=undefined
\x1b[0m
> build · scripted-model
\x1b[0m
{STAMP}loop session.id={CHAT} step=0
{STAMP}created id=ses_1111111111111111111111111 slug=a-sub-agent parentID={CHAT}
"""


def once(prompt="words", **wishes):
    return opencode.ROW.headless.run(HeadlessRun(prompt, "/home/ada/p", **wishes))


def test_a_headless_run_reads_its_prompt_and_tells_its_chat_only_when_it_begins_one():
    assert (once().argv, once().stdin) == (("opencode", "run"), "words")
    assert once(session=LAUNCH.session).argv == ("opencode", "run", "--print-logs")
    assert once(chat=CHAT).argv == ("opencode", "run", f"--session={CHAT}")
    assert dict(once().env) == {"OPENCODE_DISABLE_AUTOUPDATE": "1"}


@pytest.mark.parametrize(
    ("stderr", "chat"),
    [
        (LOG, CHAT),
        ("\n".join(line for line in LOG.splitlines() if "created" not in line), CHAT),
        (f"words about session.id={CHAT}\n", ""),
        (LOG[:100], ""),
    ],
)
def test_the_id_of_a_new_chat_is_the_first_in_the_log(stderr, chat):
    assert opencode.printed_chat_id(f"{STAMP}created id=ses_2222 x\n", stderr) == chat


def test_edits_are_allowed_over_what_the_users_variable_says_and_nothing_else_is():
    own = json.dumps({"bash": "deny", "edit": {"*.lock": "deny"}})
    made = once(approval="edits", env={opencode.PERMISSION: own})
    assert json.loads(made.env[opencode.PERMISSION]) == {"bash": "deny", "edit": {"*.lock": "deny", "*": "allow"}}
    assert json.loads(once(approval="edits").env[opencode.PERMISSION]) == {"edit": {"*": "allow"}}
    assert opencode.PERMISSION not in once(approval="all", env={opencode.PERMISSION: own}).env
    assert "--auto" in once(approval="all").argv


def test_a_variable_that_is_no_json_is_refused_by_name():
    with pytest.raises(BadRequest, match="OPENCODE_PERMISSION is not JSON"):
        once(approval="edits", env={opencode.PERMISSION: "{"})
