"""Members shown in panes of the caller's window: beside agents, by the rules of a guest, and gone without a trace."""

import asyncio
import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from orchestrator.base.errors import Environment
from orchestrator.base.platform import process_facts
from orchestrator.core import decisions, supervision
from orchestrator.core.connection import ConnectionOrigin
from orchestrator.edge import project_location, run_directories
from orchestrator.team.panes.member_panes import MemberPanes
from orchestrator.team.panes.team_panes import TeamPanes
from orchestrator.tmux import member_tags, panes, splits, tmux_server
from orchestrator.tmux.panes import NewPane
from tests.support.stage import MARK, until
from tests.support.team import Team

pytestmark = [pytest.mark.tmux, pytest.mark.anyio]
CAT = ["env", "cat"]
FRAME = "#{pane_id} #{pane_width}x#{pane_height}+#{pane_left}+#{pane_top} #{pane_active} #{pane_title}"


class Scene:
    """A project whose caller sits in a pane of a user's window; agents are made without their processes."""

    def __init__(self, stage, width=220, height=60, *, started=True, **config):
        self.stage, self.server = stage, stage.server
        self.config = {"tmux_socket": str(self.server.socket.name), **config}
        self.team = Team(stage.root, **self.config)
        self.team_panes = TeamPanes(self.team.roster)
        self.member_panes = MemberPanes(self.team.roster, self.team_panes)
        if started:
            self.caller = self.server.start(width, height)
            self.server.run("set-option", "-g", "automatic-rename", "off")  # env becomes cat at a time of its own
            self.window = self.server.show(self.caller, "#{window_id}")
            self.origin = self.origin_in(self.caller)
        self.agents = 0

    def origin_in(self, pane):
        facts = self.server.show(pane, "#{socket_path},#{pid},0")
        return ConnectionOrigin(conn="c", cwd=str(self.stage.root), tmux=facts, tmux_pane=pane)

    def another_daemon(self):
        """As after a kill -9: nothing is known but what was written down."""
        self.member_panes = MemberPanes(self.team.roster, self.team_panes)

    async def agent(self):
        place = await self.team_panes.place_of(self.origin, make=False)
        run = await self.team_panes.run_for(place, None)
        self.agents += 1
        name = f"a{self.agents}"
        spec = {"name": name, "role": "r", "engine": "shell", "run_id": run.run_id, "cwd": "/", "policies": {}}
        await self.team.roster.create(
            name, supervision.starting(name, at="2026-01-01T00:00:00.000Z", req=name, spec=spec)
        )
        [pane] = await self.team_panes.make(run, [NewPane(name, run.run_id, 1, CAT, "/")])
        return run, name, pane

    async def delete(self, run, name):
        entry = self.team.roster.agents[name]
        at = "2026-01-01T00:00:01.000Z"
        await self.team.roster.commit(entry, decisions.stop(entry.state, at=at, req=None, reason="", force=False))
        await self.team_panes.remove(run, name)
        await self.team.roster.commit(entry, supervision.stopped(entry.state, at=at, rungs=[]))
        await self.team.roster.commit(entry, supervision.deleted(entry.state, at=at))
        await self.team_panes.end_if_empty(run)

    async def show(self, mark, argv=CAT, origin=None):
        return await self.member_panes.show(origin or self.origin, f"member {mark}", mark, list(argv))

    def members(self):
        rows = self.server.run("list-panes", "-a", "-F", "#{@orchestrator_member} #{pane_id}").split("\n")
        return dict(row.rsplit(" ", 1) for row in rows if not row.startswith(" "))

    def users(self):
        """All a user sees of the panes that are not ours."""
        form = f"#{{?#{{||:{panes.TAGGED},{member_tags.TAGGED}}},,{FRAME}}}"
        return [row for row in self.server.run("list-panes", "-t", self.window, "-F", form).split("\n") if row]

    def picture(self):
        """The whole window, and every option of it and of its panes."""
        form = f"#{{window_layout}} #{{window_zoomed_flag}} #{{window_name}} {FRAME}"
        local = [self.server.run("show-options", "-p", "-t", pane) for pane in self.server.panes(self.window)]
        frames = self.server.run("list-panes", "-t", self.window, "-F", form)
        return [frames, self.server.run("show-options", "-w", "-t", self.window), *local]

    def size(self, pane):
        return tuple(int(one) for one in self.server.show(pane, "#{pane_width} #{pane_height}").split(" "))

    def drawn(self, pane):
        return self.server.show(pane, "#{T:pane-border-format}")

    def screen(self, pane):
        return self.server.run("capture-pane", "-p", "-t", pane)

    def record(self):
        path = self.stage.run_dir() / project_location.SHOWN
        return sorted(json.loads(path.read_text())) if path.exists() else []


