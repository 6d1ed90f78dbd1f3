"""AC1: agents appear as panes in the master's own window, ready once each, and the user's panes stay as they were."""

import json
import os
import shutil
import signal
import sys

import pytest

from tests.support.stage import gone, tree, until, user_panes
from tests.support.tmux_server import PrivateServer

pytestmark = pytest.mark.tmux

TEAM = [{"name": f"w{n}", "role": "tester"} for n in (1, 2, 3)]

# A CLI as a user starts one: a program in the pane, with the relay as its child.
IN_PANE = """
import asyncio, json, sys
from mcp import Client, StdioServerParameters

async def main():
    relay = StdioServerParameters(command=sys.executable, args=["-P", "-m", "orchestrator", "mcp"], env=ENV)
    async with Client(relay) as client:
        answer = await client.call_tool("agent_create", {"name": "child", "role": "tester"})
    with open(sys.argv[1] + ".new", "w") as file:
        json.dump(answer.structured_content, file)
    import os
    os.rename(sys.argv[1] + ".new", sys.argv[1])

ENV = json.loads(sys.argv[2])
asyncio.run(main())
"""


def window_of(stage, pane):
    return stage.server.show(pane, "#{window_id}")


@pytest.mark.parametrize(
    ("width", "height", "splits"), [(220, 60, ["-h", "-v"]), pytest.param(80, 24, ["-v"], marks=pytest.mark.slow)]
)
@pytest.mark.anyio
async def test_three_agents_get_three_panes_in_the_masters_window_and_the_users_panes_stay(
    stage, width, height, splits
):
    master = stage.server.start(width, height)
    window = window_of(stage, master)
    for flag in splits:
        size = ["-l", "5"] if height == 24 else []
        pane = stage.server.run(
            "split-window", flag, *size, "-t", master, "-P", "-F", "#{pane_id}", "--", "env", "cat"
        )
        stage.server.run("select-pane", "-t", pane, "-T", f"mine {flag}")
    elsewhere = stage.server.run("new-window", "-d", "-t", "user", "-P", "-F", "#{pane_id}", "--", "env", "cat")
    stage.server.run("select-pane", "-t", master, "-T", "my master")
    stage.server.run("select-pane", "-t", master)
    before, order = user_panes(stage, window), stage.server.panes(window)
    other_window = user_panes(stage, window_of(stage, elsewhere))
    async with stage.master(stage.inside(master)) as client:
        answer = (await client.call_tool("agents_create", {"agents": TEAM})).structured_content
        assert [one["agent_id"] for one in answer["agents"]] == ["w1", "w2", "w3"]
        assert answer["ready"] == 3
        assert stage.tagged() == {one["tmux_pane_id"]: one["agent_id"] for one in answer["agents"]}
        assert {stage.server.show(pane, "#{window_id}") for pane in stage.tagged()} == {window}
        for pane in stage.tagged():
            cells = [int(n) for n in stage.server.show(pane, "#{pane_width} #{pane_height}").split()]
            assert cells[0] >= 30
            assert cells[1] >= 5
        after = user_panes(stage, window)

        def but_size_of_master(rows):
            return [row.split(" ", 2)[::2] if row.startswith(f"{master} ") else row for row in rows]

        assert but_size_of_master(after) == but_size_of_master(before)
        assert stage.server.show(window, "#{pane_id}") == master, "the master's pane keeps the focus"
        assert [pane for pane in stage.server.panes(window) if pane in order] == order
        assert user_panes(stage, window_of(stage, elsewhere)) == other_window
        for one in answer["agents"]:
            assert stage.types(one["agent_id"]) == ["starting", "ready"]
        listed = (await client.call_tool("agent_list", {})).structured_content["agents"]
        wanted = {"agent_id", "role", "status", "tmux_pane_id", "queue_depth", "running_task_id", "last_event_seq"}
        assert all(wanted <= row.keys() and row["status"] == "idle" for row in listed)
        for one in answer["agents"]:
            ended = (await client.call_tool("agent_delete", {"agent_id": one["agent_id"]})).structured_content
            assert ended["ok"]
        assert stage.tagged() == {}
        assert user_panes(stage, window) == before, "all is as it was before the team came"


