"""What a rule covers: two requests have one pattern only if the second shows a human nothing new."""

import itertools
import json

import pytest

from orchestrator.engines.permission_requests import Asked
from orchestrator.engines.rule_patterns import rule_pattern


def asked(tool, given, text=None, cwd="/p", **more):
    return Asked("permission", tool, text if text is not None else _text(given), "asks", given, cwd, **more)


def _text(given):
    return next(
        (str(given[name]) for name in ("command", "file_path", "filepath") if name in given), json.dumps(given)
    )


def command(text, cwd="/p", tool="Bash", **more):
    return asked(tool, {"command": text, **more}, cwd=cwd)


def patch(*headers):
    text = "*** Begin Patch\n" + "".join(f"{header}\n+x\n" for header in headers) + "*** End Patch"
    return asked("apply_patch", {"command": text})


SAME = {
    "another word of the model about it": (command("make"), command("make", description="Builds")),
    "the same command of another CLI": (command("make"), command("make", tool="run_shell_command")),
    "a second change of a file": (
        asked("Write", {"file_path": "/p/a.py", "content": "1"}), asked("Write", {"file_path": "/p/a.py", "content": "2"}),
    ),
    "a change by another tool": (
        asked("Write", {"file_path": "/p/a.py", "content": "1"}), asked("Edit", {"file_path": "/p/a.py", "old_string": "1"}),
    ),
    "a file below the directory": (asked("edit", {"filepath": "a.py", "diff": "@@"}), asked("replace", {"file_path": "/p/a.py"}, text="/p/a.py")),
    "a patch of one file": (patch("*** Update File: a.py"), asked("Write", {"file_path": "/p/a.py"})),
    "two files in another order": (
        patch("*** Add File: a", "*** Update File: b"), patch("*** Update File: b", "*** Update File: a"),
    ),
    "a call with the same arguments": (
        asked("mcp__db__query", {"a": 1, "b": [2]}, "query"), asked("mcp__db__query", {"b": [2], "a": 1}, "query"),
    ),
}  # fmt: skip
OTHERS = [
    command("make"), command("make "), command(" make"), command("make\n"), command("make check"), command("Make"),
    command("make", cwd="/p/sub"), command("make", cwd="/p/"), command("make", dangerouslyDisableSandbox=True),
    command("make", run_in_background=True), command("m\u0430ke"),
    asked("Write", {"file_path": "/p/a.py"}), asked("Write", {"file_path": "/p/a.pyc"}),
    asked("Write", {"file_path": "/p/./a.py"}), asked("Write", {"file_path": "/p/b/../a.py"}),
    patch("*** Update File: a.py", "*** Update File: b.py"),
    asked("Read", {"file_path": "/p/a.py"}), asked("WebFetch", {"url": "http://x", "prompt": "y"}),
    asked("mcp__db__query", {"a": 1}, "query"), asked("mcp__db__query", {"a": "1"}, "query"),
    asked("mcp__db__query", {"a": 1, "b": None}, "query"), asked("mcp__other__query", {"a": 1}, "query"),
    asked("mcp__db__query", {"a": 1}, "query", cwd="/q"), asked("mcp__db__query", {"a": 1}, "something else"),
]  # fmt: skip
NONE = {
    "a question": Asked("question", "AskUserQuestion", "Which?", "asks", {}, "/p"),
    "a text that was cut": asked("Bash", {"command": "make"}, cut=True),
    "a command that the text does not show": asked("Bash", {"command": "rm -rf /"}, "make"),
    "no command": asked("Bash", {}, "x"),
    "a blank command": command("  "),
    "a command that is no text": asked("Bash", {"command": ["make"]}, "make"),
    "an escape sequence": command("make\x1b[2K"),
    "a change of direction": command("make \u202egnp.exe"),
    "a letter without width": command("ma\u200bke"),
    "a carriage return": command("rm x\rmake"),
    "no directory": command("make", cwd=""),
    "a directory that is not absolute": command("make", cwd="p"),
    "a path that is no text": asked("Write", {"file_path": 7}, "7"),
    "no path": asked("Write", {"file_path": ""}, "x"),
    "a path with a blank at its end": asked("Write", {"file_path": "/p/a "}),
    "a file of that name to one CLI, one in the home directory to another": asked("Write", {"file_path": "~/a"}),
    "a path that the text does not show": asked("Write", {"file_path": "/etc/passwd"}, "/p/a"),
    "a patch that removes": patch("*** Update File: a", "*** Delete File: b"),
    "a patch that moves": patch("*** Update File: a", "*** Move to: b"),
    "a patch whose header may be content": patch("*** Update File: a", " *** Update File: b"),
    "a patch whose removal may be content": patch("*** Update File: a", " *** Delete File: b"),
    "a patch of nothing": patch(),
    "a change of one file that removes it": asked("edit", {"filepath": "a", "diff": "--- a/a\n+++ /dev/null\n"}),
    "a change that leaves nothing of it": asked("edit", {"filepath": "a", "diff": "--- a\n+++ a\n@@ -1,2 +0,0 @@\n-x"}),
    "a change of several files": asked("edit", {"filepath": "a, b", "diff": "+++ a\n+x\n+++ b\n+y"}),
    "a file with several more": asked("edit", {"filepath": "a", "files": ["a", "b"]}),
    "a patch that is no text": asked("apply_patch", {"command": ["*** Update File: a"]}, "a"),
    "a command with a number that is none": command("make", timeout=float("nan")),
    "a change that names several files": asked("edit", {"filepath": "a, b", "diff": "@@", "files": []}),
    "arguments that are no JSON": asked("mcp__a__b", {"a": {1}}, "x"),
    "a number that is none": asked("mcp__a__b", {"a": float("nan")}, "x"),
}  # fmt: skip


@pytest.mark.parametrize("pair", SAME.values(), ids=SAME)
def test_a_rule_covers_what_shows_a_human_nothing_new(pair):
    first, second = (rule_pattern(one) for one in pair)
    assert first is not None
    assert (first.kind, first.exact, first.paths) == (second.kind, second.exact, second.paths)


def test_no_two_requests_that_differ_have_one_pattern():
    patterns = [rule_pattern(one) for one in OTHERS]
    assert None not in patterns
    for first, second in itertools.combinations(patterns, 2):
        assert first.exact != second.exact


@pytest.mark.parametrize("one", NONE.values(), ids=NONE)
def test_what_a_human_may_not_have_seen_has_no_pattern(one):
    assert rule_pattern(one) is None


def test_a_pattern_names_the_places_that_must_stay_the_same():
    assert rule_pattern(command("make", cwd="/p/sub")).paths == ("/p/sub",)
    assert rule_pattern(patch("*** Add File: b", "*** Add File: /a")).paths == ("/a", "/p/b")
    assert rule_pattern(patch("*** Add File: c: d")).paths == ("/p/c: d",)
    assert rule_pattern(asked("edit", {"filepath": "a", "diff": "+++ a\n+x"})).paths == ("/p/a",)
    assert rule_pattern(asked("mcp__db__query", {"a": 1}, "query", cwd="/q")).paths == ("/q",)


@pytest.mark.parametrize(
    ("one", "kind", "text"),
    [
        (command("make\n\tcheck"), "command", "make\n\tcheck"),
        (patch("*** Add File: b", "*** Add File: /a"), "edit", "/a, /p/b"),
        (asked("mcp__db__query", {"a": 1}, "query"), "call", "mcp__db__query: query"),
    ],
)
def test_a_rule_is_listed_by_what_it_covers(one, kind, text):
    assert (rule_pattern(one).kind, rule_pattern(one).text) == (kind, text)
