"""The team file: what it may say, how an error names the key, and the plan that brings a living team to it."""

import json
import tomllib

import jsonschema
import pytest

from orchestrator.base.errors import BadRequest, Conflict, Corrupt
from orchestrator.cli import team as cli
from orchestrator.team.life.agent_plan import POLICIES
from orchestrator.team.models import AgentPolicies as ToolPolicies
from orchestrator.team.models import NewAgent
from orchestrator.team.roster import team_file
from orchestrator.team.roster.team_file import Policies
from orchestrator.team.roster.team_plan import TeamStep, plan

BUILDER = '[agents.builder]\nrole = "builds"\n'


@pytest.fixture
def root(tmp_path):
    (tmp_path / "src").mkdir()
    return tmp_path


def load(root, text):
    (root / "team.toml").write_text(text)
    return team_file.load(root / "team.toml", root)


def one(root, text=BUILDER):
    (wanted,) = load(root, text)
    return wanted


# -- the file -------------------------------------------------------------------------------------------------------


def test_an_agent_says_less_than_everything_and_gets_the_defaults(root):
    first, second = load(
        root,
        '[defaults]\nengine = "claude"\nmodel = "opus"\napproval = "edits"\ncwd = "src"\nenv = {A = "1", B = "2"}\n'
        "policies = {restart = 'never', max_attempts = 4}\nworktree = true\n"
        f'{BUILDER}env = {{B = "3"}}\npolicies = {{max_attempts = 1}}\n'
        '[agents."the tester"]\nrole = "tests"\nengine = "shell"\nmodel = ""\ncwd = "."\nworktree = false\n',
    )
    assert (first.name, first.role, first.engine, first.model, first.approval) == (
        "builder", "builds", "claude", "opus", "edits",
    )  # fmt: skip
    assert first.cwd == str(root / "src")
    assert (first.env, first.policies) == ({"A": "1", "B": "3"}, {"restart": "never", "max_attempts": 1})
    assert first.worktree
    assert (second.name, second.engine, second.model, second.cwd, second.worktree) == (
        "the tester", "shell", None, str(root), False,
    )  # fmt: skip


def test_what_is_not_said_is_left_to_the_daemon(root):
    assert one(root).arguments({}) == {"name": "builder", "role": "builds", "cwd": str(root)}


def test_what_is_said_is_what_agents_create_takes(root):
    wanted = one(
        root,
        f'{BUILDER}engine = "command"\nmodel = "m"\napproval = "all"\ncwd = "src"\ncommand = ["x", "{{prompt}}"]\n'
        'env = {K = "v"}\npolicies = {restart = "always", stall_after_s = 5}\n',
    )
    NewAgent.model_validate(wanted.arguments({}))
    assert one(root, f"{BUILDER}worktree = true\n").arguments({})["worktree"] is True


@pytest.mark.parametrize(
    ("text", "filled"),
    [("$HERE", "h"), ("a-${HERE}-b", "a-h-b"), ("$$HERE", "$HERE"), ("plain", "plain"), ("", "")],
)
def test_a_value_of_env_may_name_variables_of_the_caller(root, text, filled):
    wanted = one(root, f"{BUILDER}env = {{K = {json.dumps(text)}}}\n")
    assert wanted.arguments({"HERE": "h"})["env"] == {"K": filled}


@pytest.mark.parametrize("text", ["$AWAY", "x${AWAY}", "5 $", "${", "$1"])
def test_a_variable_that_is_not_set_is_an_error_that_names_agent_and_key(root, text):
    with pytest.raises(BadRequest) as refused:
        one(root, f"{BUILDER}env = {{K = {json.dumps(text)}}}\n").arguments({"HERE": "h"})
    assert refused.value.code == "bad_config"
    assert refused.value.facts["key"] == "agents.builder.env.K"