def test_the_master_is_found_by_the_pane_its_process_runs_in_and_not_by_a_strangers_variable(stage):
    stranger = stage.server.start()
    script, answer = stage.base / "cli.py", stage.base / "answer.json"
    script.write_text(IN_PANE)
    env = stage.inside(stranger)
    home = stage.server.run(
        "new-window", "-d", "-c", str(stage.root), "-t", "user", "-P", "-F", "#{pane_id}",
        "--", sys.executable, str(script), str(answer), json.dumps(env),
    )  # fmt: skip
    home_window = window_of(stage, home)
    made = json.loads(until(lambda: answer.exists() and answer.read_text()))
    assert made["ready"]
    assert window_of(stage, made["tmux_pane_id"]) == home_window
    assert stage.run_files()[0]["master_pane"] == home


def test_outside_tmux_two_masters_at_once_get_one_session_which_ends_with_the_last_agent(stage):
    one, two = stage.begun(), stage.begun()
    keys = [
        (wire, wire.start("agent_create", {"name": name, "role": "r"})) for wire, name in ((one, "a"), (two, "b"))
    ]
    made = [wire.outcome(wire.answer(key)) for wire, key in keys]
    assert [answer["ready"] for answer in made] == [True, True]
    sessions = stage.server.run("list-sessions", "-F", "#{session_name} #{window_width}x#{window_height}").split("\n")
    assert len(sessions) == 1
    assert sessions[0].endswith(" 220x60")
    assert {answer["run_id"] for answer in made} == {made[0]["run_id"]}
    name = sessions[0].split(" ")[0]
    assert made[0]["attach"] == f"tmux -L {stage.server.socket.name} attach -t {name}"
    assert sorted(row["agent_id"] for row in one.tool("agent_list")["agents"]) == ["a", "b"]
    assert one.tool("agent_delete", {"agent_id": "a"})["ok"]
    assert not gone(stage.server)
    assert two.tool("agent_delete", {"agent_id": "b"})["ok"]
    until(lambda: gone(stage.server))
    (run,) = stage.run_files()
    assert run["ended_at"] is not None


def test_the_session_outside_tmux_shows_its_own_team_beside_another(stage):
    inside = stage.begun(stage.inside(stage.server.start()))
    assert inside.tool("agent_create", {"name": "in-window", "role": "r"})["ready"]
    made = stage.begun().tool("agent_create", {"name": "outside", "role": "r"})
    assert made["ready"]
    (run,) = [run for run in stage.run_files() if run["run_id"] == made["run_id"]]

    def screen():
        return stage.server.run("capture-pane", "-p", "-t", run["master_pane"])

    until(lambda: "outside" in screen())
    assert "in-window" not in screen()
    assert stage.server.show(run["master_pane"], "#{pane_dead}") == "0"


def test_two_masters_in_two_windows_of_one_project_lead_two_teams_apart(stage):
    first = stage.server.start()
    second = stage.server.run("new-window", "-d", "-t", "user", "-P", "-F", "#{pane_id}", "--", "env", "cat")
    one, two = stage.begun(stage.inside(first)), stage.begun(stage.inside(second))
    a = one.tool("agent_create", {"name": "x", "role": "r"})
    b = two.tool("agent_create", {"name": "x", "role": "r"})
    assert (a["agent_id"], b["agent_id"]) == ("x", "x-2"), "an id is never given twice"
    assert a["run_id"] != b["run_id"]
    assert window_of(stage, a["tmux_pane_id"]) == window_of(stage, first)
    assert window_of(stage, b["tmux_pane_id"]) == window_of(stage, second)
    assert [row["agent_id"] for row in one.tool("agent_list")["agents"]] == ["x"]
    assert [row["agent_id"] for row in two.tool("agent_list")["agents"]] == ["x-2"]
    assert [row["agent_id"] for row in two.tool("agent_list", {"scope": "all"})["agents"]] == ["x", "x-2"]
    told = {event["agent_id"] for event in one.tool("broadcast_read")["events"]}
    assert told == {"x"}
    # A new master in the same window leads the same run.
    third = stage.begun(stage.inside(first))
    assert third.tool("broadcast_read")["run_id"] == a["run_id"]


