"""The row of Codex CLI: what one launch says on its command line, read back as Codex reads it."""

import tomllib
from dataclasses import replace

import pytest

from orchestrator.core.screens import Screen, explain
from orchestrator.engines import codex, codex_screen
from orchestrator.engines.definition import HeadlessRun
from tests.support import launches
from tests.support.launches import HOME, PROJECT, SECRET

USER_FILE = f"{HOME}/.codex/config.toml"
ENV = {**launches.ENV, "OPENAI_API_KEY": "sk-her-own", "ORCHESTRATOR_RUN_BASE": "/run/o"}
LAUNCH = replace(launches.LAUNCH, env=ENV, rules=f"{launches.LAUNCH.rules}, \x7f and \x01")


def merged(into, other):
    for key, value in other.items():
        into[key] = merged(into.get(key, {}), value) if isinstance(value, dict) else value
    return into


def overrides(made):
    """All `--config` words as Codex merges them: dotted keys, values as TOML."""
    whole = {}
    for flag, word in zip(made.argv, made.argv[1:], strict=False):
        if flag == "--config":
            merged(whole, tomllib.loads(word))
    return whole


def config(user="", **wishes):
    """What Codex ends up with: the user's file under our overrides."""
    launch = replace(LAUNCH, **{"files": {USER_FILE: user} if user else {}, **wishes})
    return merged(tomllib.loads(user), overrides(codex.ROW.prepare(launch)))


def test_the_command_line_runs_codex_without_its_shared_process_and_ends_in_the_first_message():
    argv = codex.ROW.prepare(LAUNCH).argv
    assert argv[:2] == ("codex", "--no-daemon")
    assert argv[-2:] == ("--", LAUNCH.first)


def test_a_resumed_life_names_its_session_and_gets_the_reminder():
    argv = codex.ROW.prepare(replace(LAUNCH, resume="01a1-f")).argv
    assert argv[:3] == ("codex", "resume", "--no-daemon")
    assert argv[-3:] == ("--", "01a1-f", LAUNCH.again)
    assert "FIRST" not in argv


def test_the_rules_survive_as_toml_and_stand_behind_the_users_own():
    assert config()["developer_instructions"] == LAUNCH.rules
    both = config('developer_instructions = "HERS"')["developer_instructions"]
    assert both == f"HERS\n\n{LAUNCH.rules}"


def test_no_secret_is_on_the_command_line_and_all_of_the_identity_reaches_the_server():
    made = codex.ROW.prepare(LAUNCH)
    assert not [word for word in made.argv if SECRET in word or "sk-her-own" in word]
    server = overrides(made)["mcp_servers"]["orchestrator"]
    named = {*server["env"], *server["env_vars"]}
    assert {name for name in ENV if name.startswith("ORCHESTRATOR_")} <= named
    assert {"TMUX", "TMUX_PANE"} <= named
    assert server["env"]["ORCHESTRATOR_AGENT_EPOCH"] == "1"
    assert not made.env and not made.files and not made.links


MASTER = """
[mcp_servers.orchestrator]
command = "orchestrator"
args = ["mcp", "--toolsets", "team,squad"]
cwd = "/elsewhere"
enabled = false
required = false
env = { STATE_MODE = "x", ORCHESTRATOR_AGENT_ID = "another", ORCHESTRATOR_RUN_BASE = "/elsewhere" }
enabled_tools = ["agents_create"]
disabled_tools = ["wait_for_command"]
default_tools_approval_mode = "prompt"
startup_timeout_sec = 1
tool_timeout_sec = 3
tools.emit_event.approval_mode = "prompt"

[mcp_servers.hers]
command = "hers"
"""


def test_our_server_wins_over_a_masters_entry_and_leaves_the_others():
    servers = config(MASTER)["mcp_servers"]
    ours = servers["orchestrator"]
    assert (ours["command"], *ours["args"]) == LAUNCH.mcp
    assert ours["cwd"] == PROJECT and ours["enabled"] is True and ours["required"] is True
    assert ours["env"]["ORCHESTRATOR_AGENT_ID"] == "unit-1" and ours["env"]["ORCHESTRATOR_RUN_BASE"] == "/run/o"
    assert sorted(ours["enabled_tools"]) == ["emit_event", "wait_for_command"] and ours["disabled_tools"] == []
    assert ours["default_tools_approval_mode"] == "approve"
    assert {one["approval_mode"] for one in ours["tools"].values()} == {"approve"}
    assert ours["tool_timeout_sec"] == codex.ROW.tool_limit_s and ours["startup_timeout_sec"] >= 30
    assert servers["hers"] == {"command": "hers"}


def test_an_entry_with_a_url_cannot_be_overridden_and_is_switched_off():
    servers = config('[mcp_servers.orchestrator]\nurl = "https://o.example/mcp"\n')["mcp_servers"]
    assert servers["orchestrator"] == {"url": "https://o.example/mcp", "enabled": False}
    (name,) = set(servers) - {"orchestrator"}
    assert (servers[name]["command"], *servers[name]["args"]) == LAUNCH.mcp


