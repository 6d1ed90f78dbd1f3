"""Squads against what is hostile or careless: roles, templates, members, clients, the disk. Nothing is left running."""

import os
import re
import shutil
import signal
from pathlib import Path

import pytest

from orchestrator.journal.project_files import Paths
from tests.support import mounts, squads
from tests.support.sealed_files import state_of
from tests.support.squads import TOOL, calls, collect, connect, do, file_of, gone, role, start
from tests.support.stage import until

NEVER = "/nowhere/never"


@pytest.fixture
def scene(shared_stage, tmp_path):
    role(shared_stage)
    found = squads.Scene(shared_stage, tmp_path)
    yield found
    gone(found)


def only(answer):
    """The one member of an answer without an error."""
    assert "error" not in answer, answer
    (row,) = answer["members"]
    return row


def code_of(answer):
    return answer["error"]["code"]


def peak(scene):
    """The daemon's highest resident memory so far, in bytes."""
    text = Path(f"/proc/{scene.stage.daemon()}/status").read_text()
    return int(re.search(r"VmHWM:\s+(\d+) kB", text)[1]) << 10


def sound(scene):
    """The daemon still answers, and its members still run."""
    assert only(start(connect(scene), do(say="sound")))["rawStdout"] == "sound"


# -- roles and templates ----------------------------------------------------------------------------------------


@pytest.fixture
def drop(scene):
    """Puts something where roles are, for this test only."""
    made = []

    def put(name, content=None, folder=".agents/roles"):
        path = scene.root / folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        made.append(path)
        if content is None:
            os.mkfifo(path)
        else:
            path.write_text(content)
        return path

    yield put
    for path in made:
        path.unlink(missing_ok=True)


@pytest.mark.parametrize(
    "role_id",
    [
        "../coder",
        "../../.agents/roles/coder",
        "/etc/passwd",
        "..",
        ".",
        "coder.md",
        "roles/coder",
        "co\ude00der",
        "a\0b",
    ],
)
def test_a_roles_id_is_never_a_path(scene, role_id):
    (scene.root / "coder.md").write_text("Outside of all roles.")
    answer = connect(scene).tool(TOOL, {"members": [{"roleId": role_id, "task": do()}]})
    assert code_of(answer) in {"unknown_role", "bad_argument", -32700}, answer
    assert calls(scene) == []
    assert scene.made() == []


def test_roles_that_are_bombs_are_named_and_cost_neither_memory_nor_the_other_roles(scene, drop):
    wire = connect(scene)
    wire.tool("list_roles", {})
    before = peak(scene)
    bombs = {
        "large": "x" * (10 << 20),
        "aliases": "---\na: &a [x, x]\n" + "".join(f"k{n}: &k{n} [*a, *a]\n" for n in range(30)) + "---\nBody.\n",
        "deep": "---\na: " + "[" * 4000 + "]" * 4000 + "\n---\nBody.\n",
        "endless": "---\n" + "key: value\n" * 100 + "Body without an end of the frontmatter.\n",
        "nul": "Body with a \0.\n",
        "pipe": None,
    }
    for name, content in bombs.items():
        drop(f"{name}.md", content)
    answer = wire.tool("list_roles", {})
    assert sorted(one["file"] for one in answer["broken"]) == sorted(f".agents/roles/{name}.md" for name in bombs)
    assert all(one["reason"] for one in answer["broken"])
    assert "coder" in {one["id"] for one in answer["roles"]}
    for name in bombs:
        asked = {"members": [{"roleId": "coder", "task": do()}, {"roleId": name, "task": do()}]}
        assert code_of(wire.tool(TOOL, asked)) == "bad_role"
    assert calls(scene) == []
    assert peak(scene) - before < 20 << 20


@pytest.mark.parametrize(
    ("template", "place"),
    [
        ('--x\n"<%= prompt %>" <% if (chatId) { %> a', "line 2, column 17"),
        ("a <% } %>", "line 1, column 3"),
        ("a\nb\n  <%= prompt", "line 3, column 3"),
        ("<% if (chatId) { %>'<% } %> <%= prompt %>'", "line 1, column 1"),
        ('a "<%= prompt %>', "line 1, column 3"),
        ("a <%= prompt; exit() %>", "line 1, column 13"),
        ("a <%= prompt %> | sh", "line 1, column 17"),
        (" ".join(["<% if (a) { %>"] * 60), "line 1, column 751"),
    ],
)
def test_a_template_that_is_none_is_refused_with_line_and_column(scene, template, place):
    answer = start(connect(scene, RUN_TEMPLATE=template), do())
    assert code_of(answer) == "bad_template"
    assert place in answer["error"]["message"]
    assert calls(scene) == []
    assert scene.made() == []


