"""The conformance test of the engines table: what every row must keep, the new one of a contributor included.

Screens recorded from the real CLIs stand in tests/screens/<engine>/; a file's name begins with what the engine's
patterns must make of it (`permission-…`, `none-…`), or with `composer_` and what its input line is.
"""

import json
import re
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import get_args

import pytest

from orchestrator.base.errors import BadRequest
from orchestrator.base.public_names import AGENT_TOOLS
from orchestrator.cli.setup import BUSY_S
from orchestrator.core.prompts import wake_message
from orchestrator.core.screens import FindingKind, Screen, explain, stands
from orchestrator.engines import table
from orchestrator.engines.definition import APPROVALS, THEN_TYPE, HeadlessRun
from orchestrator.engines.table import ENGINES, SETUPS
from orchestrator.setup import entries
from orchestrator.team import agent_tools
from tests.support.launches import LAUNCH, SECRET

ROOT = Path(__file__).resolve().parents[3]
SCREENS = ROOT / "tests" / "screens"
EVENTS = {"start", "prompt", "turn_end", "interrupt", "permission", "notice", "end", "compacted", "answered", "tool"}
ROWS = list(ENGINES.values())


def launch_of(row, **wishes):
    wanted = row.reads(LAUNCH.env, LAUNCH.cwd)
    return replace(
        LAUNCH,
        **{
            "command": ("mycli", "--prompt", "{prompt}") if row.name == "command" else (),
            "shipped": dict.fromkeys(row.ships, "// SHIPPED"),
            "dirs": dict.fromkeys(wanted.dirs, ()),
            **wishes,
        },
    )


def everything(made):
    """All that a launch says, as one text; JSON inside it unescaped."""
    parts = [*made.argv, *made.env.values(), *made.files.values()]
    text = "\n".join(parts)
    return text + "\n" + text.replace('\\"', '"').replace("\\n", "\n").replace("\\\\", "\\")


WISHES = [{}, {"model": "m-1"}, {"trust": True}, *({"approval": one} for one in APPROVALS), {"resume": "s-42"}]


@pytest.mark.parametrize("wishes", WISHES, ids=lambda one: "-".join(map(str, one)) or "plain")
@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_a_launch_can_be_executed_and_stays_in_the_agents_directory(row, wishes):
    if "model" in wishes and not row.models:
        pytest.skip("takes no model")
    made = row.prepare(launch_of(row, **wishes))
    assert made.argv and all(isinstance(word, str) and "\0" not in word for word in made.argv)
    assert max(len(word.encode()) for word in made.argv) < 100_000  # Linux takes 128 KiB per word
    assert all(isinstance(v, str) and "\0" not in v and "=" not in k for k, v in made.env.items())
    for name in (*made.files, *made.links):
        path = PurePosixPath(name)
        assert not path.is_absolute() and ".." not in path.parts, name
    assert all(PurePosixPath(target).is_absolute() for target in made.links.values())
    assert not set(made.files) & {"launch.json", "go"}
    assert not {name for name in made.env if name.startswith("ORCHESTRATOR_AGENT_")} - {"ORCHESTRATOR_AGENT_MCP"}


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_no_secret_is_on_a_command_line_for_others_to_read(row):
    made = row.prepare(launch_of(row))
    assert not [word for word in made.argv if SECRET in word]


@pytest.mark.parametrize("row", [row for row in ROWS if row.name != "shell"], ids=lambda row: row.name)
def test_rules_first_message_and_server_reach_the_cli(row):
    text = everything(row.prepare(launch_of(row)))
    for said in ("RULES of the loop", "and a second line", "FIRST message", "--agent", "mcp"):
        assert said in text, said
    assert "AGAIN message" not in "\n".join(row.prepare(launch_of(row)).argv)


@pytest.mark.parametrize("row", [row for row in ROWS if row.resumes], ids=lambda row: row.name)
def test_a_resumed_life_goes_on_with_the_session_and_is_told_to_pull(row):
    text = everything(row.prepare(launch_of(row, resume="s-42")))
    assert "s-42" in text and "AGAIN message" in text and "RULES of the loop" in text


@pytest.mark.parametrize("row", [row for row in ROWS if row.models], ids=lambda row: row.name)
def test_the_model_is_the_one_asked_for(row):
    template = {"command": ("mycli", "{model}", "{prompt}")} if row.name == "command" else {}
    assert "vendor/model-1" in everything(row.prepare(launch_of(row, model="vendor/model-1", **template)))
    assert "vendor/model-1" not in everything(row.prepare(launch_of(row, **template)))


