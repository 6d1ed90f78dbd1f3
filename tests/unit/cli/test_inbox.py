"""The commands of the inbox: what they ask of the daemon, and what they say."""

import json

import pytest

from orchestrator.base.errors import Conflict
from orchestrator.cli import app, completion, inbox, standing_rules
from orchestrator.faces import daemon_client

ITEM = {
    "id": "3f2a91bc", "kind": "permission", "agent_id": "c1", "name": "c1", "run_id": "run-1", "task_id": None,
    "task_title": None, "since": "2026-01-01T00:00:00.000Z", "until": None, "holds": True, "text": "asks to use Bash: make",
    "tool": "Bash", "cwd": "/p", "asked": "make\nall", "questions": None, "answers": ["approve", "deny"], "by": "hook",
    "cut": False,
}  # fmt: skip
RULE = {
    "id": "5d0c77f0a1b2", "kind": "command", "tool": "Bash", "text": "make\x1b[2J", "cwd": "/p", "user": "me", "face": "cli",
    "at": "2026-01-01T00:00:00.000Z",
}  # fmt: skip


class Link:
    """A daemon that answers what it was given."""

    def __init__(self):
        self.asked, self.answers = [], {}

    def __call__(self, _place, **_options):
        return self

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def ask(self, method, params, **_options):
        self.asked.append((method.removeprefix("orchestrator/"), params))
        answer = self.answers[method.removeprefix("orchestrator/")]
        if isinstance(answer, Exception):
            raise answer
        return answer


@pytest.fixture
def link(monkeypatch, tmp_path):
    for name in ("HOME", "ORCHESTRATOR_RUN_BASE", "ORCHESTRATOR_STATE_DIR"):
        monkeypatch.setenv(name, str(tmp_path / name.lower()))
    (tmp_path / "p/.agents").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "p")
    made = Link()
    for module in (inbox, standing_rules, daemon_client):
        monkeypatch.setattr(module, "DaemonClient", made)
    monkeypatch.setattr(
        inbox,
        "read_snapshot",
        lambda _place: {"live": True, "inbox": [ITEM]} | made.answers.get("snapshot", {}),
    )
    return made


@pytest.mark.parametrize(
    ("line", "decision", "text"),
    [
        ("approve 3f2a91bc", "approve", ""), ("approve 3F2A91BC --always", "always", ""), ("deny 3f2a91bc", "deny", ""),
        ("deny 3f2a91bc --reason no", "deny", "no"), ("answer 3f2a91bc Postgres", "answer", "Postgres"),
        ("answer 3f2a91bc 2 yes", "answer", "2\nyes"), ("release 3f2a91bc", "release", ""),
        ("dismiss 3f2a91bc", "dismiss", ""),
    ],
)  # fmt: skip
def test_an_answer_is_one_request_and_one_line(link, line, decision, text, capsys):
    rule = RULE["id"] if decision == "always" else None
    link.answers["answer"] = {"ok": True, "item": ITEM["id"], "decision": decision, "agent_id": "c1", "rule": rule}
    assert app.main(line.split()) == 0
    assert link.asked == [("answer", {"item": ITEM["id"], "decision": decision, "text": text, "face": "cli"})]
    out = capsys.readouterr().out
    assert out.startswith("c1: ")
    assert (f"orchestrator approvals remove {RULE['id']}" in out) == (rule is not None)
    assert app.main([*line.split(), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == link.answers["answer"]


def test_a_refusal_has_its_code_and_a_next_step(link, capsys):
    link.answers["answer"] = Conflict("item_over", "item 3f2a91bc was answered already")
    assert app.main(["approve", "3f2a91bc"]) == 3
    assert "orchestrator inbox" in capsys.readouterr().err


def test_the_inbox_is_listed_and_each_item_shown_whole(link, capsys):
    assert app.main(["inbox"]) == 0
    listed = capsys.readouterr()
    assert ITEM["id"] in listed.out and listed.err == ""
    assert app.main(["inbox", ITEM["id"]]) == 0
    shown = capsys.readouterr().out
    assert "| make\n    | all\n" in shown
    assert app.main(["inbox", ITEM["id"], "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == ITEM
    assert app.main(["inbox", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["inbox"] == [ITEM]
    assert app.main(["inbox", "nothing", "--json"]) == 2
    assert json.loads(capsys.readouterr().out)["error"]["code"] == "unknown_item"


def test_without_a_daemon_the_inbox_says_what_it_lacks(link, capsys):
    link.answers["snapshot"] = {"live": False, "inbox": []}
    assert app.main(["inbox"]) == 0
    out, err = capsys.readouterr()
    assert out == "nothing waits for you\n"
    assert "no daemon answers" in err


def test_rules_are_listed_and_removed(link, capsys):
    link.answers |= {"approval_rules": {"rules": [RULE]}, "remove_approval_rule": {"ok": True, "rule": RULE["id"]}}
    assert app.main(["approvals", "list"]) == 0
    out = capsys.readouterr().out
    assert RULE["id"] in out
    assert "\x1b" not in out
    assert app.main(["approvals", "remove", RULE["id"]]) == 0
    assert link.asked[-1] == ("remove_approval_rule", {"rule": RULE["id"]})
    capsys.readouterr()
    link.answers["approval_rules"] = {"rules": []}
    assert app.main(["approvals", "list"]) == 0
    out, err = capsys.readouterr()
    assert out == ""
    assert "approve ID --always" in err


def test_tab_offers_the_ids_and_nothing_that_a_shell_would_run(link):
    link.answers["snapshot"] = {"inbox": [ITEM, ITEM | {"id": "$(id)"}, ITEM | {"id": "0badf00d"}]}
    assert completion.items("") == ["3f2a91bc", "0badf00d"]
    assert completion.items("3f") == ["3f2a91bc"]
    link.answers["snapshot"] = Conflict("proto_mismatch", "x")
    assert completion.items("") == []
