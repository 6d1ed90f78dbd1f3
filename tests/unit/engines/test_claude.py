"""The row of Claude Code: what a launch is made of, and what its screens hide from a simpler reader."""

import json
import shlex
from dataclasses import replace

import pytest

from orchestrator.core.screens import Screen, explain
from orchestrator.engines.claude import ROW, TOOL_LIMIT_S
from orchestrator.engines.definition import HeadlessRun
from orchestrator.team.wake.paste_wake import may_paste
from tests.support import launches
from tests.support.launches import PLACE, SECRET

LAUNCH = replace(launches.LAUNCH, first="--first message")


def made(**wishes):
    """A launch as (argv, environment, MCP configuration, settings)."""
    prepared = ROW.prepare(replace(LAUNCH, **wishes))
    mcp, settings = (json.loads(prepared.files[name]) for name in ("mcp.json", "settings.json"))
    return prepared.argv, dict(prepared.env), mcp, settings


def test_all_of_ours_is_named_by_flags_and_the_message_can_be_no_flag():
    argv, _, _, _ = made()
    assert argv[:4] == (
        "claude",
        f"--mcp-config={PLACE}/mcp.json",
        f"--settings={PLACE}/settings.json",
        f"--append-system-prompt-file={PLACE}/rules.md",
    )
    assert argv[-3:] == (f"--session-id={LAUNCH.session}", "--", "--first message")
    assert ROW.prepare(LAUNCH).files["rules.md"] == f"{LAUNCH.rules}\n"
    assert not {"--strict-mcp-config", "--setting-sources"} & {word.split("=")[0] for word in argv}


def test_the_users_own_servers_settings_and_tools_stay():
    _, env, mcp, settings = made()
    assert list(mcp["mcpServers"]) == ["orchestrator"]
    assert set(settings) == {"hooks", "permissions", "prefersReducedMotion", "idleCompaction"}
    assert settings["permissions"] == {
        "allow": ["mcp__orchestrator__wait_for_command", "mcp__orchestrator__emit_event"]
    }
    assert not {"HOME", "CLAUDE_CONFIG_DIR", "IS_SANDBOX", "CLAUDE_CODE_SANDBOXED"} & set(env)


def test_the_server_gets_its_identity_by_name_and_no_file_holds_the_secret():
    _, _, mcp, _ = made()
    server = mcp["mcpServers"]["orchestrator"]
    assert [server["command"], *server["args"]] == list(LAUNCH.mcp)
    assert server["env"]["ORCHESTRATOR_AGENT_SECRET"] == "${ORCHESTRATOR_AGENT_SECRET}"
    assert "ORCHESTRATOR_RUN_BASE" not in server["env"], "the CLI warns of a variable that is not set"
    assert not [text for text in ROW.prepare(LAUNCH).files.values() if SECRET in text]
    moved = {**LAUNCH.env, "ORCHESTRATOR_RUN_BASE": "/run/x"}
    assert made(env=moved)[2]["mcpServers"]["orchestrator"]["env"]["ORCHESTRATOR_RUN_BASE"]


def test_a_wait_may_last_as_long_as_the_row_says():
    _, env, mcp, _ = made()
    assert mcp["mcpServers"]["orchestrator"]["timeout"] == TOOL_LIMIT_S * 1000 == ROW.tool_limit_s * 1000
    assert env["CLAUDE_CODE_MCP_AUTO_BACKGROUND_MS"] == "0"


def test_every_hook_is_the_constant_command_without_a_shell_and_outlives_a_park():
    _, _, _, settings = made()
    assert set(settings["hooks"]) == set(ROW.hook_events)
    for ((entry,),) in ([one["hooks"] for one in entries] for entries in settings["hooks"].values()):
        assert [entry["command"], *entry["args"]] == list(LAUNCH.hook)
        assert shlex.quote(entry["command"]) == entry["command"]
        assert entry["timeout"] > ROW.park_limit_s


def test_a_turn_that_ends_in_an_error_is_known_to_be_over_and_is_not_parked():
    assert (ROW.hook_events["Stop"], ROW.hook_events["StopFailure"]) == ("turn_end", "end")


@pytest.mark.parametrize(
    ("wishes", "words"),
    [
        ({"model": "opus"}, {"--model=opus"}),
        ({"approval": "edits"}, {"--permission-mode=acceptEdits"}),
        ({"approval": "all"}, {"--dangerously-skip-permissions"}),
    ],
    ids=["model", "edits", "all"],
)
def test_a_wish_adds_its_flag_only(wishes, words):
    assert set(made(**wishes)[0]) - set(made()[0]) == words


def test_what_approval_all_asks_once_is_not_asked_in_a_pane_nobody_looks_at():
    assert "skipDangerousModePermissionPrompt" not in made(approval="edits")[3]
    assert made(approval="all")[3]["skipDangerousModePermissionPrompt"] is True


def test_the_folder_is_trusted_for_the_user_only_when_asked():
    assert made(trust=True)[1]["CLAUDE_CODE_SANDBOXED"] == "1"


