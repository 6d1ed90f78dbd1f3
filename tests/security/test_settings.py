"""What a project's files say: what is harmless counts from anywhere, what acts only once its content was allowed."""

import ast
import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from orchestrator.base.errors import BadRequest, Environment
from orchestrator.config import fleet_values, keys, sources
from orchestrator.config.file_watch import ConfigState
from orchestrator.config.keys import Config
from orchestrator.engines.table import ENGINES
from orchestrator.project_trust import acting_files
from orchestrator.roles import catalogue
from orchestrator.roles.library import RoleLibrary
from orchestrator.squad import squad_settings
from orchestrator.team.roster import team_file
from orchestrator.trust import allowed
from orchestrator.trust.allowed import CLASSES, CONTENT_MAX, Allowed
from orchestrator.trust.untrusted_settings import untrusted
from tests.support.stage import until
from tests.support.trusted_files import AT, allow

ROOT = Path(__file__).resolve().parents[2]
TEXT = 'touch "$1"'
# A value of each acting key that would do harm.
EVIL = {
    "engine": "shell", "command": "sh -c id", "approval": "all", "trust": True,
    "fleet_dsn": "host=evil.example dbname=fleet", "fleet_project": "theirs", "fleet_host": "h1", "fleet_push": "evil",
    "fleet_accept": {"hosts": ["*"], "approval": "all", "commands": {"id": "sh -c id"}},
}  # fmt: skip
ACTING_KEYS = [key for key in keys.KEYS if keys.class_of(key) == "acting"]
# The keys that name a fleet stand together.
FLEET = {key: EVIL[key] for key in fleet_values.FLEET}
# A value of each key that is the user's own word, other than the default.
OWN = {
    "trust_by_digest": True, "approvals_master": True, "approvals_hold": "always", "approvals_hold_s": 5.0,
    "notify": ["command"], "notify_command": ["sh", "-c", "id"], "top_keys": {"quit": "x"},
}  # fmt: skip
OWN_KEYS = [key for key in keys.KEYS if keys.class_of(key) == "own"]


@pytest.fixture
def root(tmp_path):
    path = tmp_path / "project"
    (path / ".agents").mkdir(parents=True)
    return path


def put(root, name, content):
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def load(root, **env):
    return sources.load(root, env, home=root.parent)


def toml(key, value):
    return f"{key} = {inline(value)}\n"


def inline(value):
    if isinstance(value, dict):
        return "{" + ", ".join(f"{name} = {inline(inner)}" for name, inner in value.items()) + "}"
    return json.dumps(value)


def company(key):
    """The other keys without which this one is refused."""
    return {other: value for other, value in FLEET.items() if key in FLEET and other != key}


# -- every key has a class --------------------------------------------------------------------------------------


def test_every_setting_has_a_class_and_every_acting_one_says_which_values_are_harmless():
    for key, field in Config.model_fields.items():
        extra = field.json_schema_extra
        assert isinstance(extra, dict) and extra.get("class") in CLASSES, f"{key} has no class"
        if extra["class"] == "acting":
            assert field.default in extra["harmless"], f"the default of {key} must not need to be allowed"
    assert set(EVIL) == set(ACTING_KEYS)
    assert set(OWN) == set(OWN_KEYS)


def test_a_setting_without_a_class_is_noticed():
    with pytest.raises(TypeError):
        keys._key(description="x")


def test_every_key_of_a_team_file_has_a_class():
    for model in (team_file.TeamFile, team_file.Defaults, team_file.DescribedAgent, team_file.Policies):
        for key, field in model.model_fields.items():
            extra = field.json_schema_extra
            assert isinstance(extra, dict) and extra.get("class") in CLASSES, f"{model.__name__}.{key} has no class"


def keys_read_of_roles():
    """The names by which the package looks into a role's frontmatter: `keys.get("…")`, `keys.pop("…")`, `keys["…"]`."""
    for path in (ROOT / "orchestrator").rglob("*.py"):
        if "gsd" in path.parts:  # frontmatter of planning files
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Attribute)
                and node.func.attr in ("get", "pop")
            ):
                of, args = node.func.value, node.args
            elif isinstance(node, ast.Subscript):
                of, args = node.value, [node.slice]
            else:
                continue
            name = of.attr if isinstance(of, ast.Attribute) else of.id if isinstance(of, ast.Name) else ""
            inside = (
                isinstance(of, ast.Attribute)
                and isinstance(of.value, ast.Name)
                and of.value.id in ("self", "role", "head")
            )
            if (
                name == "keys"
                and (inside or path.parent.name == "roles")
                and args
                and isinstance(args[0], ast.Constant)
            ):
                yield args[0].value