@pytest.mark.parametrize(
    ("text", "key", "near"),
    [
        (f'{BUILDER}enginee = "shell"\n', "agents.builder.enginee", "'engine'"),
        (f'{BUILDER}[agents.builder.policies]\nrestarts = "never"\n', "agents.builder.policies.restarts", "'restart'"),
        (f'[default]\nengine = "shell"\n{BUILDER}', "default", "'defaults'"),
        (f'[defaults]\nrole = "x"\n{BUILDER}', "defaults.role", "model"),
        (f'[defaults]\nmodelx = "x"\n{BUILDER}', "defaults.modelx", "'model'"),
        (f'{BUILDER}engine = "shel"\n', "agents.builder.engine", "'shell'"),
        ("[agents.builder]\n", "agents.builder.role", "role"),
        ("", "agents", "agents.NAME"),
        ("[agents]\n", "agents", ""),
        (f'{BUILDER}approval = "yes"\n', "agents.builder.approval", ""),
        (f'{BUILDER}cwd = "../away"\n', "agents.builder.cwd", ""),
        (f'{BUILDER}cwd = "/"\n', "agents.builder.cwd", ""),
        (f'{BUILDER}command = "make"\n', "agents.builder.command", ""),
        (f"{BUILDER}env = {{K = 1}}\n", "agents.builder.env.K", ""),
        (f'{BUILDER}worktree = "yes"\n', "agents.builder.worktree", ""),
        (f"{BUILDER}policies = {{max_restarts = -1}}\n", "agents.builder.policies.max_restarts", ""),
        (f"{BUILDER}policies = {{max_restarts = true}}\n", "agents.builder.policies.max_restarts", ""),
        ('[agents."+++"]\nrole = "r"\n', "agents.+++", ""),
        (f'[agents.{"n" * 81}]\nrole = "r"\n', f"agents.{'n' * 81}", ""),
        ("".join(f'[agents.a{n}]\nrole = "r"\n' for n in range(65)), "agents", ""),
    ],
)  # fmt: skip
def test_a_wrong_file_is_refused_with_file_key_and_what_is_near(root, text, key, near):
    with pytest.raises(BadRequest) as refused:
        load(root, text)
    assert refused.value.code == "bad_config"
    assert refused.value.facts["file"] == str(root / "team.toml")
    assert refused.value.facts["key"] == key
    assert near in refused.value.next_step
    assert key.removeprefix("agents.") in refused.value.message


def test_all_mistakes_of_a_file_are_told_at_once_each_with_its_key(root):
    text = f"""[defaults]
modelx = "x"
{BUILDER}engine = "cluade"
policies = {{restarts = "never"}}
[agents.other]
approvalx = "ask"
"""
    with pytest.raises(BadRequest) as refused:
        load(root, text)
    head, *lines = refused.value.message.splitlines()
    assert head.endswith("has 5 mistakes:")
    said = [("defaults.modelx", "'model'"), ("builder.engine", "'claude'"), ("policies.restarts", "'restart'"),
            ("other.role", "role ="), ("other.approvalx", "'approval'")]  # fmt: skip
    assert len(lines) == len(said)
    for key, near in said:
        assert [line for line in lines if key in line and near in line], (key, lines)
    two_away = "".join(f'[agents.{name}]\nrole = "r"\ncwd = "../{name}"\n' for name in ("a", "b"))
    with pytest.raises(BadRequest) as refused:
        load(root, two_away)
    assert "agents.a.cwd" in refused.value.message and "agents.b.cwd" in refused.value.message


def test_a_key_cannot_command_the_terminal(root):
    with pytest.raises(BadRequest) as refused:
        load(root, '[agents."a\\u001b[2J\\u0085"]\nx = 1\n')
    assert all(line.isprintable() for line in refused.value.message.splitlines())


def test_a_file_of_many_mistakes_names_the_first_twenty(root):
    with pytest.raises(BadRequest) as refused:
        load(root, BUILDER + "".join(f"x{n} = 1\n" for n in range(30)))
    assert refused.value.message.splitlines()[-1] == "  and 10 more"


@pytest.mark.parametrize(("text", "line"), [("[agents\n", 1), (f"{BUILDER}role = 'again'\n", 3), ("\n\nx = \n", 3)])
def test_what_is_no_toml_is_refused_with_its_line(root, text, line):
    with pytest.raises(BadRequest) as refused:
        load(root, text)
    assert (refused.value.code, refused.value.facts["line"]) == ("bad_config", line)