def test_a_template_that_is_no_file_is_refused_and_nobody_waits_for_it(scene, drop):
    drop("pipe.template", folder="templates")
    for path in ("templates/pipe.template", "templates", "/dev/zero", "/dev/null"):
        answer = start(connect(scene, RUN_TEMPLATE_PATH=path, RUN_TEMPLATE=""), do())
        assert code_of(answer) == "bad_template", path
    assert calls(scene) == []


@pytest.mark.parametrize("cwd", ["a\0b", "x" * 5000, "a/" * 3000, "\n", "~", "-"])
def test_a_cwd_that_is_no_directorys_name_is_refused(scene, cwd):
    answer = connect(scene).tool(TOOL, {"members": [{"roleId": "coder", "task": do(), "cwd": cwd}]})
    assert code_of(answer) in {"path_escape", "bad_argument"}, answer
    assert calls(scene) == []


# -- members ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", [{}, {"exit": 1}, {"kill": 9}])
def test_children_that_stay_behind_are_ended_with_their_member_however_that_ends(scene, how):
    row = only(start(connect(scene), do(linger=["session", "group", "scrubbed"], say="x", **how)))
    assert row["status"] == ("error" if how else "completed")
    assert row["rawStdout"] == "x"
    gone(scene)


def test_children_that_hide_in_another_session_are_ended_when_the_time_is_over(scene):
    wire = connect(scene, PROCESS_TIMEOUT_MS="10000")
    row = only(start(wire, do(linger=["child", "child", "scrubbed"], hold=NEVER)))
    assert row["status"] == "timeout"
    assert len(squads.lingering(scene)) == 3
    gone(scene)


def test_a_member_that_writes_much_costs_the_daemon_no_memory(scene):
    wire = connect(scene)
    only(start(wire, do(mb=1)))
    before = peak(scene)
    row = only(start(wire, do(mb=100)))
    assert row["status"] == "completed"
    assert len(row["rawStdout"]) < 70_000
    assert Path(row["rawStdoutFile"]).stat().st_size == 100 << 20
    assert peak(scene) - before < 20 << 20


def test_a_member_that_writes_without_end_is_ended(make_stage):
    scene = make_stage("squad_file_bytes = 1000000\n")
    role(scene)
    endless, other = start(connect(scene), do(endless=True), do(say="x"))["members"]
    assert (endless["status"], endless["reason"]) == ("error", "it wrote more than 1000000 bytes")
    assert endless["reason"] in endless["rawStderr"]
    assert endless["signal"] == "SIGTERM"
    assert Path(endless["rawStdoutFile"]).stat().st_size > 1_000_000
    assert (other["status"], other["rawStdout"]) == ("completed", "x")
    gone(scene)


def test_a_member_that_is_deaf_to_sigterm_is_killed_when_its_time_is_over(scene):
    row = only(start(connect(scene, PROCESS_TIMEOUT_MS="6000"), do(deaf=True, say="half", hold=NEVER)))
    assert (row["status"], row["rawStdout"], row["signal"]) == ("timeout", "half", "SIGKILL")
    assert row["reason"] == "it had 6 s"
    gone(scene)


def test_a_member_that_closes_its_outputs_lives_on(scene):
    gate = scene.base / "gate"
    wire = connect(scene)
    key = wire.start(
        TOOL, {"members": [{"roleId": "coder", "task": do(say="a", close=True, hold=str(gate), exit=4)}]}
    )
    until(lambda: calls(scene))
    (squad_id,) = scene.made()
    assert only(collect(wire, squad_id, wait_ms=0))["status"] == "running"
    gate.touch()
    row = only(wire.outcome(wire.answer(key)))
    assert (row["status"], row["exitCode"], row["rawStdout"]) == ("error", 4, "a")