def test_every_key_that_is_read_of_a_role_has_a_class():
    read = set(keys_read_of_roles())
    assert {"approval", "model", "toolsets"} <= read
    assert read == set(catalogue.KEYS)
    assert set(catalogue.KEYS.values()) <= set(CLASSES)


def test_an_engine_is_harmless_only_where_its_cli_asks_whether_to_trust_the_folder():
    assert {name for name in keys.HARMLESS_ENGINES if name} == {"claude", "codex", "gemini"}
    for row in ENGINES.values():
        explained = {pattern.kind for pattern in row.patterns}
        assert not row.asks_trust or "trust" in explained, row.name
    assert keys.acts("engine", "shell") and keys.acts("engine", "command") and keys.acts("engine", "opencode")
    assert not keys.acts("engine", "claude")


# -- settings ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("key", ACTING_KEYS)
def test_an_acting_setting_of_the_project_counts_only_as_it_was_allowed(root, key):
    put(root.parent, ".config/orchestrator/config.toml", "".join(toml(*pair) for pair in company(key).items()))
    file = put(root, sources.PROJECT_FILE, toml(key, EVIL[key]) + "border = false\n")
    found = load(root)
    assert getattr(found.config, key) == Config.model_fields[key].default
    assert (found.config.border, dict(found.withheld), found.sources[key]) == (False, {key: EVIL[key]}, "default")
    allow(root)
    found = load(root)
    assert (getattr(found.config, key), dict(found.withheld)) == (EVIL[key], {})
    assert found.sources[key] == f"project config {file}"
    file.write_text(file.read_text() + "# another\n")
    assert load(root).withheld == {key: EVIL[key]}, "a changed file asks again"
    allow(root)
    assert allowed.revoke(root) == [sources.PROJECT_FILE]
    assert load(root).withheld == {key: EVIL[key]}


@pytest.mark.parametrize("key", ACTING_KEYS)
def test_the_users_own_word_counts_as_before(root, key):
    value = EVIL[key]
    text = value if isinstance(value, str) else json.dumps(value)
    env = {keys.env_name(other): word for other, word in company(key).items()}
    assert getattr(load(root, **env, **{keys.env_name(key): text}).config, key) == value
    put(root.parent, ".config/orchestrator/config.toml", toml(key, value))
    assert getattr(load(root, **env).config, key) == value
    put(root, sources.PROJECT_FILE, toml(key, value))
    assert load(root, **env).withheld == {}, "what would hold anyway makes no difference"
    assert sources.load(root, env, {key: value}, root.parent).withheld == {}


@pytest.mark.parametrize("key", OWN_KEYS)
def test_a_word_about_trust_never_counts_from_a_project_also_if_its_file_was_allowed(root, key):
    value, default = OWN[key], Config.model_fields[key].get_default()
    assert value != default
    put(root, sources.PROJECT_FILE, 'approval = "all"\n' + toml(key, value))
    allow(root)
    found = load(root)
    assert (getattr(found.config, key), found.config.approval, found.ignored) == (default, "all", (key,))
    put(root.parent, ".config/orchestrator/config.toml", toml(key, value))
    assert getattr(load(root).config, key) == value


def test_only_a_users_file_lets_a_master_answer(root):
    """A master's shell tool can start a daemon, with an environment and flags as it likes."""
    for env, flags in (({"ORCHESTRATOR_APPROVALS_MASTER": "1"}, {}), ({}, {"approvals_master": "true"})):
        with pytest.raises(BadRequest) as error:
            sources.load(root, env, flags, root.parent)
        assert error.value.code == "bad_config"
    put(root.parent, ".config/orchestrator/config.toml", "approvals.master = true\n")
    assert load(root).config.approvals_master is True
    put(root.parent, ".config/orchestrator/config.toml", "[approvals]\nmaster = true\nhold = 'never'\n")
    assert (load(root).config.approvals_master, load(root).config.approvals_hold) == (True, "never")


@pytest.mark.parametrize(
    "line", ['approval = "ask"', "trust = false", 'engine = "claude"', 'command = ""', "border = false"]
)
def test_values_that_give_nothing_count_from_anywhere_and_need_no_word(root, line):
    put(root, sources.PROJECT_FILE, line + "\n")
    found = load(root)
    assert found.withheld == {} and acting_files.pending_files(root).files == ()
    key = line.split(" ")[0]
    assert "project config" in found.sources[key]


