"""The commands about roles: what they show, where they look, and their exit status."""

import json
import os

import pytest

from orchestrator.cli import app


@pytest.fixture(autouse=True)
def root(tmp_path, monkeypatch):
    place = tmp_path / "p"
    (place / ".git").mkdir(parents=True)
    for name in [name for name in os.environ if name.startswith("ORCHESTRATOR_")]:
        monkeypatch.delenv(name)
    for name in ("AGENTS_DIRECTORY_PATH", "SQUAD_AGENTS_DIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("ORCHESTRATOR_PROJECT", str(place))
    monkeypatch.chdir(place)
    return place


def put(root, name, text):
    (root / name).parent.mkdir(parents=True, exist_ok=True)
    (root / name).write_bytes(text if isinstance(text, bytes) else text.encode())


def asked(capsys, *line, status=0):
    assert app.main(["roles", *line, "--json"]) == status
    out, err = capsys.readouterr()
    assert err == ""
    return json.loads(out)


def test_list_shows_every_role_with_its_source_and_names_broken_files_on_stderr(root, capsys):
    put(root, "agents/tester.md", "---\nname: T\ndescription: Tests\n---\nTest.")
    put(root, "agents/bad.md", b"\xff")
    assert app.main(["roles", "list"]) == 0
    out, err = capsys.readouterr()
    lines = [line.split() for line in out.splitlines()]
    assert ["tester", "agents", "Tests"] in lines
    assert any(line[:2] == ["architect", "shipped"] for line in lines)
    assert err == "agents/bad.md is not UTF-8\n"
    found = asked(capsys, "list")
    assert found["broken"] == [{"id": "bad", "file": "agents/bad.md", "reason": "is not UTF-8"}]
    assert found["roles"][0] == {
        "id": "tester", "name": "T", "description": "Tests", "source": "agents", "file": "agents/tester.md",
        "model": None, "approval": None, "toolsets": [],
    }  # fmt: skip
    assert len(found["roles"]) == 12


def test_a_directory_comes_from_the_option_relative_to_here_else_from_the_environment_relative_to_the_project(
    root, capsys, monkeypatch
):
    put(root, "mine/a.md", "A.")
    put(root, "sub/mine/b.md", "B.")
    put(root, "empty/x.txt", "")
    monkeypatch.chdir(root / "sub")

    def ids(*line):
        return [role["id"] for role in asked(capsys, "list", *line)["roles"]]

    assert len(ids()) == 11
    monkeypatch.setenv("SQUAD_AGENTS_DIR", "mine")
    assert ids() == ["a"]
    assert ids("--dir", "mine") == ["b"]
    monkeypatch.setenv("AGENTS_DIRECTORY_PATH", "sub/mine")
    assert app.main(["roles", "show", "b"]) == 0
    out, err = capsys.readouterr()
    assert out.endswith("\nB.\n")
    assert err == "AGENTS_DIRECTORY_PATH and SQUAD_AGENTS_DIR differ: AGENTS_DIRECTORY_PATH counts\n"
    monkeypatch.delenv("SQUAD_AGENTS_DIR")
    assert asked(capsys, "list", "--dir", "nowhere", status=2)["error"]["code"] == "bad_config"
    assert app.main(["roles", "list", "--dir", "../empty"]) == 0
    assert capsys.readouterr().out == "no roles\n"


def test_show_prints_what_the_file_says_and_the_instructions(root, capsys):
    put(root, ".claude/agents/t.md", "---\ndescription: Tests\ntools: [Read]\n---\n\nTest \x1b[2Jall.\n")
    assert app.main(["roles", "show", "t"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("role:        t\nfile:        .claude/agents/t.md\ndescription: Tests\n")
    assert 'tools:       ["Read"]' in out
    assert out.endswith("\n\nTest \\x1b[2Jall.\n")
    found = asked(capsys, "show", "t")
    assert (found["body"], found["keys"]) == ("Test \x1b[2Jall.", {"description": "Tests", "tools": ["Read"]})


@pytest.mark.parametrize(
    ("role", "code"), [("nobody", "unknown_role"), ("../t", "unknown_role"), ("bad", "bad_role")]
)
def test_show_refuses_what_is_no_role_or_a_broken_one(root, capsys, role, code):
    put(root, "agents/bad.md", b"\xff")
    assert asked(capsys, "show", role, status=2)["error"]["code"] == code


def test_show_tells_the_toolsets_that_an_agent_in_the_role_is_given(root, capsys):
    put(root, "agents/t.md", "---\ntoolsets: [gsd, team]\n---\nTest.")
    assert asked(capsys, "show", "t")["toolsets"] == ["gsd"]
    assert asked(capsys, "show", "gsd-verifier")["toolsets"] == ["gsd"]
    assert app.main(["roles", "show", "gsd-planner"]) == 0
    assert "toolsets:" in capsys.readouterr().out
    assert app.main(["roles", "lint"]) == 0
    assert "'team'" in capsys.readouterr().out


def test_lint_fails_only_for_files_that_cannot_be_used(root, capsys):
    put(root, "agents/t.md", "---\ndescription: Use it: often\ntools: Read\nmodel: m\n---\nTest.")
    put(root, "agents/architect.md", "---\ndescription: d\n---\nPlan.")
    assert app.main(["roles", "lint"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("! agents/t.md has a frontmatter that is not YAML and was read line by line (line 2: ")
    assert lines[1].startswith("· ")
    assert lines[1].endswith("roles/architect.md is hidden by agents/architect.md, which takes precedence")
    assert "· agents/t.md sets tools, which is ignored by every engine" in lines
    assert lines[-1] == "12 roles can be used, 0 files cannot"
    put(root, "agents/bad.md", "---\n")
    assert app.main(["roles", "lint"]) == 1
    assert capsys.readouterr().out.startswith("✕ agents/bad.md has a frontmatter without an end")
    found = asked(capsys, "lint", status=1)
    assert (found["ok"], found["findings"][0]["kind"], found["findings"][0]["role"]) == (False, "broken", "bad")
    (root / "agents/bad.md").unlink()
    assert asked(capsys, "lint")["ok"] is True
