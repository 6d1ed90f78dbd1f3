"""`orchestrator setup`: what it writes where, what it leaves alone, what it refuses."""

import json
import os
import re
import shlex
import stat
import subprocess
import sys
import tomllib
from dataclasses import replace
from pathlib import Path

import pytest

from orchestrator.cli import app, doctor_clis
from orchestrator.edge import project_location
from orchestrator.engines.table import SETUPS
from orchestrator.setup import cli_files, config_locations, entries, jsonc, registration, text_change

MCP = [sys.executable, "-P", "-m", "orchestrator", "mcp"]
TOLD = [*MCP, "--call-limit", "600"]
NAMES = sorted(SETUPS)
RAISED = sorted(name for name in SETUPS if SETUPS[name].raises)


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch) -> Path:
    for name in [*os.environ]:
        if name.startswith(("ORCHESTRATOR_", "XDG_", "CODEX", "CLAUDE", "GEMINI", "OPENCODE", "ANTHROPIC", "OPENAI")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    (tmp_path / "home").mkdir()
    monkeypatch.chdir(tmp_path)
    return tmp_path / "home"


def run(capsys, *args, status=0):
    assert app.main(["setup", *args]) == status
    return "".join(capsys.readouterr())


def told(capsys, *args, status=0):
    assert app.main(["setup", *args, "--json"]) == status
    return json.loads(capsys.readouterr().out)


def file_of(cli) -> Path:
    return config_locations.server_file(SETUPS[cli], os.environ)


def data_of(cli):
    text = file_of(cli).read_text()
    return tomllib.loads(text) if SETUPS[cli].form == "toml" else json.loads(text)


def limit_edited(text):
    """The text of an entry after its user gave a call another time."""
    edited = re.sub(r"([:=] )600(000)?\b", r"\g<1>700", text)
    assert edited != text
    return edited


WANTED = {
    "gemini": (
        ".gemini/settings.json", ("mcpServers", "orchestrator"),
        {"command": TOLD[0], "args": TOLD[1:], "timeout": 600_000, "trust": False},
    ),
    "claude": (
        ".claude.json", ("mcpServers", "orchestrator"),
        {"type": "stdio", "command": MCP[0], "args": MCP[1:], "timeout": 600_000},
    ),
    "opencode": (
        ".config/opencode/opencode.json", ("mcp", "orchestrator"),
        {"type": "local", "command": TOLD, "enabled": True, "timeout": 600_000},
    ),
}  # fmt: skip


@pytest.mark.parametrize("cli", sorted(WANTED))
def test_a_missing_file_is_made_with_our_entry_alone_and_removed_again(cli, home, capsys):
    name, (outer, inner), entry = WANTED[cli]
    run(capsys, cli)
    assert data_of(cli) == {outer: {inner: entry}}
    assert file_of(cli) == home / name
    assert stat.S_IMODE((home / name).stat().st_mode) == 0o600
    run(capsys, cli, "--uninstall")
    assert not (home / name).exists()


def test_codex_gets_seconds_and_the_variables_that_it_would_strip(capsys):
    run(capsys, "codex")
    entry = data_of("codex")["mcp_servers"]["orchestrator"]
    assert [entry["command"], *entry["args"]] == TOLD
    assert (entry["startup_timeout_sec"], entry["tool_timeout_sec"]) == (60, 600)
    assert {"TMUX", "TMUX_PANE", *project_location.PER_CONNECTION} <= set(entry["env_vars"])


@pytest.mark.parametrize("cli", NAMES)
def test_a_second_run_changes_nothing_and_says_so(cli, home, capsys):
    run(capsys, cli, "--hooks")
    before = {path: path.read_bytes() for path in home.rglob("*") if path.is_file()}
    assert "nothing to change" in run(capsys, cli, "--hooks")
    assert {path: path.read_bytes() for path in home.rglob("*") if path.is_file()} == before


@pytest.mark.parametrize("cli", NAMES)
def test_a_dry_run_shows_the_entry_and_writes_nothing(cli, home, capsys):
    shown = run(capsys, cli, "--hooks", "--dry-run")
    assert "would be added" in shown
    assert "  + " in shown and "orchestrator" in shown
    assert not [path for path in home.rglob("*") if path.is_file()]


@pytest.mark.parametrize("cli", NAMES)
def test_print_shows_every_snippet_with_the_two_tools_of_an_agent_and_writes_nothing(cli, home, capsys):
    snippets = told(capsys, "--print", cli)["snippets"]
    kinds = [one["for"] for one in snippets]
    assert kinds == ["master", *["hook"] * len(SETUPS[cli].hook_events), "agent"]
    agent = snippets[-1]["text"]
    assert "wait_for_command" in agent and "emit_event" in agent and '"--agent"' in agent
    assert not list(home.iterdir())
    if cli == "gemini":
        entry = json.loads(agent)["mcpServers"]["orchestrator"]
        assert entry["includeTools"] == ["wait_for_command", "emit_event"]
        assert entry["trust"] is False


HOOKS = {
    "gemini": {"AfterAgent": 600_000},
    "claude": {"Stop": 86_400, "UserPromptSubmit": 10},
    "codex": {"Stop": 86_400, "Interrupt": 10},
}


@pytest.mark.parametrize("cli", sorted(HOOKS))
def test_hooks_are_a_constant_command_beside_the_users_own(cli, home, capsys):
    path = config_locations.hooks_file(SETUPS[cli], os.environ)
    path.parent.mkdir(exist_ok=True)
    event = next(iter(HOOKS[cli]))
    own = {"hooks": [{"type": "command", "command": "mine"}]}
    text = (
        f"[[hooks.{event}]]\nhooks = [{{type = 'command', command = 'mine'}}]\n"
        if cli == "codex"
        else json.dumps({"hooks": {event: [own]}})
    )
    path.write_text(text)
    run(capsys, cli, "--hooks")
    found = (tomllib.loads if cli == "codex" else json.loads)(path.read_text())["hooks"]
    assert found[event][0] == own
    program, flag, file = project_location.hook_command()
    line = f"test ! -f {file} || exec {program} {flag} {file}"
    for name, limit in HOOKS[cli].items():
        [hook] = found[name][-1]["hooks"]
        assert (hook["command"], hook["timeout"], hook["type"]) == (line, limit, "command")
    run(capsys, cli, "--uninstall", "--hooks")
    assert path.read_text().count("hook.py") == 0
    assert "orchestrator" in file_of(cli).read_text()
    run(capsys, cli, "--uninstall")
    assert path.read_text() == text


def test_opencode_has_no_hooks_and_setup_says_so(capsys):
    assert "no turn-end hook" in run(capsys, "opencode", "--hooks")


BAD = {"gemini": '{\n  "a": 1,\n  b: 2\n}', "claude": "[]", "codex": "a = 1\nb = = 2\n", "opencode": '{"a": "\x01"}'}


@pytest.mark.parametrize(("cli", "line"), [("gemini", 3), ("claude", 1), ("codex", 2), ("opencode", 1)])
def test_a_file_that_cannot_be_read_is_refused_with_its_line_and_left_alone(cli, line, home, capsys):
    path = file_of(cli)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(BAD[cli])
    for args in ([cli], [cli, "--uninstall"]):
        if (cli, args[-1]) == ("claude", "--uninstall"):
            continue  # there is nothing of ours in a list: nothing to take out
        error = told(capsys, *args, status=5)["error"]
        assert (error["code"], error["file"], error["line"]) == ("config_unreadable", str(path), line)
    assert path.read_text() == BAD[cli]
    assert [one.name for one in path.parent.iterdir() if "backup" in one.name] == []


def test_inline_tables_and_bytes_that_are_no_text_are_refused(capsys):
    path = file_of("codex")
    path.parent.mkdir()
    for text in (b'x = 1\nmcp_servers = {a = {command = "c"}}\n', b"x = '\xff'\n"):
        path.write_bytes(text)
        error = told(capsys, "codex", status=5)["error"]
        assert error["code"] == "config_unreadable"
        assert path.read_bytes() == text
    path.write_bytes(b'x = 1\nmcp_servers = {a = {command = "c"}}\n')
    assert told(capsys, "codex", status=5)["error"]["line"] == 2


def test_a_refusal_by_one_file_leaves_the_other_as_it_was(home, capsys):
    hooks = home / ".claude" / "settings.json"
    hooks.parent.mkdir()
    hooks.write_text("{")
    assert told(capsys, "claude", "--hooks", status=5)["error"]["file"] == str(hooks)
    assert not (home / ".claude.json").exists()


def test_a_linked_file_is_written_through_with_its_mode_and_a_copy_is_kept(home, tmp_path, capsys):
    real = tmp_path / "dotfiles" / "settings"
    real.parent.mkdir()
    real.write_text('{"a": 1}')
    real.chmod(0o640)
    (home / ".gemini").mkdir()
    link = home / ".gemini" / "settings.json"
    link.symlink_to(real)
    [file] = told(capsys, "gemini")["files"]
    assert link.is_symlink()
    assert json.loads(real.read_text())["a"] == 1 and "orchestrator" in real.read_text()
    assert stat.S_IMODE(real.stat().st_mode) == 0o640
    kept = Path(file["backup"])
    assert kept.parent == link.parent and kept.name.startswith("settings.json.orchestrator-backup-2")
    assert kept.read_text() == '{"a": 1}' and stat.S_IMODE(kept.stat().st_mode) == 0o640
    run(capsys, "gemini", "--uninstall")
    assert link.is_symlink() and real.read_text() == '{"a": 1}'
    assert sorted(path.name for path in real.parent.iterdir()) == ["settings"]


def test_a_byte_order_mark_stays(home, capsys):
    (home / ".gemini").mkdir()
    path = home / ".gemini" / "settings.json"
    path.write_bytes(b"\xef\xbb\xbf{}")
    run(capsys, "gemini")
    assert path.read_bytes().startswith(b'\xef\xbb\xbf{"mcpServers"')
    run(capsys, "gemini", "--uninstall")
    assert path.read_bytes() == b"\xef\xbb\xbf{}"


def test_an_entry_of_another_installation_is_brought_up_to_date(capsys):
    path = file_of("gemini")
    run(capsys, "gemini", "--hooks")
    ours = path.read_text()
    path.write_text(ours.replace(sys.executable, "/gone/python"))
    assert "updated" in run(capsys, "gemini", "--hooks")
    assert path.read_text() == ours
    path.write_text(ours.replace(sys.executable, "/gone/python"))
    run(capsys, "gemini", "--uninstall")
    assert not path.exists()


def of_before(cli):
    """The file as a version wrote it that did not tell how long a call may last."""
    old = replace(SETUPS[cli], raises=False)
    text, _ = text_change.put(old, None, registration.parts_of(old)[0])
    assert "--call-limit" not in text
    file_of(cli).parent.mkdir(parents=True, exist_ok=True)
    file_of(cli).write_text(text)
    return text


@pytest.mark.parametrize("cli", RAISED)
@pytest.mark.parametrize("python", [sys.executable, "/gone/python"])
def test_an_entry_of_an_older_version_is_brought_up_to_date_and_taken_out_unasked(cli, python, capsys):
    run(capsys, cli)
    now = file_of(cli).read_text()
    old = of_before(cli).replace(sys.executable, python)
    file_of(cli).write_text(old)
    assert "updated" in run(capsys, cli)
    assert file_of(cli).read_text() == now
    file_of(cli).write_text(old)
    run(capsys, cli, "--uninstall")
    assert not file_of(cli).exists()


@pytest.mark.parametrize("cli", RAISED)
def test_what_a_user_changed_in_an_entry_of_an_older_version_is_kept_too(cli, capsys):
    mine = limit_edited(of_before(cli))
    file_of(cli).write_text(mine)
    assert "your edits are kept" in run(capsys, cli)
    assert file_of(cli).read_text() == mine


@pytest.mark.parametrize("cli", RAISED)
def test_a_limit_of_the_users_own_is_kept(cli, capsys):
    run(capsys, cli)
    mine = file_of(cli).read_text().replace('"600"', '"90"')
    assert "--call-limit" in mine and '"90"' in mine
    file_of(cli).write_text(mine)
    assert "your edits are kept" in run(capsys, cli)
    assert told(capsys, cli, "--uninstall", status=3)["error"]["code"] == "entry_edited"
    assert file_of(cli).read_text() == mine


def test_the_entry_of_a_cli_that_ends_calls_by_a_clock_of_its_own_tells_no_limit(capsys):
    assert {"codex", "gemini", "opencode"} <= set(RAISED) and "claude" not in RAISED
    run(capsys, "claude")
    assert "--call-limit" not in file_of("claude").read_text()


@pytest.mark.parametrize("cli", NAMES)
def test_a_sub_agents_entry_tells_no_limit(cli, capsys):
    assert "--call-limit" not in told(capsys, "--print", cli)["snippets"][-1]["text"]


@pytest.mark.parametrize("cli", NAMES)
def test_what_a_user_changed_is_kept_where_it_starts_us_and_else_needs_force(cli, capsys):
    path = file_of(cli)
    run(capsys, cli)
    mine = limit_edited(path.read_text())
    path.write_text(mine)
    assert "your edits are kept" in run(capsys, cli)
    assert told(capsys, cli, "--uninstall", status=3)["error"]["code"] == "entry_edited"
    assert path.read_text() == mine
    elsewhere = mine.replace(sys.executable, "/opt/x/bin/orchestrator-wrapper")
    path.write_text(elsewhere)
    assert told(capsys, cli, status=3)["error"]["code"] == "entry_edited"
    assert path.read_text() == elsewhere
    assert "updated" in run(capsys, cli, "--force")
    assert "as it should be" in run(capsys, cli)
    path.write_text(elsewhere)
    run(capsys, cli, "--uninstall", "--force")
    assert not path.exists()


def test_a_comment_in_our_entry_is_a_change_of_the_user(capsys):
    path = file_of("gemini")
    run(capsys, "gemini")
    path.write_text(path.read_text().replace('"timeout"', '// long\n"timeout"'))
    assert told(capsys, "gemini", "--uninstall", status=3)["error"]["code"] == "entry_edited"


def test_force_takes_our_hook_out_of_a_group_and_leaves_the_users_in_it(home, capsys):
    path = home / ".claude" / "settings.json"
    path.parent.mkdir()
    hook = {"type": "command", "command": shlex.join(project_location.hook_command()), "timeout": 5}
    own = {"type": "command", "command": "mine"}
    path.write_text(json.dumps({"hooks": {"Stop": [{"hooks": [own, hook]}]}}))
    assert told(capsys, "claude", "--uninstall", status=3)["error"]["code"] == "entry_edited"
    run(capsys, "claude", "--uninstall", "--force")
    assert json.loads(path.read_text()) == {"hooks": {"Stop": [{"hooks": [own]}]}}


def test_secrets_of_a_replaced_entry_are_not_shown(capsys):
    path = file_of("claude")
    path.write_text(
        json.dumps(
            {"mcpServers": {"orchestrator": {"command": "orchestrator", "args": ["mcp"], "env": {"K": "s3cret"}}}}
        )
    )
    shown = run(capsys, "claude", "--force")
    assert "s3cret" not in shown and "***" in shown
    assert "s3cret" not in path.read_text()


@pytest.mark.parametrize(
    ("cli", "env", "wanted"),
    [
        ("gemini", {"GEMINI_CLI_HOME": "/g"}, "/g/.gemini/settings.json"),
        ("claude", {"CLAUDE_CONFIG_DIR": "/c"}, "/c/.claude.json"),
        ("codex", {"CODEX_HOME": "/x"}, "/x/config.toml"),
        ("opencode", {"XDG_CONFIG_HOME": "/o"}, "/o/opencode/opencode.json"),
        ("opencode", {"OPENCODE_CONFIG": "/o/mine.json"}, "/o/mine.json"),
    ],
)
def test_the_clis_own_variables_move_the_file(cli, env, wanted):
    assert str(config_locations.server_file(SETUPS[cli], {"HOME": "/home/u", **env})) == wanted


def test_an_existing_opencode_jsonc_and_an_old_claude_file_are_used(home):
    (home / ".config" / "opencode").mkdir(parents=True)
    (home / ".config" / "opencode" / "opencode.jsonc").write_text("{}")
    assert file_of("opencode").name == "opencode.jsonc"
    (home / ".claude").mkdir()
    (home / ".claude" / ".config.json").write_text("{}")
    assert file_of("claude") == home / ".claude" / ".config.json"


def test_claudes_lock_is_waited_for_honoured_and_taken_over_when_stale(home, capsys, monkeypatch):
    monkeypatch.setattr("orchestrator.cli.setup.BUSY_S", 0.0)
    patient = replace(SETUPS["claude"], lock_stale_s=3600.0)  # a pause of this test makes no lock stale
    monkeypatch.setitem(SETUPS, "claude", patient)
    lock = home / ".claude.json.lock"
    lock.mkdir()
    assert told(capsys, "claude", status=4)["error"]["code"] == "config_busy"
    assert not (home / ".claude.json").exists()
    os.utime(lock, (1, 1))
    run(capsys, "claude")
    assert (home / ".claude.json").exists()
    assert not lock.exists()


def test_a_file_that_changes_while_setup_works_is_not_overwritten(home):
    path = home / "settings.json"
    path.write_text("{}")
    seen = cli_files.read(path)
    path.write_text('{"newer": 1}')
    with pytest.raises(cli_files.NotReady) as caught:
        cli_files.write(seen, "{ }", "now")
    assert caught.value.code == "config_busy"
    assert path.read_text() == '{"newer": 1}'


def test_an_unknown_cli_is_refused_with_the_known_ones(capsys):
    error = told(capsys, "cursor", status=2)["error"]
    assert error["code"] == "bad_argument"
    assert all(name in error["next_step"] for name in NAMES)


def test_hooks_of_strangers_are_never_taken_for_ours():
    for command in ("hook.py", "python -IS /x/hook.py", "python 'unbalanced", "/p -IS /x/orchestrator/hook.py more"):
        assert entries.hook_words({"hooks": [{"command": command}]}) is None


@pytest.mark.parametrize(
    ("cli", "env", "name", "text", "seen"),
    [
        ("gemini", {"GEMINI_API_KEY": "k"}, "", "", "$GEMINI_API_KEY"),
        ("gemini", {}, ".gemini/.env", "X=1\nexport GEMINI_API_KEY=k\n", ".gemini/.env"),
        ("gemini", {}, ".gemini/.env", "#GEMINI_API_KEY=k\nGEMINI_API_KEY=\n", ""),
        ("gemini", {}, ".gemini/oauth_creds.json", "{}", "oauth_creds.json"),
        ("claude", {"ANTHROPIC_AUTH_TOKEN": "k"}, "", "", "$ANTHROPIC_AUTH_TOKEN"),
        ("claude", {}, ".claude/.credentials.json", "{}", ".credentials.json"),
        ("claude", {}, ".claude.json", '{"oauthAccount": {"a": 1}}', ".claude.json"),
        ("claude", {}, ".claude/settings.json", '{"env": {"ANTHROPIC_API_KEY": "k"}}', "settings.json"),
        ("claude", {}, ".claude/settings.json", '{"env": {"OTHER": "k"}}', ""),
        ("codex", {}, ".codex/auth.json", "{}", "auth.json"),
        ("codex", {"MY": "k"}, ".codex/config.toml", 'model_provider="m"\n[model_providers.m]\nenv_key="MY"\n', "$MY"),
        ("codex", {}, ".codex/config.toml", 'model_provider="m"\n[model_providers.m]\nenv_key="MY"\n', ""),
        ("opencode", {}, ".local/share/opencode/auth.json", '{"anthropic": {"key": "k"}}', "auth.json"),
        ("opencode", {}, ".local/share/opencode/auth.json", "{}", ""),
        ("opencode", {}, ".config/opencode/opencode.json", '{"provider": {"p": {"options": {"apiKey": "k"}}} /**/}', "opencode.json"),
        ("opencode", {"OPENROUTER_API_KEY": "k"}, "", "", "$OPENROUTER_API_KEY"),
    ],
)  # fmt: skip
def test_a_login_is_seen_where_it_lies_and_its_secret_never_shown(cli, env, name, text, seen, home):
    if name:
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text(text)
    found = config_locations.login(SETUPS[cli], {"HOME": str(home), **env})
    assert found.endswith(seen) and bool(found) == bool(seen)


def test_readers_message_names_the_line():
    with pytest.raises(jsonc.Unreadable) as caught:
        jsonc.read('{\n"a": [1,,]\n}')
    assert caught.value.line == 2


def test_a_hook_whose_installation_is_gone_lets_every_turn_pass(tmp_path):
    [part] = [
        one
        for one in entries.hooks(SETUPS["claude"], [sys.executable, "-IS", str(tmp_path / "hook.py")])
        if "Stop" in one.what
    ]
    line = part.value["hooks"][0]["command"]
    done = subprocess.run(["/bin/sh", "-c", line], capture_output=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    (tmp_path / "hook.py").write_text("print('here')")
    assert subprocess.run(["/bin/sh", "-c", line], capture_output=True, check=True).stdout == b"here\n"


# -- toolsets -------------------------------------------------------------------------------------------------------


def servers_of(cli):
    data = data_of(cli)
    for key in SETUPS[cli].server_path:
        data = data.get(key, {})
    return data


def words_of(cli, name="orchestrator"):
    return entries.server_words(servers_of(cli)[name])


def limit_of(cli):
    return ["--call-limit", "600"] if SETUPS[cli].raises else []


@pytest.mark.parametrize("cli", NAMES)
def test_toolsets_stand_in_the_entry_and_their_change_is_an_update_not_an_edit(cli, capsys):
    run(capsys, cli)
    default = file_of(cli).read_text()
    for given in ("team,gsd", "team, squad,smartspawn,gsd", "smartspawn"):
        assert "updated" in run(capsys, cli, "--toolsets", given)
        assert words_of(cli) == [*MCP, "--toolsets", given.replace(" ", ""), *limit_of(cli)]
        assert "nothing to change" in run(capsys, cli, "--toolsets", given)
        assert "nothing to change" in run(capsys, cli), "who asks for no list keeps the one that is there"
    run(capsys, cli, "--toolsets", "team,squad")
    assert file_of(cli).read_text() == default
    run(capsys, cli, "--toolsets", "team,gsd")
    run(capsys, cli, "--uninstall")
    assert not file_of(cli).exists()


@pytest.mark.parametrize("cli", NAMES)
def test_an_update_of_another_installations_entry_keeps_its_toolsets(cli, capsys):
    run(capsys, cli, "--toolsets", "team,gsd")
    ours = file_of(cli).read_text()
    file_of(cli).write_text(ours.replace(sys.executable, "/gone/python"))
    assert "updated" in run(capsys, cli)
    assert file_of(cli).read_text() == ours


@pytest.mark.parametrize("cli", NAMES)
def test_gsd_alone_is_an_entry_of_its_own_that_comes_and_goes_beside_the_masters(cli, capsys):
    run(capsys, cli)
    master = file_of(cli).read_bytes()
    assert "offers the server `gsd`" in run(capsys, cli, "--toolsets", "gsd")
    assert set(servers_of(cli)) == {"orchestrator", "gsd"}
    assert words_of(cli, "gsd") == [*MCP, "--toolsets", "gsd", *limit_of(cli)]
    if cli == "codex":
        assert "GSD_PROJECT_ROOT" in servers_of(cli)["gsd"]["env_vars"]
    if cli == "gemini":
        assert servers_of(cli)["gsd"]["trust"] is False
    both = file_of(cli).read_bytes()
    assert "nothing to change" in run(capsys, cli, "--toolsets", "gsd")
    assert "nothing to change" in run(capsys, cli)
    assert file_of(cli).read_bytes() == both
    run(capsys, cli, "--uninstall", "--toolsets", "gsd")
    assert file_of(cli).read_bytes() == master
    run(capsys, cli, "--toolsets", "gsd")
    assert "servers `orchestrator` and `gsd`" in run(capsys, cli, "--uninstall")
    assert not file_of(cli).exists()


@pytest.mark.parametrize("cli", NAMES)
def test_taking_out_the_master_alone_leaves_gsd(cli, capsys):
    run(capsys, cli, "--toolsets", "gsd")
    alone = file_of(cli).read_bytes()
    run(capsys, cli)
    run(capsys, cli, "--uninstall", "--toolsets", "team,squad")
    assert file_of(cli).read_bytes() == alone


@pytest.mark.parametrize("cli", NAMES)
def test_a_server_called_gsd_that_is_not_ours_is_never_taken_out_and_replaced_by_force_alone(cli, capsys):
    run(capsys, cli, "--toolsets", "gsd")
    others = file_of(cli).read_text().replace(sys.executable, "node").replace('"orchestrator"', '"index.js"')
    file_of(cli).write_text(others)
    for line in (["--uninstall"], ["--uninstall", "--force"], ["--uninstall", "--toolsets", "gsd", "--force"]):
        run(capsys, cli, *line)
        assert file_of(cli).read_text() == others
    error = told(capsys, cli, "--toolsets", "gsd", status=3)["error"]
    assert error["code"] == "entry_edited" and "not ours" in error["message"]
    assert file_of(cli).read_text() == others
    assert [seen.name for seen in registration.look(SETUPS[cli], os.environ) if seen.part == "entry"] == [
        "orchestrator"
    ]
    run(capsys, cli, "--toolsets", "gsd", "--force")
    assert words_of(cli, "gsd")[:5] == MCP


@pytest.mark.parametrize("cli", NAMES)
def test_another_list_for_an_entry_that_a_user_changed_needs_force(cli, capsys):
    run(capsys, cli, "--toolsets", "team,gsd")
    mine = limit_edited(file_of(cli).read_text())
    file_of(cli).write_text(mine)
    for line in ([], ["--toolsets", "team,gsd"]):
        assert "your edits are kept" in run(capsys, cli, *line)
    assert told(capsys, cli, "--toolsets", "team", status=3)["error"]["code"] == "entry_edited"
    assert file_of(cli).read_text() == mine
    run(capsys, cli, "--force")
    assert words_of(cli)[5:7] == ["--toolsets", "team,gsd"], "force alone is no wish for another list"
    run(capsys, cli, "--toolsets", "team", "--force")
    assert words_of(cli)[5:7] == ["--toolsets", "team"]


@pytest.mark.parametrize(
    "line",
    [
        ["--toolsets", "agent"], ["--toolsets", "team,team"], ["--toolsets", "team,"], ["--toolsets", "teams"],
        ["--toolsets", "gsd", "--hooks"], ["--toolsets", "gsd", "--hooks", "--uninstall"], ["--settings"],
        ["--settings", "--toolsets", "gsd"], ["--toolsets", "team;gsd", "--print"],
    ],
    ids=" ".join,
)  # fmt: skip
def test_a_list_that_is_none_and_options_that_exclude_each_other_are_refused(line, home, capsys):
    assert told(capsys, "gemini", *line, status=2)["error"]["code"] == "bad_argument"
    assert not list(home.iterdir())


def test_a_hand_written_list_that_is_none_makes_the_entry_somebodys_own(capsys):
    run(capsys, "gemini", "--toolsets", "team,gsd")
    file_of("gemini").write_text(file_of("gemini").read_text().replace("team,gsd", "team,agent"))
    assert told(capsys, "gemini", "--uninstall", status=3)["error"]["code"] == "entry_edited"


def test_the_documents_own_form_goes_into_claudes_settings_and_out_again(home, capsys):
    path = home / ".claude" / "settings.json"
    path.parent.mkdir()
    text = '{\n  // mine\n  "hooks": {"Stop": [{"hooks": [{"type": "command", "command": "mine"}]}]},\n  "model": "x"\n}\n'
    path.write_text(text)
    shown = run(capsys, "claude", "--settings")
    assert "~/.claude.json" in shown and "`gsd`" not in shown, "Claude Code does not offer what stands there"
    found = jsonc.read(path.read_text())
    assert found["mcpServers"] == {"gsd": {"command": MCP[0], "args": [*MCP[1:], "--toolsets", "gsd"], "env": {}}}
    assert not (home / ".claude.json").exists()
    assert "nothing to change" in run(capsys, "claude", "--settings", "--toolsets", "gsd")
    seen = {one.part: one.state for one in registration.look(SETUPS["claude"], os.environ)}
    assert (seen["entry"], seen["settings entry"]) == ("absent", "current")
    run(capsys, "claude", "--settings", "--uninstall")
    assert path.read_text() == text
    for line in (["--uninstall"], ["--uninstall", "--toolsets", "gsd"]):
        run(capsys, "claude", "--settings")
        run(capsys, "claude", "--toolsets", "gsd")
        run(capsys, "claude", *line)
        assert path.read_text() == text
        assert not (home / ".claude.json").exists()


def test_a_foreign_gsd_server_in_claudes_settings_stays(home, capsys):
    path = home / ".claude" / "settings.json"
    path.parent.mkdir()
    text = json.dumps({"mcpServers": {"gsd": {"command": "node", "args": ["x/index.js"], "env": {}}}})
    path.write_text(text)
    assert told(capsys, "claude", "--settings", status=3)["error"]["code"] == "entry_edited"
    run(capsys, "claude", "--hooks")
    run(capsys, "claude", "--uninstall", "--force")
    assert path.read_text() == text


def test_what_setup_says_of_entries_that_were_never_asked_for_is_nothing(capsys):
    assert [change["path"] for file in told(capsys, "claude", "--uninstall")["files"] for change in file["changes"]] == [
        ["hooks", "Stop"], ["hooks", "UserPromptSubmit"], ["mcpServers", "orchestrator"],
    ]  # fmt: skip
    one = told(capsys, "gemini", "--uninstall", "--toolsets", "gsd")["files"][0]["changes"]
    assert [(change["path"], change["action"]) for change in one] == [(["mcpServers", "gsd"], "absent")]


@pytest.mark.parametrize("cli", NAMES)
def test_print_shows_the_entry_of_gsd_alone(cli, home, capsys):
    [one] = told(capsys, "--print", cli, "--toolsets", "gsd")["snippets"]
    assert one["for"] == "gsd" and "gsd" in one["text"] and one["file"] == str(file_of(cli))
    master = told(capsys, "--print", cli, "--toolsets", "team,gsd")["snippets"][0]["text"]
    assert "team,gsd" in master
    assert not list(home.iterdir())


def test_print_shows_the_documents_own_form(home, capsys):
    [one] = told(capsys, "--print", "claude", "--settings")["snippets"]
    assert json.loads(one["text"])["mcpServers"]["gsd"]["env"] == {}
    assert one["file"] == str(home / ".claude" / "settings.json")


def test_doctor_knows_both_entries_and_what_they_offer(home, tmp_path, capsys):
    (tmp_path / "bin").mkdir()
    for name in ("claude", "gemini"):
        (tmp_path / "bin" / name).write_text("#!/bin/sh\n")
        (tmp_path / "bin" / name).chmod(0o755)
    run(capsys, "gemini", "--toolsets", "team,gsd")
    run(capsys, "claude", "--toolsets", "gsd")
    run(capsys, "claude", "--settings")
    found = {one.check: one for one in doctor_clis.registrations(None)}
    assert (found["gemini registration"].level, found["claude gsd"].level) == ("ok", "ok")
    assert "(team, gsd)" in found["gemini registration"].message
    assert "gemini gsd" not in found
    assert found["claude registration"].level == "note"
    assert found["claude gsd in its settings"].file == str(home / ".claude" / "settings.json")
    path = file_of("claude")
    path.write_text(path.read_text().replace(sys.executable, "/gone/python"))
    found = {one.check: one for one in doctor_clis.registrations(None)}
    assert found["claude gsd"].level == "bad" and "--toolsets gsd" in found["claude gsd"].next_step