def test_a_project_may_lower_what_the_user_has_raised(root):
    put(root.parent, ".config/orchestrator/config.toml", 'approval = "all"\n')
    put(root, sources.PROJECT_FILE, 'approval = "ask"\n')
    assert load(root).config.approval == "ask"


def test_what_a_broken_file_said_before_ends_when_it_is_no_longer_allowed(root):
    file = put(root, sources.PROJECT_FILE, 'approval = "all"\n')
    allow(root)
    state = ConfigState(root, {}, {}, root.parent)
    assert state.current.config.approval == "all"
    file.write_text("approval = \n")
    state.reload()
    assert (state.error is not None, state.current.config.approval) == (True, "all"), "the last good one goes on"
    allowed.revoke(root)
    state.reload()
    assert (state.error is not None, state.current.config.approval) == (True, "ask")


# -- where a content is allowed -----------------------------------------------------------------------------------


def test_a_moved_project_goes_on_and_a_copied_one_asks(root):
    put(root, sources.PROJECT_FILE, 'approval = "all"\n')
    allow(root)
    copy = root.with_name("copy")
    shutil.copytree(root, copy, symlinks=True)
    assert load(copy).config.approval == "ask"
    moved = root.rename(root.with_name("moved"))
    assert load(moved).config.approval == "all"
    shutil.rmtree(moved)
    copy.rename(moved)
    assert load(moved).config.approval == "ask", "the same path is not the same project"


def test_what_is_allowed_lies_outside_the_project_and_is_the_users_alone(root):
    put(root, sources.PROJECT_FILE, 'approval = "all"\n')
    before = set(root.rglob("*"))
    allow(root)
    assert {path.name for path in {*root.rglob("*")} - before} == {"identity.json"}
    place = Allowed(root).place
    assert not place.is_relative_to(root)
    for path in (place, *place.iterdir()):
        assert path.stat().st_mode & 0o077 == 0
    [entry] = place.iterdir()
    entry.chmod(0o644)
    assert load(root).config.approval == "ask", "others might have written it"
    entry.chmod(0o600)
    assert load(root).config.approval == "all"
    entry.write_bytes(entry.read_bytes()[:-1])
    assert load(root).config.approval == "ask", "a damaged entry allows nothing"


def test_a_content_allowed_for_one_file_does_not_count_for_another(root):
    role = "---\ndescription: d\napproval: all\n---\nbody\n"
    put(root, ".agents/roles/a.md", role)
    allow(root)
    put(root, ".agents/roles/b.md", role)
    found = catalogue.read(root).roles
    assert (found["a"].approval, found["b"].approval) == ("all", None)


def test_the_store_is_bounded_and_the_oldest_gives_way(root, monkeypatch):
    monkeypatch.setattr(allowed, "FILES_MAX", 3)
    for count in range(5):
        allowed.allow(root, {f"f{count}": b"x"}, f"2026-01-0{count + 1}T00:00:00.000Z")
    assert [entry.name for entry in Allowed(root).entries()] == ["f2", "f3", "f4"]
    with pytest.raises(ValueError):
        allowed.allow(root, {"large": b"x" * (CONTENT_MAX + 1)}, AT)


def test_names_of_the_project_are_found_however_they_are_written_and_links_that_lead_out_are_its_own(root):
    outside = put(root.parent, "outside.template", "x")
    (root / "link.template").symlink_to(outside)
    (root.parent / "way").symlink_to(root)
    assert allowed.name_of(root, root / "a" / ".." / "b") == "b"
    assert allowed.name_of(root, root / "link.template") == "link.template"
    assert allowed.name_of(root, root.parent / "way" / "b") == "b"
    assert allowed.name_of(root, outside) is None
    assert allowed.name_of(root, root.with_name("projectile") / "b") is None


# -- roles, team files, templates ------------------------------------------------------------------------------------


@pytest.mark.parametrize("key", [key for key, kind in catalogue.KEYS.items() if kind == "acting"])
@pytest.mark.parametrize("directory", ["", ".agents/roles"])
def test_an_acting_key_of_a_role_counts_only_as_it_was_allowed_and_its_body_counts_at_once(root, key, directory):
    file = put(root, ".agents/roles/evil.md", f"---\ndescription: d\n{key}: all\n---\nYou work.\n")
    library = RoleLibrary(root)
    role = library.listing(directory).role("evil")
    assert (getattr(role, key), role.withheld, role.body) == (None, (key,), "You work.")
    allow(root)
    assert getattr(library.listing(directory).role("evil"), key) == "all", "what is kept in memory is not stale"
    file.write_text(file.read_text() + "And more.\n")
    assert getattr(library.listing(directory).role("evil"), key) is None
    allow(root)
    allowed.revoke(root, [".agents/roles/evil.md"])
    assert getattr(library.listing(directory).role("evil"), key) is None


