"""What doctor says of the CLIs, of permissions and of leftovers; everything it says is read from files."""

import json
import os
import socket
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from orchestrator.cli import app, doctor_clis, doctor_leftovers
from orchestrator.edge import project_location
from orchestrator.engines.table import ENGINES, SETUPS


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch) -> Iterator[Path]:
    for name in [*os.environ]:
        if name.startswith(("ORCHESTRATOR_", "XDG_", "CODEX", "CLAUDE", "GEMINI", "OPENCODE", "ANTHROPIC", "OPENAI")):
            monkeypatch.delenv(name)
    for name in ("home", "bin", "p/.git"):
        (tmp_path / name).mkdir(parents=True, mode=0o700)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")
    monkeypatch.chdir(tmp_path / "p")
    # Short, because a unix socket's path has a limit that pytest's own directories come near.
    with tempfile.TemporaryDirectory(prefix="ot-") as run_base:
        monkeypatch.setenv("ORCHESTRATOR_RUN_BASE", run_base)
        yield tmp_path / "home"


def findings(capsys, status=0):
    assert app.main(["doctor", "--json"]) == status
    return json.loads(capsys.readouterr().out)["findings"]


def of(found, check):
    return [one for one in found if one["check"] == check]


def program(tmp_path, name, version):
    path = tmp_path / "bin" / name
    path.write_text(f"#!/bin/sh\necho '{version}'\necho $HOME > {tmp_path}/asked-in\n")
    path.chmod(0o755)
    return path


def packaged(tmp_path, kind, name, version):
    """A program as npm installs it; running it would fail."""
    package = tmp_path / "lib" / "node_modules" / name
    (package / "bin").mkdir(parents=True)
    (package / "package.json").write_text(json.dumps({"name": name, "version": version}))
    (package / "bin" / "cli.js").write_text("#!/bin/false\n")
    (package / "bin" / "cli.js").chmod(0o755)
    (tmp_path / "bin" / kind).symlink_to(package / "bin" / "cli.js")


def test_a_version_is_read_from_the_package_and_judged_by_the_table(tmp_path, capsys):
    packaged(tmp_path, "codex", "@openai/codex", ENGINES["codex"].tested_versions[0])
    packaged(tmp_path, "gemini", "@google/gemini-cli", "9.9.9")
    found = findings(capsys)
    [codex], [gemini] = of(found, "engine codex"), of(found, "engine gemini")
    assert codex["level"] == "ok" and "a tested version" in codex["message"]
    assert gemini["level"] == "note" and "9.9.9" in gemini["message"] and "--live gemini" in gemini["next_step"]


def test_a_program_without_a_package_is_asked_in_an_empty_home(tmp_path, home, capsys):
    program(tmp_path, "claude", "2.0.1 (Claude Code)")
    [claude] = of(findings(capsys), "engine claude")
    assert "2.0.1 at" in claude["message"]
    assert (tmp_path / "asked-in").read_text().strip() != str(home)
    assert not list(home.iterdir())


def test_every_row_has_a_finding_and_untested_ones_say_so(tmp_path, capsys):
    for row in ENGINES.values():
        if row.program:
            program(tmp_path, row.program, "1.2.3")
    found = findings(capsys)
    for row in ENGINES.values():
        [one] = of(found, f"engine {row.name}")
        assert row.tested or "no version has been tested" in one["message"]


def test_a_cli_that_is_not_installed_has_one_note_and_nothing_more(capsys):
    found = findings(capsys)
    for name in SETUPS:
        assert [one["level"] for one in of(found, f"engine {name}")] == ["note"]
        assert not of(found, f"{name} login") and not of(found, f"{name} registration")


def test_a_login_that_is_not_seen_is_a_note_with_its_next_step(tmp_path, capsys, monkeypatch):
    program(tmp_path, "gemini", "1.0.0")
    [login] = of(findings(capsys), "gemini login")
    assert login["level"] == "note" and login["next_step"]
    monkeypatch.setenv("GEMINI_API_KEY", "s3cret")
    assert app.main(["doctor", "--json"]) == 0
    out = capsys.readouterr().out
    assert of(json.loads(out)["findings"], "gemini login")[0]["level"] == "ok"
    assert "s3cret" not in out


def states(capsys, status=0):
    found = findings(capsys, status)
    return [
        (of(found, f"codex {what}")[0]["level"], of(found, f"codex {what}")[0]) for what in ("registration", "hooks")
    ]