def test_a_file_that_is_not_there_or_cannot_be_read_is_told(root):
    for path in (root / "no.toml", root / "src"):
        with pytest.raises(BadRequest) as refused:
            team_file.load(path, root)
        assert refused.value.code == "bad_config"
        assert str(path) in refused.value.message


def test_the_policies_are_those_of_the_tool_and_of_the_configuration():
    assert set(Policies.model_fields) == {*POLICIES, "on_host_lost"}
    ours, theirs = (
        {
            key: {k: v for k, v in field.items() if k not in ("title", "description", "class")}
            for key, field in model.items()
        }
        for model in (
            Policies.model_json_schema()["properties"],
            ToolPolicies.model_json_schema()["properties"],
        )
    )
    assert ours == theirs


def test_the_schema_takes_what_is_taken_and_refuses_what_is_refused():
    schema = jsonschema.Draft202012Validator(team_file.TeamFile.model_json_schema())
    good = tomllib.loads(f"[defaults]\nengine = 'shell'\n{BUILDER}policies = {{max_restarts = 1}}\n")
    assert schema.is_valid(good)
    assert not schema.is_valid(good | {"agent": {}})
    assert not schema.is_valid({"agents": {}})
    assert not schema.is_valid({"agents": {"a": {}}})


# -- the plan -------------------------------------------------------------------------------------------------------


def meta(root, name="builder", agent_id=None, **more):
    return {
        "agent_id": agent_id or name, "name": name, "role": "builds", "engine": "shell", "status": "idle", "model": None,
        "approval": "ask", "cwd": str(root), "command": None, "policies": {"restart": "on-failure", "max_restarts": 3},
        "env_names": [], "queue_depth": 0, "running_task_id": None, "created_at": "2026-01-01T00:00:00.000Z",
    } | more  # fmt: skip


def test_what_is_missing_is_made_and_what_is_there_is_kept(root):
    described = load(root, f'{BUILDER}[agents.tester]\nrole = "tests"\n')
    assert plan(described, [meta(root)], root) == [
        TeamStep("builder", "keep", "builder"),
        TeamStep("tester", "create"),
    ]
    assert plan(described, [], root) == [TeamStep("builder", "create"), TeamStep("tester", "create")]


def test_an_agent_is_known_by_its_name_for_ids_have_suffixes(root):
    described = load(root, BUILDER)
    assert plan(described, [meta(root, agent_id="builder-2")], root) == [TeamStep("builder", "keep", "builder-2")]
    assert plan(described, [meta(root, name="other", agent_id="builder")], root) == [
        TeamStep("builder", "create"), TeamStep("other", "leave", "builder"),
    ]  # fmt: skip


@pytest.mark.parametrize("status", ["failed", "exited"])
def test_what_has_failed_or_exited_is_launched_again(root, status):
    assert plan(load(root, BUILDER), [meta(root, status=status)], root) == [TeamStep("builder", "restart", "builder")]


@pytest.mark.parametrize("status", ["starting", "idle", "parked", "busy", "blocked", "stalled", "unknown"])
def test_what_lives_is_kept(root, status):
    assert plan(load(root, BUILDER), [meta(root, status=status)], root) == [TeamStep("builder", "keep", "builder")]


def test_one_that_is_ending_is_waited_for_and_made_anew(root):
    assert plan(load(root, BUILDER), [meta(root, status="stopping")], root) == [
        TeamStep("builder", "create", "builder")
    ]


def test_of_several_of_one_name_a_working_one_is_it_by_its_exact_id_else_the_newest(root):
    old = meta(root, agent_id="b", status="failed", created_at="2026-01-09T00:00:00.000Z")
    young = meta(root, agent_id="b-2", created_at="2026-01-02T00:00:00.000Z")
    younger = meta(root, agent_id="b-3", created_at="2026-01-03T00:00:00.000Z")
    for living in ([old, young, younger], [younger, young, old]):
        steps = plan(load(root, BUILDER), living, root)
        assert steps[0] == TeamStep("builder", "keep", "b-3")
        assert {(step.do, step.agent_id) for step in steps[1:]} == {("leave", "b"), ("leave", "b-2")}
    exact = meta(root, agent_id="builder", created_at="2026-01-01T00:00:00.000Z")
    assert plan(load(root, BUILDER), [young, exact], root)[0] == TeamStep("builder", "keep", "builder")


