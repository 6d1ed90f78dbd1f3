"""An agent stays an agent: whatever its shell does to look like somebody else, the daemon gives it no master's rights.

Each attack runs where it would: inside a task of a real agent's worker, in a real pane.
"""

import json
import os
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from orchestrator.edge.project_location import agent_socket
from tests.crash.raw import Raw, settled
from tests.support import squads
from tests.support.stage import ORPHAN, RELAY, Wire, alive, until

# Connects as its arguments say, calls, and leaves what it was answered. Standard library only, no module of ours.
CLIENT = r"""
import json, os, socket, sys
where, hello, calls, answer = sys.argv[1], json.loads(sys.argv[2]), json.loads(sys.argv[3]), sys.argv[4]
def leave(what):
    with open(answer + ".new", "w") as file:
        json.dump(what, file)
    os.rename(answer + ".new", answer)
sys.excepthook = lambda kind, error, _trace: leave({"tools": [repr(error)], "codes": {"failed": repr(error)}})
sock = socket.socket(socket.AF_UNIX)
sock.settimeout(60)
sock.connect(where)
lines = sock.makefile("rb")
def say(message):
    sock.sendall(json.dumps(message).encode() + b"\n")
def ask(method, params):
    ask.key += 1
    say({"jsonrpc": "2.0", "id": ask.key, "method": method, "params": params})
    while True:
        told = json.loads(lines.readline())
        if told.get("id") == ask.key and "method" not in told:
            return told
ask.key = 0
def code(told):
    error = told.get("error")
    if error is not None:
        data = error.get("data")
        return data["code"] if isinstance(data, dict) else error["code"]
    return (told["result"].get("structuredContent") or {}).get("error", {}).get("code", "done")
say({"hello": hello})
json.loads(lines.readline())
ask("initialize", {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}})
say({"jsonrpc": "2.0", "method": "notifications/initialized"})
tools = [one["name"] for one in ask("tools/list", {})["result"]["tools"]]
found = {name: code(ask(method, params)) for name, method, params in calls}
leave({"tools": tools, "codes": found})
"""
# Lets its program run without a parent of its own: the kernel hands it to init.
FORKED = "import os, sys\nif os.fork() == 0:\n    os.execvp(sys.argv[1], sys.argv[1:])\n"
AGENTS = {"agents": [{"name": name, "role": "r", "engine": "shell"} for name in ("a", "b")]}


def tool(name, /, **arguments):
    return name, "tools/call", {"name": name, "arguments": arguments}


def admin(name, /, **params):
    return f"orchestrator/{name}", f"orchestrator/{name}", params


READING = [
    tool("agent_list"), tool("agent_get", agent_id="b"), tool("events_read", agent_id="b"),
    ("outbox", "resources/read", {"uri": "agent://b/outbox"}), tool("list_roles"),
]  # fmt: skip
TASK = {"task_id": "evil", "payload": {"command": "true"}}
CHANGING = [
    tool("agent_create", name="evil", role="r"), tool("agents_create", agents=[{"name": "evil", "role": "r"}]),
    tool("task_enqueue", agent_id="b", task=TASK), tool("task_cancel", agent_id="b", task_id="kept"),
    tool("agent_restart", agent_id="b"), tool("agent_delete", agent_id="b", force=True, confirm="b"),
    tool("start_squad_members", members=[{"roleId": "coder", "task": "x"}]),
    tool("smartspawn_run_create", task="x", mode="single"), tool("smartspawn_run_cancel", run_id="x"),
    tool("smartspawn_run_list"),
]  # fmt: skip
ADMIN = [
    admin("stop"), admin("gc", apply=True, older_than_s=0), admin("fix"), admin("worktree", agent_id="b"),
    admin("squads"), admin("squad_cancel", squad_id="x"), admin("spawn_run", run_id="x"),
    admin("answer", item="x", decision="approve"), admin("snapshot", answers=True), admin("approval_rules"),
    admin("remove_approval_rule", rule="x"),
]  # fmt: skip
OF_AN_AGENT = [
    tool("wait_for_command", agent_id="b", timeout_ms=0),
    tool("emit_event", agent_id="b", type="progress", payload="evil"),
    tool("emit_event", agent_id="b", type="result", task_id="kept", payload="evil"),
]