def test_registration_and_hooks_are_told_as_they_stand(tmp_path, home, capsys):
    program(tmp_path, "codex", "1.0.0")
    (entry, told), (hooks, _) = states(capsys)
    assert (entry, hooks) == ("note", "ok") and told["next_step"] == "orchestrator setup codex"
    assert app.main(["setup", "codex", "--hooks"]) == 0
    capsys.readouterr()
    assert [level for level, _ in states(capsys)] == ["ok", "ok"]
    file = home / ".codex" / "config.toml"
    ours = file.read_text()

    file.write_text(ours.replace(f'command = "{sys.executable}"', 'command = "/gone/python"'))
    (entry, told), (hooks, _) = states(capsys, 5)
    assert (entry, hooks) == ("bad", "ok") and "/gone/python" in told["message"] and told["next_step"]

    file.write_text(ours.replace(f'command = "{sys.executable}"', 'command = "/bin/sh"'))
    (entry, told), _ = states(capsys)
    assert entry == "note" and "another installation" in told["message"]

    file.write_text(ours.replace("tool_timeout_sec = 600", "tool_timeout_sec = 60"))
    (entry, told), _ = states(capsys)
    assert entry == "ok" and "by hand" in told["message"]

    file.write_text(ours.replace(', "--call-limit", "600"', ""))
    (entry, told), _ = states(capsys)
    assert entry == "note" and "older version" in told["message"] and "setup codex" in told["next_step"]

    file.write_text(ours[: ours.index("[[hooks.Interrupt]]")])
    _, (hooks, told) = states(capsys)
    assert hooks == "note" and "--hooks" in told["next_step"]

    file.write_text("x = \n")
    [broken] = of(findings(capsys, 5), "codex registration")
    assert (broken["level"], broken["file"], broken["line"]) == ("bad", str(file), 1)
    assert broken["next_step"]


def test_a_launch_file_open_to_others_is_bad(tmp_path, capsys):
    engine = tmp_path / "p" / ".agents" / "agents" / "a" / "engine"
    engine.mkdir(parents=True)
    (engine / "launch.json").write_text("{}")
    (engine / "launch.json").chmod(0o600)
    assert of(findings(capsys), "permissions")[0]["level"] == "ok"
    (engine / "launch.json").chmod(0o640)
    [found] = of(findings(capsys, 5), "permissions")
    assert found["level"] == "bad" and found["next_step"].startswith("chmod")


def test_leftovers_of_crashes_are_told_and_left(tmp_path, capsys):
    assert of(findings(capsys), "leftovers")[0]["message"] == "none"
    here = project_location.run_dir(tmp_path / "p")
    other = here.parent / "0123456789abcdef"
    other.mkdir(mode=0o700)
    live = here.parent / "fedcba9876543210"
    live.mkdir(mode=0o700)
    for folder in (here, other):
        with socket.socket(socket.AF_UNIX) as dead:
            dead.bind(str(folder / "socket"))
    agent = tmp_path / "p" / ".agents" / "agents" / "a"
    agent.mkdir(parents=True)
    (agent / ".meta.json.9999999-1.tmp").write_text("{")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(live / "socket"))
        listening.listen()
        told = [one["message"] for one in of(findings(capsys), "leftovers")]
    assert len(told) == 3
    assert any(str(here) in one for one in told) and any("half-written" in one for one in told)
    assert any(one.startswith("1 run directories") for one in told)
    assert (here / "socket").exists() and (agent / ".meta.json.9999999-1.tmp").exists()


def test_the_package_of_something_else_tells_no_version(tmp_path):
    packaged(tmp_path, "codex", "somebody-elses", "1.0.0")
    assert doctor_clis.packaged(str(tmp_path / "bin" / "codex"), "@openai/codex") is None


def test_an_engine_is_named_with_live_only(capsys):
    assert app.main(["doctor", "codex", "--json"]) == 2
    assert json.loads(capsys.readouterr().out)["error"]["code"] == "bad_argument"


def test_a_pane_whose_agent_has_ended_is_told_and_one_that_lives_is_not(tmp_path, capsys, monkeypatch):
    sock = tmp_path / "tmux"
    sock.touch()

    def pane(pane_id, agent_id, run_id="run-1"):
        return SimpleNamespace(pane_id=pane_id, agent_id=agent_id, run_id=run_id)

    shown = [pane("%1", "lives"), pane("%2", "over"), pane("%3", "over", "run-of-another-project")]
    rows = [{"agent_id": "lives", "status": "unknown"}, {"agent_id": "over", "status": "deleted"}]
    monkeypatch.setattr(
        "orchestrator.team.roster.offline_view.runs", lambda _: [{"run_id": "run-1", "tmux_socket": str(sock)}]
    )
    monkeypatch.setattr("orchestrator.team.roster.offline_view.agents", lambda _: rows)
    monkeypatch.setattr("orchestrator.tmux.panes.list_tagged", lambda _: shown)
    told = [
        one
        for one in doctor_leftovers.leftovers(project_location.find_project(tmp_path / "p"))
        if "pane" in one.message
    ]
    assert [one.message.split()[1] for one in told] == ["%2"]
    assert f"tmux -S {sock} kill-pane -t %2" in told[0].next_step