@pytest.fixture
def make_scene(stage, monkeypatch):
    monkeypatch.setenv(MARK, str(stage.run_base))
    made = []

    def make(**facts):
        made.append(Scene(stage, **facts))
        return made[-1]

    yield make
    for scene in made:
        scene.team.close()


@pytest.fixture
def scene(make_scene):
    return make_scene()


class Member:
    """A headless process that writes two files as it is told."""

    def __init__(self, place, name):
        self.out, self.err = place / f"{name}.out", place / f"{name}.err"
        script = "while read -r line; do echo out: $line; echo err: $line >&2; done"
        with self.out.open("wb") as out, self.err.open("wb") as err:
            self.process = subprocess.Popen(["sh", "-c", script], stdin=subprocess.PIPE, stdout=out, stderr=err)
        began = process_facts.start_time(self.process.pid)
        files = [str(self.out), str(self.err)]
        self.argv = project_location.own_command(
            "show", "--pid", str(self.process.pid), "--start", str(began), *files
        )

    def say(self, line):
        self.process.stdin.write(f"{line}\n".encode())
        self.process.stdin.flush()

    def end(self):
        self.process.stdin.close()
        self.process.wait()


@pytest.fixture
def make_member(stage):
    made = []

    def make(name):
        made.append(Member(stage.base, name))
        return made[-1]

    yield make
    for one in made:
        one.end()


async def test_two_members_are_shown_beside_an_agent_in_even_panes_of_one_region(scene, make_member):
    run, name, agent = await scene.agent()
    one, two = make_member("m1"), make_member("m2")
    shown = [await scene.show("m1", one.argv), await scene.show("m2", two.argv)]
    assert scene.members() == {"m1": shown[0], "m2": shown[1]}
    assert scene.server.panes(scene.window) == [scene.caller, agent, *shown]
    assert {scene.size(pane)[0] for pane in (agent, *shown)} == {scene.size(agent)[0]}
    heights = [scene.size(pane)[1] for pane in (agent, *shown)]
    assert max(heights) - min(heights) <= 1
    assert scene.size(scene.caller)[0] >= 0.45 * 220
    assert scene.server.show(scene.window, "#{pane_id}") == scene.caller, "nobody has taken the focus"
    one.say("hello")
    two.say("there")
    for pane, word in zip(shown, ("hello", "there"), strict=True):
        until(lambda pane=pane, word=word: all(f"{of}: {word}" in scene.screen(pane) for of in ("out", "err")))
    assert [scene.drawn(pane) for pane in (*shown, scene.caller)] == [" member m1 ", " member m2 ", ""]
    assert list(await scene.team_panes.tagged(run)) == [name], "no member is taken for an agent"
    assert scene.stage.tagged() == {agent: name}


async def test_what_a_member_said_last_stands_there_until_it_is_hidden(scene, make_member):
    before = scene.picture()
    one = make_member("m1")
    pane = await scene.show("m1", one.argv)
    one.say("good-bye")
    one.end()
    until(lambda: scene.server.show(pane, "#{pane_dead}") == "1")
    assert "out: good-bye" in scene.screen(pane)
    assert "[ended; its output is in" in scene.screen(pane)
    await scene.member_panes.hide(pane, "m1")
    assert scene.picture() == before


async def test_a_window_with_members_only_is_no_run_and_is_put_back_after_the_last(scene):
    scene.server.run("set-option", "-w", "-t", scene.window, "pane-border-format", "mine")
    before = scene.picture()
    panes_made = [await scene.show("m1"), await scene.show("m2")]
    assert scene.drawn(panes_made[1]) == " member m2 "
    assert scene.record() == ["m1", "m2"]
    assert not (scene.stage.root / ".agents" / "run").exists()
    await scene.member_panes.hide(panes_made[0], "m1")
    assert scene.members() == {"m2": panes_made[1]}
    assert scene.server.show(scene.window, "#{pane-border-status}") == "top"
    await scene.member_panes.hide(panes_made[1], "m2")
    assert scene.picture() == before
    assert scene.record() == []


async def test_the_users_panes_stay_as_they_are(scene):
    other = scene.server.split(scene.caller, "-v")
    scene.server.run("select-pane", "-t", other, "-T", "notes")
    kept = [row for row in scene.users() if row.startswith(other)]
    before = scene.picture()
    made = [await scene.show(f"m{number}") for number in range(3)]
    assert all(made)
    assert [row for row in scene.users() if row.startswith(other)] == kept
    assert scene.server.show(scene.window, "#{pane-border-status}") == "off", "it would cost a pane of the user a row"
    for number, pane in enumerate(made):
        await scene.member_panes.hide(pane, f"m{number}")
    assert scene.picture() == before


