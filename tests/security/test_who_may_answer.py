"""Who may answer what waits for a human: a human, a master only if its user allows it, and nothing else.

The item is a task that has failed: anybody who may answer can dismiss it, and nothing else can.
"""

import json
import shlex
import sys

import pytest

from tests.security.human import OURS, Human
from tests.security.relay_holders import below_a_master, left_by_a_master, master_words
from tests.support.stage import until

# What a hostile program says to the daemon itself, past the command line's own look.
PAST = """
import sys
from orchestrator.faces.daemon_client import DaemonClient, project_here
from orchestrator.base.errors import OrchestratorError
with DaemonClient(project_here(), start=True) as link:
    for decision in ("approve", "always", "dismiss"):
        try:
            link.ask("orchestrator/answer", {"item": sys.argv[1], "decision": decision, "face": "top"})
            print("done")
        except OrchestratorError as error:
            print(error.code)
    try:
        link.ask("orchestrator/remove_approval_rule", {"rule": "x"})
    except OrchestratorError as error:
        print(error.code)
"""
REFUSED = "not_allowed_to_answer"


def failed_task(stage, name="a", *, boss=None):
    """The id of an item: a task of an agent that ended in `error`."""
    boss = boss or stage.begun()
    assert boss.tool("agent_create", {"name": name, "role": "x", "engine": "shell"})["ready"]
    boss.tool("task_enqueue", {"agent_id": name, "task": {"task_id": "t", "payload": {"command": "exit 3"}}})
    until(lambda: "error" in stage.types(name))
    return item_of(stage, name)


def item_of(stage, name="a"):
    def of_the_daemon():  # one that greets late is taken for none
        found = json.loads(stage.cli("inbox", "--json").stdout)
        return found if found["live"] else None

    inbox = until(of_the_daemon)
    return next((item["id"] for item in inbox["inbox"] if item["agent_id"] == name), None)


def answers(stage, name="a"):
    return [record["who"]["acts_as"] for record in stage.records(name) if record["type"] == "answered"]


def allow_masters(stage):
    file = stage.home / ".config/orchestrator/config.toml"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("approvals.master = true\n")


def test_a_human_answers_in_a_terminal_and_the_record_says_who(stage):
    item = failed_task(stage)
    with Human(stage, "dismiss", item) as human:
        assert human.end() == 0, human.raw
    (record,) = [record for record in stage.records("a") if record["type"] == "answered"]
    assert (record["item"], record["decision"], record["who"]["face"]) == (item, "dismiss", "cli")
    assert record["who"]["acts_as"] == "human"
    assert record["who"]["user"]
    assert item_of(stage) is None
    again = stage.cli("dismiss", item, "--json")
    assert (again.returncode, json.loads(again.stdout)["error"]["code"]) == (3, "item_over")


def test_a_human_answers_in_the_shell_that_has_started_the_cli(stage):
    """The CLI is suspended or in the background; the shell is above it, and not the CLI's."""
    item = failed_task(stage)
    ready, gate = stage.base / "ready", stage.base / "gate"
    cli = master_words(
        "directly", str(stage.base / "out"), "sh", "-c", f"touch {ready}; until [ -e {gate} ]; do sleep 0.1; done"
    )
    ours = " ".join(OURS)
    line = f"{shlex.join(cli)} & until [ -e {ready} ]; do sleep 0.1; done; {ours} dismiss {item}; touch {gate}; wait"
    with Human(stage, "sh", "-mc", line, ours=()) as human:
        human.end()
    assert answers(stage) == ["human"], human.raw


@pytest.mark.parametrize("how", ["directly", "shell", "kill"])
def test_a_masters_shell_tool_answers_nothing(stage, how):
    item = failed_task(stage)
    assert REFUSED in below_a_master(stage, how, *OURS, "dismiss", item, "--json")
    told = below_a_master(stage, how, sys.executable, "-P", "-c", PAST, item)
    assert told.split("\n")[:4] == [REFUSED] * 4
    cleared = [f"{name}={value}" for name, value in stage.env.items()]
    told = below_a_master(stage, how, "env", "-i", *cleared, sys.executable, "-P", "-c", PAST, item)
    assert told.split("\n")[:4] == [REFUSED] * 4
    assert answers(stage) == []
    assert item_of(stage) == item


def test_a_relay_that_ended_with_its_daemon_is_remembered(stage):
    """The shell tool ends the relay and the daemon, and asks the next one."""
    item = failed_task(stage)
    ours = " ".join(OURS)
    line = f"{ours} daemon stop; {ours} daemon start; {ours} dismiss {item} --json"
    assert REFUSED in below_a_master(stage, "kill", "sh", "-c", line)
    assert answers(stage) == []


