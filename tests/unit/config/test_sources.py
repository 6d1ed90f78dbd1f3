"""Configuration: where a value comes from, what is refused and how, and what a change of a file does."""

import asyncio
import contextlib
import os
import sys
from pathlib import Path

import pytest

from orchestrator.base.errors import BadRequest
from orchestrator.config import keys, sources
from orchestrator.config.file_watch import ConfigState, watch
from orchestrator.config.keys import Config
from orchestrator.config.sources import load


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    path = tmp_path / "project"
    path.mkdir()
    return path


@pytest.fixture
def home(tmp_path: Path) -> Path:
    path = tmp_path / "home"
    path.mkdir()
    return path


def write(file: Path, text: str) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    # Written beside and moved in, as editors do: a reader never meets half a file.
    beside = file.with_name("written.tmp")
    beside.write_text(text, encoding="utf-8")
    beside.replace(file)
    return file


def refused(root: Path, home: Path, env: dict | None = None, flags: dict | None = None) -> BadRequest:
    with pytest.raises(BadRequest) as caught:
        load(root, env or {}, flags or {}, home)
    assert caught.value.code == "bad_config"
    return caught.value


def test_each_source_wins_over_the_one_below_it_and_is_named(root: Path, home: Path) -> None:
    user, project = sources.user_file({}, home), sources.project_file(root)
    env: dict[str, str] = {}
    flags: dict[str, object] = {}

    def value() -> tuple[int, str]:
        found = load(root, env, flags, home)
        return found.config.min_pane_width, found.sources["min_pane_width"]

    assert value() == (0, "default")
    write(user, "min_pane_width = 31\n")
    assert value() == (31, f"user config {user}")
    write(project, "min_pane_width = 32\n")
    assert value() == (32, f"project config {project}")
    env["ORCHESTRATOR_MIN_PANE_WIDTH"] = "33"
    assert value() == (33, "environment ORCHESTRATOR_MIN_PANE_WIDTH")
    flags["min-pane-width"] = 34
    assert value() == (34, "flag --set min_pane_width")
    assert load(root, env, flags, home).sources["border"] == "default"


def test_the_users_file_follows_xdg_unless_it_is_relative(home: Path) -> None:
    assert sources.user_file({"XDG_CONFIG_HOME": "/x"}, home) == Path("/x/orchestrator/config.toml")
    assert sources.user_file({"XDG_CONFIG_HOME": "x"}, home) == home / ".config/orchestrator/config.toml"
    assert sources.user_file({"HOME": "/h"}) == Path("/h/.config/orchestrator/config.toml")


@pytest.mark.parametrize(
    ("key", "near"), [("stop_grace", "stop_grace_s"), ("Border", "border"), ("max_restart", "max_restarts")]
)
def test_an_unknown_key_is_refused_with_file_key_and_nearest_name(
    root: Path, home: Path, key: str, near: str
) -> None:
    file = write(sources.project_file(root), f"{key} = 1\n")
    error = refused(root, home)
    assert (error.facts["file"], error.facts["key"]) == (str(file), key)
    assert near in error.next_step


def test_a_table_is_an_unknown_key_too(root: Path, home: Path) -> None:
    write(sources.project_file(root), "[agents]\nborder = true\n")
    assert refused(root, home).facts["key"] == "agents"


def test_an_unknown_flag_is_refused_with_the_nearest_name(root: Path, home: Path) -> None:
    assert "overflow" in refused(root, home, flags={"over_flow": "window"}).next_step


@pytest.mark.parametrize(
    "line",
    [
        'stop_grace_s = "5s"', "min_pane_width = 30.5", "min_pane_width = true", "border = 1", 'border = "yes"',
        'durability = "none"', "ready_wait_ms = 110001", "ready_wait_ms = -1", "master_share = nan", "engine = 3",
        'engine = "no-such-engine"', 'tmux_socket = "/tmp/sock"', "idle_exit_s = inf", "log_level = []", 'log_format = "xml"',
        "budget_usd = -1", "prices = {m = {input = -1}}", "prices = {m = {output = inf}}", "prices = {m = {cached = nan}}",
        'prices = {m = {input = "1"}}', "prices = {m = {reasoning = 1}}", "prices = {m = 1}",
    ],
)  # fmt: skip
def test_a_wrong_value_is_refused_with_file_and_key(root: Path, home: Path, line: str) -> None:
    file = write(sources.project_file(root), line + "\n")
    error = refused(root, home)
    assert (error.facts["file"], error.facts["key"]) == (str(file), line.split(" ", 1)[0])