OF_AGENTS = {"engine": '"shell"', "approval": '"all"', "env": '{PATH = "/evil"}', "command": '["sh", "-c", "id"]'}


def test_every_acting_key_of_an_agent_has_its_case():
    assert {key for key in team_file.DescribedAgent.model_fields if _acts(key)} == set(OF_AGENTS)


def _acts(key):
    return team_file.DescribedAgent.model_fields[key].json_schema_extra["class"] == "acting"


@pytest.mark.parametrize("key", OF_AGENTS)
@pytest.mark.parametrize("where", ["agents.b", "defaults"])
def test_each_acting_key_of_a_team_file_is_shown_before_it_is_allowed(root, key, where):
    text = f'[agents.b]\nrole = "r"\n[{where}]\n{key} = {OF_AGENTS[key]}\n'
    if where == "agents.b":
        text = f'[agents.b]\nrole = "r"\n{key} = {OF_AGENTS[key]}\n'
    put(root, team_file.TEAM_FILE, text)
    [found] = acting_files.pending_files(root).files
    assert {"agents.b", f"{where}.{key}"} <= set(found.keys)
    allow(root)
    assert acting_files.pending_files(root).files == ()


@pytest.mark.parametrize("name", squad_settings.customary())
def test_a_template_of_the_project_counts_only_as_it_was_allowed(root, name):
    put(root, name, 'sh -c id "<%= prompt %>"\n')
    word = name.removesuffix(".template").rpartition("/")[2]
    engine = word.removeprefix("run-").removeprefix("create-chat-")
    env = {} if engine in ("agent", "create-chat") else {"ENGINE": engine}

    def read():
        found = squad_settings.read(env, root, Config(), "claude-code")
        return (found.create if "create-chat" in word else found.run), found.withheld

    assert read() == (None, (name,))
    assert [one.name for one in acting_files.pending_files(root).files] == [name]
    allow(root)
    found, withheld = read()
    assert (found.where, withheld) == (name, ())
    put(root, name, 'sh -c "id; id" "<%= prompt %>"\n')
    assert read() == (None, (name,))


def test_a_template_that_the_user_names_counts_by_itself_only_outside_of_the_project(root):
    inside, outside = put(root, "mine.template", "a b"), put(root.parent, "mine.template", "a b")
    (root / "link.template").symlink_to(outside)
    for path in ("mine.template", str(inside), "link.template", "../project/mine.template"):
        with pytest.raises(Environment) as refused:
            squad_settings.read({"RUN_TEMPLATE_PATH": path}, root, Config(), "")
        assert refused.value.code == "untrusted_setting", path
    for env in ({"RUN_TEMPLATE_PATH": str(outside)}, {"RUN_TEMPLATE": "../mine.template"}, {"RUN_TEMPLATE": "a b"}):
        assert squad_settings.read(env, root, Config(), "").run is not None
    assert squad_settings.named_by(
        {"RUN_TEMPLATE_PATH": "mine.template", "CREATE_CHAT_TEMPLATE": "~nobody/x"}, root
    ) == ["mine.template"]
    allow(root, ["*.template"])
    for path in ("mine.template", "link.template"):
        assert squad_settings.read({"RUN_TEMPLATE_PATH": path}, root, Config(), "").run is not None


# -- hostile files -----------------------------------------------------------------------------------------------------

FILES = (sources.PROJECT_FILE, team_file.TEAM_FILE, ".agents/roles/r.md", "templates/run-agent.template")
HOSTILE = {
    "a pipe": os.mkfifo,
    "a directory": lambda path: path.mkdir(),
    "a device": lambda path: path.symlink_to("/dev/zero"),
    "a loop": lambda path: path.symlink_to(path.name),
    "no UTF-8": lambda path: path.write_bytes(b"approval = \xff\x1b[2J\n<%"),
    "a line of a megabyte": lambda path: path.write_bytes(b'approval = "all" #' + b"x" * ((1 << 20) - 100)),
    "larger than anything": lambda path: path.write_bytes(b"#" * ((1 << 20) + 1)),
}


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("how", HOSTILE)
def test_whatever_stands_in_the_place_of_a_file_nothing_hangs_and_nothing_of_it_can_be_allowed(root, name, how):
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    HOSTILE[how](path)
    found = acting_files.pending_files(root)
    assert found.files == ()
    assert all(one.name == name and one.reason.isprintable() for one in found.problems)