def clean(stage):
    """An environment without any mark."""
    return ["env", "-i", *(f"{name}={value}" for name, value in stage.env.items())]


def way(stage, name):
    """What stands before a command to make its process look like somebody else's."""
    return {
        "as it is": [],
        "cleared environment": clean(stage),
        "no parent": [*clean(stage), sys.executable, "-c", FORKED],
        "no parent, no session": [*clean(stage), "setsid", "-f"],
        "no parent, twice": [*clean(stage), "setsid", "-f", sys.executable, "-c", FORKED],
    }[name]


WAYS = ["as it is", "cleared environment", "no parent", "no parent, no session", "no parent, twice"]
UNKNOWN = {"no parent, no session", "no parent, twice"}


def code_of(name):
    return "origin_unknown" if name in UNKNOWN else "not_for_agents"


class Scene:
    """Two agents; one of them holds no task and attacks, the other has one that waits."""

    def __init__(self, stage):
        self.stage = stage
        self.count = 0
        self.boss = stage.begun()
        assert self.boss.tool("agents_create", AGENTS)["ready"] == 2
        held = {"task_id": "kept", "payload": {"command": f"until [ -e {stage.base}/gate ]; do sleep 0.1; done"}}
        assert "error" not in self.boss.tool("task_enqueue", {"agent_id": "b", "task": held})
        until(lambda: "ack" in stage.types("b"))
        self.daemon = stage.daemon()
        self.socket = str(stage.run_dir() / "socket")
        self.before = self.facts()

    def facts(self):
        """What nobody but the master may change."""
        agents = self.stage.root / ".agents" / "agents"
        return (
            sorted(path.name for path in agents.iterdir() if path.is_dir()),
            [record["type"] for record in self.stage.records("b") if record["type"] != "progress"],
            [record.get("payload") for record in self.stage.records("b") if record.get("payload") == "evil"],
            len(self.stage.records("b", "inbox")),
            squads.squads_of(self.stage),
            (self.stage.run_dir() / "stopped").exists(),
        )

    def unchanged(self):
        return self.facts() == self.before and self.stage.daemon() == self.daemon and alive(self.daemon)

    def hello(self, kind="relay", **changed):
        toolsets = ["team", "squad", "smartspawn"]
        said = {"proto": 1, "conn": os.urandom(8).hex(), "project": str(self.stage.root), "kind": kind}
        return {**said, "cwd": str(self.stage.root), "toolsets": toolsets, "pids": [], **changed}

    def answer(self):
        self.count += 1
        return self.stage.base / f"answer-{self.count}"

    def client(self, calls, hello=None, where=None):
        """The command of a direct connection, and the file in which it leaves its answers."""
        answer = self.answer()
        hello = self.hello() if hello is None else hello
        words = [where or self.socket, json.dumps(hello), json.dumps(calls), str(answer)]
        return [sys.executable, "-c", CLIENT, *words], answer

    def line(self, *args):
        """A command of the plain command line, and the file in which it leaves exit status and words."""
        answer = self.answer()
        command = shlex.join([sys.executable, "-P", "-m", "orchestrator", *args, "--json"])
        script = f'out=$({command} 2>&1); echo "$? $out" > {answer}.new; mv {answer}.new {answer}'
        return ["sh", "-c", script], answer

    def run(self, command, before=(), agent="a", until=None, boss=None):
        """Let an agent run a command, and wait for the file that it leaves: what a task leaves running is ended."""
        self.count += 1
        whole = shlex.join([*before, *command])
        if until is not None:
            whole += f"; until [ -e {until} ]; do sleep 0.05; done"
        task = {"task_id": f"t-{self.count}", "payload": {"command": whole}}
        assert "error" not in (boss or self.boss).tool("task_enqueue", {"agent_id": agent, "task": task})

    def told(self, answer):
        return json.loads(until(lambda: answer.exists() and answer.read_text()))