async def test_the_members_of_other_callers_in_the_window_join_the_agents(scene):
    other = scene.server.split(scene.caller, "-v")
    _, _, agent = await scene.agent()
    kept = scene.server.cells(scene.window)[other]
    shown = [await scene.show(pane, origin=scene.origin_in(pane)) for pane in (other, agent)]
    assert scene.server.cells(scene.window)[other] == kept
    heights = [scene.size(pane)[1] for pane in (agent, *shown)]
    assert max(heights) - min(heights) <= 1
    assert scene.size(agent)[0] + 1 + scene.size(shown[0])[0] == scene.size(shown[1])[0], "two above, one below"


async def test_a_pane_that_fills_the_window_stays_so(scene):
    scene.server.run("split-window", "-d", "-t", scene.caller, "--", *CAT)
    scene.server.run("resize-pane", "-Z", "-t", scene.caller)
    pane = await scene.show("m1")
    assert scene.server.show(scene.window, "#{window_zoomed_flag} #{pane_id}") == f"1 {scene.caller}"
    await scene.member_panes.hide(pane, "m1")
    assert scene.server.show(scene.window, "#{window_zoomed_flag} #{pane_id}") == f"1 {scene.caller}"


async def test_an_agent_joins_members_that_were_there_first_and_the_last_of_both_puts_the_window_back(scene):
    before = scene.picture()
    first = await scene.show("m1")
    run, name, agent = await scene.agent()
    assert run.file["changed"] is not None
    assert scene.size(first)[0] == scene.size(agent)[0]
    await scene.delete(run, name)
    assert not run.live
    assert scene.drawn(first) == " member m1 ", "the window is still ours"
    await scene.member_panes.hide(first, "m1")
    assert scene.picture() == before


async def test_a_run_that_goes_on_after_the_members_puts_the_window_back_at_its_end(scene):
    before = scene.picture()
    pane = await scene.show("m1")
    run, name, agent = await scene.agent()
    await scene.member_panes.hide(pane, "m1")
    assert scene.members() == {}
    assert scene.server.panes(scene.window) == [scene.caller, agent]
    assert scene.server.show(scene.window, "#{pane-border-status}") == "top"
    await scene.delete(run, name)
    assert scene.picture() == before


async def test_a_run_without_border_lines_takes_over_those_that_members_brought(make_scene):
    scene = make_scene()
    before = scene.picture()
    pane = await scene.show("m1")
    scene.team.config = scene.team.config.model_copy(update={"border": False})
    run, name, _ = await scene.agent()
    assert run.file["changed"] is None
    await scene.member_panes.hide(pane, "m1")
    await scene.delete(run, name)
    assert scene.picture() == before


async def test_agents_are_evened_out_when_a_member_leaves_and_members_when_an_agent_does(scene):
    run, name, agent = await scene.agent()
    _, other_name, other = await scene.agent()
    pane = await scene.show("m1")
    await scene.member_panes.hide(pane, "m1")
    assert abs(scene.size(agent)[1] - scene.size(other)[1]) <= 1
    shown = [await scene.show("m2"), await scene.show("m3")]
    await scene.delete(run, name)
    heights = [scene.size(pane)[1] for pane in (other, *shown)]
    assert max(heights) - min(heights) <= 1
    await scene.delete(run, other_name)
    heights = [scene.size(pane)[1] for pane in shown]
    assert max(heights) - min(heights) <= 1


async def test_no_room_means_no_pane_and_an_unchanged_window(make_scene):
    scene = make_scene(width=80, height=24)
    made = {}
    while pane := await scene.show(mark := f"m{len(made)}"):
        before, made[mark] = scene.picture(), pane
        assert len(made) < 10
    assert len(made) >= 3
    assert all(width >= 30 and height >= 5 for width, height in map(scene.size, made.values()))
    assert scene.picture() == before
    assert scene.record() == sorted(made)
    for mark, pane in made.items():
        await scene.member_panes.hide(pane, mark)
    small = make_scene(width=40, height=8, started=False)
    caller = small.server.run("new-window", "-d", "-P", "-F", "#{pane_id}", "--", *CAT)
    small.window = small.server.show(caller, "#{window_id}")
    small.server.run("resize-window", "-t", small.window, "-x", "40", "-y", "8")
    before = small.picture()
    assert await small.show("m5", origin=small.origin_in(caller)) is None
    assert small.picture() == before


