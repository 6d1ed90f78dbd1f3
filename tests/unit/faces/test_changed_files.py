"""What an agent without a worktree may have changed, as top and the web page say it."""

import re

import pytest

from orchestrator.base.errors import BadRequest, Environment
from orchestrator.faces import changed_files
from orchestrator.faces.changed_files import MOST_FILES, changed_since, guessed_changes
from orchestrator.faces.top.tab_texts import TabReader
from orchestrator.faces.web.agent_page import agent_page
from orchestrator.faces.web.page_content import PageRequest
from orchestrator.journal.project_files import Paths
from orchestrator.journal.syncer import Syncer
from orchestrator.team.roster import task_views
from orchestrator.team.roster.mirrored_logs import open_replica
from orchestrator.team.roster.replica_files import AgentOwner
from orchestrator.team.worktrees import changes, git
from tests.support.top_team import Requests, agent, busy, snapshot

EARLY, LATE = "2020-01-01T00:00:00.000Z", "2999-01-01T00:00:00.000Z"


def project(root):
    git.ask(root, "init", "-q")
    (root / "new <b>.txt").write_text("x")
    (root / ".agents").mkdir()
    (root / ".agents" / "ours").write_text("x")
    return root


def delivered(monkeypatch, at):
    monkeypatch.setattr(task_views, "task_of", lambda *_: {"delivered_at": at})


def in_top(root, row):
    lines = TabReader(root, Requests()).read("diff", row)
    return [line if isinstance(line, str) else "".join(text for text, _ in line) for line in lines]


def on_the_page(root, row):
    request = PageRequest("agent", agent=row["agent_id"], tab="diff")
    html = agent_page(root, request, snapshot([row]), Requests()).slots["tab"]["diff"]
    return re.findall(r"(?:<p>|<bdi>)(.*?)<", html)


def test_files_that_changed_since_an_instant_are_named(tmp_path):
    project(tmp_path)
    assert changed_since(tmp_path, EARLY) == ["new <b>.txt"]
    assert changed_since(tmp_path, LATE) == []
    for number in range(MOST_FILES + 5):
        (tmp_path / f"f{number}").touch()
    assert len(changed_since(tmp_path, EARLY)) == MOST_FILES + 1
    assert changed_since(tmp_path, EARLY)[-1] == "…"


def test_top_and_the_page_give_the_same_guess_and_say_that_it_is_one(tmp_path, monkeypatch):
    row = busy("a", "make", engine="shell")
    project(tmp_path)
    delivered(monkeypatch, EARLY)
    guess = guessed_changes(tmp_path, row)
    assert "guess" in guess.says
    assert in_top(tmp_path, row) == [guess.says, "new <b>.txt"]
    assert on_the_page(tmp_path, row) == [guess.says, "new &lt;b&gt;.txt"]
    delivered(monkeypatch, LATE)
    assert in_top(tmp_path, row) == [guess.says, "none"]
    assert on_the_page(tmp_path, row) == [guess.says, "None."]


def test_what_is_not_known_is_no_empty_list(tmp_path, monkeypatch):
    assert guessed_changes(tmp_path, agent("a")).files is None, "it has had no task"
    delivered(monkeypatch, EARLY)
    row = busy("a", "make")
    assert guessed_changes(tmp_path, row).files is None, "no repository of git"
    assert on_the_page(tmp_path, row) == in_top(tmp_path, row) == [guessed_changes(tmp_path, row).says]

    def broken(*_):
        raise Environment("internal", "x")

    monkeypatch.setattr(changed_files, "changed_since", broken)
    with pytest.raises(Environment):
        guessed_changes(tmp_path, row)


def test_of_an_agent_on_another_host_no_file_of_this_one_is_named(tmp_path, monkeypatch):
    row = busy("a", "make", engine="shell")
    project(tmp_path)
    delivered(monkeypatch, EARLY)
    open_replica(Paths(tmp_path), "a", AgentOwner("shop", "box", 0), Syncer(pytest.fail, threads=0)).close()
    guess = guessed_changes(tmp_path, row)
    assert guess.files is None and "box" in guess.says
    assert on_the_page(tmp_path, row) == in_top(tmp_path, row) == [guess.says]
    with pytest.raises(BadRequest, match="another host") as error:
        changes.diff(tmp_path, "a")
    assert error.value.code == "no_worktree" and "fleet_push" in error.value.next_step
