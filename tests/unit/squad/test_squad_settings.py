"""The settings of a connection's squads: every variable, what holds without it, and what is refused."""

import os

import pytest

from orchestrator.base.errors import BadRequest
from orchestrator.config.keys import Config
from orchestrator.squad import squad_settings
from tests.support.trusted_files import allow


@pytest.fixture
def read(tmp_path):
    def made(client="", config=None, **env):
        allow(tmp_path, ["*", "templates/*"])
        return squad_settings.read(env, tmp_path, config or Config(), client)

    return made


def refused(call, *args, **env):
    with pytest.raises(BadRequest) as caught:
        call(*args, **env)
    return caught.value


def test_without_any_variable_the_defaults_hold(read):
    found = read()
    assert (found.mode, found.stateful, found.timeout_s, found.most) == ("stateless", False, 600.0, 4)
    assert (found.execution, found.engine_command, found.run, found.create) == (None, "", None, None)


def test_every_number_and_word_is_taken_and_anything_else_refused(read):
    found = read(
        STATE_MODE=" stateful ", EXECUTION_MODE="sequential", PROCESS_TIMEOUT_MS="1500", MAX_PARALLEL_MEMBERS="64"
    )
    assert (found.mode, found.execution, found.timeout_s, found.most) == ("stateful", "sequential", 1.5, 64)
    assert read(STATE_MODE="", EXECUTION_MODE="", PROCESS_TIMEOUT_MS="", MAX_PARALLEL_MEMBERS=" ").most == 4
    for name, values in (
        ("STATE_MODE", ("Stateful", "both", "0", "x" * 5000)),
        ("EXECUTION_MODE", ("serial", "x")),
        ("PROCESS_TIMEOUT_MS", ("0", "-1", "1e3", "1.5", "٣", "²", "604800001", "9" * 5000, "ten", "0x10", "1_000")),
        ("MAX_PARALLEL_MEMBERS", ("0", "65", "four", "+4")),
    ):
        for value in values:
            error = refused(read, **{name: value})
            assert (error.code, error.facts["variable"]) == ("bad_config", name), value
            assert len(error.message) < 200


@pytest.mark.parametrize(
    ("env", "config", "client", "row"),
    [
        ({"ENGINE": "claude"}, "shell", "", "claude"),
        ({"ENGINE": "cursor-agent"}, "claude", "", "cursor-agent"),
        ({"ENGINE_COMMAND": "codex"}, "claude", "", "codex"),
        ({"ENGINE_COMMAND": "/opt/bin/gemini"}, "claude", "", "gemini"),
        ({"ENGINE_COMMAND": "nice -n 5 claude"}, "codex", "", "claude"),
        ({"ENGINE_COMMAND": "my-cli"}, "claude", "claude-code", None),
        ({"ENGINE_COMMAND": "my-cli", "ENGINE": "codex"}, "claude", "", "codex"),
        ({"RUN_TEMPLATE": "x <%= prompt %>"}, "claude", "claude-code", None),
        ({"RUN_TEMPLATE": "x <%= prompt %>", "ENGINE": "claude"}, "codex", "", "claude"),
        ({}, "gemini", "claude-code", "gemini"),
        ({}, "shell", "claude-code", "claude"),
        ({}, "shell", "who", None),
    ],
)
def test_the_engine_is_the_named_one_else_the_commands_else_the_configured_else_the_callers(
    read, env, config, client, row
):
    found = read(client, Config(engine=config), **env).row
    name = None if found is None else found.program if row == "cursor-agent" else found.name
    assert name == row


def test_an_engine_that_squads_do_not_know_is_refused_with_those_they_do(read):
    for name in ("no", "shell", "command", "Claude", "--help"):
        error = refused(read, ENGINE=name)
        assert error.code == "unknown_engine"
        assert "claude, codex" in error.message
    assert refused(read, ENGINE_COMMAND="a 'b").code == "bad_config"


def test_a_template_is_a_path_unless_it_holds_white_space_or_a_tag(read, tmp_path):
    (tmp_path / "mine").write_text('a "<%= prompt %>"')
    (tmp_path / "other").write_text("other")
    given = ({"RUN_TEMPLATE": "mine"}, {"RUN_TEMPLATE_PATH": "mine"}, {"RUN_TEMPLATE_PATH": str(tmp_path / "mine")})
    for env in (*given, {"RUN_TEMPLATE_PATH": "mine", "RUN_TEMPLATE": "other"}):
        assert read(**env).run.where.endswith("mine")
        assert read(**env).run.names == {"prompt"}
    for text in ("a b", "<%=prompt%>"):
        assert read(RUN_TEMPLATE=text).run.where == "RUN_TEMPLATE"
    assert read(CREATE_CHAT_TEMPLATE="my-create x").create.words({}) == ["my-create", "x"]