DIFFERENT = [
    ("role", 'role = "other"', {}),
    ("engine", 'engine = "claude"', {}),
    ("model", 'model = "opus"', {}),
    ("model", "", {"model": "opus"}),
    ("approval", 'approval = "all"', {}),
    ("cwd", 'cwd = "src"', {}),
    ("env", 'env = {K = "v"}', {}),
    ("env", "", {"env_names": ["K"]}),
    ("policies.max_restarts", "policies = {max_restarts = 1}", {}),
    ("policies.max_attempts", "policies = {max_attempts = 1}", {}),
    ("command", 'command = ["x"]', {"engine": "command", "command": ["y"]}),
    ("host", 'host = "box"', {}),
    ("host", 'host = "any"', {}),
    ("host", 'host = "box"', {"host": "gpu"}),
    ("host", "", {"host": "box"}),
    ("cwd", 'host = "box"\ncwd = "src"', {"host": "box"}),
    ("policies.on_host_lost", 'host = "box"\npolicies = {on_host_lost = "move"}', {"host": "box"}),
    ("worktree", "worktree = true", {}),
    ("worktree", "", {"worktree": {"path": "{root}/.agents/worktrees/b"}, "cwd": "{root}/.agents/worktrees/b"}),
]


def agent_table(text):
    return f"[agents.builder]\n{text}\n" if text.startswith("role") else f"{BUILDER}{text}\n"


@pytest.mark.parametrize(("key", "text", "there"), DIFFERENT)
def test_what_differs_is_told_and_changed_only_when_asked(root, key, text, there):
    there = json.loads(json.dumps(there).replace("{root}", str(root)))
    described, living = load(root, agent_table(text)), [meta(root, **there)]
    (step,) = plan(described, living, root)
    assert (step.do, [line.split(" ")[0] for line in step.differs]) == ("keep", [key])
    (step,) = plan(described, living, root, recreate=True)
    assert (step.do, step.agent_id) == ("recreate", "builder")


@pytest.mark.parametrize(
    ("text", "there"),
    [
        ("", {"engine": "claude", "approval": "all", "policies": {"restart": "always"}}),
        ("", {"engine": "command", "command": ["configured"]}),
        ('command = ["x"]', {}),
        ('host = "any"', {"host": "box"}),
        ('host = "box"\ncwd = "src"', {"host": "box", "cwd": "/of/that/host/src"}),
        ('env = {B = "1", A = "2"}', {"env_names": ["A", "B"]}),
        ("policies = {max_restarts = 3}", {}),
        ("policies = {stall_after_s = 300}", {"policies": {"stall_after_s": 300.0}}),
        (
            "worktree = true",
            {"worktree": {"path": "{root}/.agents/worktrees/b"}, "cwd": "{root}/.agents/worktrees/b"},
        ),
        (
            'worktree = true\ncwd = "src"',
            {"worktree": {"path": "{root}/.agents/worktrees/b"}, "cwd": "{root}/.agents/worktrees/b/src"},
        ),
    ],
)
def test_what_the_file_leaves_open_is_not_compared(root, text, there):
    there = json.loads(json.dumps(there).replace("{root}", str(root)))
    (step,) = plan(load(root, agent_table(text)), [meta(root, **there)], root, recreate=True)
    assert step == TeamStep("builder", "keep", "builder")