def test_a_wrong_unit_is_answered_with_the_right_one(root: Path, home: Path) -> None:
    write(sources.project_file(root), 'ready_wait_ms = "45s"\n')
    assert "milliseconds" in refused(root, home).next_step


def test_whole_seconds_may_be_written_as_integers(root: Path, home: Path) -> None:
    write(sources.project_file(root), "stop_grace_s = 7\n")
    assert load(root, {}, {}, home).config.stop_grace_s == 7.0


@pytest.mark.parametrize(
    ("text", "line"), [("border = true\nx = \n", 2), ("border = true\nborder = true\n", 2), ('\n\nengine = "\n', 3)]
)
def test_invalid_toml_is_refused_with_its_line(root: Path, home: Path, text: str, line: int) -> None:
    file = write(sources.project_file(root), text)
    error = refused(root, home)
    assert (error.facts["file"], error.facts["line"]) == (str(file), line)


def test_a_file_that_is_not_utf8_is_refused_with_its_line(root: Path, home: Path) -> None:
    sources.project_file(root).parent.mkdir()
    sources.project_file(root).write_bytes(b"# a\nengine = '\xff'\n")
    assert refused(root, home).facts["line"] == 2


def test_a_file_that_cannot_be_read_is_refused_and_named(root: Path, home: Path) -> None:
    sources.project_file(root).mkdir(parents=True)
    assert refused(root, home).facts["file"] == str(sources.project_file(root))


@pytest.mark.parametrize(
    ("name", "text", "given"),
    [
        ("ORCHESTRATOR_BORDER", "off", ("border", False)), ("ORCHESTRATOR_BORDER", "auto", ("border", "auto")),
        ("ORCHESTRATOR_BORDER", "1", ("border", True)), ("ORCHESTRATOR_STOP_GRACE_S", "1.5", ("stop_grace_s", 1.5)),
        ("ORCHESTRATOR_MAX_RESTARTS", "0", ("max_restarts", 0)), ("ORCHESTRATOR_OVERFLOW", "window", ("overflow", "window")),
        ("ORCHESTRATOR_MAX_RESTARTS", "", ("max_restarts", 3)),
    ],
)  # fmt: skip
def test_a_variable_is_read_as_the_type_of_its_key(root, home, name, text, given) -> None:
    key, value = given
    assert getattr(load(root, {name: text}, {}, home).config, key) == value


@pytest.mark.parametrize("text", ["many", "1.5", "-1", "1e99"])
def test_a_variable_of_the_wrong_type_is_refused_by_name(root: Path, home: Path, text: str) -> None:
    error = refused(root, home, {"ORCHESTRATOR_MAX_RESTARTS": text})
    assert error.facts["env"] == "ORCHESTRATOR_MAX_RESTARTS"


def test_variables_that_name_no_key_are_left_alone(root: Path, home: Path) -> None:
    env = {"ORCHESTRATOR_AGENT_ID": "a", "ORCHESTRATOR_PROJECT": "/x", "ORCHESTRATOR_NONSENSE": "1"}
    assert set(load(root, env, {}, home).sources.values()) == {"default"}


def test_every_key_says_what_it_does_in_its_unit_and_where_it_holds() -> None:
    schema = Config.model_json_schema()
    assert schema["additionalProperties"] is False
    for key, field in schema["properties"].items():
        assert len(field["description"]) > 10, key
        assert field["per_connection"] is False
        suffix = key.rpartition("_")[2]
        if {suffix, field["unit"]} & {"s", "ms", "bytes", "share"}:
            assert field["unit"] == suffix, key
        assert field["env"] == keys.env_name(key) == f"ORCHESTRATOR_{key.upper()}"


def test_the_defaults_are_those_the_design_names() -> None:
    given = Config()
    assert (given.durability, given.overflow, given.on_lost, given.max_attempts) == ("fsync", "window", "requeue", 2)
    assert (given.min_pane_width, given.min_pane_height, given.master_share) == (0, 0, 0.45)
    assert (given.ready_wait_ms, given.poll_cap_ms, given.max_unfinished_tasks) == (45000, 45000, 1000)


def test_a_loaded_configuration_cannot_be_changed(root: Path, home: Path) -> None:
    found = load(root, {}, {}, home)
    with pytest.raises(ValueError, match="frozen"):
        found.config.border = True  # type: ignore[misc]


