"""The rules of `approve --always`: stored outside of the project, for exactly what was seen, and taken back."""

import asyncio
import json
import os
import shutil
from dataclasses import replace

import pytest

from orchestrator.base.errors import BadRequest, Environment
from orchestrator.engines.permission_requests import Asked
from orchestrator.team.people import approval_rules
from orchestrator.team.people.answer_words import Answerer
from orchestrator.team.people.approval_rules import ApprovalRules

AT = "2026-01-01T00:00:00.000Z"
ME = Answerer("cli", "me")


@pytest.fixture
def root(tmp_path, monkeypatch):
    monkeypatch.setenv("ORCHESTRATOR_STATE_DIR", str(tmp_path / "state"))
    (tmp_path / "shop/.agents").mkdir(parents=True)
    return tmp_path / "shop"


def command(root, text="make"):
    return Asked("permission", "Bash", text, f"asks to use Bash: {text}", {"command": text}, str(root))


def write(root, name):
    path = str(root / name)
    return Asked("permission", "Write", path, "asks", {"file_path": path, "content": "x"}, str(root))


def add(root, asked, at=AT):
    return asyncio.run(ApprovalRules(root).add(asked, ME, at))


def test_a_rule_covers_exactly_what_was_seen_until_it_is_removed(root):
    rules = ApprovalRules(root)
    assert rules.can_cover(command(root))
    assert rules.matching(command(root)) is None
    rule = add(root, command(root))
    assert rules.matching(command(root)) == rule
    for other in ("make ", "make check", "make;id"):
        assert rules.matching(command(root, other)) is None
    assert rules.matching(replace(command(root), cwd=str(root / "sub"))) is None
    assert rules.listed() == [
        {"id": rule, "kind": "command", "tool": "Bash", "text": "make", "cwd": str(root), "at": AT, "user": "me", "face": "cli"}
    ]  # fmt: skip
    rules.remove(rule)
    assert rules.matching(command(root)) is None
    assert rules.listed() == []
    for unknown in (rule, "x", "../identity.json", ""):
        with pytest.raises(BadRequest) as error:
            rules.remove(unknown)
        assert error.value.code == "unknown_rule"


def test_the_same_rule_twice_is_one(root):
    assert add(root, command(root)) == add(root, command(root), "2026-01-02T00:00:00.000Z")
    assert len(ApprovalRules(root).listed()) == 1


def test_rules_are_private_and_none_is_in_the_project(root, tmp_path):
    before = set(root.rglob("*"))
    rule = add(root, command(root, "curl -H 'Authorization: Bearer abcdefgh12345678' x"))
    assert {path.name for path in set(root.rglob("*")) - before} <= {"identity.json"}
    (file,) = (tmp_path / "state").rglob(rule)
    assert (file.stat().st_mode & 0o777, file.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    assert "abcdefgh12345678" not in file.read_text()
    assert "Bearer …" in ApprovalRules(root).listed()[0]["text"]


def test_no_copy_and_no_other_project_has_the_rules(root, tmp_path):
    add(root, command(root))
    shutil.copytree(root, tmp_path / "copy")
    (tmp_path / "other/.agents").mkdir(parents=True)
    for elsewhere in (tmp_path / "copy", tmp_path / "other", tmp_path):
        assert ApprovalRules(elsewhere).matching(command(root)) is None
        assert ApprovalRules(elsewhere).listed() == []


def test_a_project_that_was_moved_is_asked_again(root, tmp_path):
    add(root, command(root))
    moved = root.rename(tmp_path / "moved")
    rules = ApprovalRules(moved)
    assert [rules.matching(command(path)) for path in (root, moved)] == [None, None]
    assert len(rules.listed()) == 1, "it can be removed"


def test_a_file_that_leads_elsewhere_now_is_asked_again(root, tmp_path):
    add(root, write(root, "a.py"))
    rules = ApprovalRules(root)
    assert rules.matching(write(root, "a.py"))
    (tmp_path / "secret").write_text("x")
    (root / "a.py").symlink_to(tmp_path / "secret")
    assert rules.matching(write(root, "a.py")) is None
    (root / "a.py").unlink()
    assert rules.matching(write(root, "a.py"))
    (root / "sub").mkdir()
    add(root, write(root, "sub/b.py"))
    (root / "sub").rmdir()
    (root / "sub").symlink_to(tmp_path)
    assert rules.matching(write(root, "sub/b.py")) is None


def test_a_directory_that_leads_elsewhere_now_is_asked_again(root, tmp_path):
    (root / "sub").mkdir()
    add(root, command(root / "sub"))
    rules = ApprovalRules(root)
    assert rules.matching(command(root / "sub"))
    (root / "sub").rmdir()
    (root / "sub").symlink_to(tmp_path)
    assert rules.matching(command(root / "sub")) is None


def test_no_rule_is_made_of_a_question_or_of_hidden_text(root):
    for asked in (command(root, "make\u202e"), Asked("question", "AskUserQuestion", "Which?", "asks")):
        assert not ApprovalRules(root).can_cover(asked)
        with pytest.raises(BadRequest) as error:
            add(root, asked)
        assert error.value.code == "cannot_answer"


@pytest.mark.parametrize("how", ["a link", "open to others", "no JSON", "another rule", "a list", "half of it"])
def test_a_file_that_we_did_not_write_so_is_no_rule(root, tmp_path, how):
    rule = add(root, command(root))
    (file,) = (tmp_path / "state").rglob(rule)
    content = file.read_bytes()
    if how == "a link":
        file.rename(tmp_path / "elsewhere")
        file.symlink_to(tmp_path / "elsewhere")
    elif how == "open to others":
        file.chmod(0o644)
    elif how == "another rule":
        other = add(root, command(root, "make check"))
        file.write_bytes((file.parent / other).read_bytes())
        (file.parent / other).unlink()
    else:
        file.write_bytes({"no JSON": b"{", "a list": b"[]", "half of it": content[: len(content) // 2]}[how])
    rules = ApprovalRules(root)
    assert rules.matching(command(root)) is None
    assert rules.listed() == []


def test_a_state_directory_that_is_open_to_others_has_no_rules(root, tmp_path):
    add(root, command(root))
    (tmp_path / "state").chmod(0o777)
    assert ApprovalRules(root).matching(command(root)) is None
    with pytest.raises(Environment) as error:
        add(root, command(root, "make check"))
    assert error.value.code == "state_dir_unsafe"


def test_there_is_a_limit(root, monkeypatch):
    monkeypatch.setattr(approval_rules, "RULES_MAX", 2)
    for text in "ab":
        add(root, command(root, text))
    with pytest.raises(BadRequest) as error:
        add(root, command(root, "c"))
    assert error.value.code == "cannot_answer"


def test_rules_are_listed_by_age_and_strangers_in_the_directory_are_passed_over(root, tmp_path):
    second, first = add(root, command(root, "b"), "2026-01-02T00:00:00.000Z"), add(root, command(root, "a"))
    (file,) = (tmp_path / "state").rglob(first)
    (file.parent / "0123456789ab").mkdir()
    (file.parent / ".x.tmp").write_text("x")
    assert [rule["id"] for rule in ApprovalRules(root).listed()] == [first, second]
    assert json.loads(file.read_text())["v"] == 1
    assert os.listdir(root / ".agents") == ["identity.json"]  # noqa: PTH208