@pytest.mark.parametrize("row", [row for row in ROWS if row.name not in ("shell", "command")], ids=lambda r: r.name)
def test_approvals_are_raised_only_when_asked_for(row):
    def asked(**wishes):
        made = row.prepare(launch_of(row, **wishes))
        return made.argv, dict(made.env), dict(made.files)

    assert asked(approval="ask") == asked()
    assert asked(approval="all") != asked()
    assert asked(approval="all") != asked(approval="edits")


@pytest.mark.parametrize("row", [row for row in ROWS if row.parks == "hook"], ids=lambda row: row.name)
def test_a_row_that_parks_by_hook_installs_the_constant_hook(row):
    made = row.prepare(launch_of(row))
    assert LAUNCH.hook[2] in everything(made) and "turn_end" in row.hook_events.values()
    assert set(row.hook_events.values()) <= EVENTS
    # Codex trusts a hook by its command: it must not differ between agents or launches.
    other = row.prepare(launch_of(row, agent_id="unit-2", epoch=7, session="another"))

    def hooks(one):
        return sorted(set(re.findall(r"[^\n]*hook\.py[^\n]*", everything(one))))

    assert [re.sub(r"unit-\d", "", line) for line in hooks(made)] == [
        re.sub(r"unit-\d", "", line) for line in hooks(other)
    ]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_a_row_says_what_is_known_of_it(row):
    assert row.about and "\n" not in row.about
    assert row.tool_limit_s >= 60
    assert row.name in ("shell", "command") or row.program
    assert bool(row.tested_versions) == (row.tested and row.name not in ("shell", "command"))
    assert row.tested or row.limits, "what is untested says so in its limits"
    assert all(sentence.endswith(".") for sentence in row.limits)
    page = (ROOT / "docs" / "engines.md").read_text("utf-8")
    assert f"`{row.name}`" in page
    assert [version for version in row.tested_versions if version not in page] == []


def test_the_tools_that_every_cli_allows_an_agent_are_those_of_its_toolset():
    assert tuple(agent_tools.build(None)) == AGENT_TOOLS


def test_no_two_rows_claim_the_same_client():
    clients = [client for row in ROWS for client in row.clients]
    assert len(clients) == len(set(clients))


# -- what the screens say ---------------------------------------------------------------------------------------


def screen_of(path):
    """A recorded screen: head lines `#title:`, `#cursor: x y`, `#styled:`, then what capture-pane printed."""
    fields, lines = {}, path.read_text("utf-8").split("\n")
    while lines and (head := re.fullmatch(r"#(title|cursor|styled|mode): ?(.*)", lines[0])):
        fields[head[1]] = head[2]
        lines.pop(0)
    while lines and not lines[-1].strip():
        lines.pop()
    x, _, y = fields.get("cursor", "0 0").partition(" ")
    return Screen(
        title=fields.get("title", ""),
        lines=tuple(lines),
        styled=fields.get("styled", "").encode().decode("unicode_escape").encode("latin-1").decode("utf-8")
        if "\\" in fields.get("styled", "")
        else fields.get("styled", ""),
        cursor_x=int(x),
        cursor_y=int(y),
        in_mode="mode" in fields,
    )


RECORDED = sorted(path for path in SCREENS.glob("*/*.txt"))


def kind_of(path):
    return path.name.split("-")[0].removesuffix(".txt")


@pytest.mark.parametrize(
    "path",
    [one for one in RECORDED if not one.name.startswith("composer_")],
    ids=lambda p: f"{p.parent.name}/{p.stem}",
)
def test_a_recorded_screen_is_explained(path):
    row = ENGINES[path.parent.name]
    found = explain(row.patterns, screen_of(path))
    assert (found.kind if found else "none") == kind_of(path), found
    if found is not None:
        assert found.reason and "{" not in found.reason and len(found.reason) <= 240


REFUSED = [
    "gemini/login-key_refused", "gemini/login-unauthenticated", "codex/login-key_refused",
    "codex/login-key_refused_narrow", "opencode/login-bad-key",
]  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_a_login_that_ended_a_turn_says_what_to_type_once_it_is_fixed(name):
    reason = explain(ENGINES[name.partition("/")[0]].patterns, screen_of(SCREENS / f"{name}.txt")).reason
    assert reason.endswith(THEN_TYPE)