def test_a_master_in_a_nested_tmux_gets_its_panes_there_and_the_outer_one_is_not_touched(stage):
    outer = PrivateServer()
    try:
        outside = outer.start(230, 64)
        inner = [
            "tmux",
            "-L",
            str(stage.server.socket.name),
            "-f",
            "/dev/null",
            "new-session",
            "-s",
            "in",
            "env",
            "cat",
        ]
        host = outer.run(
            "new-window", "-t", "user", "-P", "-F", "#{pane_id}", "--", "env", "-u", "TMUX", "TERM=xterm", *inner
        )
        master = until(
            lambda: None if gone(stage.server) else stage.server.run("list-panes", "-a", "-F", "#{pane_id}")
        )
        form = "#{window_id} #{pane_id} #{pane_width}x#{pane_height} #{pane_active}"
        before = outer.run("list-panes", "-a", "-F", form)
        wire = stage.begun({**stage.inside(master), "TMUX_PANE": master})
        made = wire.tool("agent_create", {"name": "n", "role": "r"})
        assert made["ready"], made
        assert stage.tagged() == {made["tmux_pane_id"]: "n"}
        assert outer.run("list-panes", "-a", "-F", form) == before
        assert {outside, host} <= set(outer.run("list-panes", "-a", "-F", "#{pane_id}").split("\n"))
    finally:
        stage.stop_daemon()
        stage.end_tmux()
        outer.end()


def test_a_masters_pane_that_moves_to_another_window_gets_its_next_agents_there(stage):
    master = stage.server.start()
    old = window_of(stage, master)
    wire = stage.begun(stage.inside(master))
    first = wire.tool("agent_create", {"name": "before", "role": "r"})
    stage.server.run("break-pane", "-d", "-s", master)
    new = window_of(stage, master)
    assert new != old
    second = wire.tool("agent_create", {"name": "after", "role": "r"})
    assert second["ready"], second
    assert window_of(stage, first["tmux_pane_id"]) == old
    assert window_of(stage, second["tmux_pane_id"]) == new
    assert second["run_id"] != first["run_id"]
    assert [row["agent_id"] for row in wire.tool("agent_list")["agents"]] == ["after"]
    for agent_id in ("before", "after"):
        assert wire.tool("agent_delete", {"agent_id": agent_id})["ok"]
    assert stage.server.panes(new) == [master]


def test_a_window_too_small_is_refused_and_nothing_is_written(make_stage):
    stage = make_stage('overflow = "refuse"\n')
    master = stage.server.start(50, 10)
    window = window_of(stage, master)
    before, written = user_panes(stage, window), tree(stage.root)
    wire = stage.begun(stage.inside(master))
    assert wire.tool("agent_create", {"name": "a", "role": "r"})["error"]["code"] == "no_room"
    many = wire.tool("agents_create", {"agents": TEAM})
    assert [row["error"]["code"] for row in many["agents"]] == ["no_room"] * 3
    sentences = [row["error"]["message"] for row in many["agents"]]
    assert sentences[0].startswith("0 of 3 new agents fit in this window of 50x10")
    assert not any("fit in" in sentence for sentence in sentences[1:])
    assert user_panes(stage, window) == before
    assert tree(stage.root) == written
    # Three agents do not fit where one does: the first gets its pane, the others are told.
    stage.server.run("resize-window", "-t", window, "-x", "80", "-y", "12")
    some = wire.tool("agents_create", {"agents": TEAM})["agents"]
    made = [row for row in some if "agent_id" in row]
    assert 1 <= len(made) < 3
    assert {row["error"]["code"] for row in some if "error" in row} == {"no_room"}
    explained = [row for row in some if "error" in row and "of 3 new agents" in row["error"]["message"]]
    assert len(explained) == 1
    assert set(stage.tagged().values()) == {row["agent_id"] for row in made}


def test_agents_of_a_further_window_have_their_labels_and_it_is_left_as_a_user_may_need_it(stage):
    master = stage.server.start(80, 24)
    wire = stage.begun(stage.inside(master))
    made = wire.tool("agents_create", {"agents": [{"name": f"w{n}", "role": "r"} for n in range(6)]})["agents"]
    assert all(row["ready"] for row in made), made
    windows = list(dict.fromkeys(window_of(stage, row["tmux_pane_id"]) for row in made))
    assert windows[0] == window_of(stage, master)
    assert len(windows) == 2
    for window in windows:
        assert stage.server.show(window, "#{pane-border-status}") == "top"
    for row in made:
        until(lambda pane=row["tmux_pane_id"], name=row["agent_id"]: name in border(stage, pane))
    # A person puts a pane of their own beside the agents: their window, once the agents have left.
    there = [row for row in made if window_of(stage, row["tmux_pane_id"]) == windows[1]]
    mine = stage.server.split(there[0]["tmux_pane_id"])
    for row in there:
        assert wire.tool("agent_delete", {"agent_id": row["agent_id"]})["ok"]
    assert stage.server.panes(windows[1]) == [mine]
    assert stage.server.show(windows[1], "#{pane-border-status}") == "off"
    assert stage.server.show(windows[0], "#{pane-border-status}") == "top"
    assert stage.run_files()[0]["windows"] == []