def test_a_member_that_never_reads_its_standard_input_ends_as_it_likes(scene):
    wire = connect(scene, RUN_TEMPLATE=f"# stdin: prompt\n'{do(say='unread')}'")
    row = only(start(wire, "é" * 2_500_000))
    assert (row["status"], row["rawStdout"]) == ("completed", "unread")
    assert len(calls(scene)) == 1


@pytest.mark.parametrize("how", [{"deaf": True}, {}])
def test_children_that_multiply_until_they_are_killed_all_are(scene, how):
    wire = connect(scene, PROCESS_TIMEOUT_MS="4000")
    assert only(start(wire, do(spin=100, hold=NEVER, **how)))["status"] == "timeout"
    gone(scene)


def test_a_member_that_kills_its_own_group_ends_nothing_else(scene):
    before = scene.stage.daemon()
    killed, other = start(connect(scene), do(say="x", kill_group=9), do(say="y"))["members"]
    assert (killed["status"], killed["signal"], killed["rawStdout"]) == ("error", "SIGKILL", "x")
    assert (other["status"], other["rawStdout"]) == ("completed", "y")
    assert scene.stage.daemon() == before


def test_a_member_that_kills_the_daemon_is_ended_by_the_next_one(stage):
    role(stage)
    rows = start(connect(stage), do(say="x", kill_daemon=True), do(hold=NEVER, deaf=True))["members"]
    assert [(row["status"], row["reason"].split(":")[0]) for row in rows] == [("error", "interrupted")] * 2
    assert rows[0]["rawStdout"] == "x"
    assert len(calls(stage)) <= 2
    gone(stage)


@pytest.mark.parametrize(
    "number",
    [1, 2, 3, 6, 15, 34, 64, *(pytest.param(n, marks=pytest.mark.slow) for n in (8, 10, 11, 13, 14, 31, 40))],
)
def test_the_signal_that_ended_a_member_is_told(scene, number):
    row = only(start(connect(scene), do(kill=number, say="x")))
    names = {one.value: one.name for one in signal.Signals}
    assert (row["status"], row["signal"]) == ("error", names.get(number, f"signal {number}"))
    assert "exitCode" not in row
    assert row["rawStdout"] == "x"


def test_bytes_that_are_no_text_are_answered_as_text(scene):
    hard = "00ff fe c3 e28280 f09f8e89 1b5b316d 0d0a edb080"
    row = only(start(connect(scene), do(bytes=hard.replace(" ", ""))))
    assert row["rawStdout"] == bytes.fromhex(hard).decode(errors="replace")
    assert row["status"] == "completed"


def test_a_pipe_in_the_place_of_an_output_is_not_waited_for(scene):
    row = only(start(connect(scene), do(swap=True)))
    assert (row["status"], row["rawStdout"]) == ("completed", "")
    sound(scene)


@pytest.mark.parametrize("what", ["squad.json", "m1", ""])
def test_files_of_a_squad_that_are_removed_while_it_runs_cost_no_other_member_anything(scene, what):
    wire = connect(scene, EXECUTION_MODE="sequential")
    gate = scene.base / "gate"
    answer = start(wire, do(say="a", hold=str(gate)), do(say="b"), wait_ms=0)
    until(lambda: calls(scene))
    path = scene.root / ".agents/squads" / answer["squadId"] / what
    until(lambda: file_of(scene, answer["squadId"])["members"][0]["pid"])
    shutil.rmtree(path) if path.is_dir() else path.unlink()
    gate.touch()
    rows = collect(wire, answer["squadId"])["members"]
    if what == "squad.json":
        assert [(row["status"], row["rawStdout"]) for row in rows] == [("completed", "a"), ("completed", "b")]
        assert file_of(scene, answer["squadId"])["ended_at"]
    else:
        assert [row["status"] for row in rows] == ["completed", "error"]
        assert "could not be started" in rows[1]["reason"]
        assert str(path / "m1" if not what else path) in rows[1]["reason"]
    sound(scene)