def test_our_hooks_are_trusted_by_their_hash_and_no_other_hook_is():
    made = codex.ROW.prepare(LAUNCH)
    hooks = overrides(made)["hooks"]
    state = hooks.pop("state")
    assert "--dangerously-bypass-hook-trust" not in made.argv
    assert set(hooks) == set(codex.ROW.hook_events)
    for event, [group] in hooks.items():
        [hook] = group["hooks"]
        assert hook["command"] == "exec /opt/o/bin/python -IS '/opt/my files/hook.py'"
        label = {"UserPromptSubmit": "user_prompt_submit", "Stop": "stop", "Interrupt": "interrupt",
                 "SessionStart": "session_start", "PermissionRequest": "permission_request"}[event]  # fmt: skip
        assert state[f"/<session-flags>/config.toml:{label}:0:0"] == {
            "trusted_hash": codex.hook_hash(label, hook["command"], hook["timeout"], hook.get("statusMessage", ""))
        }
    assert len(state) == len(hooks)
    assert hooks["Stop"][0]["hooks"][0]["timeout"] >= codex.ROW.park_limit_s
    asks = hooks["PermissionRequest"][0]["hooks"][0]
    assert asks["timeout"] >= codex.ROW.park_limit_s
    assert "orchestrator" in asks["statusMessage"]


def test_the_hash_is_the_one_codex_itself_computes():
    # As `hooks/list` of Codex 0.169.0 said it of these hooks.
    assert codex.hook_hash("stop", "exec /opt/x hook.py", 86400) == (
        "sha256:0fcfc6797316e8f46e82f72a8711809744e0578ea2d823ff9856d4f13deef1a4"
    )
    assert codex.hook_hash("user_prompt_submit", "exec /usr/bin/python3 -IS '/opt/é x/hook.py'", 60) == (
        "sha256:e84d961b5ff0a6d3ba2c3729210c23757eb7a3723776f93cc24eb57fe699bd20"
    )


def test_the_sandbox_lets_the_agent_write_its_artifacts_and_what_the_user_allows():
    own = f"{PROJECT}/.agents/agents/unit-1/artifacts"
    assert config()["sandbox_workspace_write"]["writable_roots"] == [own]
    user = '[sandbox_workspace_write]\nwritable_roots = ["/srv/cache"]\nnetwork_access = true\n'
    assert config(user)["sandbox_workspace_write"] == {"writable_roots": ["/srv/cache", own], "network_access": True}


def test_a_folders_settings_count_only_where_the_folder_is_trusted():
    own = {f"{PROJECT}/.codex/config.toml": 'developer_instructions = "FOLDER"'}
    trusted = {USER_FILE: f'[projects."{PROJECT}"]\ntrust_level = "trusted"\n'}
    refused = {USER_FILE: f'[projects."{PROJECT}"]\ntrust_level = "untrusted"\n'}

    def told(files, **wishes):
        return overrides(codex.ROW.prepare(replace(LAUNCH, files=files, **wishes)))["developer_instructions"]

    assert "FOLDER" in told({**trusted, **own})
    assert "FOLDER" in told(own, trust=True)
    assert "FOLDER" not in told({**refused, **own})
    assert "FOLDER" not in told(own)


@pytest.mark.parametrize("text", ["not toml [", "mcp_servers = 1\nprojects = []", "sandbox_workspace_write = 'x'"])
def test_a_file_that_makes_no_sense_is_left_to_codex_to_complain_about(text):
    made = codex.ROW.prepare(replace(LAUNCH, files={USER_FILE: text}))
    assert overrides(made) == overrides(codex.ROW.prepare(LAUNCH))


def test_the_files_looked_at_are_those_of_the_users_codex_home():
    assert USER_FILE in codex.ROW.reads(ENV, PROJECT).files
    assert "/srv/cx/config.toml" in codex.ROW.reads({**ENV, "CODEX_HOME": "/srv/cx"}, PROJECT).files
    elsewhere = codex.ROW.reads(ENV, "/srv/tree").files
    assert "/srv/tree/.codex/config.toml" in elsewhere and f"{PROJECT}/.codex/config.toml" in elsewhere


def test_wishes():
    assert "projects" not in overrides(codex.ROW.prepare(LAUNCH))
    assert config(trust=True)["projects"] == {PROJECT: {"trust_level": "trusted"}}
    plain = " ".join(codex.ROW.prepare(LAUNCH).argv)
    assert "--sandbox" not in plain and "--ask-for-approval" not in plain and "--dangerously" not in plain
    edits = codex.ROW.prepare(replace(LAUNCH, approval="edits")).argv
    assert "workspace-write" in edits and "on-request" in edits
    assert "--dangerously-bypass-approvals-and-sandbox" in codex.ROW.prepare(replace(LAUNCH, approval="all")).argv
    argv = codex.ROW.prepare(replace(LAUNCH, model="m-1")).argv
    assert argv[argv.index("--model") + 1] == "m-1"


def test_the_users_history_and_choices_are_left_alone():
    whole = config()
    assert whole["history"]["persistence"] == "none"
    assert set(whole) == {"check_for_update_on_startup", "history", "notice", "tui", "developer_instructions", "hooks",
                          "sandbox_workspace_write", "mcp_servers"}  # fmt: skip