@pytest.fixture(scope="module")
def scene(shared_stage):
    scene = Scene(shared_stage)
    yield scene
    assert scene.unchanged()
    Path(f"{shared_stage.base}/gate").touch()


# -- directly ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", WAYS)
@pytest.mark.parametrize("kind", ["relay", "cli"])
def test_an_agent_that_connects_by_itself_changes_nothing(scene, name, kind):
    calls = [*CHANGING, *OF_AN_AGENT, *(ADMIN if kind == "cli" else [])]
    command, answer = scene.client(calls, scene.hello(kind))
    scene.run(command, way(scene.stage, name), until=answer)
    told = scene.told(answer)
    own = {one[0] for one in OF_AN_AGENT}
    codes = {call: code for call, code in told["codes"].items() if call not in own}
    assert set(codes.values()) == {code_of(name)}, codes
    assert {told["codes"][one] for one in own} <= {"unknown_tool", "not_for_agents"}
    assert not {"agent_create", "task_enqueue", "smartspawn_run_list"}.intersection(told["tools"])
    assert scene.unchanged()


@pytest.mark.parametrize("name", WAYS)
def test_who_comes_from_nobody_knows_where_may_look_and_who_comes_from_an_agent_may_not(scene, name):
    command, answer = scene.client([*READING, admin("status")], scene.hello("cli"))
    scene.run(command, way(scene.stage, name), until=answer)
    codes = scene.told(answer)["codes"]
    if name in UNKNOWN:
        assert set(codes.values()) == {"done"}, codes
    else:
        assert set(codes.values()) == {"not_for_agents", -32601}, codes
    assert scene.unchanged()


def test_a_name_of_processes_that_are_no_agents_gives_no_rights(scene):
    outside = [os.getpid(), os.getppid()]
    command, answer = scene.client(CHANGING, scene.hello(pids=outside, tty="/dev/tty1", agent=None))
    scene.run(command, clean(scene.stage))
    assert set(scene.told(answer)["codes"].values()) == {"not_for_agents"}
    assert scene.unchanged()


def test_an_agents_process_among_those_that_a_hello_names_still_takes_the_rights_away(scene):
    (pid,) = [one["pid"] for one in launches(scene) if one["agent"] == "a"]
    with Raw(scene.stage, pids=[pid]) as raw:
        raw.begin()
        listed = raw.answer(raw.ask("tools/list"))
    assert listed["result"]["tools"] == []


def test_the_hook_of_an_unknown_process_is_never_held(scene):
    answer = scene.answer()
    script = (
        "import json, socket, sys\n"
        "sock = socket.socket(socket.AF_UNIX); sock.settimeout(60); sock.connect(sys.argv[1])\n"
        'sock.sendall(sys.argv[2].encode() + b\'\\n{"event": "Stop", "session": "s"}\\n\')\n'
        "lines = sock.makefile('rb'); lines.readline()\n"
        "word = lines.readline().decode()\n"
        "open(sys.argv[3] + '.new', 'w').write(word)\n"
        "import os; os.rename(sys.argv[3] + '.new', sys.argv[3])\n"
    )
    hello = json.dumps({"hello": scene.hello("hook")})
    command = [sys.executable, "-c", script, scene.socket, hello, str(answer)]
    scene.run(command, way(scene.stage, "no parent, twice"), until=answer)
    assert scene.told(answer) == {"answer": "none"}


# -- by the command line -------------------------------------------------------------------------------------------

