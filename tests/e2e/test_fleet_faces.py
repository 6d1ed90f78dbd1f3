"""A real CLI on another host: from the home of its team run a person sees what it asks, answers it, and is notified."""

from __future__ import annotations

import json
import sys

import pytest

from orchestrator.base.errors import Environment
from orchestrator.fleet.private_cluster import running
from tests.e2e.agent import QUICK
from tests.e2e.conftest import unable
from tests.e2e.test_approvals_claude import QUESTIONS, ask, shell
from tests.e2e.test_notifications import KEEPS_STDIN
from tests.e2e.world import START_S
from tests.support.postgres import made_database
from tests.support.stage import TERMINAL, lines_of, until
from tests.support.top_terminal import Top

AGENT = "ada"


@pytest.fixture
def database():
    try:
        server = running(durable=False)
        cluster = server.__enter__()
    except Environment as error:
        unable(f"{error.message}: tools/setup.sh postgres")
    try:
        with made_database(cluster) as made:
            yield made
    finally:
        server.__exit__(None, None, None)


class Home:
    """The host of the master; ``box`` is the other one, which runs the agent."""

    def __init__(self, make_world, database, engine):
        project = database.project()
        self.world, self.box = (make_world("claude", config=QUICK) for _ in range(2))
        self.told = self.world.home / "told"
        own = self.world.home / ".config/orchestrator/config.toml"
        own.parent.mkdir(parents=True)
        argv = json.dumps([sys.executable, "-c", KEEPS_STDIN, str(self.told)])
        own.write_text(f'notify = ["command"]\nnotify_command = {argv}\n')
        for name, world in (("laptop", self.world), ("box", self.box)):
            world.env |= {
                "ORCHESTRATOR_FLEET_DSN": database.add_host(project, name),
                "ORCHESTRATOR_FLEET_PROJECT": project,
                "ORCHESTRATOR_FLEET_HOST": name,
                "ORCHESTRATOR_FLEET_ACCEPT": json.dumps({"hosts": ["laptop"], "engines": [engine]}),
            }
            done = world.orchestrator("daemon", "start")
            assert done.returncode == 0, done.stderr
        self.master = self.world.stage.begun()
        self.comes(lambda: all(host["state"] == "live" for host in self.shown("host", "list")["hosts"]))
        wishes = {"name": AGENT, "role": "tester", "engine": engine, "host": "box", "ready_wait_ms": 1000}
        made = self.master.tool("agent_create", wishes)
        assert "error" not in made, made
        self.comes(lambda: self.row().get("status") in ("idle", "parked"))

    def row(self):
        """The agent's row of the home's snapshot; empty while there is none."""
        rows = self.shown("status")["agents"]
        return rows[0] if rows else {}

    def comes(self, look):
        return until(look, START_S)

    def shown(self, *words, code=0):
        """What a command of the home answers with ``--json``."""
        done = self.world.orchestrator(*words, "--json")
        assert done.returncode == code, done.stdout + done.stderr
        return json.loads(done.stdout)

    def gives(self, task_id, call):
        task = {"task_id": task_id, "payload": {"calls": [call], "tell": True}}
        assert "error" not in self.master.tool("task_enqueue", {"agent_id": AGENT, "task": task})

    def item(self, text):
        """The item of the home's inbox with this text, awaited."""

        def look():
            return next((one for one in self.shown("inbox")["inbox"] if text in one["asked"] + one["text"]), None)

        return self.comes(look)

    def end(self, task_id):
        """The terminal event of a task, as the home has it."""

        def look():
            events = self.master.tool("events_read", {"agent_id": AGENT})["events"]
            return next((e for e in events if e.get("task_id") == task_id and e["type"] in TERMINAL), None)

        return self.comes(look)


def test_what_an_agent_of_another_host_asks_is_seen_and_answered_at_home(make_world, database):
    home = Home(make_world, database, "claude")

    # A permission, approved by the command line.
    home.gives("t1", shell("touch one"))
    asked = home.item("touch one")
    assert (asked["agent_id"], asked["tool"], asked["cwd"]) == (AGENT, "Bash", str(home.box.root))
    row = home.comes(lambda: found if (found := home.row()).get("state") == "asks" else None)
    assert (row["host"], row["needs_human"]) == ("box", True)
    # Its person is notified, with the way to the pane on the other host.
    (message,) = home.comes(lambda: lines_of(home.told))
    (notice,) = message["notices"]
    assert (notice["kind"], notice["item"], notice["host"]) == ("needs_human", asked["id"], "box")
    assert message["link"] == f"orchestrator host attach box {AGENT}"
    assert message["link"] in home.shown("why", AGENT)["next"]

    assert home.shown("approve", asked["id"])["agent_id"] == AGENT
    assert home.end("t1")["type"] == "result" and (home.box.root / "one").exists()
    assert home.shown("approve", asked["id"], code=3)["error"]["code"] == "item_over"

    # Another one is refused, with a reason that the model reads.
    home.gives("t2", shell("touch two"))
    home.shown("deny", home.item("touch two")["id"], "--reason", "use another name")
    assert "use another name" in str(home.end("t2")["payload"]["told"])
    assert not (home.box.root / "two").exists()

    # A question.
    home.gives("t3", ask(QUESTIONS[:1]))
    home.shown("answer", home.item("Which one?")["id"], "Blue")
    assert "Blue" in str(home.end("t3")["payload"]["told"])

    # In top, with the agent's screen beside it.
    top = Top(home.world.stage, width=150, height=40)
    home.gives("t4", shell("touch four"))
    home.item("touch four")
    top.shows("◐ asks", "asks to use Bash: touch four", "box", "Do you want to proceed?")
    top.press("a")
    top.shows("Enter: approve")
    top.press("Enter")
    assert home.end("t4")["type"] == "result" and (home.box.root / "four").exists()
    top.press("q")

    answered = [record for record in home.box.stage.records(AGENT) if record["type"] == "answered"]
    assert [(one["decision"], one["who"]["face"], one["who"]["acts_as"]) for one in answered] == [
        ("approve", "cli@laptop", "human"), ("deny", "cli@laptop", "human"), ("answer", "cli@laptop", "human"),
        ("approve", "top@laptop", "human"),
    ]  # fmt: skip
    assert home.shown("inbox")["inbox"] == []


def test_what_only_the_other_host_has_is_not_said_to_be_missing(make_world, database):
    home = Home(make_world, database, "shell")
    gate = home.box.root / "gate"
    task = {"task_id": "t1", "payload": {"command": f"echo begun; until test -e {gate}; do sleep 0.1; done"}}
    assert "error" not in home.master.tool("task_enqueue", {"agent_id": AGENT, "task": task})
    home.comes(lambda: "begun" in home.world.orchestrator("peek", AGENT).stdout)
    said = home.world.orchestrator("logs", AGENT).stderr
    assert "box" in said and f"orchestrator peek {AGENT}" in said
    assert f"orchestrator peek {AGENT}" in home.shown("why", AGENT)["next"]
    assert "another host" in home.shown("diff", AGENT, code=2)["error"]["message"]
    top = Top(home.world.stage, width=150, height=40)
    top.shows("begun")
    top.press("Enter")
    top.shows(f"orchestrator host attach box {AGENT}")
    top.press("q")
    gate.touch()
    assert home.end("t1")["type"] == "result"
    home.comes(
        lambda: "begun" in home.world.orchestrator("logs", AGENT).stdout
    )  # a copy, now that the task has ended
