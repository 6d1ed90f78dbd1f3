"""Which calls of Gemini CLI are decided from outside, and by which mark in their arguments its policy lets them pass."""

import json
import re
import tomllib
from dataclasses import replace

import pytest

from orchestrator.core.screens import Screen
from orchestrator.engines import gemini_approvals as approvals
from orchestrator.engines.gemini import ROW
from orchestrator.engines.gemini_approvals import approval_mark, asking_tools, request
from orchestrator.engines.gemini_screen import EDIT
from tests.support.launches import HOME, LAUNCH, PLACE, SECRET

ALL = ("run_shell_command", "write_file", "replace", "web_fetch")
USER = f"{HOME}/.gemini"


def asked(tool="run_shell_command", **given):
    return request("BeforeTool", {"tool_name": tool, "tool_input": given, "launch_secret": SECRET, "cwd": "/p"})


def rule():
    (found,) = tomllib.loads(approvals.policy(SECRET))["rule"]
    return found


def test_the_policy_allows_marked_calls_alone_and_yields_to_every_rule_of_the_user():
    found = rule()
    assert (found["decision"], found["priority"]) == ("allow", 0)
    assert found["argsPattern"] == approval_mark(SECRET) and re.fullmatch("[0-9a-f]{32}", found["argsPattern"])
    assert approval_mark(SECRET) != approval_mark("another") and SECRET not in approvals.policy(SECRET)
    assert "yolo" not in found["modes"] and "plan" not in found["modes"]
    assert tuple(found["toolName"]) == ALL


@pytest.mark.parametrize(
    ("tool", "given"),
    [
        ("run_shell_command", {"command": "make && rm -rf x > y", "description": "d"}),
        ("run_shell_command", {"command": "make", "dir_path": "src/deep"}),
        ("write_file", {"file_path": "/p/a", "content": "x"}),
        ("replace", {"file_path": "/p/a", "old_string": "x", "new_string": "y"}),
        ("web_fetch", {"prompt": "https://example.org"}),
    ],
)
def test_an_approved_call_has_the_mark_and_all_else_as_the_model_gave_it(tool, given):
    found = asked(tool, **given)
    assert not found.dialog_meanwhile and not found.refused and found.asked.by == "hook"
    for decision in ("approve", "always"):
        output = found.output(decision, "")["output"]
        marked = output["hookSpecificOutput"]["tool_input"]
        assert output["decision"] == "allow" and re.search(rule()["argsPattern"], json.dumps(marked))
        assert {name: marked[name] for name in given if name != "dir_path"} == {
            name: value for name, value in given.items() if name != "dir_path"
        }
        if tool == "run_shell_command":  # its parts are judged with nothing of the call but its directory
            directory = marked["dir_path"]
            assert approval_mark(SECRET) in directory
            assert directory.replace(f"/{approval_mark(SECRET)}/..", "") == given.get("dir_path", ".")
    assert found.output("deny", "not now") == {"output": {"decision": "deny", "reason": "not now"}}
    assert found.output("deny", "")["output"]["reason"]
    assert found.output("release", "") == {"output": {}}


def test_the_whole_call_is_shown():
    assert asked(command="make", description="builds", dir_path="src").asked.text == (
        "make\ndescription: builds\ndir_path: src"
    )
    assert "+ y" in asked("replace", file_path="/p/a", old_string="x", new_string="y").asked.text
    assert asked(command="make").asked.line == "asks to use Shell: make"


def test_a_call_that_has_the_mark_by_itself_is_refused_and_asked_of_nobody():
    mark = approval_mark(SECRET)
    for found in (
        asked(command="make", dir_path=f"./{mark}/.."),
        asked("write_file", file_path="a", x={"y": [mark]}),
    ):
        assert found.refused
        assert found.output("approve", "")["output"]["decision"] == "deny"
    assert not asked(command="make", dir_path=approval_mark("of another launch")).refused


@pytest.mark.parametrize(
    "command",
    ["ls -la", "cat a.txt", "/bin/pwd", "git status", "git -C x diff", "sed -n 1p a", "rg x", "grep -r x ."],
)
def test_what_the_cli_runs_by_itself_is_left_to_it(command):
    assert asked(command=command) is None


@pytest.mark.parametrize(
    "command",
    ["make", "git push", "ls; rm x", "cat a | sh", "ls && x", "sed -i s/a/b/ f", "echo `x`", "ls\nrm x", ""],
)
def test_what_the_cli_asks_about_is_asked(command):
    assert asked(command=command) is not None


@pytest.mark.parametrize(
    ("event", "data"),
    [
        ("Notification", {"tool_name": "write_file", "tool_input": {}}),
        ("BeforeTool", {"tool_name": "mcp_x_y", "tool_input": {}}),
        ("BeforeTool", {"tool_name": "write_file", "tool_input": "x"}),
        ("BeforeTool", {"tool_name": "write_file", "tool_input": {"file_path": "a"}, "cut": True}),
    ],
)
def test_any_other_event_is_left_to_the_cli(event, data):
    assert request(event, data) is None