@pytest.mark.parametrize("how", ["session", "setsid"])
@pytest.mark.parametrize("allowed", [False, True])
def test_what_a_master_leaves_behind_answers_nothing(stage, how, allowed):
    """`nohup ... &`, and a program that forks twice in a session of its own: nothing proves that a human started it."""
    if allowed:
        allow_masters(stage)
    item = failed_task(stage)
    told = left_by_a_master(stage, how, sys.executable, "-P", "-c", PAST, item)
    assert set(told.split("\n")[:4]) <= {REFUSED, "origin_unknown"}, told
    assert answers(stage) == []


def test_a_master_answers_where_the_users_own_configuration_says_so_and_makes_no_rule(stage):
    item = failed_task(stage)
    project = stage.root / ".agents/config.toml"
    project.write_text(project.read_text() + "approvals_master = true\n")
    stage.allow()
    assert REFUSED in below_a_master(stage, "directly", *OURS, "dismiss", item, "--json"), (
        "the project's word is none"
    )
    allow_masters(stage)
    until(
        lambda: REFUSED not in below_a_master(stage, "directly", *OURS, "dismiss", item, "--json")
    )  # it is read again
    assert answers(stage) == ["master"]
    assert REFUSED in below_a_master(stage, "directly", *OURS, "approvals", "remove", "x", "--json")


@pytest.mark.parametrize("mark", ["ORCHESTRATOR_AGENT_ID", "ORCHESTRATOR_MEMBER_ID"])
def test_the_mark_of_an_agent_or_a_member_is_enough(stage, mark):
    item = failed_task(stage)
    done = stage.cli("dismiss", item, "--json", env={**stage.env, mark: "a"})
    assert json.loads(done.stdout)["error"]["code"] == "not_for_agents"
    assert answers(stage) == []


@pytest.mark.parametrize(
    "asked", ["run-shell -b {}", "if-shell -b {} ''", "set-hook -g after-select-window 'run-shell -b {}'; tmux select-window"]
)  # fmt: skip
def test_what_tmux_runs_for_an_agent_answers_nothing(stage, asked):
    """tmux starts it, not the agent: above it is the server that was there before all agents, and no terminal."""
    boss = stage.begun()
    item = failed_task(stage, boss=boss)
    assert boss.tool("agent_create", {"name": "b", "role": "x", "engine": "shell"})["ready"]
    program, out = stage.base / "past.sh", stage.base / "told"
    env = [f"{name}={value}" for name, value in stage.env.items()]
    words = shlex.join(["env", "-i", *env, sys.executable, "-P", "-c", PAST, item])
    program.write_text(f"#!/bin/sh\ncd {stage.root}\n{words} > {out}.new 2>&1\nmv {out}.new {out}\n")
    program.chmod(0o700)
    line = f"tmux {asked.format(program)}; while [ ! -e {out} ]; do sleep 0.1; done"
    boss.tool("task_enqueue", {"agent_id": "b", "task": {"task_id": "u", "payload": {"command": line}}})
    assert set(until(lambda: out.exists() and out.read_text()).split()) == {"origin_unknown"}
    assert answers(stage) == []
    assert item_of(stage) == item


def test_a_squad_member_answers_nothing(stage):
    boss = stage.begun()
    item = failed_task(stage, boss=boss)
    roles = stage.root / ".agents/roles"
    roles.mkdir()
    (roles / "plain.md").write_text("You work.\n")
    ours = f"{' '.join(OURS)} dismiss {item} --json"
    line = f"# shell: true\nPROMPT=<%= prompt %> env -u ORCHESTRATOR_MEMBER_ID {ours}"
    other = stage.begun({**stage.env, "RUN_TEMPLATE": line})
    row = other.tool("start_squad_members", {"members": [{"roleId": "plain", "task": "x"}]})["members"][0]
    assert json.loads(row["rawStdout"])["error"]["code"] == "not_for_agents"
    assert answers(stage) == []


def test_an_unknown_item_and_a_wrong_answer_are_refused(stage):
    item = failed_task(stage)
    for words, code in (
        (("approve", "00000000"), "unknown_item"),
        (("approve", item), "cannot_answer"),
        (("approve", item, "--always"), "cannot_answer"),
        (("answer", item, "x"), "cannot_answer"),
        (("approvals", "remove", "../x"), "unknown_rule"),
    ):
        done = stage.cli(*words, "--json")
        assert (done.returncode, json.loads(done.stdout)["error"]["code"]) == (2, code), words
    assert answers(stage) == []