def test_a_relaunch_resumes_and_gets_the_reminder():
    argv = made(resume="0f9e")[0]
    assert argv[-3:] == ("--resume=0f9e", "--", LAUNCH.again)
    assert not [word for word in argv if word.startswith("--session-id")]
    assert ROW.prepare(replace(LAUNCH, resume="0f9e")).session == "0f9e"


# -- screens ----------------------------------------------------------------------------------------------------

RULE = "─" * 60
FOOT = "  ⏸ manual mode on · ? for shortcuts"
BUSY = (
    (
        "● Sketching… (running Stop hook · 9s · ↓ 30 tokens)",
        "",
        RULE,
        "\u276f\xa0a draft",
        RULE,
        "  ⏸ manual mode on",
    ),
    ("● Sketching…", "", RULE, "\u276f\xa0", RULE, "  ⏸ manual mode on · esc to interrupt"),
)


def at_rest(*said, draft=""):
    lines = (*said, "", RULE, f"\u276f\xa0{draft}", RULE, FOOT)
    return Screen(lines=lines, styled=f"\u276f\xa0\x1b[7m{draft or ' '}", cursor_x=2, cursor_y=len(lines) - 3)


def kind(screen):
    found = explain(ROW.patterns, screen)
    return found and found.kind


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("● Please run /login · API Error: 403 no", "login"),
        ("● API Error: 529 Overloaded", "api_error"),
        ("  ⎿  Context limit reached · /compact or /clear to continue", "context_full"),
        ("  ⎿  You've hit your weekly limit · resets Nov 24, 9am (UTC)", "rate_limit"),
        ("  ⎿  Interrupted · What should Claude do instead?", "interrupted"),
    ],
)
def test_an_error_counts_until_something_new_is_said(line, expected):
    assert kind(at_rest("\u276f go on", line)) == expected
    assert kind(at_rest(line, "\u276f go on", "● All is well.")) is None
    assert kind(at_rest(line, "\u276f go on", line)) == expected
    assert [kind(Screen(lines=(line, *busy))) for busy in BUSY] == [None, None]


def test_the_end_of_a_limit_is_told():
    found = explain(ROW.patterns, at_rest("  ⎿  You've hit your 5-hour limit · resets 2:08pm (UTC)"))
    assert (found.reason, found.until) == ("it has hit its 5-hour limit", "2:08pm (UTC)")


@pytest.mark.parametrize(
    "line",
    [
        " Do you want to proceed?",
        "Yes, I trust this folder",
        " ☐ Color",
        "Enter to confirm · Esc to cancel",
        "Detected a custom API key in your environment",
    ],
)
def test_what_a_model_or_a_human_writes_is_no_dialog(line):
    assert kind(Screen(lines=(line, "", " Esc to cancel"))) is not None
    assert kind(at_rest(line)) is None


def test_grey_words_in_the_composer_are_no_draft():
    screen = at_rest(draft="Once fixed, resend your message")
    assert ROW.composer(screen) == "draft"
    grey = screen._replace(styled="\u276f\xa0\x1b[7mO\x1b[0;2m\x1b[39mnce fixed, resend your message")
    assert ROW.composer(grey) == "empty"


def test_a_draft_whose_first_line_is_blank_is_a_draft():
    screen = at_rest()
    lines = list(screen.lines)
    lines.insert(screen.cursor_y + 1, "  and on the second line")
    assert ROW.composer(screen) == "empty"
    assert ROW.composer(screen._replace(lines=tuple(lines))) == "draft"
    assert ROW.composer(screen._replace(lines=tuple(lines), cursor_y=screen.cursor_y + 1)) == "draft"


def test_another_mark_is_another_mode_and_nothing_to_paste_into():
    screen = at_rest()
    lines = [line.replace("\u276f\xa0", "! ") for line in screen.lines]
    assert ROW.composer(screen._replace(lines=tuple(lines))) == "other"


def test_a_line_may_be_pasted_after_an_esc_and_never_over_a_draft_or_a_dialog():
    assert may_paste(ROW, at_rest("  ⎿  Interrupted · What should Claude do instead?"))
    assert not may_paste(ROW, at_rest("● Parked.", draft="half a thought"))
    assert not may_paste(ROW, at_rest("● Please run /login · API Error: 403 no"))


def once(**wishes):
    return ROW.headless.run(HeadlessRun("words", "/home/ada/p", **wishes))


def test_a_headless_run_keeps_nothing_begins_a_chat_or_goes_on_with_one():
    chat = LAUNCH.session
    assert once().argv == ("claude", "--print", "--no-session-persistence", "--", "words")
    assert once(session=chat).argv == ("claude", "--print", f"--session-id={chat}", "--", "words")
    assert once(chat=chat).argv == ("claude", "--print", f"--resume={chat}", "--", "words")
    assert once(chat=chat, stdin=True).argv == ("claude", "--print", f"--resume={chat}")


def test_a_headless_run_is_approved_and_trusted_as_a_launch_is():
    assert "--permission-mode=acceptEdits" in once(approval="edits").argv
    assert "--dangerously-skip-permissions" in once(approval="all").argv
    assert once(trust=True).env["CLAUDE_CODE_SANDBOXED"] == "1"
    assert dict(once().env) == {"DISABLE_AUTOUPDATER": "1"}
