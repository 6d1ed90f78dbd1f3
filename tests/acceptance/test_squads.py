"""Squads through the MCP surface over stdio: what the squad documents promise (B2.1 to B2.38), member by member."""

import json
import os
import re
from pathlib import Path

import jsonschema
import pytest

from orchestrator.squad.member_prompt import FOOTER
from tests.support import squads
from tests.support.squads import calls, collect, connect, do, file_of, gone, role, start
from tests.support.stage import until

CHAT_KEYS = ["memberId", "roleId", "chatId", "status", "rawStdout", "rawStderr"]


@pytest.fixture
def scene(shared_stage, tmp_path):
    role(shared_stage, name="The coder", description="Writes code")
    yield squads.Scene(shared_stage, tmp_path)
    squads.end(shared_stage)


def only(answer):
    """The one member of an answer without an error."""
    assert "error" not in answer, answer
    (row,) = answer["members"]
    return row


def code_of(answer):
    return answer["error"]["code"]


# -- the two tools ----------------------------------------------------------------------------------------------


def test_a_connection_of_squads_offers_exactly_two_tools_in_the_shape_of_its_mode(scene):
    for mode in ("stateless", "stateful"):
        wire = scene.begun(squads.variables(scene, STATE_MODE=mode), "--toolsets", "squad")
        listed = {tool["name"]: tool for tool in wire.ask("tools/list")["result"]["tools"]}
        assert list(listed) == ["list_roles", "start_squad_members"]
        asked = listed["start_squad_members"]["inputSchema"]
        jsonschema.Draft202012Validator.check_schema(asked)
        assert asked["required"] == ["members"]
        member = asked["properties"]["members"]["items"]
        assert member["required"] == ["roleId", "task"]
        assert {"roleId", "task", "cwd"} <= member["properties"].keys()
        assert ("chatId" in json.dumps(listed["start_squad_members"]["inputSchema"]["properties"]["members"])) is (
            mode == "stateful"
        )
        answered = json.dumps(listed["start_squad_members"]["outputSchema"])
        assert ("chatId" in answered) is (mode == "stateful")
        assert listed["list_roles"]["inputSchema"]["properties"] == {}


def test_list_roles_names_every_role_and_nothing_of_engine_state_or_workspace(scene):
    role(scene, "plain", "No frontmatter at all.")
    role(scene, "two words", "A body.", name="Two")
    answer = connect(scene).tool("list_roles", {})
    roles = {row["id"]: row for row in answer["roles"]}
    assert roles["coder"] == {"id": "coder", "name": "The coder", "description": "Writes code"}
    assert roles["plain"] == {"id": "plain", "name": "plain", "description": ""}
    assert roles["two words"]["name"] == "Two"
    shipped = {"frontend-developer", "backend-developer", "qa-engineer", "architect", "reviewer", "researcher"}
    assert {*shipped, "technical-writer", "devops-engineer", "gsd-planner", "gsd-verifier"} <= roles.keys()
    assert all(roles[one]["description"] for one in shipped)
    assert answer.keys() == {"roles"}


def test_a_roles_directory_is_the_only_source_when_it_is_named(scene):
    role(scene, "elsewhere", "Here only.", folder="my roles")
    for name in ("AGENTS_DIRECTORY_PATH", "SQUAD_AGENTS_DIR"):
        answer = connect(scene, **{name: "my roles"}).tool("list_roles", {})
        assert [row["id"] for row in answer["roles"]] == ["elsewhere"]
    both = connect(scene, AGENTS_DIRECTORY_PATH="my roles", SQUAD_AGENTS_DIR="none").tool("list_roles", {})
    assert [row["id"] for row in both["roles"]] == ["elsewhere"]
    assert code_of(connect(scene, AGENTS_DIRECTORY_PATH="none").tool("list_roles", {})) == "bad_config"