def test_a_bad_reload_keeps_the_last_good_one_and_shows_the_error(root: Path, home: Path) -> None:
    file = write(sources.project_file(root), "max_restarts = 5\n")
    state = ConfigState(root, {}, {}, home)
    assert (state.current.config.max_restarts, state.error) == (5, None)
    write(file, "max_restarts = 'x'\n")
    assert state.reload()
    assert state.current.config.max_restarts == 5
    assert state.error is not None
    assert state.error.code == "bad_config"
    assert not state.reload(), "the same error again is no change"
    write(file, "max_restarts = 6\n")
    assert state.reload()
    assert (state.current.config.max_restarts, state.error) == (6, None)


def test_the_first_load_must_be_good(root: Path, home: Path) -> None:
    write(sources.project_file(root), "nonsense = 1\n")
    with pytest.raises(BadRequest):
        ConfigState(root, {}, {}, home)


@pytest.mark.anyio
async def test_a_watched_file_is_taken_over_refused_and_taken_back(root: Path, home: Path) -> None:
    state = ConfigState(root, {}, {}, home)
    seen: asyncio.Queue[tuple[int, bool]] = asyncio.Queue()
    before = sorted(os.walk(root)) + sorted(os.walk(home))

    def note(now: ConfigState) -> None:
        seen.put_nowait((now.current.config.max_restarts, now.error is None))

    task = asyncio.create_task(watch(root, {}, note, home=home, state=state))
    try:
        async with asyncio.timeout(30):
            await asyncio.to_thread(lambda: None)  # the watch has begun, with neither directory there
            assert sorted(os.walk(root)) + sorted(os.walk(home)) == before, "watching must not litter"
            file = write(sources.project_file(root), "max_restarts = 5\n")
            assert await seen.get() == (5, True)
            write(file, "max_restarts = nonsense\n")
            assert await seen.get() == (5, False)
            write(sources.user_file({}, home), "max_restarts = 9\n")
            file.unlink()
            while (found := await seen.get()) != (9, True):
                assert found[0] == 5, "the last good one stays until the next good one"
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


@pytest.mark.anyio
async def test_files_are_followed_without_the_library_that_watches_them(
    root: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "watchfiles", None)
    state = ConfigState(root, {}, {}, home)
    seen: asyncio.Queue[str] = asyncio.Queue()
    task = asyncio.create_task(
        watch(root, {}, lambda now: seen.put_nowait(now.current.config.overflow), home=home, state=state)
    )
    try:
        async with asyncio.timeout(30):
            write(sources.project_file(root), 'overflow = "window"\n')
            assert await seen.get() == "window"
            write(sources.project_file(root), 'overflow = "refuse"\n')
            assert await seen.get() == "refuse"
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


@pytest.mark.anyio
async def test_other_files_beside_the_watched_ones_change_nothing(root: Path, home: Path) -> None:
    state = ConfigState(root, {}, {}, home)
    seen: asyncio.Queue[str] = asyncio.Queue()
    task = asyncio.create_task(
        watch(root, {}, lambda now: seen.put_nowait(now.current.config.overflow), home=home, state=state)
    )
    try:
        async with asyncio.timeout(30):
            (root / "main.py").write_text("x")
            (root / ".agents").mkdir()
            (root / ".agents" / "team.toml").write_text("x")
            write(sources.project_file(root), 'overflow = "window"\n')
            assert await seen.get() == "window"
            assert seen.empty()
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


# -- the fleet --------------------------------------------------------------------------------------------------

FLEET = '[fleet]\ndsn = "host=/tmp dbname=fleet"\nproject = "shop"\nhost = "box-1"\n'


def test_the_fleet_is_a_table_of_the_file_and_its_table_accept_is_one_setting(root: Path, home: Path) -> None:
    write(
        sources.user_file({}, home),
        FLEET + 'places = 3\non_host_lost = "move"\npush = "origin"\n[fleet.accept]\nhosts = ["a", "*"]\n'
        'engines = ["shell", "*"]\nroles = ["r"]\napproval = "edits"\npeek = false\ncommands = {build = "make -j2"}\n',
    )
    config = load(root, {}, {}, home).config
    assert (config.fleet_dsn, config.fleet_project, config.fleet_host) == ("host=/tmp dbname=fleet", "shop", "box-1")
    assert (config.fleet_places, config.fleet_on_host_lost, config.fleet_push) == (3, "move", "origin")
    assert config.in_fleet
    accept = {"hosts": ["a", "*"], "engines": ["shell", "*"], "roles": ["r"], "approval": "edits", "peek": False}
    assert config.fleet_accept == {**accept, "commands": {"build": "make -j2"}}
    env = {"ORCHESTRATOR_FLEET_ACCEPT": '{"hosts": ["b"]}', "ORCHESTRATOR_FLEET_PLACES": "5"}
    config = load(root, env, {}, home).config
    assert (config.fleet_accept, config.fleet_places) == ({"hosts": ["b"]}, 5), "not mixed with what a file says"
    assert not Config().in_fleet