@pytest.mark.parametrize(
    ("styled", "x", "said"),
    [
        ("\x1b[1m›\x1b[0m \x1b[2mAsk Codex\x1b[0m", 2, "empty"),
        ("\x1b[1m›\x1b[0m \x1b[0;2mAsk\x1b[0m \x1b[2mmore", 2, "empty"),
        ("\x1b[1m›\x1b[0m \x1b[2mAsk Codex\x1b[0m", 5, "draft"),
        ("\x1b[1m›\x1b[0m \x1b[2mAsk\x1b[22m mine", 2, "draft"),
        ("\x1b[1m›\x1b[0m mine", 2, "draft"),
        ("\x1b[1m›\x1b[0m ", 2, "draft"),
        ("› 1. Yes, proceed (y)", 110, "draft"),
        ("  \x1b[2menter select", 110, "other"),
        ("x › y", 2, "other"),
    ],
)
def test_only_the_dim_placeholder_alone_is_an_empty_input_line(styled, x, said):
    assert codex_screen.composer(Screen(styled=styled, cursor_x=x)) == said


def test_words_of_models_and_tools_are_not_taken_for_codex_own():
    words = (
        "• The log says:",
        "  ■ unexpected status 401 Unauthorized",
        "  Reconnecting... 4/5 (13s to go)",
        "• ■ Codex ran out of room in the model's context window.",
        "  └ Rate limit exceeded: try again in 5s",
    )
    assert explain(codex_screen.PATTERNS, Screen(title="p", lines=words)) is None


def test_trouble_that_is_over_explains_nothing():
    trouble = ("■ Quota exceeded. Check your plan and billing details.", "")
    composer = ("", "› Ask Codex to do anything")
    assert explain(codex_screen.PATTERNS, Screen(lines=(*trouble, *composer))).kind == "rate_limit"
    assert explain(codex_screen.PATTERNS, Screen(lines=(*trouble, "• I go on.", *composer))) is None
    assert (
        explain(codex_screen.PATTERNS, Screen(lines=(*trouble, "Working (3s • esc to interrupt)", *composer))) is None
    )
    later = ("■ Codex ran out of room in the model's context window.", "")
    assert explain(codex_screen.PATTERNS, Screen(lines=(*trouble, *later, *composer))).kind == "context_full"


def test_toml_of_everything():
    values = {"a b": ["x", 1, True, False, 2.5, {"k.é": '"\\\n'}], 'q"': {}}
    assert tomllib.loads("v = " + codex.toml(values))["v"] == values
    assert "\x7f" not in codex.toml("\x7f")  # TOML forbids it, JSON does not escape it


CHAT = "01a2030d-9e7b-7c83-a88f-785a620bd932"
HEAD = f"""\
WARNING: proceeding, even though we could not create PATH aliases
Reading additional input from stdin...
OpenAI Codex v0.169.0
--------
workdir: /home/ada/p
model: gpt-5-codex
provider: scripted
approval: never
sandbox: workspace-write [workdir, /tmp, $TMPDIR]
reasoning effort: none
reasoning summaries: none
session id: {CHAT}
--------
user
session id: 11111111-9e7b-7c83-a88f-785a620bd932
"""


def once(prompt="words", **wishes):
    return codex.ROW.headless.run(HeadlessRun(prompt, "/home/ada/p", **wishes))


def test_a_headless_run_keeps_nothing_begins_a_chat_or_goes_on_with_one():
    start = ("codex", "exec", "--skip-git-repo-check")
    assert once().argv == (*start, "--ephemeral", "--", "words")
    assert once(session=LAUNCH.session).argv == (*start, "--", "words")
    assert once(chat=CHAT).argv == ("codex", "exec", "resume", "--skip-git-repo-check", "--", CHAT, "words")
    assert once(chat=CHAT, stdin=True).argv[-3:] == ("--", CHAT, "-")


def test_a_lone_dash_is_a_prompt_and_no_wish_to_read_one():
    assert (once("-").argv[-1], once("-").stdin) == ("-", "-")


def test_a_headless_run_is_approved_and_trusted_by_what_a_resumed_one_takes_too():
    for chat in ("", CHAT):
        assert overrides(once(chat=chat, approval="edits")) == {"sandbox_mode": "workspace-write"}
        assert "--dangerously-bypass-approvals-and-sandbox" in once(chat=chat, approval="all").argv
        assert overrides(once(chat=chat, trust=True)) == {"projects": {"/home/ada/p": {"trust_level": "trusted"}}}
        assert "--sandbox" not in once(chat=chat, approval="edits").argv


@pytest.mark.parametrize(
    ("stderr", "chat"), [(HEAD, CHAT), (HEAD.replace("\n", "\r\n"), CHAT), (HEAD[:200], ""), ("session id: x\n", "")]
)
def test_the_id_of_a_new_chat_is_told_by_the_head_of_the_run(stderr, chat):
    assert codex.printed_chat_id("session id: 22222222-9e7b-7c83-a88f-785a620bd932\n", stderr) == chat