@pytest.mark.parametrize("how", ["removed", "a link out"])
def test_a_directory_that_goes_while_a_member_waits_for_its_turn_is_that_members_error(scene, how):
    place, gate = scene.root / "going", scene.base / "gate"
    place.mkdir()
    wire = connect(scene, EXECUTION_MODE="sequential")
    asked = [{"roleId": "coder", "task": do(hold=str(gate))}, {"roleId": "coder", "task": do(), "cwd": "going"}]
    key = wire.start(TOOL, {"members": [*asked, {"roleId": "coder", "task": do(say="last")}]})
    until(lambda: calls(scene))
    place.rmdir()
    if how != "removed":
        place.symlink_to("/")
    gate.touch()
    rows = wire.outcome(wire.answer(key))["members"]
    place.unlink(missing_ok=True)
    assert [row["status"] for row in rows] == ["completed", "error", "completed"]
    assert str(place) in rows[1]["reason"], "it is the directory that is missing, not the program"
    assert len(calls(scene)) == 2


# -- the disk ---------------------------------------------------------------------------------------------------


def test_a_squads_directory_that_leads_out_of_the_project_is_refused(stage):
    role(stage)
    out = stage.base / "out"
    out.mkdir()
    (stage.root / ".agents/squads").symlink_to(out)
    assert code_of(start(connect(stage), do())) == "path_escape"
    assert list(out.iterdir()) == []
    assert calls(stage) == []
    (stage.root / ".agents/squads").unlink()
    assert only(start(connect(stage), do()))["status"] == "completed"


def test_what_stands_where_squads_are_kept_is_told_before_anything_is_spawned(stage):
    role(stage)
    (stage.root / ".agents/squads").write_text("mine")
    answer = start(connect(stage), do())
    assert code_of(answer) == "io_failed"
    assert ".agents/squads" in answer["error"]["message"]
    assert calls(stage) == []
    assert (stage.root / ".agents/squads").read_text() == "mine"


@pytest.mark.skipif(bool(mounts.why_no_mounts()), reason=mounts.why_no_mounts() or "-")
def test_a_full_disk_spawns_nothing_and_a_disk_that_fills_up_costs_no_result(make_stage):
    def body():
        stage = make_stage()
        role(stage)
        place = stage.root / ".agents" / "squads"
        mounts.tmpfs(place, "size=1m")
        wire = connect(stage)
        filler = mounts.fill(place)
        answer = start(wire, do(say="never"))
        assert code_of(answer) == "disk_full", answer
        assert calls(stage) == []
        filler.unlink()
        gate = stage.base / "gate"
        going = start(wire, do(say="paid", hold=str(gate)), wait_ms=0)
        until(lambda: file_of(stage, going["squadId"])["members"][0]["pid"] and calls(stage))
        filler = mounts.fill(place)
        gate.touch()
        assert only(collect(wire, going["squadId"]))["status"] == "completed"
        filler.unlink()
        assert only(start(wire, do(say="again")))["rawStdout"] == "again"
        gone(stage)
        for one in stage.wires:
            one.close()
        stage.wires.clear()
        stage.stop_daemon()
        mounts.release(place)

    mounts.apart(body)


def test_what_a_killed_daemon_only_laid_out_is_removed_and_nothing_else(stage):
    with state_of(stage.env):
        Paths(stage.root).provenance.establish()
    place = stage.root / ".agents/squads"
    squads_ids = [f"{n}0000000-0000-0000-0000-000000000000" for n in range(4)]
    for squad_id in squads_ids:
        (place / squad_id / "m0").mkdir(parents=True)
        (place / squad_id / "m0" / "prompt.md").write_text("secret")
    (place / squads_ids[1] / "m0" / "stdout").write_text("paid")
    (place / squads_ids[2] / "mine").write_text("mine")
    os.mkfifo(place / squads_ids[3] / "squad.json")
    (place / "notes").mkdir()
    role(stage)
    done = start(connect(stage), do())["squadId"]
    assert sorted(path.name for path in place.iterdir()) == sorted([*squads_ids[1:], done, "notes"])


# -- callers ----------------------------------------------------------------------------------------------------