def test_roles_are_read_anew_when_their_files_change_and_a_broken_one_is_named(scene):
    wire = connect(scene)
    path = role(scene, "late", "First.")
    assert "late" in {row["id"] for row in wire.tool("list_roles", {})["roles"]}
    members = [{"roleId": "late", "task": do()}]
    wire.tool(squads.TOOL, {"members": members})
    path.write_text("Second.\n")
    wire.tool(squads.TOOL, {"members": members})
    assert [("First." in one["prompt"], "Second." in one["prompt"]) for one in calls(scene)] == [
        (True, False),
        (False, True),
    ]
    path.write_bytes(b"---\nname: [\xff\n---\n")
    answer = wire.tool("list_roles", {})
    assert [one["file"] for one in answer["broken"]] == [".agents/roles/late.md"]
    assert {"coder"} <= {row["id"] for row in answer["roles"]}
    assert code_of(wire.tool(squads.TOOL, {"members": members})) == "bad_role"
    path.unlink()
    answer = wire.tool("list_roles", {})
    assert "broken" not in answer
    assert "late" not in {row["id"] for row in answer["roles"]}


# -- stateless --------------------------------------------------------------------------------------------------


def test_a_stateless_member_gets_role_task_and_footer_and_is_answered_verbatim(scene):
    wire = connect(scene)
    row = only(start(wire, do(say="out\n", err="err\n")))
    assert list(row) == ["memberId", "roleId", "status", "rawStdout", "rawStderr"]
    assert (row["roleId"], row["status"], row["rawStdout"], row["rawStderr"]) == (
        "coder", "completed", "out\n", "err\n",
    )  # fmt: skip
    (call,) = calls(scene)
    assert (
        call["prompt"]
        == f"# Role\n\nYou write code.\n\n---\n\n# Task\n\n{do(say='out' + chr(10), err='err' + chr(10))}\n\n{FOOTER}"
    )
    assert FOOTER.endswith("Do not pretend the task succeeded if the environment blocks you.")
    assert call["lead"], "it leads a session and a group of its own"