@pytest.mark.parametrize(
    "path", [one for one in RECORDED if one.name.startswith("composer_")], ids=lambda p: f"{p.parent.name}/{p.stem}"
)
def test_the_input_line_of_a_recorded_screen_is_read(path):
    row = ENGINES[path.parent.name]
    assert row.composer is not None
    assert row.composer(screen_of(path)) == kind_of(path).removeprefix("composer_")


OUR_LINE = [one for one in RECORDED if "our_line" in one.name or "our_paste" in one.name]


@pytest.mark.parametrize("path", OUR_LINE, ids=lambda p: f"{p.parent.name}/{p.stem}")
def test_our_line_is_known_in_the_composer_however_it_is_wrapped(path):
    screen, line = screen_of(path), ENGINES[path.parent.name].pasted or wake_message("a")
    assert stands(screen, line)
    assert not stands(screen, f"{line} Now.")
    last = screen.lines[screen.cursor_y]
    above, below = screen.lines[: screen.cursor_y], screen.lines[screen.cursor_y + 1 :]
    assert not stands(screen._replace(lines=(*above, f"{last} but first", *below)), line)
    assert not stands(screen._replace(cursor_y=screen.cursor_y - 1), line)
    assert stands(screen._replace(lines=(*above, last, "", *below), cursor_y=screen.cursor_y + 1), line), "a new line"


@pytest.mark.parametrize("path", [one for one in RECORDED if one not in OUR_LINE], ids=lambda p: p.stem)
def test_our_line_is_seen_in_no_other_composer(path):
    """Many of these screens show such a line further up, submitted."""
    screen = screen_of(path)
    for agent_id in ("a", "a1", "k1"):
        assert not stands(screen, wake_message(agent_id))


def test_words_of_a_human_before_our_line_make_it_a_draft():
    words = wake_message("a").split(" ")
    lines = (" > My own words.", f"   {' '.join(words[:9])}", f"   {' '.join(words[9:])}")
    assert not stands(Screen(lines=lines, cursor_y=2), wake_message("a"))
    assert stands(Screen(lines=("My own words.", "", *lines[1:]), cursor_y=3), wake_message("a"))


@pytest.mark.parametrize("row", [row for row in ROWS if row.patterns], ids=lambda row: row.name)
def test_every_pattern_is_data_that_works_and_has_a_recorded_screen(row):
    screens = [screen_of(path) for path in RECORDED if path.parent.name == row.name]
    for pattern in row.patterns:
        compiled = re.compile(pattern.regex)
        assert pattern.kind in get_args(FindingKind)
        assert pattern.until <= compiled.groups
        assert all(int(slot) <= compiled.groups for slot in re.findall(r"\{(\d)\}", pattern.reason))
    unseen = [p.regex for p in row.patterns if not any(explain([p], screen) for screen in screens)]
    assert unseen == []


@pytest.mark.parametrize("row", [row for row in ROWS if row.composer], ids=lambda row: row.name)
def test_nothing_is_pasted_over_what_is_not_known_to_be_empty(row):
    kinds = {kind_of(p) for p in RECORDED if p.parent.name == row.name and p.name.startswith("composer_")}
    assert {"composer_empty", "composer_draft", "composer_other"} <= kinds
    for blank in (Screen(), Screen(lines=("$ ",), styled="$ ", cursor_x=2), Screen(dead=True)):
        assert row.composer(blank) != "empty"
    for path in RECORDED:
        if path.parent.name == row.name and path.name.startswith("composer_empty"):
            assert row.composer(screen_of(path)._replace(in_mode=True)) in ("empty", "other")
            assert row.composer(screen_of(path)._replace(dead=True)) == "other"


# -- headless runs ----------------------------------------------------------------------------------------------

SQUAD = [row for row in ROWS if row.headless]
FORMS = {
    "chosen": "7d0f9ed5-6d5c-4c1e-9d6b-3f2f8f9b5a10",
    "created": "chat-1",
    "printed": "01a20314-577f-7292-bc92-e39fe913fd85",
}
PROMPTS = ("-x --help", "--", "-", "@file", "/clear", "say \"it\"\n and 'that' $(ls) 😀\n", "a b")


def chat_of(row):
    return "ses_dfceb8d9bffeW7OJhF0jJNPCc3" if row.name == "opencode" else FORMS[row.headless.chats]