@pytest.mark.parametrize("busy", [{"queue_depth": 1}, {"running_task_id": "t-1"}])
def test_nothing_with_unfinished_tasks_is_ended_without_force(root, busy):
    described = load(root, f'{BUILDER}model = "m"\n')
    living = [meta(root, **busy), meta(root, name="extra", **busy)]
    mine, extra = plan(described, living, root, recreate=True, prune=True)
    assert (mine.do, extra.do) == ("refuse", "refuse")
    assert "unfinished" in mine.why
    assert "unfinished" in extra.why
    mine, extra = plan(described, living, root, recreate=True, prune=True, force=True)
    assert (mine.do, extra.do) == ("recreate", "end")


def test_what_is_not_described_is_left_alone_unless_pruned(root):
    living = [meta(root), meta(root, name="extra"), meta(root, name="going", status="stopping")]
    assert [step.do for step in plan(load(root, BUILDER), living, root)] == ["keep", "leave", "leave"]
    assert [step.do for step in plan(load(root, BUILDER), living, root, prune=True)] == ["keep", "end", "leave"]


def test_an_agent_whose_files_cannot_be_trusted_is_neither_made_twice_nor_ended(root):
    bad = {"agent_id": "builder", "name": "builder", "status": "failed", "unreadable": "line 3 is bad"}
    (step,) = plan(load(root, BUILDER), [bad], root, recreate=True, prune=True, force=True)
    assert (step.do, step.why) == ("refuse", "line 3 is bad")
    other = {**bad, "agent_id": "x", "name": "x"}
    assert [s.do for s in plan(load(root, BUILDER), [other], root, prune=True)] == ["create", "refuse"]


# -- carrying it out ------------------------------------------------------------------------------------------------


class FakeLink:
    """A daemon's tools over a dict of metas; what was called, in order. ``fail``: tool -> error."""

    def __init__(self, *metas, **fail):
        self.metas, self.fail, self.calls = {one["agent_id"]: one for one in metas}, fail, []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def tool(self, name, arguments, *, wait_s=0.0):
        if name != "agent_list":
            self.calls.append((name, arguments))
        if name in self.fail:
            raise self.fail[name]
        return getattr(self, name)(**arguments)

    def ask(self, method, params, *, wait_s=0.0):
        assert method == "orchestrator/trust_counts"
        return {"counts": True}

    def tools(self, name, calls, *, wait_s=0.0):
        for at, arguments in reversed(list(enumerate(calls))):  # answers come in any order
            try:
                yield at, self.tool(name, arguments)
            except (BadRequest, Conflict, Corrupt) as error:
                yield at, error

    def agent_list(self, scope=""):
        return {"agents": list(self.metas.values())}

    def agent_get(self, agent_id, wait_ms=0):
        if wait_ms:
            self.metas[agent_id]["status"] = "idle"
        return {"meta": self.metas[agent_id]}

    def agent_delete(self, agent_id):
        return self.metas.pop(agent_id) and {"status": "deleted"}

    def agent_restart(self, agent_id):
        self.metas[agent_id]["status"] = "idle"
        return {"agent_id": agent_id, "epoch": 2, "ready": True, "status": "idle"}

    def agents_create(self, agents, only_missing, ready_wait_ms=None):
        assert only_missing
        for one in agents:
            self.metas[one["name"]] = meta(one["cwd"], **one)
        return {"agents": [{"agent_id": one["name"], "ready": True} for one in agents], "ready": len(agents)}


@pytest.fixture
def up(root, monkeypatch, capsys):
    """Run `orchestrator up --json` against a link; exit status, answer."""
    from orchestrator.cli import app

    monkeypatch.setenv("ORCHESTRATOR_PROJECT", str(root))
    monkeypatch.delenv("ORCHESTRATOR_AGENT_ID", raising=False)

    def run(link, *options):
        monkeypatch.setattr(cli, "DaemonClient", lambda *_, **__: link)
        link.calls.clear()
        code = app.main(["up", "--file", str(root / "team.toml"), "--json", *options])
        return code, json.loads(capsys.readouterr().out)

    return run


def changes(link):
    return [name for name, _ in link.calls if name != "agent_get"]