@pytest.mark.parametrize(
    ("approval", "layers", "policies", "tools"),
    [
        ("ask", [{}], [], ALL),
        ("edits", [{}], [], ALL[:1]),
        ("all", [{}], [], ()),
        ("ask", [{"general": {"defaultApprovalMode": "auto_edit"}}], [], ALL[:1]),
        ("ask", [{"tools": {"approvalMode": "auto_edit"}}], [], ALL[:1]),
        ("ask", [{"general": {"defaultApprovalMode": "plan"}}], [], ()),
        ("ask", [{"tools": {"allowed": ["ShellTool(git status)"]}}], [], ALL[1:]),
        ("ask", [{}, {"tools": {"core": ["write_file", "read_file"]}}], [], (ALL[0], *ALL[2:])),
        ("ask", [{"tools": {"confirmationRequired": ["web_fetch"]}}], [], ALL[:3]),
        ("ask", [{"allowedTools": ["replace"]}], [], (*ALL[:2], ALL[3])),
        ("ask", [{"policyPaths": ["~/p"]}], [], ()),
        ("ask", [{"tools": "none", "general": []}], [], ALL),
        ("ask", [{}], ['[[rule]]\ncommandPrefix = "git"\ndecision = "allow"\npriority = 1'], ALL[1:]),
        ("ask", [{}], ['[[rule]]\ntoolName = "write_*"\ndecision = "deny"\npriority = 1'], (ALL[0], *ALL[2:])),
        ("ask", [{}], ['[[rule]]\ntoolName = ["replace"]\ndecision = "ask_user"\npriority = 1'], (*ALL[:2], ALL[3])),
        ("ask", [{}], ['[[rule]]\ndecision = "deny"\npriority = 1'], ()),
        ("ask", [{}], ['[[rule]]\nmcpName = "x"\ndecision = "deny"\npriority = 1'], ALL),
        ("ask", [{}], ['[[safety_checker]]\ntoolName = "*"\npriority = 1'], ()),
        ("ask", [{}], ["no policy = ["], ()),
        ("ask", [{}], ["rule = 3"], ()),
    ],
)
def test_what_the_users_own_words_may_decide_is_left_to_the_cli(approval, layers, policies, tools):
    assert asking_tools(approval, layers, policies) == tools


def test_the_launch_has_hook_and_policy_after_the_users_own_policies():
    made = ROW.prepare(LAUNCH)
    settings = json.loads(made.files["home/.gemini/settings.json"])
    assert settings["policyPaths"] == [f"{PLACE}/home/.gemini/policies", f"{PLACE}/{approvals.POLICY}"]
    assert made.files[approvals.POLICY] == approvals.policy(SECRET)
    (group,) = settings["hooks"]["BeforeTool"]
    assert [tool for tool in (*ALL, "read_file", "mcp_run_shell_command") if re.search(group["matcher"], tool)] == [
        *ALL
    ]
    assert 600_000 < group["hooks"][0]["timeout"] < 2**31
    assert approvals.RULE in made.files["home/.gemini/GEMINI.md"]


@pytest.mark.parametrize(
    "wish",
    [
        {"approval": "all"},
        {"files": {f"{USER}/policies/mine.toml": '[[rule]]\ntoolName = "*"\ndecision = "ask_user"\npriority = 5'}},
        {"files": {"/etc/gemini-cli/policies/x.toml": "broken ["}},
        {"dirs": {f"{USER}/extensions": ("hers", "extension-enablement.json")}},
    ],
)
def test_where_nothing_is_decided_from_outside_the_cli_is_as_its_user_has_it(wish):
    made = ROW.prepare(replace(LAUNCH, **wish))
    settings = json.loads(made.files["home/.gemini/settings.json"])
    assert "policyPaths" not in settings and "BeforeTool" not in settings["hooks"]
    assert approvals.POLICY not in made.files and approvals.RULE not in made.files["home/.gemini/GEMINI.md"]
    wanted = ROW.reads(LAUNCH.env, LAUNCH.cwd)
    assert {folder for folder, _ in wanted.within} == {f"{USER}/policies", "/etc/gemini-cli/policies"}
    assert f"{USER}/extensions" in wanted.dirs


def test_a_dialog_in_the_pane_covers_programs_and_all_edits():
    assert asked(command="make -j2 && npm test").dialog_covers == {"make", "npm"}
    assert asked("write_file", file_path="a").dialog_covers == asked("replace", file_path="b").dialog_covers
    assert asked("web_fetch", prompt="x").dialog_covers == {"web_fetch"}


@pytest.mark.parametrize(
    ("title", "line", "covered", "over"),
    [
        ("◇  Ready (x)", "", "make", True),
        ("✦  Working… (x)", "", "make", False),
        ("✦  Working… (x)", " YOLO Ctrl+Y                    1 MCP server", "make", True),
        ("✦  Working… (x)", " YOLO Ctrl+Y                    1 MCP server", EDIT, True),
        ("✦  Working… (x)", " auto-accept edits Shift+Tab to plan", "make", False),
        ("✦  Working… (x)", " auto-accept edits Shift+Tab to plan", EDIT, True),
        ("✦  Working… (x)", "│ prints YOLO Ctrl+Y", "make", False),
        ("✦  Working… (x)", "│ -  Shell touch two      │", "touch", True),
        ("✦  Working… (x)", "  -  WriteFile  w.txt", EDIT, True),
        ("✦  Working… (x)", "│ -  Shell touch two      │\n│ o  Shell touch three    │", "touch", False),
    ],
)
def test_esc_and_a_mode_that_asks_less_end_a_held_request(title, line, covered, over):
    screen = Screen(lines=("output", *line.split("\n")), title=title, cursor_x=0, cursor_y=0)
    assert ROW.asks_no_more(screen, frozenset((covered,))) is over
