"""The likely cause of a CLI that did not get ready, what its pane's last lines keep, and which version it is."""

from __future__ import annotations

import os
from pathlib import Path
from typing import get_args

import pytest

from orchestrator.core.attention import said
from orchestrator.core.inbox_items import recorded_items
from orchestrator.core.screens import FindingKind, ScreenFinding, readable
from orchestrator.core.state import Block, Task
from orchestrator.engines import start_failures
from orchestrator.engines.definition import Engine, PreparedLaunch
from orchestrator.team.life import cli_versions
from orchestrator.team.panes.border_lines import border_line
from orchestrator.team.people.snapshot_rows import snapshot_row
from orchestrator.team.roster.agent_entry import AgentEntry

ROW = Engine(
    name="x",
    prepare=lambda _launch: PreparedLaunch(("x",)),
    tool_limit_s=60.0,
    program="x",
    tested_versions=("1.0", "1.1"),
)


def likely(**known: object) -> str:
    facts = {"finding": None, "status": None, "listed": False, "version": None, "lives": True} | known
    return start_failures.likely(ROW, **facts)  # type: ignore[arg-type]


def test_every_kind_of_screen_has_a_sentence() -> None:
    assert set(start_failures.WHY) == set(get_args(FindingKind))


@pytest.mark.parametrize(
    ("known", "words"),
    [
        ({"finding": ScreenFinding("login", "run x login")}, "it is not logged in (run x login)"),
        ({"finding": ScreenFinding("rate_limit", "", "15:00")}, "it has hit a limit of its provider, until 15:00"),
        (
            {"finding": ScreenFinding("trust", "asks"), "status": 1, "lives": False},
            "it asks whether its folder is trusted (asks)",
        ),
        (
            {"status": 127, "lives": False},
            "its program was not found, or the interpreter in the program's first line was not",
        ),
        ({"status": 126, "lives": False}, "its program cannot be run"),
        ({"status": 1, "lives": False}, ""),
        ({"listed": True}, "it has our tools, but its model has not called wait_for_command"),
        ({}, "it has not asked our MCP server for tools, so it may still be starting, or it waits for a human"),
    ],
)
def test_the_strongest_fact_is_the_cause(known: dict[str, object], words: str) -> None:
    assert likely(**known) == words


@pytest.mark.parametrize(("version", "doubted"), [("1.1", False), (None, False), ("2.0", True)])
def test_a_version_is_named_when_nobody_has_tried_it(version: str | None, doubted: bool) -> None:
    assert likely(version=version).endswith("; x 2.0 is not a version we have tested (1.0, 1.1)") == doubted


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("2.1.329 (Claude Code)\n", "2.1.329"),
        ("codex-cli 0.169.0", "0.169.0"),
        ("1.18.33-rc.1", "1.18.33-rc.1"),
        ("no", None),
    ],
)
def test_the_version_is_found_in_what_clis_print(text: str, version: str | None) -> None:
    assert start_failures.version_in(text) == version


def program(place: Path, body: str) -> dict[str, str]:
    file = place / "x"
    file.write_text(f"#!/bin/sh\n{body}\n")
    file.chmod(0o755)
    return {"PATH": f"{place}{os.pathsep}{os.defpath}"}


def test_a_version_is_asked_for_once_for_each_installed_file(tmp_path: Path) -> None:
    env = program(tmp_path, f'echo asked >> {tmp_path}/asked; echo "x version 3.2.1"')
    assert cli_versions.version_of("x", env) == "3.2.1"
    assert cli_versions.version_of("x", env) == "3.2.1"
    assert (tmp_path / "asked").read_text() == "asked\n"
    env = program(tmp_path, "echo 4.0")
    os.utime(tmp_path / "x", ns=(1, 1))
    assert cli_versions.version_of("x", env) == "4.0"


@pytest.mark.parametrize("body", ["exit 3", "echo none", "sleep 60; echo 1.0"])
def test_a_program_that_does_not_tell_has_no_version(
    tmp_path: Path, body: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cli_versions, "TIMEOUT_S", 0.2)
    assert cli_versions.version_of("x", program(tmp_path, body)) is None


def test_a_program_that_is_not_there_has_no_version(tmp_path: Path) -> None:
    assert cli_versions.version_of("x", {"PATH": str(tmp_path)}) is None
    assert cli_versions.version_of("", {"PATH": str(tmp_path)}) is None


def test_last_lines_are_few_short_printable_and_say_something() -> None:
    lines = [
        "first",
        *[f"line {n}" for n in range(11)],
        "",
        "  ",
        "  in\x1b[1mdented\x07 ",
        "x" * 500,
        "\t",
        "│ ───── │",
    ]
    assert readable(lines) == [*[f"line {n}" for n in range(1, 11)], "  in [1mdented", "x" * 200]
    assert readable([]) == []


def test_the_border_line_says_why_an_agent_does_not_go_on() -> None:
    entry = AgentEntry("a1")
    assert border_line(entry, "blocked", "nothing came") == (" ◐ a1 · blocked: nothing came ", "yellow")
    assert border_line(entry, "blocked", "y" * 90).text == f" ◐ a1 · blocked: {'y' * 59}… "
    assert border_line(entry, "failed", "3 restarts") == (" ✕ a1 · failed: 3 restarts ", "red")
    assert border_line(entry, "idle", "inside wait_for_command") == (" a1 · ○ idle ", "")
    entry.state.lease = entry.state.unfinished["t-1"] = Task("t-1", 1, 1, {"command": "make " + "x" * 60})
    assert border_line(entry, "busy") == (f" a1 · ● busy · make {'x' * 34}… ", "")


@pytest.mark.parametrize(
    ("kind", "reason", "shown"),
    [
        ("permission", "asks to use Bash: rm", "asks to use Bash: rm"),
        ("login", "wants you to log in", "login: wants you to log in"),
        ("rate_limit", "no quota", "limit: no quota"),
        ("hooks", "asks about hooks", "asks about hooks"),
        ("", "ended its turn", "blocked: ended its turn"),
    ],
)
def test_the_border_line_names_the_state_in_the_word_of_all_faces(kind: str, reason: str, shown: str) -> None:
    entry = AgentEntry("a1")
    entry.state.blocks[kind] = Block(kind, reason, None, "2026-01-02T03:04:05.000Z", 3)
    (item,) = recorded_items(entry.state)
    row = snapshot_row({"status": "blocked"}, [item])
    line = border_line(entry, "blocked", "something newer")
    assert line == (f" ◐ a1 · {shown} ", "yellow")
    assert said(row["state"], row["waits_for"]["text"]) == shown
    entry.state.blocks["later"] = Block("login", "log in", None, "2026-01-02T03:04:06.000Z", 4)
    assert border_line(entry, "blocked", "log in") == line  # what the other faces show: the oldest