@pytest.mark.parametrize("missing", ["dsn", "project", "host"])
def test_a_fleet_is_named_whole_or_not_at_all(root: Path, home: Path, missing: str) -> None:
    lines = [line for line in FLEET.splitlines() if not line.startswith(missing)]
    write(sources.user_file({}, home), "\n".join(lines))
    assert refused(root, home).facts["key"] == f"fleet_{missing}"
    word = {"dsn": "host=/tmp", "project": "p", "host": "h"}[missing]
    assert load(root, {f"ORCHESTRATOR_FLEET_{missing.upper()}": word}, {}, home).config.in_fleet
    write(sources.project_file(root), f'fleet.{missing} = "{word}"\n')
    found = load(root, {}, {}, home)
    assert (found.config.in_fleet, found.withheld) == (False, {f"fleet_{missing}": word}), "it waits for a word"


@pytest.mark.parametrize(
    "line",
    [
        'fleet.dsn = "postgresql://u:hush@h/f"', 'fleet.dsn = "host=h password=hush"',
        'fleet.dsn = "host=h password = \'hush\'"', 'fleet.dsn = "postgresql://h/f?password=hush"',
        'fleet.dsn = "postgresql://h/f?pass%77ord=hush"', 'fleet.dsn = "host=h sslpassword=hush"',
        'fleet.dsn = "hush"', 'fleet.dsn = "host=h hush"', 'fleet.dsn = "dbname=hush"', 'fleet.dsn = "host= "',
        'fleet.dsn = "postgresql:///hush"', 'fleet.dsn = "postgresql://a,,b/hush"', 'fleet.dsn = "host=\'hush"',
        'fleet.dsn = "postgresql://h:hush/f"', 'fleet.dsn = "postgresql:// h/hush"', 'fleet.dsn = "host=h\\nuser=hush"', "fleet.dsn = 5",
        'fleet.project = "Shop"', 'fleet.project = "-a"', 'fleet.host = "a.b"', f'fleet.host = "{"a" * 64}"',
        'fleet.host = "a\\n"', 'fleet.push = "--all"', 'fleet.push = "a b"', "fleet.places = 0", "fleet.places = 1001",
        'fleet.on_host_lost = "stay"', 'fleet.accept = "*"', 'fleet.accept.host = ["a"]', 'fleet.accept.hosts = "a"',
        'fleet.accept.hosts = ["A"]', 'fleet.accept.hosts = [""]', 'fleet.accept.engines = ["vim"]',
        "fleet.accept.roles = [1]", 'fleet.accept.approval = "most"', 'fleet.accept.peek = "yes"',
        'fleet.accept.commands = {a = ["make"]}', 'fleet.accept.commands = {a = " "}',
        'fleet.accept.commands = {"a b" = "make"}', 'fleet.accept.commands = {a = "make \'x"}',
    ],
)  # fmt: skip
def test_a_wrong_word_about_the_fleet_is_refused_and_no_password_is_repeated(
    root: Path, home: Path, line: str
) -> None:
    write(sources.user_file({}, home), line + "\n")
    error = refused(root, home)
    assert error.facts["key"] == "_".join(line.split(" ", maxsplit=1)[0].split(".")[:2])
    cause: BaseException | None = error
    while cause is not None:
        assert "hush" not in str(cause)
        cause = cause.__cause__


@pytest.mark.parametrize(
    "dsn",
    [
        "postgresql://me@db.example:5433/fleet?sslmode=verify-full&passfile=/p", "postgres://a,b/f",
        "host=db.example port=5433 dbname='a b' passfile=/p", "host = '/run/x'", "postgresql://[::1]/f",
        "postgresql://%2Frun%2Fx/f", "postgresql:///f?host=/run/x", "hostaddr=10.0.0.1 dbname=f", "host=it\\'s",
        "postgresql://me:@h/f",
    ],
)  # fmt: skip
def test_each_form_of_a_dsn_is_accepted(dsn: str) -> None:
    assert Config(fleet_dsn=dsn).fleet_dsn == dsn