def test_two_clients_that_start_at_once_get_their_own_members(scene):
    wires = [connect(scene), connect(scene)]
    keys = [
        wire.start(TOOL, {"members": [{"roleId": "coder", "task": do(say=f"{at}.{n}")} for n in range(3)]})
        for at, wire in enumerate(wires)
    ]
    answers = [wire.outcome(wire.answer(key)) for wire, key in zip(wires, keys, strict=True)]
    assert answers[0]["squadId"] != answers[1]["squadId"]
    for at, answer in enumerate(answers):
        assert [row["rawStdout"] for row in answer["members"]] == [f"{at}.{n}" for n in range(3)]


def test_forty_members_of_one_call_are_answered_in_order_however_much_they_write(scene):
    wire = connect(scene, MAX_PARALLEL_MEMBERS="8")
    rows = start(wire, *[do(say=f"{at:02}", mb=1, fill="00") for at in range(40)])["members"]
    assert [row["status"] for row in rows] == ["completed"] * 40
    assert [row["rawStdout"][:2] for row in rows] == [f"{at:02}" for at in range(40)]
    assert len(calls(scene)) == 40


def test_members_go_on_without_their_client_and_their_results_are_kept(scene):
    gate = scene.base / "gate"
    wire = connect(scene, MAX_PARALLEL_MEMBERS="2")
    wire.start(TOOL, {"members": [{"roleId": "coder", "task": do(say=str(at), hold=str(gate))} for at in range(4)]})
    until(lambda: len(calls(scene)) == 2)
    wire.vanish()
    gate.touch()
    (squad_id,) = scene.made()
    until(lambda: file_of(scene, squad_id)["ended_at"])
    assert file_of(scene, squad_id)["read_at"] is None, "nobody has read them"
    for _ in range(2):
        assert [row["rawStdout"] for row in collect(connect(scene), squad_id)["members"]] == ["0", "1", "2", "3"]


def test_a_call_that_waits_on_can_be_canceled_which_ends_the_members(scene):
    first, second = connect(scene), connect(scene)
    squad_id = start(first, do(say="half", hold=NEVER), wait_ms=0)["squadId"]
    output = scene.root / ".agents/squads" / squad_id / "m0/stdout"
    until(lambda: output.exists() and output.read_bytes() == b"half")
    key = second.start(TOOL, {"squadId": squad_id, "members": []})
    second.ask("ping")
    second.send({"method": "notifications/cancelled", "params": {"requestId": key}})
    gone(scene)
    row = only(collect(first, squad_id))
    assert (row["status"], row["reason"], row["rawStdout"]) == ("error", "canceled", "half")


def test_a_cancel_that_comes_after_the_answer_changes_nothing(scene):
    wire = connect(scene)
    gate = scene.base / "gate"
    key = wire.start(TOOL, {"members": [{"roleId": "coder", "task": do(say="x", hold=str(gate))}], "wait_ms": 0})
    squad_id = wire.outcome(wire.answer(key))["squadId"]
    wire.send({"method": "notifications/cancelled", "params": {"requestId": key}})
    wire.ask("ping")
    gate.touch()
    row = only(collect(wire, squad_id))
    assert (row["status"], row["rawStdout"]) == ("completed", "x")


def test_a_cancel_ends_the_wait_for_a_chat_that_another_call_holds(scene):
    gate = scene.base / "gate"
    wire = connect(scene, STATE_MODE="stateful")
    asked = {"members": [{"roleId": "coder", "task": do(say="x", hold=str(gate)), "chatId": "c1"}]}
    first = wire.start(TOOL, asked)
    until(lambda: calls(scene))
    second = wire.start(TOOL, asked)
    squad_id = until(
        lambda: len(scene.made()) == 2 and max(scene.made(), key=lambda one: file_of(scene, one)["created_at"])
    )
    wire.send({"method": "notifications/cancelled", "params": {"requestId": second}})
    row = only(collect(wire, squad_id))
    assert (row["status"], row["reason"]) == ("error", "canceled")
    gate.touch()
    assert only(wire.outcome(wire.answer(first)))["rawStdout"] == "x"
    assert len(calls(scene)) == 1


def test_two_calls_with_the_same_arguments_are_two_squads(scene):
    wire = connect(scene)
    asked = {"members": [{"roleId": "coder", "task": do(say="same")}]}
    keys = [wire.start(TOOL, asked) for _ in range(2)]
    found = {wire.outcome(wire.answer(key))["squadId"] for key in keys}
    assert len(found) == len(calls(scene)) == 2
