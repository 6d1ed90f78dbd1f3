"""The row of Gemini CLI: what an agent's own home holds of the user's, and what its screens hide."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from orchestrator.base.errors import BadRequest
from orchestrator.core.screens import Screen, explain
from orchestrator.engines import gemini_approvals
from orchestrator.engines.definition import HeadlessRun, PreparedLaunch
from orchestrator.engines.gemini import HOOKS, ROW
from orchestrator.engines.gemini_log import explain_log
from orchestrator.team.life.launch_files import _write_files
from tests.support.launches import HOME, LAUNCH, PLACE, SECRET

USER = f"{HOME}/.gemini"


def with_files(launch=LAUNCH, **files):
    """A launch of a user with these files: ``settings``, ``project``, ``system`` as values, others by name."""
    places = {"project": "/home/ada/p/.gemini/settings.json", "system": "/etc/gemini-cli/settings.json"}
    found = {}
    for name, value in files.items():
        path = places.get(name, f"{USER}/{ {'settings': 'settings.json'}.get(name, name) }")
        found[path] = value if isinstance(value, str) else json.dumps(value)
    assert set(found) <= set(ROW.reads(launch.env, launch.cwd).files), "the row must ask for what it looks at"
    return replace(launch, files={**launch.files, **found})


def settings_of(launch):
    return json.loads(ROW.prepare(launch).files["home/.gemini/settings.json"])


def words_after(argv, flag):
    return [argv[at + 1] for at, word in enumerate(argv) if word == flag]


def test_the_launch_has_a_home_of_its_own_and_leaves_home_alone():
    made = ROW.prepare(LAUNCH)
    assert made.argv == ("gemini", "--session-id", LAUNCH.session, "--prompt-interactive", LAUNCH.first)
    assert made.env["GEMINI_CLI_HOME"] == f"{PLACE}/home" and "HOME" not in made.env
    assert made.env["GEMINI_CLI_TRUSTED_FOLDERS_PATH"] == f"{USER}/trustedFolders.json"
    assert "GEMINI_CLI_TRUST_WORKSPACE" not in made.env
    assert made.session == LAUNCH.session
    assert made.files["home/.gemini/GEMINI.md"] == f"{LAUNCH.rules}\n\n{gemini_approvals.RULE}\n"


def test_a_resumed_life_has_the_old_session_and_the_short_reminder():
    made = ROW.prepare(replace(LAUNCH, resume="s-1"))
    assert made.argv[1:] == ("--resume", "s-1", "--prompt-interactive", LAUNCH.again)
    assert made.session == "s-1"


def test_wishes_become_flags():
    made = ROW.prepare(replace(LAUNCH, model="m-1", approval="all", trust=True))
    assert "--model=m-1" in made.argv and words_after(made.argv, "--approval-mode") == ["yolo"]
    assert made.env["GEMINI_CLI_TRUST_WORKSPACE"] == "true"
    assert words_after(ROW.prepare(replace(LAUNCH, approval="edits")).argv, "--approval-mode") == ["auto_edit"]


def test_artifacts_can_be_written_from_a_directory_beside_them():
    made = ROW.prepare(replace(LAUNCH, cwd="/home/ada/p/web"))
    assert words_after(made.argv, "--include-directories") == ["/home/ada/p/.agents/agents/unit-1/artifacts"]
    assert "--include-directories" not in ROW.prepare(LAUNCH).argv


def test_the_users_settings_stay_whatever_they_are():
    mine = """\
    // mine
    {"ui": {"theme": "GitHub", /* loud */ "hideTips": true}, "general": {"vimMode": true},
     "model": {"name": "m", "url": "https://x//y"},
     "mcpServers": {"mine": {"command": "${HOME}/x", "env": {"A": "$B"}}},
     "hooks": {"AfterAgent": [{"matcher": "*", "hooks": [{"type": "command", "command": "notify-me"}]}]}}
    """
    made = settings_of(with_files(settings=mine))
    assert made["ui"] | {"theme": "GitHub", "hideTips": True} == made["ui"] and made["general"]["vimMode"]
    assert made["model"] == {"name": "m", "url": "https://x//y", "disableLoopDetection": True}
    assert made["mcpServers"]["mine"] == {"command": "${HOME}/x", "env": {"A": "$B"}}
    first, ours = made["hooks"]["AfterAgent"]
    assert first == {"matcher": "*", "hooks": [{"type": "command", "command": "notify-me"}]}
    assert ours["hooks"][0]["command"] == "exec /opt/o/bin/python -IS '/opt/my files/hook.py'"


def test_our_server_has_two_tools_is_trusted_and_gets_its_secret_by_reference():
    made = settings_of(with_files(settings={"mcpServers": {"orchestrator": {"command": "o", "args": ["mcp"]}}}))
    ours = made["mcpServers"]["orchestrator"]
    assert (ours["command"], *ours["args"]) == LAUNCH.mcp
    assert ours["includeTools"] == ["wait_for_command", "emit_event"] and ours["trust"] is True
    assert ours["timeout"] == ROW.tool_limit_s * 1000
    assert ours["env"] == {name: f"${name}" for name in LAUNCH.env if name.startswith("ORCHESTRATOR_")}
    assert SECRET not in json.dumps(made) and SECRET not in " ".join(ROW.prepare(LAUNCH).argv)


def test_every_hook_is_ours_once_also_for_a_user_whose_master_has_them():
    registered = {"AfterAgent": [{"hooks": [{"command": "x"}, {"command": "py '/opt/my files/hook.py'"}]}]}
    registered["SessionStart"] = [{"hooks": [{"command": "py '/opt/my files/hook.py'"}]}]
    made = settings_of(with_files(settings={"hooks": registered}))["hooks"]
    for event in HOOKS:
        commands = [one["command"] for group in made[event] for one in group["hooks"]]
        assert sum("hook.py" in command for command in commands) == 1, event
    assert made["AfterAgent"][0]["hooks"] == [{"command": "x"}]
    assert ROW.park_limit_s * 1000 < HOOKS["AfterAgent"] < 2**31
    assert {*HOOKS, "BeforeTool"} == set(ROW.hook_events)


@pytest.mark.parametrize("layer", ["project", "system"])
@pytest.mark.parametrize(
    "taken", [{"mcpServers": {"orchestrator": {"command": "o"}}}, {"mcp": {"excluded": ["orchestrator"]}}]
)
def test_an_entry_that_would_beat_ours_is_shut_out_and_ours_has_another_name(layer, taken):
    made = settings_of(with_files(settings={"mcpServers": {"orchestrator": {}}}, **{layer: taken}))
    assert set(made["mcpServers"]) == {"orchestrator-agent"}
    assert made["mcp"]["excluded"] == ["orchestrator"]


def test_what_the_user_has_excluded_or_switched_off_is_not_ours():
    made = ROW.prepare(
        with_files(
            settings={"mcp": {"excluded": ["orchestrator", "loud"]}},
            **{"mcp-server-enablement.json": {"orchestrator": {"enabled": False}, "loud": {"enabled": False}}},
        )
    )
    assert json.loads(made.files["home/.gemini/settings.json"])["mcp"]["excluded"] == ["loud"]
    assert json.loads(made.files["home/.gemini/mcp-server-enablement.json"]) == {"loud": {"enabled": False}}


def test_an_allowlist_is_kept_and_ours_put_in():
    argv = ROW.prepare(
        with_files(
            settings={"mcp": {"allowed": ["git", "web", "loud", "orchestrator"], "excluded": ["loud"]}},
            project={"mcp": {"allowed": ["web", "loud"]}},
        )
    ).argv
    assert words_after(argv, "--allowed-mcp-server-names") == ["web", "orchestrator"]
    assert "--allowed-mcp-server-names" not in ROW.prepare(LAUNCH).argv


def test_all_else_is_linked_but_what_the_cli_renames_over_or_keeps_per_session():
    names = ("settings.json", "settings.json.orig", "GEMINI.md", "trustedFolders.json", "projects.json", "history",
             "tmp", "projects.json.1.tmp", "projects.json.lock", "state.json", "extension_integrity.json",
             "oauth_creds.json", ".env", "commands", "extensions", "skills", "policies")  # fmt: skip
    launch = with_files(**{"state.json": "{}", "extension_integrity.json": "{}", "GEMINI.md": "Mine.\n"})
    made = ROW.prepare(replace(launch, dirs={USER: names, "/home/ada/.agents": ("skills",)}))
    linked = ("oauth_creds.json", ".env", "commands", "extensions", "skills", "policies")
    assert made.links == {
        **{f"home/.gemini/{name}": f"{USER}/{name}" for name in linked},
        "home/.agents/skills": "/home/ada/.agents/skills",
    }
    assert made.files["home/.gemini/state.json"] == made.files["home/.gemini/extension_integrity.json"] == "{}"
    assert made.files["home/.gemini/GEMINI.md"] == f"Mine.\n\n{LAUNCH.rules}\n\n{gemini_approvals.RULE}\n"
    assert not set(made.links) & set(made.files)


def test_the_users_own_gemini_home_is_the_source():
    env = {**LAUNCH.env, "GEMINI_CLI_HOME": "/srv/g"}
    assert "/srv/g/.gemini/settings.json" in ROW.reads(env, LAUNCH.cwd).files
    made = ROW.prepare(replace(LAUNCH, env=env, files={"/srv/g/.gemini/settings.json": '{"ui": {"theme": "x"}}'}))
    assert '"theme": "x"' in made.files["home/.gemini/settings.json"]
    assert made.env["GEMINI_CLI_HOME"] == f"{PLACE}/home"
    trusted = replace(LAUNCH, env={**env, "GEMINI_CLI_TRUSTED_FOLDERS_PATH": "/srv/t.json"})
    assert ROW.prepare(trusted).env["GEMINI_CLI_TRUSTED_FOLDERS_PATH"] == "/srv/t.json"


@pytest.mark.parametrize(
    ("env", "chosen"),
    [
        ({}, None),
        ({"GEMINI_API_KEY": "k"}, "gemini-api-key"),
        ({"GEMINI_API_KEY": "k", "GOOGLE_GENAI_USE_VERTEXAI": "true"}, "vertex-ai"),
        ({"GOOGLE_GENAI_USE_GCA": "true"}, "oauth-personal"),
    ],
)
def test_a_login_the_environment_answers_is_not_asked_for_and_a_chosen_one_stays(env, chosen):
    launch = replace(LAUNCH, env={**LAUNCH.env, **env})
    assert settings_of(launch)["security"]["auth"].get("selectedType") == chosen
    mine = {"security": {"auth": {"selectedType": "oauth-personal"}, "folderTrust": {"enabled": True}}}
    assert settings_of(with_files(launch, settings=mine))["security"] == mine["security"]


@pytest.mark.parametrize("broken", ["{", "{'a': 1}", '{"a": 1,}'])
def test_settings_the_cli_would_not_start_with_are_named(broken):
    with pytest.raises(BadRequest) as error:
        ROW.prepare(with_files(settings=broken))
    assert error.value.code == "bad_config" and f"{USER}/settings.json" in error.value.message


@pytest.mark.parametrize("odd", [[], {"ui": 3, "hooks": {"AfterAgent": "x"}, "mcpServers": None, "mcp": []}])
def test_settings_of_a_wrong_shape_do_not_stop_a_launch(odd):
    assert settings_of(with_files(settings=odd))["mcpServers"]["orchestrator"]["trust"] is True


# -- the screen -------------------------------------------------------------------------------------------------

BOTTOM = ("", " > and my own draft", "", " ~/p        no sandbox        m")
TASK = '│ "Do you trust the files? How would you like to authenticate. Usage limit reached for x. " │'


RETRYING = (Path(__file__).parents[2] / "fixtures" / "cli_logs" / "gemini.log").read_text("utf-8")


def test_a_recorded_log_shows_that_the_api_limits_it():
    logged = explain_log(RETRYING)
    assert (logged.at, logged.finding.kind, logged.finding.until) == ("2026-11-26T16:38:47.838Z", "rate_limit", None)
    assert logged.holds_s > 39
    assert explain_log(RETRYING[: RETRYING.index("Attempt 1")]) is None
    assert explain_log("") is None


@pytest.mark.parametrize(
    ("line", "kind", "until"),
    [
        (
            "Attempt 2 failed: You exceeded your quota.\nRetry later.. Retrying after 21345ms...",
            "rate_limit",
            "21.345s",
        ),
        ("Attempt 1 failed with status 503. Retrying with backoff... _ApiError: x", "api_error", None),
        ("Attempt 1 failed with 429 error (no Retry-After header). Retrying with backoff... E", "rate_limit", None),
        ("Attempt 1 failed. Retrying with backoff... TypeError: fetch failed", "api_error", None),
    ],
)
def test_the_last_try_in_a_log_is_what_counts(line, kind, until):
    logged = explain_log(f"{RETRYING}[2026-11-26T17:00:00.000Z] [WARN] {line}\n")
    assert (logged.at, logged.finding.kind, logged.finding.until) == ("2026-11-26T17:00:00.000Z", kind, until)


def test_the_log_is_the_agents_own_and_empty_at_each_launch_unless_the_user_has_one():
    made = ROW.prepare(LAUNCH)
    assert made.env["GEMINI_DEBUG_LOG_FILE"] == f"{PLACE}/{ROW.log}"
    assert made.files[ROW.log] == ""
    theirs = ROW.prepare(replace(LAUNCH, env={**LAUNCH.env, "GEMINI_DEBUG_LOG_FILE": "/home/ada/debug.log"}))
    assert "GEMINI_DEBUG_LOG_FILE" not in theirs.env


def test_the_text_of_a_task_explains_nothing_while_the_input_line_is_there():
    for busy in (" ⠙ Thinking... (esc to cancel, 1m 2s)", " >   Type your message or @path/to/file"):
        assert explain(ROW.patterns, Screen("✦  Working… (a)", (TASK, busy, *BOTTOM))) is None


def test_an_error_that_scrolled_away_or_was_survived_explains_nothing():
    error = ('✕ [API Error: {"error":{"code":403,"message":"No."}}]',)
    assert explain(ROW.patterns, Screen("◇  Ready (a)", (*error, *BOTTOM))).reason == "API error: No."
    assert explain(ROW.patterns, Screen("◇  Ready (a)", (*error, *[""] * 30, *BOTTOM))) is None
    working = " ⠙ Thinking... (esc to cancel, 2s)"
    assert explain(ROW.patterns, Screen("✦  Working… (a)", (*error, working, *BOTTOM))) is None


@pytest.mark.parametrize(
    "line", ["> Type your message or @path/to/file", " >   Type your message or @path/to/files", " > x"]
)
def test_only_the_placeholder_itself_is_empty(line):
    assert ROW.composer(Screen(lines=(line,), cursor_x=3)) != "empty"
    assert ROW.composer(Screen(lines=(" >   Type your message or @path/to/file",), cursor_x=3)) == "empty"
    assert ROW.composer(Screen(lines=(" >   Type your message or @path/to/file",), cursor_x=9)) == "other"


# -- links on disk ----------------------------------------------------------------------------------------------


def test_a_link_the_cli_has_replaced_is_a_link_again_and_a_directory_of_its_own_stays(tmp_path):
    user, place = tmp_path / "user", tmp_path / "engine"
    for name in ("creds", "skills"):
        (user / name).mkdir(parents=True)
    prepared = PreparedLaunch(
        argv=("gemini",), links={f"home/{name}": str(user / name) for name in ("creds", "skills")}
    )
    _write_files(place, prepared)
    (place / "home" / "creds").unlink()
    (place / "home" / "creds").write_text("renamed over it")
    (place / "home" / "skills").unlink()
    (place / "home" / "skills").mkdir()
    _write_files(place, prepared)
    assert (place / "home" / "creds").readlink() == user / "creds"
    assert not (place / "home" / "skills").is_symlink()


def once(prompt="words", **wishes):
    return ROW.headless.run(HeadlessRun(prompt, "/home/ada/p", **wishes))


def test_a_headless_run_keeps_nothing_of_ours_begins_a_chat_or_goes_on_with_one():
    chat = LAUNCH.session
    assert once().argv == ("gemini", "--prompt=words")
    assert once(session=chat).argv == ("gemini", "--session-id", chat, "--prompt=words")
    assert once(chat=chat).argv == ("gemini", "--resume", chat, "--prompt=words")
    assert once(chat=chat, stdin=True).argv == ("gemini", "--resume", chat)


def test_a_headless_run_is_one_process_in_the_users_own_home_approved_and_trusted_as_a_launch_is():
    assert dict(once().env) == {"GEMINI_CLI_NO_RELAUNCH": "true"}
    assert once(trust=True).env["GEMINI_CLI_TRUST_WORKSPACE"] == "true"
    assert words_after(once(approval="edits").argv, "--approval-mode") == ["auto_edit"]
    assert words_after(once(approval="all").argv, "--approval-mode") == ["yolo"]