COMMANDS = [
    ("daemon", "stop"), ("daemon", "start"), ("daemon", "restart"), ("agent", "delete", "b", "--force", "--yes"),
    ("agent", "create", "evil", "--role", "r"), ("task", "add", "b", "true"), ("task", "cancel", "b", "kept"),
    ("gc", "--apply", "--older-than", "0"), ("down", "--force", "--yes", "--stop-daemon"), ("doctor", "--fix"),
    ("setup", "gemini"), ("gsd", "index"), ("squad", "cancel", "x"), ("spawn", "cancel", "x"),
    ("worktree", "remove", "b"), ("daemon", "run", "--set", "log_level=debug"),
    ("approve", "x"), ("deny", "x"), ("answer", "x", "y"), ("release", "x"), ("dismiss", "x"),
    ("approvals", "remove", "x"),
]  # fmt: skip


@pytest.mark.parametrize("name", WAYS)
def test_the_command_line_changes_nothing_from_inside_an_agent(scene, name):
    left = {}
    for args in COMMANDS:
        if name in UNKNOWN and args[:2] == ("daemon", "run"):
            continue  # a service may be started anew at any time; a second daemon is refused in any case
        command, answer = scene.line(*args)
        scene.run(command, way(scene.stage, name), until=answer)
        left[args] = answer
    for args, answer in left.items():
        status, _, words = until(lambda answer=answer: answer.exists() and answer.read_text()).partition(" ")
        assert (status, code_of(name) in words) == ("2", True), (args, words)
        assert "Traceback" not in words
    assert not (scene.stage.home / ".gemini").exists()
    assert scene.unchanged()


# -- as another agent ----------------------------------------------------------------------------------------------


def stolen(stage, agent_id):
    path = stage.root / ".agents" / "agents" / agent_id / "engine" / "launch.json"
    return json.loads(path.read_text())


@pytest.mark.parametrize("door", ["the project's socket", "the other's own socket", "its own socket"])
@pytest.mark.parametrize("name", ["as it is", "the other's environment", "no parent"])
def test_an_agent_with_anothers_secret_does_not_speak_as_that_one(scene, name, door):
    launch = stolen(scene.stage, "b")
    claim = {"id": "b", "epoch": launch["epoch"], "secret": launch["secret"]}
    where = {
        "the project's socket": scene.socket,
        "the other's own socket": str(scene.stage.run_dir() / agent_socket("b")),
        "its own socket": str(scene.stage.run_dir() / agent_socket("a")),
    }[door]
    calls = [*OF_AN_AGENT, *CHANGING[:6]]
    command, answer = scene.client(calls, scene.hello(agent=claim, toolsets=["agent"]), where)
    others = ["env", "-i", *(f"{key}={value}" for key, value in launch["env"].items())]
    before = {"as it is": [], "the other's environment": others, "no parent": way(scene.stage, "no parent")}[name]
    scene.run(command, before, until=answer)
    told = scene.told(answer)
    assert told["tools"] == []
    assert set(told["codes"].values()) == {"not_an_agent"}
    assert scene.unchanged()


def test_an_agent_with_its_own_secret_changes_nothing_of_another(scene):
    launch = stolen(scene.stage, "a")
    claim = {"id": "a", "epoch": launch["epoch"], "secret": launch["secret"]}
    hello = scene.hello("cli", agent=claim)
    for where in (scene.socket, str(scene.stage.run_dir() / agent_socket("a"))):
        command, answer = scene.client([*OF_AN_AGENT, *CHANGING, *ADMIN, *READING[:3]], hello, where)
        scene.run(command)
        told = scene.told(answer)
        assert told["tools"] == ["wait_for_command", "emit_event"]
        codes = dict(told["codes"])
        assert {codes.pop(one[0]) for one in OF_AN_AGENT[:2]} == {"not_an_agent"}
        assert {codes.pop(one[0]) for one in ADMIN} == {"not_for_agents"}
        assert set(codes.values()) == {"unknown_tool"}
    assert scene.unchanged()