def test_a_window_that_gets_no_agent_keeps_its_rows(stage):
    master = stage.server.start(50, 9)
    before = stage.server.cells(master)
    wire = stage.begun(stage.inside(master))
    made = wire.tool("agent_create", {"name": "w", "role": "r"})
    assert window_of(stage, made["tmux_pane_id"]) != window_of(stage, master)
    assert stage.server.cells(master) == before
    assert stage.server.show(master, "#{pane-border-status}") == "off"
    until(lambda: "w" in border(stage, made["tmux_pane_id"]))


def border(stage, pane):
    return stage.server.show(pane, "#{E:pane-border-format}")


def test_a_create_that_fails_outside_tmux_leaves_no_session(stage):
    # The setting that names the server is in the directory that is not there.
    wire = stage.begun({**stage.env, "ORCHESTRATOR_TMUX_SOCKET": stage.server.socket.name})
    shutil.rmtree(stage.root / ".agents")
    (stage.root / ".agents").write_text("not a directory")
    answer = wire.tool("agent_create", {"name": "a", "role": "r"})
    assert "error" in answer, answer
    until(lambda: gone(stage.server))


def test_a_zoomed_pane_stays_zoomed_and_the_agents_come_behind_it(stage):
    master = stage.server.start()
    stage.server.split(master)
    stage.server.run("select-pane", "-t", master)
    stage.server.run("resize-pane", "-Z", "-t", master)
    wire = stage.begun(stage.inside(master))
    assert wire.tool("agents_create", {"agents": TEAM[:2]})["ready"] == 2
    assert (
        stage.server.show(master, "#{window_zoomed_flag} #{pane_active} #{pane_width}x#{pane_height}") == "1 1 220x60"
    )
    assert wire.tool("agent_delete", {"agent_id": "w1"})["ok"]
    assert stage.server.show(master, "#{window_zoomed_flag} #{pane_active}") == "1 1"


def test_a_user_who_kills_an_agents_pane_by_hand_finds_that_said_and_the_rest_of_the_team_at_work(stage):
    master = stage.server.start()
    wire = stage.begun(stage.inside(master))
    first = {**TEAM[0], "policies": {"on_pane_closed": "requeue"}}
    made = wire.tool("agents_create", {"agents": [first, TEAM[1]]})["agents"]
    assert wire.tool(
        "task_enqueue", {"agent_id": "w1", "task": {"task_id": "t", "payload": {"command": "sleep 300"}}}
    )
    until(lambda: "ack" in stage.types("w1"))
    stage.server.run("kill-pane", "-t", made[0]["tmux_pane_id"])
    until(lambda: stage.types("w1").count("ack") == 2)
    said = [r for r in stage.records("w1") if r["type"] in ("exited", "restarted", "requeued")]
    assert [r["type"] for r in said] == ["exited", "requeued", "restarted"]
    assert said[0]["how"] == "pane_closed"
    assert said[0]["reason"].startswith("its pane was closed")
    meta = wire.tool("agent_get", {"agent_id": "w1"})["meta"]
    assert (meta["status"], meta["epoch"]) == ("busy", 2)
    assert meta["tmux_pane_id"] != made[0]["tmux_pane_id"]
    assert window_of(stage, meta["tmux_pane_id"]) == window_of(stage, master)
    wire.tool("task_enqueue", {"agent_id": "w2", "task": {"task_id": "u", "payload": {"command": "true"}}})
    until(lambda: "result" in stage.types("w2"))
    assert wire.tool("agent_delete", {"agent_id": "w1"})["ok"]
    assert [r["type"] for r in stage.records("w1") if r.get("task_id") == "t"][-1] == "canceled"
    until(lambda: not any("sleep 300" in command for command in stage.processes().values()))


def sent(stage, pane, *keys):
    stage.server.run("send-keys", "-t", pane, *keys)


def screen(stage, pane):
    return stage.server.run("capture-pane", "-p", "-t", pane)


