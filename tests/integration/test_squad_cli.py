"""Squads from the command line: one member, a file of them, waiting on, listing, ending; the exit status says it all."""

import json
import os
import signal
import subprocess
import sys

import pytest

from orchestrator.cli import squad
from tests.support import squads
from tests.support.squads import calls, do, gone, role
from tests.support.stage import until


@pytest.fixture
def scene(shared_stage, tmp_path):
    role(shared_stage)
    return squads.Scene(shared_stage, tmp_path)


def run(scene, *args, given="", **env):
    words = [sys.executable, "-P", "-m", "orchestrator", "squad", *args]
    return subprocess.run(
        words,
        env=squads.variables(scene, **env),
        cwd=scene.root,
        input=given.encode(),
        capture_output=True,
        check=False,
    )


def test_a_member_says_its_own_words_and_its_end_is_the_exit_status(scene):
    done = run(scene, "run", "coder", "--task", do(say="out é\n", err="err"))
    assert (done.returncode, done.stdout.decode()) == (0, "out é\n")
    assert "err\n" in done.stderr.decode()
    failed = run(scene, "run", "coder", "--task", do(say="half", exit=3))
    assert (failed.returncode, failed.stdout) == (1, b"half\n")
    assert "coder: error (exit code 3)" in failed.stderr.decode()
    told = json.loads(run(scene, "run", "coder", "--json", "--task", "-", given=do(say="x")).stdout)
    assert [row["rawStdout"] for row in told["members"]] == ["x"]


def test_a_member_works_where_it_is_told_and_goes_on_with_its_chat(scene):
    (scene.root / "sub").mkdir(exist_ok=True)
    first = json.loads(
        run(scene, "run", "coder", "--json", "--cwd", "sub", "--task", do(), STATE_MODE="stateful").stdout
    )
    (row,) = first["members"]
    assert (row["cwd"], calls(scene)[0]["cwd"]) == ("sub", str(scene.root / "sub"))
    again = run(scene, "run", "coder", "--task", do(), "--chat-id", row["chatId"])
    assert again.returncode == 0
    assert f"chat {row['chatId']}" in again.stderr.decode()
    assert calls(scene)[1]["argv"][:2] == ["--chat", row["chatId"]]


def test_the_members_of_a_file_or_of_stdin_are_started_together(scene):
    members = [{"roleId": "coder", "task": do(say="one")}, {"roleId": "coder", "task": do(say="two", exit=1)}]
    file = scene.base / "squad.json"
    file.write_text(json.dumps({"members": members}))
    done = run(scene, "start", str(file))
    assert done.returncode == 1
    said = done.stdout.decode()
    assert said.index("coder: completed") < said.index("one\n") < said.index("coder: error") < said.index("two\n")
    bare = run(scene, "start", "-", "--json", given=json.dumps(members[:1]))
    assert bare.returncode == 0
    assert json.loads(bare.stdout)["members"][0]["rawStdout"] == "one"


@pytest.mark.parametrize(
    ("args", "given", "code"),
    [
        (["start", "-"], "no json", "bad_argument"),
        (["start", "-"], "7", "bad_argument"),
        (["start", "-"], '{"members": []}', "bad_argument"),
        (["start", "missing.json"], "", "io_failed"),
        (["run", "nobody", "--task", "t"], "", "unknown_role"),
        (["run", "coder", "--task", ""], "", "bad_argument"),
        (["run", "coder", "--task", "t", "--chat-id", "--x"], "", "bad_id"),
        (["wait", "nothing"], "", "unknown_squad"),
        (["cancel", "nothing"], "", "unknown_squad"),
    ],
)
def test_what_is_wrong_is_said_by_its_code(scene, args, given, code):
    done = run(scene, *args, "--json", given=given)
    assert json.loads(done.stdout)["error"]["code"] == code
    assert done.returncode not in (0, 1)
    assert calls(scene) == []


def test_ctrl_c_ends_the_members(scene):
    words = [sys.executable, "-P", "-m", "orchestrator", "squad", "run", "coder", "--task", do(hold="/never")]
    process = subprocess.Popen(words, env=squads.variables(scene), cwd=scene.root, stderr=subprocess.PIPE)
    until(lambda: calls(scene))  # the command may still wait for the first answer
    os.kill(process.pid, signal.SIGINT)
    _, told = process.communicate()
    assert process.returncode == 130
    assert b"canceled" in told
    gone(scene)


@pytest.mark.parametrize("times", [1, 2])
def test_ctrl_c_before_the_first_answer_ends_the_members_once_their_squad_is_known(times, capsys):
    class Link:
        def __init__(self):
            self.asked = []

        def tool(self, _name, _arguments):
            for _ in range(times):  # while the answer is awaited
                signal.raise_signal(signal.SIGINT)
            return {"squadId": "s-1", "members": [{"status": "running"}]}

        def ask(self, method, params):
            self.asked.append((method, params))

    link = Link()
    with pytest.raises(KeyboardInterrupt):
        squad._followed(link, {"members": []})
    canceled = ("orchestrator/squad_cancel", {"squad_id": "s-1"})
    assert link.asked == ([canceled] if times == 1 else [])
    assert ("are ended" if times == 1 else "orchestrator squad list") in capsys.readouterr().err
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_squad_whose_command_line_has_gone_can_be_listed_waited_for_and_ended(scene):
    words = [sys.executable, "-P", "-m", "orchestrator", "squad", "run", "coder", "--task"]
    gate = scene.base / "gate"
    tasks = [do(say="kept", hold=str(gate)), do(hold="/never")]
    for number, task in enumerate(tasks):
        process = subprocess.Popen(
            [*words, task], env=squads.variables(scene), cwd=scene.root, stderr=subprocess.PIPE
        )
        until(lambda number=number: len(calls(scene)) == number + 1)
        process.kill()
        process.communicate()
    rows = {row["squadId"]: row for row in json.loads(run(scene, "list", "--json").stdout)["squads"]}
    one, two = sorted(scene.made(), key=lambda squad: rows[squad]["created_at"])
    assert [rows[squad]["members"][0]["status"] for squad in (one, two)] == ["running", "running"]
    assert one in run(scene, "list").stdout.decode()
    gate.touch()
    waited = run(scene, "wait", one)
    assert waited.returncode == 0
    assert b"kept" in waited.stdout
    assert run(scene, "cancel", two).returncode == 0
    ended = run(scene, "wait", two, "--json")
    assert ended.returncode == 1
    assert json.loads(ended.stdout)["members"][0]["reason"] == "canceled"
    gone(scene)