def test_a_failed_agent_is_launched_again_by_the_tool_for_it(root, up):
    load(root, f'{BUILDER}[agents.tester]\nrole = "builds"\n')
    link = FakeLink(meta(root, status="failed", agent_id="builder-3"), meta(root, name="tester"))
    code, told = up(link)
    assert (code, told["as_described"], told["changed"]) == (0, True, True)
    assert changes(link) == ["agent_restart"]
    assert link.calls[2] == ("agent_restart", {"agent_id": "builder-3"})
    assert [(row["did"], row["status"]) for row in told["agents"]] == [("restarted", "idle"), ("kept", "idle")]
    code, told = up(link)
    assert (code, told["changed"], changes(link)) == (0, False, [])


def test_one_that_cannot_be_launched_again_is_told_and_the_others_are_made(root, up):
    load(root, f'{BUILDER}[agents.tester]\nrole = "builds"\n')
    link = FakeLink(meta(root, status="failed"), agent_restart=Conflict("agent_ended", "no pane"))
    code, told = up(link)
    assert (code, told["as_described"]) == (1, False)
    assert changes(link) == ["agent_restart", "agents_create"]
    assert told["changed"]
    (mine, other) = told["agents"]
    assert (mine["did"], mine["status"], mine["ok"], other["ok"]) == ("failed", "failed", False, True)
    assert "no pane" in mine["why"]
    code, told = up(link)
    assert (code, told["changed"]) == (1, False)


def test_ends_come_before_what_is_made_and_all_is_made_by_one_call(root, up):
    load(root, f'{BUILDER}model = "m"\nengine = "claude"\n[agents.tester]\nrole = "builds"\n')
    link = FakeLink(meta(root), meta(root, name="extra"), meta(root, name="tester", status="stopping"))
    code, told = up(link, "--recreate", "--prune")
    assert code == 0, told
    assert changes(link) == ["agent_delete"] * 3 + ["agents_create"]
    assert {row["name"]: row["did"] for row in told["agents"]} == {
        "builder": "recreated", "tester": "created", "extra": "ended",
    }  # fmt: skip


def test_one_that_cannot_be_ended_is_not_made_a_second_time(root, up):
    load(root, f'{BUILDER}model = "m"\n')
    link = FakeLink(meta(root), agent_delete=Conflict("agent_ended", "not in time"))
    code, told = up(link, "--recreate")
    assert (code, changes(link), told["as_described"]) == (1, ["agent_delete"], False)
    assert "not in time" in told["agents"][0]["why"]


def test_a_variable_that_is_missing_changes_nothing(root, up):
    load(root, f'{BUILDER}[agents.tester]\nrole = "builds"\nenv = {{K = "$NO_SUCH_VARIABLE"}}\n')
    link = FakeLink(meta(root, status="failed"))
    code, told = up(link)
    assert (code, told["error"]["key"], changes(link)) == (2, "agents.tester.env.K", [])
    link = FakeLink(meta(root, status="failed"), meta(root, name="tester", env_names=["K"]))
    assert up(link)[0] == 0, "of an agent that is there nothing is asked for"


def test_a_dry_run_only_looks(root, up):
    load(root, f'{BUILDER}[agents.tester]\nrole = "builds"\n')
    link = FakeLink(meta(root, status="failed"))
    code, told = up(link, "--dry-run")
    assert (code, changes(link), told["changed"]) == (1, [], False)
    assert [row["do"] for row in told["agents"]] == ["restart", "create"]
    assert up(FakeLink(meta(root), meta(root, name="tester")), "--dry-run")[0] == 0


@pytest.mark.parametrize(
    ("there", "options", "code"),
    [
        ({"status": "starting"}, [], 0),  # waited for
        ({"status": "starting"}, ["--no-wait"], 0),
        ({"status": "blocked", "ready_at": None, "reason": "login"}, [], 1),
        ({"status": "blocked", "ready_at": "2026-01-01T00:00:00.000Z", "reason": "limit"}, [], 0),
    ],
)
def test_an_agent_counts_once_it_has_been_ready(root, up, there, options, code):
    load(root, BUILDER)
    found, told = up(FakeLink(meta(root, **there)), *options)
    assert found == code
    if "reason" in there:
        assert there["reason"] in told["agents"][0]["why"]