def queued(wire, agent, task, command):
    assert wire.tool("task_enqueue", {"agent_id": agent, "task": {"task_id": task, "payload": {"command": command}}})[
        "task_id"
    ]


def ended(stage, agent, task):
    """The terminal event of the task; there is one at most."""
    ends = [
        r for r in stage.records(agent) if r.get("task_id") == task and r["type"] in ("result", "error", "canceled")
    ]
    assert len(ends) <= 1
    return ends[0] if ends else None


def test_ctrl_c_in_the_pane_of_a_shell_agent_cancels_its_task_and_the_agent_goes_on_with_its_queue(stage):
    wire = stage.begun(stage.inside(stage.server.start()))
    pane = wire.tool("agents_create", {"agents": TEAM[:1]})["agents"][0]["tmux_pane_id"]
    queued(wire, "w1", "t", "echo up; exec sleep 300")
    queued(wire, "w1", "u", "echo two")
    until(lambda: "\nup\n" in screen(stage, pane))
    sent(stage, pane, "C-z")
    until(lambda: "Ctrl-Z has no effect" in screen(stage, pane))
    sent(stage, pane, "C-c")
    end = until(lambda: ended(stage, "w1", "t"))
    assert (end["type"], end["attempt"], end["by"]) == ("canceled", 1, "agent")
    assert end["payload"]["canceled_by"] == "human"
    assert until(lambda: ended(stage, "w1", "u"))["type"] == "result"
    assert stage.types("w1").count("ready") == 1
    assert not any("sleep 300" in command for command in stage.processes().values())
    assert wire.tool("agent_delete", {"agent_id": "w1"})["ok"]


def test_the_pane_of_a_shell_agent_shows_what_it_does_now(stage):
    wire = stage.begun(stage.inside(stage.server.start()))
    pane = wire.tool("agents_create", {"agents": TEAM[:1]})["agents"][0]["tmux_pane_id"]

    def title():
        return stage.server.show(pane, "#{pane_title}")

    until(lambda: title() == "w1: idle")
    assert "starting" not in screen(stage, pane)
    assert screen(stage, pane).rstrip().split("\n")[-1] == "idle"
    go = stage.root / "go"
    queued(wire, "w1", "t", f"echo up; until [ -e {go} ]; do sleep 0.05; done")
    until(lambda: title().startswith("w1: echo up; until"))
    until(lambda: "\nup\n" in screen(stage, pane))
    assert "idle" not in screen(stage, pane)
    go.touch()
    until(lambda: title() == "w1: idle")
    assert screen(stage, pane).rstrip().split("\n")[-1] == "idle"


def test_closing_the_pane_of_a_shell_agent_cancels_its_task_and_its_queue_goes_on_in_a_new_pane(stage):
    master = stage.server.start()
    wire = stage.begun(stage.inside(master))
    first = {**TEAM[0], "policies": {"max_restarts": 0}}  # a human's hand is no crash
    pane = wire.tool("agents_create", {"agents": [first]})["agents"][0]["tmux_pane_id"]
    queued(wire, "w1", "t", "sleep 300")
    queued(wire, "w1", "u", "echo two")
    until(lambda: "ack" in stage.types("w1"))
    stage.server.run("kill-pane", "-t", pane)
    end = until(lambda: ended(stage, "w1", "t"))
    assert (end["type"], end["attempt"], end["by"]) == ("canceled", 1, "orchestrator")
    assert end["payload"]["canceled_by"] == "human"
    assert end["payload"]["reason"].startswith("its pane was closed")
    assert until(lambda: ended(stage, "w1", "u"))["type"] == "result"
    said = [r for r in stage.records("w1") if r["type"] in ("exited", "restarted", "requeued")]
    assert [(r["type"], r.get("pane_closed")) for r in said] == [("exited", None), ("restarted", True)]
    until(lambda: not any("sleep 300" in command for command in stage.processes().values()))
    again = wire.tool("agent_get", {"agent_id": "w1"})["meta"]["tmux_pane_id"]
    assert window_of(stage, again) == window_of(stage, master)

    # Without a task it stays closed until there is one.
    stage.server.run("kill-pane", "-t", again)
    until(lambda: stage.types("w1")[-1] == "exited")
    meta = until(lambda: (m := wire.tool("agent_get", {"agent_id": "w1"})["meta"])["tmux_pane_id"] is None and m)
    assert (meta["status"], "next task" in meta["reason"]) == ("exited", True)
    assert stage.tagged() == {}
    queued(wire, "w1", "v", "echo three")
    assert until(lambda: ended(stage, "w1", "v"))["type"] == "result"
    assert list(stage.tagged().values()) == ["w1"]
    assert wire.tool("agent_delete", {"agent_id": "w1"})["ok"]


