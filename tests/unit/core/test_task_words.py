"""Short texts about tasks: titles and the reason of an end."""

import pytest

from orchestrator.core.task_words import PRIVATE, REASON_CHARS, TITLE_CHARS, reason_of, short_line, title_of


@pytest.mark.parametrize(
    ("payload", "title"),
    [
        ("fix the login", "fix the login"),
        ({"command": "make check"}, "make check"),
        ({"task": "review src/calc.py", "attachments": ["a"]}, "review src/calc.py"),
        ({"instructions": "do it", "command": "not this"}, "do it"),
        ({"title": 5, "goal": "write docs"}, "write docs"),
        ({"title": "  ", "text": "words"}, "words"),
        ({"n": 1}, '{"n": 1}'),
        ([1, 2], "[1, 2]"),
        (7, "7"),
        (None, ""),
        ({}, ""),
        ("", ""),
        ("two\nlines\t\x1b[31mred\u202e!", "two lines [31mred !"),
        ({"command": "curl -H token", "private": True}, PRIVATE),
        ({"command": "ls", "private": False}, "ls"),
        ({"command": "TOKEN=abc123 make"}, "TOKEN=… make"),
    ],
)
def test_a_title_is_the_payloads_first_words(payload, title):
    assert title_of(payload) == title


def test_a_given_title_wins_unless_nothing_of_it_can_be_seen():
    assert title_of({"command": "ls", "private": True}, " Release \n 2 ") == "Release 2"
    assert title_of({"command": "ls"}, "\u200b \n") == "ls"


def test_a_long_title_is_cut_with_an_ellipsis():
    assert title_of("x" * TITLE_CHARS) == "x" * TITLE_CHARS
    assert title_of("x" * (TITLE_CHARS + 1)) == "x" * (TITLE_CHARS - 1) + "…"
    assert len(title_of("word " * 1_000_000)) <= TITLE_CHARS


@pytest.mark.parametrize(
    ("payload", "reason"),
    [
        (
            {"code": "exit_status", "exit_code": 2, "message": "the command ended with exit code 2"},
            "exit code 2",
        ),
        (
            {"code": "exit_status", "message": "the command ended with exit code 2"},
            "the command ended with exit code 2",
        ),
        ({"code": "tests_fail"}, "tests_fail"),
        ({"reason": "the agent was deleted"}, "the agent was deleted"),
        ("boom", "boom"),
        (None, ""),
        ({"message": "a" * 500}, "a" * (REASON_CHARS - 1) + "…"),
    ],
)
def test_the_reason_of_an_end_is_in_its_own_words(payload, reason):
    assert reason_of(payload) == reason


def test_a_short_line_has_no_control_characters_and_no_line_ends():
    assert short_line("a\r\n\x00b \u2028 c\U000e0001", 10) == "a b c"
    assert short_line("\x07" * 50, 10) == ""