@pytest.mark.parametrize("kind", ["relay", "cli", "hook", "look"])
def test_an_agents_own_socket_is_for_that_agent_alone(scene, kind):
    """Also for who may do everything on the project's."""
    place = scene.stage.run_dir() / agent_socket("b")
    with Raw(scene.stage, place=place, kind=kind, toolsets=["team", "squad"]) as raw:
        if kind == "hook":
            assert raw.line()["hello"]["proto"] == 1
            raw.send_line({"event": "Stop", "session": "s"})
            assert raw.line() == {"answer": "none"}
            return
        raw.begin()
        assert raw.answer(raw.ask("tools/list"))["result"]["tools"] == []
        called = raw.answer(raw.ask("tools/call", {"name": "agent_list", "arguments": {}}))
        assert called["result"]["structuredContent"]["error"]["code"] == "not_an_agent"
        if kind == "cli":
            refused = raw.answer(raw.ask("orchestrator/stop"))
            assert refused["error"]["data"]["code"] == "not_an_agent"
    assert scene.unchanged()


# -- others that are no masters ------------------------------------------------------------------------------------


@pytest.mark.parametrize("daemon", ["the same daemon", "the next daemon"])
def test_what_outlives_its_agents_cli_is_no_master(make_stage, daemon):
    """Its ancestors are gone, its environment says nothing: its session is still that of the agent."""
    scene = Scene(make_stage())
    stage = scene.stage
    gate, left = stage.base / "c-gate", stage.base / "c-left"
    command, answer = scene.client([*CHANGING, *ADMIN], scene.hello("cli"))
    waits = f"trap '' HUP TERM; echo $$ > {left}; until [ -e {gate} ]; do sleep 0.1; done; {shlex.join(command)}"
    cli = f"{shlex.join([*clean(stage), 'sh', '-c', waits])} & sleep 1000"
    asked = {"name": "c", "role": "r", "engine": "command", "command": ["sh", "-c", cli], "ready_wait_ms": 0}
    made = scene.boss.tool("agent_create", {**asked, "policies": {"restart": "never"}})
    assert "error" not in made, made
    until(left.exists)
    (pid,) = [one["pid"] for one in launches(scene) if one["agent"] == "c"]
    os.kill(pid, signal.SIGKILL)
    until(lambda: "exited" in stage.types("c"))
    if daemon == "the next daemon":
        stage.kill_daemon()
        scene.daemon = until(stage.daemon)
    scene.before = scene.facts()
    gate.touch()
    assert set(scene.told(answer)["codes"].values()) == {"not_for_agents"}
    assert scene.unchanged()
    Path(f"{stage.base}/gate").touch()


@pytest.mark.parametrize("name", WAYS)
def test_an_agent_of_another_project_of_the_same_user_leads_nobody(scene, elsewhere, name):
    command, answer = scene.client([*CHANGING, *ADMIN], scene.hello("cli"))
    scene.run(command, way(elsewhere, name), until=answer, boss=elsewhere.wires[0])
    codes = scene.told(answer)["codes"]
    assert set(codes.values()) == {code_of(name)}, codes
    assert scene.unchanged()


@pytest.fixture(scope="module")
def elsewhere(own_world, scene):
    from tests.conftest import _new, close_all

    other = _new(own_world, "", "project")
    other.env["ORCHESTRATOR_STATE_DIR"] = scene.stage.env["ORCHESTRATOR_STATE_DIR"]  # it is the user's
    boss = other.begun()
    assert boss.tool("agent_create", {"name": "a", "role": "r", "engine": "shell"})["ready"]
    yield other
    close_all([other])


@pytest.mark.parametrize("name", WAYS)
def test_a_squad_member_leads_nobody(scene, name):
    stage = scene.stage
    squads.role(stage)
    command, answer = scene.client([*CHANGING, *ADMIN], scene.hello("cli"))
    script = stage.base / f"member-{scene.count}.sh"
    script.write_text(
        f"#!/bin/sh\n{shlex.join([*way(stage, name), *command])}\nuntil [ -e {answer} ]; do sleep 0.05; done\n"
    )
    script.chmod(0o755)
    env = {**stage.env, "ENGINE_COMMAND": str(script), "RUN_TEMPLATE": squads.RUN}
    wire = stage.begun(env)
    answered = squads.start(wire, "do it", wait_ms=60_000)
    assert "error" not in answered, answered
    codes = scene.told(answer)["codes"]
    assert set(codes.values()) == {code_of(name)}, codes
    scene.before = (*scene.before[:4], squads.squads_of(stage), *scene.before[5:])
    assert scene.unchanged()