def test_ids_are_unique_and_each_member_is_named_by_its_squad_and_place(scene):
    wire = connect(scene)
    first, second = start(wire, do(), do()), start(wire, do())
    for answer in (first, second):
        squad_id = answer["squadId"]
        assert re.fullmatch(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", squad_id)
        assert [row["memberId"] for row in answer["members"]] == [
            f"{squad_id}-m{at}" for at in range(len(answer["members"]))
        ]
    assert first["squadId"] != second["squadId"]


def test_a_stateless_connection_knows_no_chats(scene):
    wire = connect(scene)
    member = {"roleId": "coder", "task": do()}
    assert code_of(wire.tool(squads.TOOL, {"members": [{**member, "chatId": "c1"}]})) == "bad_argument"
    assert calls(scene) == []
    row = only(wire.tool(squads.TOOL, {"members": [{**member, "chatId": None}]}))
    assert row["status"] == "completed"
    assert "chatId" not in row


def test_what_the_original_takes_besides_is_accepted_and_not_used(scene):
    more = {"metadata": {"a": [1]}, "orchestratorChatId": "x", "workspaceId": "y"}
    assert only(start(connect(scene), do(), **more))["status"] == "completed"
    assert code_of(start(connect(scene), do(), other=1)) == "bad_argument"


# -- stateful ---------------------------------------------------------------------------------------------------


def test_a_new_chat_gets_role_and_initial_task_and_its_id_is_answered(scene):
    row = only(start(connect(scene, STATE_MODE="stateful"), do(say="hi")))
    assert list(row) == CHAT_KEYS
    (created,) = calls(scene, "create")
    assert row["chatId"] == f"chat-{created['pid']}"
    (call,) = calls(scene)
    assert call["argv"][:2] == ["--chat", row["chatId"]]
    assert call["prompt"].startswith("# Role\n\nYou write code.\n\n---\n\n# Initial Task\n\nPlease:")
    assert call["prompt"].endswith(f"\n\n{FOOTER}")


def test_a_chat_that_goes_on_gets_the_task_alone(scene):
    wire = connect(scene, STATE_MODE="stateful")
    member = {"roleId": "coder", "task": do(say="again"), "chatId": "chat-7:a.b_c"}
    row = only(wire.tool(squads.TOOL, {"members": [member]}))
    assert (row["chatId"], row["rawStdout"]) == ("chat-7:a.b_c", "again")
    assert calls(scene, "create") == []
    (call,) = calls(scene)
    assert call["argv"][:2] == ["--chat", "chat-7:a.b_c"]
    assert call["prompt"] == f"# Task\n\n{member['task']}\n\n{FOOTER}"
    new = only(wire.tool(squads.TOOL, {"members": [{**member, "chatId": None}]}))
    assert new["chatId"].startswith("chat-")
    assert len(calls(scene, "create")) == 1


@pytest.mark.parametrize("chat", ["--resume", "-x", "", "a b", "a/b", "x" * 129, "a;b", "a\nb", "é", ".a"])
def test_a_chat_id_that_could_be_an_option_or_anything_else_is_refused(scene, chat):
    wire = connect(scene, STATE_MODE="stateful")
    answer = wire.tool(squads.TOOL, {"members": [{"roleId": "coder", "task": do(), "chatId": chat}]})
    assert code_of(answer) == "bad_id"
    assert calls(scene) == calls(scene, "create") == []


@pytest.mark.parametrize(
    ("env", "stderr"),
    [
        ({"CREATE_EXIT": "3", "CREATE_STDERR": "no login"}, "no login"),
        ({"CREATE_STDOUT": "--evil", "CREATE_STDERR": "hm"}, "hm"),
        ({"CREATE_STDOUT": "   ", "CREATE_STDERR": "hm"}, "hm"),
        ({"CREATE_STDOUT": "two\nlines", "CREATE_STDERR": "hm"}, "hm"),
    ],
)
def test_a_chat_that_cannot_be_made_is_that_members_error_with_its_stderr_and_no_id(scene, env, stderr):
    wire = connect(scene, STATE_MODE="stateful", **env)
    going = {"roleId": "coder", "task": do(say="fine"), "chatId": "c1"}
    answer = wire.tool(squads.TOOL, {"members": [{"roleId": "coder", "task": do()}, going]})
    failed, other = answer["members"]
    assert (failed["status"], failed["chatId"]) == ("error", "")
    assert failed["rawStderr"].startswith(stderr)
    assert (other["status"], other["rawStdout"]) == ("completed", "fine")
    assert len(calls(scene)) == 1


def test_two_members_of_one_chat_take_turns(scene):
    wire = connect(scene, STATE_MODE="stateful")
    gate = scene.base / "gate"
    tasks = [do(hold=str(gate)), do(say="second")]
    asked = {"members": [{"roleId": "coder", "task": one, "chatId": "c1"} for one in tasks]}
    key = wire.start(squads.TOOL, asked)
    until(lambda: calls(scene))
    other = wire.start(squads.TOOL, {"members": [{"roleId": "coder", "task": do(), "chatId": "c2"}]})
    assert wire.outcome(wire.answer(other))["members"][0]["status"] == "completed"
    assert len([one for one in calls(scene) if "c1" in one["argv"]]) == 1
    gate.touch()
    assert [row["rawStdout"] for row in wire.outcome(wire.answer(key))["members"]] == ["", "second"]


# -- many members -----------------------------------------------------------------------------------------------


def test_members_run_together_up_to_the_cap_and_are_answered_in_order(scene):
    wire = connect(scene, MAX_PARALLEL_MEMBERS="2")
    gates = [scene.base / f"gate{at}" for at in range(3)]
    key = wire.start(
        squads.TOOL,
        {"members": [{"roleId": "coder", "task": do(say=str(at), hold=str(gates[at]))} for at in range(3)]},
    )
    until(lambda: len(calls(scene)) == 2)
    gates[1].touch()
    until(lambda: len(calls(scene)) == 3)
    for gate in (gates[2], gates[0]):
        gate.touch()
    rows = wire.outcome(wire.answer(key))["members"]
    assert [row["rawStdout"] for row in rows] == ["0", "1", "2"]


@pytest.mark.parametrize(("env", "together"), [({}, 4), ({"EXECUTION_MODE": "sequential"}, 1)])
def test_how_many_run_at_once_is_the_connections_choice(scene, env, together):
    wire = connect(scene, **env)
    gate = scene.base / "gate"
    answer = start(wire, *[do(hold=str(gate)) for _ in range(6)], wait_ms=0)
    until(lambda: len(calls(scene)) == together)
    states = [member["state"] for member in file_of(scene, answer["squadId"])["members"]]
    assert states.count("planned") >= 6 - together
    gate.touch()
    assert [row["status"] for row in collect(wire, answer["squadId"])["members"]] == ["completed"] * 6


def test_one_members_failure_is_its_own(scene):
    wire = connect(scene, PROCESS_TIMEOUT_MS="8000")
    tasks = [do(say="a"), do(exit=3, err="bad"), do(hold="/nowhere", say="slow"), do(kill=9), do(say="e")]
    rows = start(wire, *tasks)["members"]
    assert [row["status"] for row in rows] == ["completed", "error", "timeout", "error", "completed"]
    assert (rows[1]["exitCode"], rows[1]["rawStderr"]) == (3, "bad")
    assert rows[2]["rawStdout"] == "slow", "what it wrote before its time was over is kept"
    assert rows[2]["rawStderr"] == ""
    assert rows[3]["signal"] == "SIGKILL"
    gone(scene)


def test_a_member_that_cannot_be_spawned_is_an_error_with_the_reason_in_its_stderr(scene):
    program = scene.base / "engine"
    program.write_text("no program, and no first line that names one")
    program.chmod(0o755)
    wire = connect(scene, ENGINE_COMMAND=str(program))
    rows = start(wire, do(), do())["members"]
    assert [row["status"] for row in rows] == ["error", "error"]
    assert all(str(program) in row["rawStderr"] and "xec format" in row["rawStderr"] for row in rows)


@pytest.mark.parametrize(
    ("member", "env", "code"),
    [
        ({"roleId": "nobody"}, {}, "unknown_role"),
        ({"roleId": "../coder"}, {}, "unknown_role"),
        ({"roleId": "/etc/passwd"}, {}, "unknown_role"),
        ({}, {"RUN_TEMPLATE_PATH": "none.template"}, "bad_template"),
        ({}, {"RUN_TEMPLATE": "a <% b"}, "bad_template"),
        ({}, {"ENGINE_COMMAND": "/no/such/program"}, "engine_missing"),
        ({}, {"ENGINE_COMMAND": "no-such-program"}, "engine_missing"),
        ({}, {"ENGINE_COMMAND": "my-cli", "RUN_TEMPLATE": ""}, "bad_config"),
        ({}, {"ENGINE_COMMAND": "", "RUN_TEMPLATE": ""}, "bad_config"),
        ({}, {"ENGINE": "no-engine"}, "unknown_engine"),
        ({}, {"STATE_MODE": "sometimes"}, "bad_config"),
        ({}, {"EXECUTION_MODE": "both"}, "bad_config"),
        ({}, {"PROCESS_TIMEOUT_MS": "1.5"}, "bad_config"),
        ({}, {"PROCESS_TIMEOUT_MS": "0"}, "bad_config"),
        ({}, {"MAX_PARALLEL_MEMBERS": "-1"}, "bad_config"),
        ({}, {"STATE_MODE": "stateful", "CREATE_CHAT_TEMPLATE": ""}, "bad_config"),
        ({"cwd": ".."}, {}, "path_escape"),
        ({"cwd": "out"}, {}, "path_escape"),
        ({"cwd": "missing"}, {}, "bad_argument"),
        ({"task": ""}, {}, "bad_argument"),
        ({"task": "a\0b"}, {}, "bad_argument"),
        ({"task": 7}, {}, "bad_argument"),
        ({"roleId": None}, {}, "bad_argument"),
        ({"unknown": 1}, {}, "bad_argument"),
    ],
)
def test_what_is_wrong_is_one_technical_error_before_anything_is_spawned(scene, member, env, code):
    if not (scene.root / "out").is_symlink():
        (scene.root / "out").symlink_to("..")
    good = {"roleId": "coder", "task": do()}
    answer = connect(scene, **env).tool(squads.TOOL, {"members": [good, {**good, **member}]})
    assert code_of(answer) == code, answer
    assert answer["error"]["next_step"]
    assert calls(scene) == calls(scene, "create") == []
    assert scene.made() == []


@pytest.mark.parametrize(
    "asked",
    [
        {"members": []},
        {},
        {"members": "x"},
        {"members": [None]},
        {"squadId": "x"},
        {"members": [{"roleId": "coder", "task": "t"}], "squadId": "x"},
        {"members": [{"roleId": "coder", "task": "t"}], "wait_ms": -1},
        {"members": [{"roleId": "coder", "task": "t"}] * 65},
    ],
)
def test_a_call_of_another_shape_is_refused(scene, asked):
    assert code_of(connect(scene).tool(squads.TOOL, asked)) == "bad_argument"
    assert scene.made() == []


def test_an_unknown_squad_is_told(scene):
    for squad_id in ("x", "../..", "0" * 36):
        assert code_of(collect(connect(scene), squad_id)) == "unknown_squad"


# -- where and with what ----------------------------------------------------------------------------------------


def test_a_member_works_in_its_directory_which_is_echoed_as_given(scene):
    (scene.root / "client" / "app").mkdir(parents=True, exist_ok=True)
    (scene.root / "link").symlink_to("client")
    wire = connect(scene)
    given = ["client", "./client//app", "link/app", str(scene.root / "client")]
    answer = wire.tool(squads.TOOL, {"members": [{"roleId": "coder", "task": do(), "cwd": one} for one in given]})
    assert [row["cwd"] for row in answer["members"]] == given
    client = scene.root / "client"
    assert sorted(one["cwd"] for one in calls(scene)) == sorted(
        map(str, [client, client / "app", client / "app", client])
    )
    assert "cwd" not in only(start(wire, do()))
    assert calls(scene)[-1]["cwd"] == str(scene.root)


def test_a_member_has_the_environment_of_its_client_and_of_the_servers_own_block(scene):
    start(connect(scene, MY_KEY="s3cret", NODE_CHANNEL_FD="3"), do())
    (call,) = calls(scene)
    assert call["secret"] == "s3cret"
    assert call["member"].endswith("-m0")


def test_a_prompt_arrives_byte_for_byte_in_the_place_its_template_gives_it(scene):
    hard = 'it\'s "here"\n$(touch /tmp/x) `id` \\n \\ ; | > < & * ? ~ # %s 🎉 <%= prompt %> ${HOME} --flag'
    scene_task = f"{hard}\n{do(say='ok')}"
    for number, template in enumerate(('"<%= prompt %>"', "<%- prompt %>", "'<%= prompt %>'", "--p=<%= prompt %>")):
        row = only(start(connect(scene, RUN_TEMPLATE=f" {template}"), scene_task))
        assert row["status"] == "completed", template
        assert calls(scene)[number]["argv"][-1].removeprefix("--p=").split("# Task\n\n")[1].startswith(scene_task)
    shell = connect(scene, ENGINE_COMMAND="", RUN_TEMPLATE=f'# shell: true\n{squads.COMMAND} "<%= prompt %>" | cat')
    assert only(start(shell, scene_task))["rawStdout"] == "ok"
    assert scene_task in calls(scene)[4]["prompt"]


def test_a_template_knows_every_variable_and_gives_the_prompt_by_file_or_stdin(scene):
    names = ("roleId", "cwd", "task", "generatedUuid", "promptFile", "chatId", "none")
    template = " ".join(f'"<%= {name} %>"' for name in names) + ' "<%= prompt %>"'
    start(connect(scene, RUN_TEMPLATE=template), do(say="x"))
    role_id, cwd, task, made, file, chat, none, _prompt = calls(scene)[0]["argv"]
    assert (role_id, cwd, task, chat, none) == ("coder", str(scene.root), do(say="x"), "", "")
    assert re.fullmatch(r"[0-9a-f-]{36}", made)
    assert Path(file).read_text() == calls(scene)[0]["prompt"]
    long = "y" * 200_000 + "\n" + do(say="read")
    by_stdin = connect(scene, RUN_TEMPLATE="# stdin: prompt\n--from stdin", MEMBER_READS="1")
    assert only(start(by_stdin, long))["rawStdout"] == "read"
    assert long in calls(scene)[1]["prompt"]
    by_file = connect(scene, RUN_TEMPLATE="<%= promptFile %>")
    assert only(start(by_file, long))["status"] == "completed"
    assert code_of(start(connect(scene), long)) == "prompt_too_long"
    assert len(calls(scene)) == 3


def test_template_files_stand_where_the_variables_or_custom_put_them(stage):
    scene = stage
    role(scene)
    place = scene.root / "templates"
    place.mkdir()
    (place / "run-agent.template").write_text(f'{squads.COMMAND} custom "<%= prompt %>"\n')
    (place / "create-chat.template").write_text(f"{squads.COMMAND} create-chat\n")
    (place / "mine.template").write_text(f'{squads.COMMAND} mine "<%= prompt %>"\n')
    stage.allow()
    none = {"ENGINE_COMMAND": "", "RUN_TEMPLATE": "", "CREATE_CHAT_TEMPLATE": ""}
    start(connect(scene, **none), do())
    start(connect(scene, **none, RUN_TEMPLATE_PATH="templates/mine.template"), do())
    start(connect(scene, **{**none, "RUN_TEMPLATE": "templates/mine.template"}), do())
    start(connect(scene, **none, RUN_TEMPLATE_PATH=str(place / "mine.template")), do())
    row = only(start(connect(scene, **none, STATE_MODE="stateful"), do()))
    assert row["chatId"].startswith("chat-")
    assert [one["argv"][0] for one in calls(scene)] == ["custom", "mine", "mine", "mine", "custom"]


def test_the_engines_command_is_put_first_or_in_the_place_of_its_own_name(scene):
    program = scene.base / "bin" / "my-engine"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {squads.COMMAND} "$@"\n')
    program.chmod(0o755)
    path = f"{program.parent}{os.pathsep}{scene.env['PATH']}"
    for command in ("my-engine", str(program)):
        for template in ('my-engine --a "<%= prompt %>"', '--a "<%= prompt %>"', f'{program} --a "<%= prompt %>"'):
            start(connect(scene, PATH=path, ENGINE_COMMAND=command, RUN_TEMPLATE=template), do())
    assert [one["argv"][0] for one in calls(scene)] == ["--a"] * 6


# -- waiting ----------------------------------------------------------------------------------------------------


def test_what_has_not_ended_in_time_is_running_and_is_collected_later(scene):
    gate = scene.base / "gate"
    wire = connect(scene)
    squad_id = start(wire, do(say="fast"), do(say="slow", hold=str(gate)), wait_ms=0)["squadId"]
    answer = until(lambda: (a := collect(wire, squad_id, wait_ms=1500))["members"][0]["status"] != "running" and a)
    fast, slow = answer["members"]
    assert (fast["status"], fast["rawStdout"]) == ("completed", "fast")
    assert (slow["status"], slow["rawStdout"], slow["rawStderr"]) == ("running", "", "")
    assert answer["squadId"] in answer["note"]
    assert collect(wire, answer["squadId"], wait_ms=0)["members"][1]["status"] == "running"
    key = wire.start(squads.TOOL, {"squadId": answer["squadId"], "members": []})
    gate.touch()
    for found in (wire.outcome(wire.answer(key)), collect(connect(scene), answer["squadId"])):
        assert [row["rawStdout"] for row in found["members"]] == ["fast", "slow"]
        assert "note" not in found
    assert len(calls(scene)) == 2


def test_a_client_whose_limit_is_known_is_answered_before_it(scene):
    gate = scene.base / "gate"
    wire = scene.begun(squads.variables(scene), "--call-limit", "2")
    answer = start(wire, do(say="later", hold=str(gate)))
    assert only(answer)["status"] == "running"
    gate.touch()
    row = until(lambda: (row := only(collect(wire, answer["squadId"])))["status"] != "running" and row)
    assert row["rawStdout"] == "later"


def test_a_dropped_connection_wastes_no_paid_work(scene):
    gate = scene.base / "gate"
    wire = connect(scene)
    wire.start(squads.TOOL, {"members": [{"roleId": "coder", "task": do(say="paid", hold=str(gate))}]})
    until(lambda: calls(scene))
    wire.vanish()
    gate.touch()
    (squad_id,) = scene.made()
    assert only(collect(connect(scene), squad_id))["rawStdout"] == "paid"


def test_only_the_clients_own_cancel_ends_its_members(scene):
    wire = connect(scene)
    key = wire.start(squads.TOOL, {"members": [{"roleId": "coder", "task": do(hold="/never", deaf=True)}] * 6})
    until(lambda: len(calls(scene)) == 4)
    wire.send({"method": "notifications/cancelled", "params": {"requestId": key, "reason": "Esc"}})
    gone(scene)
    (squad_id,) = scene.made()
    rows = collect(wire, squad_id)["members"]
    assert [(row["status"], row["reason"]) for row in rows] == [("error", "canceled")] * 6
    assert len(calls(scene)) == 4, "those that had not begun never did"
    assert wire.answers(key) == []


def test_progress_tells_how_far_the_members_are(scene):
    gate = scene.base / "gate"
    wire = connect(scene)
    asked = {"members": [{"roleId": "coder", "task": one} for one in (do(), do(hold=str(gate)))]}
    wire.start(squads.TOOL, asked, progressToken="p")
    wanted = "1 of 2 members have ended; running: coder"
    until(lambda: [one for one in wire.told("notifications/progress") if one["params"].get("message") == wanted])
    gate.touch()


def test_an_output_too_long_to_be_read_is_cut_and_all_of_it_is_in_its_file(scene):
    row = only(start(connect(scene), do(say="first", mb=3, bytes="ff00fe", err="e")))
    assert len(row["rawStdout"]) < 70_000
    assert row["rawStdout"].startswith("first\ufffd\0\ufffdxxx")
    assert row["rawStdout"].endswith("xxx")
    assert row["rawStdoutFile"] in row["rawStdout"]
    assert Path(row["rawStdoutFile"]).stat().st_size == 5 + (3 << 20) + 3
    assert "rawStderrFile" not in row
    assert Path(row["rawStdoutFile"]).stat().st_mode & 0o777 == 0o600


def test_what_squads_answer_fits_the_schemas_they_publish(scene):
    for mode in ("stateless", "stateful"):
        wire = connect(scene, STATE_MODE=mode)
        schemas = {one["name"]: one["outputSchema"] for one in wire.ask("tools/list")["result"]["tools"]}
        for name, asked in (
            ("list_roles", {}),
            (squads.TOOL, {"members": [{"roleId": "coder", "task": do(exit=1)}, {"roleId": "coder", "task": do()}]}),
            (squads.TOOL, {"members": []}),
        ):
            jsonschema.validate(wire.tool(name, asked), schemas[name])


def test_the_squads_file_fits_its_schema_at_every_step(scene):
    schema = json.loads((squads.FAKE.parents[2] / ".agents-schema" / "squad.json").read_text())
    gate = scene.base / "gate"
    wire = connect(scene, STATE_MODE="stateful")
    answer = start(wire, do(), do(hold=str(gate)), wait_ms=0)
    # Not by its state: a stateful member is "running" from its first command on, which begins its chat and ends.
    (pid,) = until(lambda: [call["pid"] for call in calls(scene) if str(gate) in call["prompt"]])
    done = [("completed", False), ("running", True)]
    until(lambda: [(row["state"], row["pid"] == pid) for row in file_of(scene, answer["squadId"])["members"]] == done)
    jsonschema.validate(file_of(scene, answer["squadId"]), schema)
    assert pid in squads.members(scene)
    gate.touch()
    collect(wire, answer["squadId"])
    jsonschema.validate(file_of(scene, answer["squadId"]), schema)


def test_a_process_of_a_member_leads_nobody(scene):
    wire = connect(scene, ORCHESTRATOR_MEMBER_ID="x-m0")
    assert wire.ask("tools/list")["result"]["tools"] == []
    assert code_of(wire.tool("list_roles", {})) == "not_for_agents"


def test_the_toolset_is_a_connections_choice(scene):
    wire = scene.begun(squads.variables(scene), "--toolsets", "team")
    assert code_of(wire.tool("list_roles", {})) == "unknown_tool"