def ran(row, prompt="PROMPT", **wishes):
    return row.headless.run(HeadlessRun(prompt, "/home/ada/p", **wishes))


def test_squads_run_these_engines():
    assert {row.name for row in SQUAD} == {"claude", "codex", "gemini", "opencode", "cursor"}


@pytest.mark.parametrize("going_on", [False, True], ids=["new", "going-on"])
@pytest.mark.parametrize("row", SQUAD, ids=lambda row: row.name)
def test_a_prompt_is_a_word_that_no_flag_comes_of_or_it_comes_on_standard_input(row, going_on):
    for prompt in PROMPTS:
        given = f"\n{prompt}" if prompt[0] == "/" and row.name in ("claude", "gemini") else prompt  # no command of it
        made = ran(row, prompt, **({"chat": chat_of(row)} if going_on else {}))
        assert made.argv[0] == row.program
        if made.stdin is not None:
            assert made.stdin == given
            continue
        *before, word = made.argv
        assert (word == given and "--" in before) or word == f"--prompt={given}"


@pytest.mark.parametrize("row", SQUAD, ids=lambda row: row.name)
def test_a_prompt_too_long_for_a_word_comes_on_standard_input_alone(row):
    if row.headless.long_prompt == "no":
        pytest.skip("takes none that long")
    for wishes in ({}, {"session": FORMS["chosen"]}, {"chat": chat_of(row)}):
        made = ran(row, "PROMPT" * 40_000, stdin=True, **wishes)
        assert made.stdin == "PROMPT" * 40_000
        assert not [word for word in made.argv if "PROMPT" in word]


@pytest.mark.parametrize("row", SQUAD, ids=lambda row: row.name)
def test_a_chat_is_begun_known_by_an_id_and_gone_on_with(row):
    way = row.headless
    assert bool(way.create) == (way.chats == "created") and bool(way.printed_chat_id) == (way.chats == "printed")
    session, chat = "7d0f9ed5-6d5c-4c1e-9d6b-3f2f8f9b5a11", chat_of(row)
    assert any(session in word for word in ran(row, session=session).argv) == (way.chats == "chosen")
    (named,) = [word for word in ran(row, chat=chat).argv if chat in word]
    assert re.fullmatch(r"(--\w+=)?[A-Za-z0-9][A-Za-z0-9._:-]{0,127}", named)
    assert not [word for word in ran(row).argv if "resume" in word or "session-id" in word]
    if way.printed_chat_id:
        assert way.printed_chat_id("", "") == way.printed_chat_id(chat, "session id:\nses_") == ""


@pytest.mark.parametrize("chat", ["--yolo", "-x", "a b", "../x", "latest=1", "a" * 129, "é", "x\n"])
@pytest.mark.parametrize("row", SQUAD, ids=lambda row: row.name)
def test_an_id_that_may_name_anything_else_is_refused(row, chat):
    with pytest.raises(BadRequest) as refused:
        ran(row, chat=chat)
    assert refused.value.code == "bad_argument"


@pytest.mark.parametrize("chat", ["latest", "1", "my-title"])
@pytest.mark.parametrize("row", [row for row in SQUAD if row.tested], ids=lambda row: row.name)
def test_a_title_or_a_place_in_a_list_is_no_id_of_a_chat(row, chat):
    with pytest.raises(BadRequest, match="is not a chat id of"):
        ran(row, chat=chat)


@pytest.mark.parametrize("row", SQUAD, ids=lambda row: row.name)
def test_a_headless_run_is_the_users_cli_unless_asked_otherwise(row):
    plain = ran(row)
    assert ran(row, approval="ask") == plain
    assert ran(row, approval="all") != plain
    assert ran(row, approval="all") != ran(row, approval="edits")
    assert [word for word in ran(row, model="m/one").argv if word not in plain.argv] == ["--model=m/one"]
    assert not {"HOME", "CODEX_HOME", "GEMINI_CLI_HOME", "CLAUDE_CONFIG_DIR"} & set(plain.env)
    assert not [word for word in plain.argv if "mcp" in word]


def test_a_masters_call_lasts_as_long_as_its_cli_lets_it_by_itself():
    known = {row.name: row.call_limit_s for row in ROWS if row.call_limit_s}
    assert known == {"opencode": 60.0, "claude": 120.0, "codex": 300.0, "gemini": 600.0}
    assert all(row.tool_limit_s > row.call_limit_s or row.name == "gemini" for row in ROWS)