# -- and what must work works --------------------------------------------------------------------------------------


@pytest.mark.tmux
def test_a_human_in_a_pane_leads_by_the_command_line(scene):
    stage, answer = scene.stage, scene.answer()
    pane = stage.server.start(session=f"human-{scene.count}")
    command = shlex.join([*RELAY[:-1], "task", "cancel", "a", "nothing-of-that-name", "--json"])
    script = f'out=$({command} 2>&1); echo "$? $out" > {answer}.new; mv {answer}.new {answer}'
    words = [*clean(stage), "sh", "-c", script]
    stage.server.run("respawn-pane", "-k", "-t", pane, "-c", str(stage.root), "--", *words)
    told = until(lambda: answer.exists() and answer.read_text())
    assert "unknown_task" in told, told


@pytest.mark.parametrize("name", ["below sh -c", "cleared environment", "a session of its own"])
def test_the_relay_of_a_cli_in_a_terminal_is_a_masters(scene, name):
    stage = scene.stage
    before = {
        "below sh -c": ["sh", "-c", '"$@"; exit $?', "sh"],
        "cleared environment": clean(stage),
        "a session of its own": [sys.executable, "-c", "import os, sys; os.setsid(); os.execvp(sys.argv[1], sys.argv[1:])"],
    }[name]  # fmt: skip
    # As a child, and not in the CLI's own place: only so it can leave the session.
    pid_file = stage.base / f"cli-{scene.answer().name}.pid"
    command = [sys.executable, "-I", "-S", "-c", ORPHAN, str(pid_file), *before, *RELAY]
    wire = Wire(command, stage.env, stage.root, stage.base / "stderr")
    stage.wires.append(wire)
    wire.begin()
    asked = {"agent_id": "a", "task_id": "nothing-of-that-name"}
    assert wire.tool("task_cancel", asked)["error"]["code"] == "unknown_task"


def orphan(stage, name):
    """A process without parent, session and terminal; it waits, then asks for what only a master may."""
    calls = [tool("task_cancel", agent_id="a", task_id="nothing-of-that-name")]
    hello = {"proto": 1, "conn": os.urandom(8).hex(), "project": str(stage.root), "kind": "relay", "pids": []}
    gate, answer = stage.base / f"gate-{name}", stage.base / f"answer-{name}"
    os.mkfifo(gate)
    words = [
        str(stage.run_dir() / "socket"),
        json.dumps({**hello, "cwd": "/", "toolsets": ["team"]}),
        json.dumps(calls),
    ]
    wait = ["sh", "-c", 'touch "$0.up"; read -r _ < "$0"; exec "$@"', str(gate)]
    before = [*way(stage, "no parent, twice"), *wait]
    subprocess.run([*before, sys.executable, "-c", CLIENT, *words, str(answer)], check=True)
    until(Path(f"{gate}.up").exists)
    return gate, answer


def test_an_orphan_without_a_terminal_leads_only_if_it_is_older_than_every_agent(make_stage):
    stage = make_stage()
    older = orphan(stage, "older")
    assert stage.begun().tool("agents_create", AGENTS)["ready"] == 2
    codes = []
    for gate, answer in (older, orphan(stage, "younger")):
        gate.write_text("go\n")
        codes += json.loads(until(lambda answer=answer: answer.exists() and answer.read_text()))["codes"].values()
    assert codes == ["unknown_task", "origin_unknown"]