def test_what_is_told_of_a_file_cannot_pass_for_anything_else():
    name = "\x1b[2J\nok, all is allowed\u202e" + "x" * 500
    error = untrusted({name: ["approval"], **{str(n): ["k"] for n in range(50)}})
    told = json.dumps(error.as_dict(), ensure_ascii=False)
    assert error.message.isprintable() and len(error.message) < 1000
    assert "\\n" not in told.replace("\\\\n", "") and len(error.facts["files"]) == 20


def test_no_more_is_shown_at_once_than_can_be_read(root, monkeypatch):
    monkeypatch.setattr(acting_files, "FILES_SHOWN", 3)
    for count in range(5):
        put(root, f".agents/roles/r{count}.md", "---\napproval: all\n---\nx\n")
    found = acting_files.pending_files(root)
    assert (len(found.files), found.left) == (3, 2)


# -- the whole product -------------------------------------------------------------------------------------------------


def sh(*argv, cwd):
    subprocess.run(
        argv, cwd=cwd, check=True, capture_output=True, env={**os.environ, "GIT_CONFIG_GLOBAL": os.devnull}
    )


def cloned(stage, files):
    """Make the stage's project a clone of a repository with these files."""
    origin = stage.base / "origin"
    shutil.copytree(stage.root, origin)
    for name, text in files.items():
        put(origin, name, text)
    sh("git", "init", "-q", cwd=origin)
    sh("git", "add", "-f", ".", cwd=origin)
    sh("git", "-c", "user.name=x", "-c", "user.email=x@x", "commit", "-qm", "x", cwd=origin)
    shutil.rmtree(stage.root)
    sh("git", "clone", "-q", str(origin), str(stage.root), cwd=stage.base)


def settings_of(stage, text):
    return (stage.root / sources.PROJECT_FILE).read_text() + text


def test_two_lines_of_a_clone_switch_off_nothing_and_each_answer_says_so_once(stage):
    proof = stage.base / "ran"
    line = f"touch {proof}"
    files = {
        sources.PROJECT_FILE: settings_of(
            stage, f'approval = "all"\ntrust = true\nengine = "command"\ncommand = "{line}"\n'
        ),
        ".agents/roles/r.md": "---\ndescription: d\napproval: all\n---\nYou work.\n",
        "templates/run-agent.template": f'{line} "<%= prompt %>"\n',
    }
    cloned(stage, files)
    boss = stage.begun()
    made = boss.tool("agent_create", {"name": "a", "role": "r"})
    assert (made["ready"], made["engine"], made["untrusted"]["code"]) == (True, "shell", "untrusted_setting")
    assert "orchestrator trust" in made["untrusted"]["next_step"]
    told = {row["file"]: set(row["keys"]) for row in made["untrusted"]["files"]}
    assert told == {sources.PROJECT_FILE: {"engine", "command"}, ".agents/roles/r.md": {"approval"}}
    assert "approval" not in stage.records("a")[0]
    many = boss.tool("agents_create", {"agents": [{"name": n, "role": "x", "engine": "shell"} for n in ("b", "c")]})
    assert [row["file"] for row in many["untrusted"]["files"]] == [sources.PROJECT_FILE]
    assert not any("untrusted" in row for row in many["agents"])
    assert (
        boss.tool("agent_create", {"name": "d", "role": "x", "engine": "shell", "approval": "all"}).get("untrusted")
        is None
    )
    refused = boss.tool("agent_create", {"name": "e", "role": "x", "engine": "command"})
    assert refused["error"]["code"] == "untrusted_setting"
    roles = boss.tool("list_roles", {})
    assert [row["file"] for row in roles["untrusted"]["files"]] == [".agents/roles/r.md"]
    squad = boss.tool("start_squad_members", {"members": [{"roleId": "r", "task": "x"}]})
    assert squad["error"]["code"] == "untrusted_setting", "nothing else says what to run"
    assert not proof.exists()
    for line, name in (("config show", sources.PROJECT_FILE), ("roles list", ".agents/roles/r.md")):
        done = stage.cli(*line.split(" "))
        assert (done.returncode, done.stderr.count(name), done.stderr.count("\n")) == (0, 1, 1), done.stderr
    shown = json.loads(stage.cli("config", "show", "--json").stdout)["keys"]["approval"]
    assert (shown["value"], shown["not_allowed"], "is not allowed" in shown["source"]) == ("ask", "all", True)
    found = json.loads(stage.cli("doctor", "--json").stdout)["findings"]
    assert {one["file"] for one in found if one["check"] == "trust"} == set(files)