async def test_outside_tmux_nothing_is_shown_and_no_session_is_made(make_scene):
    scene = make_scene(started=False)
    outside = ConnectionOrigin(conn="c", cwd=str(scene.stage.root))
    assert await scene.show("m1", origin=outside) is None
    with pytest.raises(Environment):
        scene.server.run("list-sessions")
    assert (
        await scene.show("m1", origin=ConnectionOrigin(conn="c", cwd="/", tmux="/none/such,1,0", tmux_pane="%0"))
        is None
    )
    assert scene.record() == []


async def test_a_session_of_our_own_is_no_place_of_a_caller_outside_tmux(scene):
    outside = ConnectionOrigin(conn="c", cwd=str(scene.stage.root))
    await scene.team_panes.place_of(outside, make=True)
    assert await scene.show("m1", origin=outside) is None
    assert scene.members() == {}


async def test_a_pane_that_the_user_has_closed_is_hidden_without_harm(scene):
    before = scene.picture()
    pane, other = await scene.show("m1"), await scene.show("m2")
    scene.server.run("kill-pane", "-t", pane)
    scene.server.run("kill-pane", "-t", other)
    await scene.member_panes.hide(pane, "m1")
    await scene.member_panes.hide(other, "m2")
    await scene.member_panes.hide(other, "m2")
    await scene.member_panes.hide("%99", "never shown")
    assert scene.picture() == before


async def test_a_pane_that_the_user_has_moved_is_closed_where_it_is(scene):
    before = scene.picture()
    pane = await scene.show("m1")
    scene.server.run("break-pane", "-d", "-s", pane)
    await scene.member_panes.hide(pane, "m1")
    assert scene.members() == {}
    assert scene.picture() == before


async def test_a_program_that_ends_at_once_leaves_nothing(scene):
    before = scene.picture()
    pane = await scene.show("m1", ["sh", "-c", "exit 3"])
    if pane is not None:  # tmux was quicker than the program
        await scene.member_panes.hide(pane, "m1")
    assert scene.picture() == before
    assert scene.record() == []


async def test_hide_leaves_the_panes_of_others(scene):
    pane = await scene.show("m1")
    scene.server.run("set-option", "-p", "-t", scene.caller, "@orchestrator_member", "of another project")
    await scene.member_panes.hide(scene.caller, "m1")
    assert scene.members() == {"of another project": scene.caller}
    assert pane not in scene.server.panes(scene.window)


async def test_who_is_called_off_while_showing_closes_the_pane_by_the_mark(scene, monkeypatch):
    before, loop, make = scene.picture(), asyncio.get_running_loop(), splits.create_agents
    over, done = threading.Event(), threading.Event()

    def make_late(*args, **more):
        loop.call_soon_threadsafe(call.cancel)
        assert over.wait(60)
        made = make(*args, **more)
        done.set()
        return made

    monkeypatch.setattr(splits, "create_agents", make_late)
    call = loop.create_task(scene.show("m1"))
    call.add_done_callback(lambda _: over.set())
    with pytest.raises(asyncio.CancelledError):
        await call
    await scene.member_panes.hide("", "m1")
    assert done.wait(60)
    assert scene.picture() == before
    assert scene.record() == []


async def test_many_at_once_are_shown_one_after_the_other(scene):
    made = await asyncio.gather(*(scene.show(f"m{number}") for number in range(6)))
    assert len(set(made)) == 6
    assert all(scene.size(pane) >= (30, 5) for pane in made)


async def test_a_disk_that_refuses_the_record_means_no_pane(scene):
    before = scene.picture()
    (scene.stage.run_dir() / project_location.SHOWN).mkdir(parents=True)
    scene.stage.run_dir().chmod(0o700)
    assert await scene.show("m1") is None
    assert scene.picture() == before


# -- after a kill ---------------------------------------------------------------------------------------------------

SCRIPT = """
import asyncio, json, sys
from pathlib import Path
from orchestrator.base import failpoints
from orchestrator.core.connection import ConnectionOrigin
from orchestrator.team.panes.member_panes import MemberPanes
from orchestrator.team.panes.team_panes import TeamPanes
from tests.support.team import Team

root, config, origin, words = sys.argv[1], json.loads(sys.argv[2]), json.loads(sys.argv[3]), sys.argv[4:]

async def main():
    roster = Team(Path(root), **config).roster
    member_panes = MemberPanes(roster, TeamPanes(roster))
    for word in words:
        if word.startswith("hide "):
            await member_panes.hide("", word[5:])
        else:
            await member_panes.show(ConnectionOrigin(**origin), word, word, ["env", "cat"])
    failpoints.passed("done")

asyncio.run(main())
"""