# -- how its user registers our server --------------------------------------------------------------------------


class NoFiles:
    def size(self, _path):
        return None

    def text(self, _path):
        return ""

    def document(self, _path):
        return {}


@pytest.mark.parametrize("name", SETUPS)
def test_the_files_of_a_cli_are_in_the_users_home_until_a_variable_moves_them(name):
    cli, home = SETUPS[name], {"HOME": "/home/ada"}
    usual = cli.server_file(home, NoFiles())
    assert usual.startswith("/home/ada/.") and usual.endswith(f".{cli.form}")
    assert cli.hooks_file is None or cli.hooks_file(home).startswith("/home/ada/.")
    assert cli.variables
    for variable in cli.variables:
        assert cli.server_file({**home, variable: "/elsewhere"}, NoFiles()).startswith("/elsewhere")
    assert cli.login(home, NoFiles()) == ""


@pytest.mark.parametrize("name", SETUPS)
def test_an_entry_starts_the_command_it_is_made_for_and_a_sub_agents_names_its_tools(name):
    cli = SETUPS[name]
    words = ["/bin/python", "-m", "orchestrator", "mcp"]
    assert entries.server_words(cli.server(words, ("TMUX",))) == words
    assert all(tool in entries.for_agents(cli, words) for tool in AGENT_TOOLS)
    assert ENGINES[name].program and ENGINES[name].clients, "a master that setup registers is known by its client"
    assert cli.lock_stale_s < BUSY_S, "setup outlasts the lock of a CLI that has died"


# -- the table as a whole ---------------------------------------------------------------------------------------


def test_wishes_an_engine_cannot_fulfil_are_refused():
    with pytest.raises(BadRequest) as refused:
        table.check_wishes(ENGINES["shell"], "m", "ask", ())
    assert refused.value.code == "bad_argument"
    with pytest.raises(BadRequest):
        table.check_wishes(ENGINES["claude"], None, "everything", ())
    with pytest.raises(BadRequest):
        table.check_wishes(ENGINES["command"], None, "ask", ())
    table.check_wishes(ENGINES["command"], "m", "all", ("x",))


def test_an_agent_inherits_nothing_that_names_the_master():
    inherited = {"PATH": "/bin", "TMUX": "x", "CLAUDECODE": "1", "ORCHESTRATOR_AGENT_SECRET": "s", "GEMINI_CLI": "1"}
    assert table.passed_on(inherited, {"A": "b"}) == {"PATH": "/bin", "A": "b"}


def test_the_command_engine_fills_its_template_once_and_expands_no_value():
    row = ENGINES["command"]
    made = row.prepare(launch_of(row, command=("x", "{prompt}", "--mcp={mcp}", "{unknown}"), first="say {mcp}"))
    assert made.argv[0] == "x" and "say {mcp}" in made.argv[1] and made.argv[3] == "{unknown}"
    assert json.loads(made.argv[2].removeprefix("--mcp="))[-3:] == ["--agent", "--project", "/home/ada/p"]
    assert made.files["prompt.md"].startswith("RULES of the loop")


@pytest.mark.parametrize("row", [row for row in ROWS if row.busy], ids=lambda row: row.name)
def test_a_running_turn_shows_itself_and_a_resting_cli_does_not(row):
    def busy(path):
        return any(re.search(row.busy, line) for line in screen_of(path).lines)

    mine = [path for path in RECORDED if path.parent.name == row.name]
    assert any(busy(path) for path in mine if path.name.startswith("none-"))
    resting = [
        path for path in mine if path.stem in ("composer_empty-idle", "none-idle", "composer_empty-interrupted")
    ]
    assert resting and not any(busy(path) for path in resting)


def test_a_screen_shows_when_what_a_human_has_typed_waits_for_the_end_of_the_turn():
    waits = {
        f"{path.parent.name}/{path.stem}"
        for path in RECORDED
        if ENGINES[path.parent.name].human_waits(screen_of(path))
    }
    assert waits == {
        "codex/none-command_refused", "codex/none-command_refused_idle", "codex/none-human_queued", "codex/none-human_queued_busy",
        "codex/none-human_queued_tab", "gemini/no_tools-slow", "gemini/none-command_refused", "gemini/none-queued",
    }  # fmt: skip