@pytest.mark.parametrize(("how", "end"), [("its pane is closed", "canceled"), ("kill -9", "error")])
def test_an_agent_that_shall_not_be_restarted_fails_with_its_pane_and_its_task_is_told_of(stage, how, end):
    wire = stage.begun(stage.inside(stage.server.start()))
    never = {"name": "w1", "role": "r", "engine": "shell", "policies": {"restart": "never", "on_lost": "fail"}}
    made = wire.tool("agents_create", {"agents": [never]})["agents"]
    wire.tool("task_enqueue", {"agent_id": "w1", "task": {"task_id": "t", "payload": {"command": "sleep 300"}}})
    wire.tool("task_enqueue", {"agent_id": "w1", "task": {"task_id": "u", "payload": {"command": "true"}}})
    until(lambda: "ack" in stage.types("w1"))
    if how == "kill -9":
        os.kill(int(stage.server.show(made[0]["tmux_pane_id"], "#{pane_pid}")), signal.SIGKILL)
    else:
        stage.server.run("kill-pane", "-t", made[0]["tmux_pane_id"])
    until(lambda: "failed" in stage.types("w1"))
    meta = wire.tool("agent_get", {"agent_id": "w1"})["meta"]
    assert (meta["status"], "pane" in meta["reason"]) == ("failed", how != "kill -9")
    assert [r["type"] for r in stage.records("w1") if r.get("task_id") == "t"][-1] == end
    late = wire.tool("task_enqueue", {"agent_id": "w1", "task": {"payload": 1}})
    assert late["error"]["code"] == "agent_ended"
    again = wire.tool("agent_restart", {"agent_id": "w1"})
    assert (again["ready"], again["epoch"]) == (True, 2)
    until(lambda: [r["type"] for r in stage.records("w1") if r.get("task_id") == "u"][-1:] == ["result"])
    assert wire.tool("agent_delete", {"agent_id": "w1"})["ok"]


def test_window_options_are_put_back_after_kill_9_of_the_daemon_a_restart_and_the_last_delete(stage):
    master = stage.server.start()
    window = window_of(stage, master)
    stage.server.run("set-option", "-w", "-t", window, "pane-border-format", "mine")

    def options():
        window_wide = stage.server.run("show-options", "-w", "-t", window)
        return (
            window_wide,
            stage.server.run("show-options", "-p", "-t", master),
            stage.server.run("show-options", "-g"),
        )

    before = options()
    wire = stage.begun(stage.inside(master))
    assert wire.tool("agents_create", {"agents": TEAM[:2]})["ready"] == 2
    assert options()[0] != before[0], "with our border line on, there is something to put back"
    first = stage.kill_daemon()
    assert wire.tool("agent_delete", {"agent_id": "w1"})["ok"]
    assert stage.daemon() != first
    stage.kill_daemon()
    assert wire.tool("agent_delete", {"agent_id": "w2"})["ok"]
    until(lambda: options() == before)
    assert stage.server.panes(window) == [master]
    assert stage.types("w1")[-2:] == ["stopped", "deleted"]


def test_a_bad_entry_of_a_team_fails_alone_and_panes_come_before_programs(stage):
    stage.server.start()
    master = stage.server.run("list-panes", "-a", "-F", "#{pane_id}")
    wire = stage.begun(stage.inside(master))
    asked = [
        TEAM[0],
        {"name": "bad", "role": "r", "engine": "nosuch"},
        {"name": "out", "role": "r", "cwd": "/"},
        TEAM[1],
    ]
    rows = wire.tool("agents_create", {"agents": asked})["agents"]
    assert [row.get("agent_id") or row["error"]["code"] for row in rows] == [
        "w1",
        "unknown_engine",
        "path_escape",
        "w2",
    ]
    last_start = max(r["at"] for a in ("w1", "w2") for r in stage.records(a) if r["type"] == "starting")
    first_ready = min(r["at"] for a in ("w1", "w2") for r in stage.records(a) if r["type"] == "ready")
    assert last_start <= first_ready
    assert sorted(path.name for path in (stage.root / ".agents" / "agents").iterdir()) == ["w1", "w2"]