def killed(scene, step, *words):
    """Another daemon's life, which ends with kill -9 at the step."""
    kill = scene.stage.base / f"kill-{step.replace(':', '-')}"
    kill.write_text("self")
    origin = json.dumps({"conn": "c", "cwd": "/", "tmux": scene.origin.tmux, "tmux_pane": scene.origin.tmux_pane})
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(scene.stage.root), json.dumps(scene.config), origin, *words],
        env={**os.environ, "ORCHESTRATOR_KILL_AT": f"{step}={kill}"}, cwd=Path(__file__).parents[2],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == -9, (step, done)


@pytest.mark.parametrize(
    ("step", "words"),
    [
        ("member:noted", ["m1"]),
        ("tmux:set-option", ["m1"]),  # the border lines are on
        ("tmux:split-window", ["m1"]),  # there is a pane, and it has no tag
        ("member:shown", ["m1"]),
        ("done", ["m1", "m2"]),
        ("member:closed", ["m1", "m2", "hide m1"]),
        ("member:hidden", ["m1", "m2", "hide m1", "hide m2"]),
        ("member:hidden", ["m1", "hide m1"]),
    ],
)
async def test_what_a_killed_daemon_has_left_is_gone_after_the_next_ones_sweep(scene, step, words, faults):
    before = scene.picture()
    killed(scene, step, *words)
    assert scene.record()
    await scene.member_panes.sweep(())
    assert scene.picture() == before
    assert scene.record() == []
    await scene.member_panes.sweep(())
    assert scene.picture() == before
    faults("kill -9 daemon")


async def test_a_sweep_spares_the_living_and_knows_how_to_hide_them(scene):
    before = scene.picture()
    killed(scene, "done", "m1", "m2")
    await scene.member_panes.sweep(["m2"])
    assert list(scene.members()) == ["m2"]
    await scene.member_panes.hide(scene.members()["m2"], "m2")
    assert scene.picture() == before


async def test_a_sweep_beside_an_agent_leaves_the_window_to_its_run(scene):
    before = scene.picture()
    killed(scene, "done", "m1")
    run, name, agent = await scene.agent()
    await scene.member_panes.sweep(())
    assert scene.server.panes(scene.window) == [scene.caller, agent]
    assert scene.server.show(scene.window, "#{pane-border-status}") == "top"
    await scene.delete(run, name)
    assert scene.picture() == before


async def test_panes_of_another_life_of_the_tmux_server_are_not_touched(scene):
    await scene.show("m1")
    scene.server.end()
    caller = scene.server.start()
    scene.server.run("set-option", "-p", "-t", caller, "@orchestrator_member", "m1")
    scene.another_daemon()
    await scene.member_panes.sweep(())
    assert scene.server.panes(caller) == [caller]
    assert scene.record() == []


async def test_a_damaged_record_is_given_up(scene):
    await scene.show("m1")
    (scene.stage.run_dir() / project_location.SHOWN).write_text('{"m1": {"else": 1}}')
    scene.another_daemon()
    await scene.member_panes.sweep(())
    assert await scene.show("m2")
    assert scene.record() == ["m2"]


async def test_a_hide_that_tmux_refuses_is_made_good_by_the_next_sweep(scene, monkeypatch):
    before = scene.picture()
    pane = await scene.show("m1")
    with monkeypatch.context() as patch:
        patch.setattr(tmux_server, "invoke", lambda argv: subprocess.CompletedProcess(argv, 1, "", "busy"))
        await scene.member_panes.hide(pane, "m1")
    assert scene.record() == ["m1"]
    scene.another_daemon()
    await scene.member_panes.sweep(())
    assert scene.picture() == before


async def test_gc_leaves_a_run_directory_that_says_a_window_must_be_put_back(stage, monkeypatch):
    for variable in (MARK, "ORCHESTRATOR_STATE_DIR"):
        monkeypatch.setenv(variable, stage.env[variable])
    other = project_location.run_dir(stage.base)
    for name in (project_location.LOCK, project_location.SHOWN, f".{project_location.SHOWN}.7-1.tmp"):
        (other / name).touch()
    place = project_location.named_project(stage.root)
    assert run_directories.collect(place, 0.0, apply=True) == []
    (other / project_location.SHOWN).unlink()
    assert [row["done"] for row in run_directories.collect(place, 0.0, apply=True)] == [True]
    assert not other.exists()