def test_templates_stand_by_custom_where_the_documents_put_them(read, tmp_path):
    place = tmp_path / "templates"
    place.mkdir()
    for name in ("run-agent", "create-chat", "run-codex", "create-chat-codex"):
        (place / f"{name}.template").write_text(name)
    assert (read().run.where, read().create.where) == (
        "templates/run-agent.template",
        "templates/create-chat.template",
    )
    named = read(ENGINE="codex")
    assert (named.run.words({}), named.create.words({})) == (["run-codex"], ["create-chat-codex"])
    assert read(ENGINE="claude").run is None


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda path: None, "No such file"),
        (os.mkfifo, "not a regular file"),
        (os.mkdir, "Is a directory"),
        (lambda path: path.symlink_to("/dev/zero"), "not a regular file"),
        (lambda path: path.write_bytes(b"x" * 65_537), "more than 65536 bytes"),
        (lambda path: path.write_bytes(b"a \xff"), "not UTF-8"),
        (lambda path: path.write_text("a <% b"), "line 1, column 3"),
    ],
)
def test_a_template_file_that_is_none_is_refused_by_name(read, tmp_path, make, told):
    make(tmp_path / "t")
    error = refused(read, RUN_TEMPLATE="t")
    assert error.code == "bad_template"
    assert told in error.message


def test_what_is_set_twice_and_differs_is_warned_of():
    assert squad_settings.warnings_of({"RUN_TEMPLATE_PATH": "a", "RUN_TEMPLATE": "a"}) == []
    assert squad_settings.warnings_of({"RUN_TEMPLATE_PATH": "a", "RUN_TEMPLATE": "b"}) == [
        "RUN_TEMPLATE_PATH and RUN_TEMPLATE are both set and differ; RUN_TEMPLATE_PATH is used"
    ]
    assert len(squad_settings.warnings_of({"CREATE_CHAT_TEMPLATE_PATH": "a", "CREATE_CHAT_TEMPLATE": "b"})) == 1


def test_how_many_run_at_once_is_the_users_choice_else_the_programs(read):
    assert read(MAX_PARALLEL_MEMBERS="7").together("/bin/x") == 7
    assert read(EXECUTION_MODE="sequential").together("/bin/x") == 1
    assert read().together("/opt/cursor-agent") == 1
    assert read(ENGINE="cursor-agent").together("/opt/other") == 1
    assert read(ENGINE="cursor-agent", EXECUTION_MODE="parallel").together("cursor-agent") == 4


@pytest.mark.parametrize(
    ("env", "name", "kept"),
    [
        ({"ENGINE": "claude", "ENGINE_COMMAND": "/opt/cc", "RUN_TEMPLATE": "x y"}, "claude", True),
        ({"ENGINE": "cursor", "RUN_TEMPLATE_PATH": "t"}, "cursor-agent", True),
        ({"ENGINE_COMMAND": "/opt/bin/claude"}, "claude", True),
        ({"ENGINE": "claude", "ENGINE_COMMAND": "/opt/cc"}, "codex", False),
        ({"ENGINE": "nonsense", "ENGINE_COMMAND": "/opt/cc"}, "codex", False),
        ({"ENGINE_COMMAND": "my-cli"}, "claude", False),
        ({"RUN_TEMPLATE": "my-cli <%= prompt %>"}, "claude", False),
        ({"CREATE_CHAT_TEMPLATE": "my-cli new"}, "claude", False),
    ],
)
def test_what_is_said_of_one_program_holds_for_an_engine_named_elsewhere_only_if_it_is_that_one(env, name, kept):
    found = squad_settings.of_engine({**env, "EXECUTION_MODE": "sequential"}, name)
    assert found.pop("ENGINE") == name
    env.pop("ENGINE", None)
    assert found == {**(env if kept else {}), "EXECUTION_MODE": "sequential"}


@pytest.mark.parametrize("name", ["", "shell", "nonsense", "agy"])
def test_an_engine_named_elsewhere_must_be_one_that_squads_can_run(name):
    with pytest.raises(BadRequest) as caught:
        squad_settings.of_engine({"ENGINE": "claude"}, name)
    assert caught.value.code == "unknown_engine"