def test_agents_come_by_their_own_sockets_also_to_the_next_daemon(make_stage):
    stage = make_stage()
    boss = stage.begun()
    assert boss.tool("agents_create", AGENTS)["ready"] == 2
    places = {name: stage.run_dir() / agent_socket(name) for name in ("a", "b")}
    for place in places.values():
        assert place.is_socket()
        assert place.stat().st_mode & 0o777 == 0o600
        until(lambda place=place: connected(place) == 1)
    stage.kill_daemon()
    for name in ("a", "b"):
        task = {"task_id": f"after-{name}", "payload": {"command": "true"}}
        assert "error" not in boss.tool("task_enqueue", {"agent_id": name, "task": task})
        until(lambda name=name: "result" in stage.types(name))
    # The sockets of the killed daemon were replaced: whoever comes now is served there.
    launch = stolen(stage, "a")
    claim = {"id": "a", "epoch": launch["epoch"], "secret": launch["secret"]}
    with Raw(stage, place=places["a"], agent=claim, toolsets=["agent"]) as raw:
        raw.begin()
        assert len(raw.answer(raw.ask("tools/list"))["result"]["tools"]) == 2
    for name, place in places.items():
        assert boss.tool("agent_delete", {"agent_id": name, "force": True, "confirm": name})["ok"]
        assert not place.exists()


def test_an_own_socket_that_somebody_removed_is_opened_again(make_stage):
    stage = make_stage()
    boss = stage.begun()
    assert boss.tool("agent_create", {"name": "a", "role": "r", "engine": "shell"})["ready"]
    place = stage.run_dir() / agent_socket("a")
    place.unlink()
    until(place.is_socket)
    assert boss.tool("agent_delete", {"agent_id": "a", "force": True, "confirm": "a"})["ok"]


def test_a_daemon_that_is_started_anew_knows_the_agents_of_its_boot(make_stage):
    """The CLI is gone, the daemon that saw it too: the file of launches tells whose session it was."""
    stage = make_stage()
    scene = Scene(stage)
    gate, left = stage.base / "late", stage.base / "left"
    command, answer = scene.client([*CHANGING, *ADMIN], scene.hello("cli"))
    waits = f"trap '' HUP TERM; echo $$ > {left}; until [ -e {gate} ]; do sleep 0.1; done; {shlex.join(command)}"
    scene.run(["sh", "-c", waits], way(stage, "no parent, twice"), until=answer)
    until(left.exists)
    assert scene.boss.tool("agent_delete", {"agent_id": "a", "force": True, "confirm": "a"})["ok"]
    stage.kill_daemon()
    until(stage.daemon)
    scene.daemon, scene.before = stage.daemon(), scene.facts()
    gate.touch()
    assert set(scene.told(answer)["codes"].values()) == {"origin_unknown"}
    assert scene.unchanged()
    (stage.base / "gate").touch()


def test_agents_that_come_and_go_leave_no_descriptor(make_stage):
    stage = make_stage("overflow = 'window'\n")
    boss = stage.begun()
    daemon = settled(psutil.Process(until(stage.daemon)))
    before = 0
    for _ in range(3):
        assert boss.tool("agents_create", AGENTS)["ready"] == 2
        for row in boss.tool("agent_list", {})["agents"]:
            asked = {"agent_id": row["agent_id"], "force": True, "confirm": row["agent_id"]}
            assert boss.tool("agent_delete", asked)["ok"]
        until(lambda: not list(stage.run_dir().glob("a?????")))
        if before:
            until(lambda most=before: daemon.num_fds() <= most)
        before = before or daemon.num_fds()


def connected(place):
    """How many connections the daemon serves at a socket."""
    rows = [row.split() for row in Path("/proc/net/unix").read_text().splitlines()]
    return sum(row[5] == "03" and row[7:] == [str(place)] for row in rows)


def launches(scene):
    (place,) = Path(scene.stage.env["ORCHESTRATOR_STATE_DIR"], "launched").iterdir()
    found = [json.loads(line) for line in place.read_text().splitlines()]
    return [one for one in found if one.get("project") == str(scene.stage.root)]