def test_a_squads_member_gets_what_was_allowed_and_the_answer_says_what_was_not(stage):
    put(stage.root, ".agents/roles/r.md", "---\ndescription: d\napproval: all\n---\nYou work.\n")
    put(stage.root, sources.PROJECT_FILE, settings_of(stage, "trust = true\n"))
    cli = put(stage.base, "bin/claude", '#!/bin/sh\necho "$*"\n')
    cli.chmod(0o755)
    env = {**stage.env, "PATH": f"{cli.parent}:{stage.env['PATH']}", "ENGINE": "claude"}
    boss = stage.begun(env)
    asked = {"members": [{"roleId": "r", "task": "x"}]}
    first = boss.tool("start_squad_members", asked)
    assert (
        "bypassPermissions" not in first["members"][0]["rawStdout"]
        and "dangerously" not in first["members"][0]["rawStdout"]
    )
    told = {row["file"]: row["keys"] for row in first["untrusted"]["files"]}
    assert told == {".agents/roles/r.md": ["approval"], sources.PROJECT_FILE: ["trust"]}
    stage.allow()

    def noted():
        answer = boss.tool("start_squad_members", asked)
        return None if "untrusted" in answer else answer

    second = until(noted)
    assert second["members"][0]["rawStdout"] != first["members"][0]["rawStdout"]


def test_an_ordinary_clone_works_at_once_and_silently(stage):
    files = {
        sources.PROJECT_FILE: settings_of(
            stage, 'border = false\npark_after = 3\nengine = "claude"\napproval = "ask"\n'
        ),
        ".agents/roles/r.md": "---\ndescription: d\nmodel: m\ntoolsets: [gsd]\napproval: ask\n---\nYou work.\n",
    }
    cloned(stage, files)
    boss = stage.begun()
    made = boss.tool("agent_create", {"name": "a", "role": "r", "engine": "shell"})
    assert (made["ready"], made.get("untrusted")) == (True, None)
    assert "untrusted" not in boss.tool("list_roles", {})
    assert stage.cli("config", "show").stderr == stage.cli("roles", "list").stderr == ""
    done = stage.cli("trust", "--json")
    assert done.returncode == 0, done.stdout
    assert (done.returncode, json.loads(done.stdout)["allowed"]) == (0, []), (
        "nothing to ask, so no terminal is needed"
    )


def test_an_agent_made_before_keeps_what_it_was_made_with(stage):
    role = put(stage.root, ".agents/roles/r.md", "---\ndescription: d\napproval: edits\n---\nYou work.\n")
    stage.allow()
    boss = stage.begun()
    assert boss.tool("agent_create", {"name": "a", "role": "r", "engine": "shell"})["ready"]
    role.write_text("---\ndescription: d\napproval: all\n---\nYou work.\n")
    assert boss.tool("agent_restart", {"agent_id": "a"})["ready"]
    assert boss.tool("agent_get", {"agent_id": "a"})["meta"]["approval"] == "edits"
    assert boss.tool("agent_create", {"name": "b", "role": "r", "engine": "shell"})["untrusted"]["files"]


def test_a_pull_into_an_allowed_project_allows_nothing_new(stage):
    cloned(stage, {sources.PROJECT_FILE: settings_of(stage, 'approval = "edits"\n')})
    stage.allow()
    boss = stage.begun()
    assert boss.tool("agent_create", {"name": "a", "role": "x", "engine": "shell"}).get("untrusted") is None
    assert stage.records("a")[0]["approval"] == "edits"
    origin = stage.base / "origin"
    file = origin / sources.PROJECT_FILE
    file.write_text(file.read_text().replace('"edits"', '"all"'))
    sh("git", "-c", "user.name=x", "-c", "user.email=x@x", "commit", "-qam", "y", cwd=origin)
    sh("git", "pull", "-q", cwd=stage.root)

    def made():
        made.count += 1
        name = f"b{made.count}"
        assert boss.tool("agent_create", {"name": name, "role": "x", "engine": "shell"})["ready"]
        return stage.records(name)[0].get("approval") is None

    made.count = 0
    until(made)
