"""A failing disk under a whole team: each system call of a story fails once, in every way a disk can.

The story asks as callers do: what was refused is asked again, the same call, and a daemon that has exited after a
failed sync is followed by another one. Then the plain files must hold all that was answered, once, and nothing else.
"""

import asyncio
import errno
import json
import os
import subprocess
import sys
from collections import Counter
from itertools import count
from pathlib import Path

import pytest

from orchestrator.base.errors import Environment
from orchestrator.core import decisions, supervision
from orchestrator.journal.syscalls import SysIO
from orchestrator.team.life import launch_files
from orchestrator.team.roster import broadcast, delivery
from orchestrator.team.roster.meta_files import MetaFiles
from tests.crash.checker import check
from tests.support.team import FakeClock, Team, settle

CALLS = ("open", "pwrite", "fdatasync", "fsync", "ftruncate", "rename", "mkdir", "pread", "listdir", "stat")
TRIES = 12
SPEC = {
    "role": "r", "engine": "shell",
    "policies": {"restart": "never", "max_restarts": 0, "on_lost": "requeue", "max_attempts": 2}, "env_names": [],
}  # fmt: skip


class Disk:
    """Every call of the store, by name. ``fail`` plans what goes wrong; ``hits`` counts what did."""

    def __init__(self, monkeypatch, root):
        self.root = root
        self.calls = Counter()
        self.plans = []
        self.hits = 0
        self.synced = {}
        for name in CALLS:
            monkeypatch.setattr(SysIO, name, self._wrapped(name, getattr(SysIO, name)))

    def fail(self, names, first, what, *, times=1, only=lambda name, args: True):
        """From the ``first`` call of any of the names on, ``times`` of them end in ``what``."""
        self.plans.append(
            {"names": names, "first": first, "last": first + times - 1, "what": what, "only": only, "n": 0}
        )

    def _wrapped(self, name, real):
        def call(io, *args):
            if self.root not in _path(name, args).parents:
                return real(io, *args)
            self.calls[name] += 1
            for plan in self.plans:
                if name in plan["names"] and plan["only"](name, args):
                    plan["n"] += 1
                    if plan["first"] <= plan["n"] <= plan["last"]:
                        self.hits += 1
                        if isinstance(plan["what"], int):
                            raise OSError(plan["what"], os.strerror(plan["what"]))
                        return real(io, args[0], args[1][: plan["what"][1]], args[2])
            done = real(io, *args)
            if name == "fdatasync":
                path = _path(name, args)
                self.synced[path] = path.stat().st_size
            return done

        return call

    def drop(self):
        """What a kernel may do to a file whose sync has failed: nothing behind the last good sync is on the disk."""
        for log in self.root.glob(".agents/*/*/*.jsonl"):
            os.truncate(log, min(self.synced.get(log, 0), log.stat().st_size))


def _path(name, args):
    if name in ("pwrite", "fdatasync", "fsync", "ftruncate", "pread"):
        return Path(f"/proc/self/fd/{args[0]}").readlink()
    return Path(args[-1] if name == "rename" else args[0])


def creates(name, args):
    """Whether the call needs room for a new entry."""
    return name != "open" or bool(args[1] & os.O_CREAT)


def writes(name, args):
    """Whether a read-only directory refuses the call."""
    return name != "open" or bool(args[1] & (os.O_CREAT | os.O_RDWR | os.O_WRONLY))


class Story:
    """One team's life as its callers see it: ``said`` is all that was answered, ``exits`` the daemons that ended."""

    def __init__(self, root, disk, *, drops):
        self.root, self.disk, self.drops = root, disk, drops
        self.said = []
        self.refused = []
        self.exits = 0
        self.begun = 0
        self.runs = count(1)
        self.team = self.metas = None

    async def begin(self):
        """A daemon, from what the files say; one that cannot start is tried again."""
        self.begun += 1
        team = Team(self.root, FakeClock(1000.0 * self.begun))
        try:
            team.load(clean=self.begun == 1)
        except Environment as error:
            self.refused.append(error.code)
            team.close()
            assert len(self.refused) < TRIES * 2
            await self.begin()
            return
        assert not team.roster.corrupt, "no agent is given up because the disk failed once"
        self.team, self.metas = team, MetaFiles(team.roster)
        team.roster.listeners.append(self.metas.changed)
        for entry in team.roster.agents.values():
            if self.metas.behind(entry):  # as the supervisor does after an unclean stop
                self.metas.changed(entry)
        if team.failures:
            await self.exit()

    async def exit(self):
        """A sync has failed: the daemon is gone, with what the kernel has dropped; another one comes."""
        self.exits += 1
        if self.metas._writer is not None:
            self.metas._writer.cancel()
        self.team.close()
        await settle()
        if self.drops:
            self.disk.drop()
        await self.begin()

    async def do(self, verb, *args):
        """Ask until it is answered."""
        for _ in range(TRIES):
            try:
                answer = await verb(*args)
                if not self.team.failures:
                    return answer
            except Environment as error:
                assert error.code in ("disk_full", "io_failed"), error
                assert error.next_step
                self.refused.append(error.code)
            if self.team.failures:
                await self.exit()
            else:
                await self.team.clock.advance(0.1)
        raise AssertionError(f"{verb.__name__}{args} is refused for ever: {self.refused}")

    async def write(self, agent_id, drafts):
        """What the supervisor writes, decided anew each time."""

        async def written():
            entry = self.team.roster.entry(agent_id)
            await self.team.roster.commit(entry, drafts(entry.state, self.at()))

        await self.do(written)

    def at(self):
        return self.team.clock.now().strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z"

    # -- what callers ask ---------------------------------------------------------------------------------------

    async def run(self):
        roster = self.team.roster
        if not roster.runs:
            run_id = f"run-{next(self.runs)}"
            file = {
                "v": 1, "run_id": run_id, "created_at": self.at(), "tmux_socket": "/none", "tmux_name": None,
                "server_pid": 1, "server_start": 1, "window_id": "@1", "master_pane": "%0", "session": "s",
                "detached": False, "changed": None, "agents": {}, "ended_at": None,
            }  # fmt: skip
            roster.begin_writing()
            roster.runs[run_id] = broadcast.new_run(roster.paths, run_id, file, roster.syncer, "fsync")
        return next(iter(roster.runs.values()))

    async def create(self, name):
        roster = self.team.roster
        known = roster.by_req.get(f"c:{name}")
        if known is None:
            run = await self.run()
            assert roster.new_id(name) == name, "a name is free after a refusal"
            spec = {**SPEC, "name": name, "run_id": run.run_id, "cwd": str(self.root)}
            draft = supervision.starting(name, at=self.at(), req=f"c:{name}", spec=spec)
            await roster.create(name, draft, lambda entry: launch_files.write(roster, entry, spec, 1, {}))
        await roster.durable(roster.agents[name])
        assert launch_files.read(roster, roster.agents[name])["epoch"] == 1, (
            "whoever reads the intent finds its launch"
        )
        self.said.append(("agent", name))

    async def enqueue(self, task_id):
        answer = await delivery.enqueue(
            self.team.roster, "a1", task_id=task_id, payload={"n": task_id * 40}, req=f"c:{task_id}"
        )
        assert answer["task_id"] == task_id
        self.said.append(("task", task_id))

    async def cancel(self, task_id):
        answer = await delivery.cancel(self.team.roster, "a1", task_id=task_id, req=f"c:cancel-{task_id}")
        assert answer["ok"]
        self.said.append(("cancel", task_id))

    async def wait(self, req):
        roster = self.team.roster
        answer = await delivery.wait_for_command(roster, "a1", 1, timeout_s=0, age_s=0, req=req)
        return answer.get("command")

    async def emit(self, kind, task_id):
        answer = await delivery.emit_event(
            self.team.roster,
            "a1",
            1,
            kind=kind,
            task_id=task_id,
            payload={"k": kind},
            done=None,
            req=f"a:{kind}-{task_id}",
        )
        assert answer["ok"]
        if kind in ("result", "error", "canceled"):
            self.said.append(("end", task_id, kind))

    async def read(self):
        page = await delivery.events_read(self.team.roster, "a1", since_seq=0, max_events=1000, wait_s=0)
        told = await delivery.broadcast_read(
            self.team.roster, await self.run(), since_seq=0, max_events=1000, wait_s=0
        )
        for record in [*page["events"], *told["events"]]:
            self.said.append(("seen", "broadcast" if "ref" in record else "a1", record["seq"], record["type"]))

    async def hand_out(self, task_id):
        for number in count():
            command = await self.do(self.wait, f"a:w-{task_id}-{number}")
            if command is not None and command.get("task_id") == task_id:
                break
            assert number < TRIES, f"{task_id} is not handed out, but {command}"

    async def play(self):
        await self.begin()
        await self.do(self.create, "a1")
        for task_id in ("t1", "t2", "t3"):
            await self.do(self.enqueue, task_id)
        await self.hand_out("t1")
        for kind in ("ack", "progress", "result"):
            await self.do(self.emit, kind, "t1")
        await self.hand_out("t2")
        await self.do(self.cancel, "t3")
        await self.do(self.cancel, "t2")
        await self.do(self.emit, "canceled", "t2")
        await self.do(self.read)
        await self.team.clock.advance(1.0)
        await self.do(self.create, "a2")
        await self.do(self.enqueue, "t4")
        await self.hand_out("t4")
        await self.do(self.emit, "error", "t4")
        await self.do(self.enqueue, "t5")
        await self.write("a1", lambda agent, at: decisions.stop(agent, force=False, req="c:stop", at=at))
        await self.write("a1", lambda agent, at: supervision.stopped(agent, at=at, rungs=()))
        await self.write("a1", lambda agent, at: supervision.deleted(agent, at=at))
        self.said.append(("end", "t5", "canceled"))
        await self.do(self.read)

    async def finish(self):
        """The disk is well again: what was put off is done, without anybody asking."""
        self.disk.plans.clear()
        for _ in range(3):
            await self.team.clock.advance(10.0)
            if self.team.failures:
                await self.exit()
        roster = self.team.roster
        assert not any(roster.has_unwritten(run) for run in roster.runs.values()), "the broadcast has caught up"
        await self.metas.close()
        metas = {
            name: (json.loads(roster.paths.meta(name).read_text())["last_event_seq"], entry.outbox.last_seq)
            for name, entry in roster.agents.items()
            if roster.paths.meta(name).exists() or entry.outbox.last_seq
        }
        self.team.close()
        return metas


def verify(story, metas):
    """The plain files hold all that was answered, once."""
    found = check(story.root)
    for what, *facts in story.said:
        if what == "agent":
            assert found.outbox[facts[0]][0]["type"] == "starting"
        elif what == "task":
            [record] = [r for r in found.inbox["a1"] if r.get("task_id") == facts[0] and r["type"] == "task"]
            assert record["payload"] == {"n": facts[0] * 40}
        elif what == "cancel":
            assert [r for r in found.inbox["a1"] if r["type"] == "cancel" and r["task_id"] == facts[0]]
        elif what == "end":
            [end] = found.ends("a1", facts[0])
            assert end["type"] == facts[1]
        elif what == "seen":
            log = (
                found.outbox["a1"]
                if facts[0] == "a1"
                else next(iter(told for told in found.broadcast.values() if told))
            )
            assert log[facts[1] - 1]["type"] == facts[2], "what a reader saw has vanished"
    assert sorted(found.outbox) == ["a1", "a2"]
    assert len(found.runs) == 1, "a run that was refused leaves nothing"
    assert sorted(p.name for p in (story.root / ".agents" / "run").iterdir()) == list(found.runs)
    assert {name: told for name, (told, _) in metas.items()} == {name: last for name, (_, last) in metas.items()}
    assert not list(story.root.rglob("*.tmp"))
    left = [str(fd.readlink()) for fd in Path("/proc/self/fd").iterdir() if fd.is_symlink()]
    assert not [path for path in left if path.startswith(f"{story.root}/")], "open files of a closed team"
    again = Team(story.root).load(clean=False)
    assert not again.roster.corrupt and not again.roster.notes
    assert again.roster.agents["a1"].state.life == "deleted"
    again.close()


def played(root, disk, *, drops=False):
    async def life():
        story = Story(root, disk, drops=drops)
        await story.play()
        return story, await story.finish()

    story, metas = asyncio.run(life())
    verify(story, metas)
    return story


EROFS, EMFILE, ENOSPC, EDQUOT, EIO = errno.EROFS, errno.EMFILE, errno.ENOSPC, errno.EDQUOT, errno.EIO
always = lambda name, args: True  # noqa: E731
FAULTS = {
    "pwrite-ENOSPC": (("pwrite",), ENOSPC, 1, always),
    "pwrite-EDQUOT": (("pwrite",), EDQUOT, 1, always),
    "pwrite-EIO": (("pwrite",), EIO, 1, always),
    "pwrite-short-0": (("pwrite",), ("short", 0), 1, always),
    "pwrite-short-9": (("pwrite",), ("short", 9), 1, always),
    "pwrite-short-and-not-taken-back": (("pwrite",), ("short", 9), 1, always),
    "fdatasync-EIO": (("fdatasync",), EIO, 1, always),
    "fdatasync-ENOSPC": (("fdatasync",), ENOSPC, 1, always),
    "fsync-EIO": (("fsync",), EIO, 1, always),
    "rename-ENOSPC": (("rename",), ENOSPC, 1, always),
    "rename-EIO": (("rename",), EIO, 1, always),
    "mkdir-ENOSPC": (("mkdir",), ENOSPC, 1, always),
    "mkdir-EROFS": (("mkdir",), EROFS, 1, always),
    "open-EMFILE": (("open",), EMFILE, 1, always),
    "open-EIO": (("open",), EIO, 1, always),
    "open-ENOSPC": (("open",), ENOSPC, 1, creates),
    "listdir-EMFILE": (("listdir",), EMFILE, 1, always),
    "listdir-EIO": (("listdir",), EIO, 1, always),
    "stat-EIO": (("stat",), EIO, 1, always),
    "pread-EIO": (("pread",), EIO, 1, always),
    "full-for-a-while": (("pwrite", "open", "mkdir"), ENOSPC, 6, creates),
    "over-quota-for-a-while": (("pwrite", "open", "mkdir"), EDQUOT, 6, creates),
    "read-only-for-a-while": (("open", "mkdir", "rename"), EROFS, 6, writes),
    "no-descriptors-for-a-while": (("open",), EMFILE, 6, always),
}


@pytest.fixture(autouse=True)
def one_thread(monkeypatch):
    """What the product does in threads happens in turn here, so that each call has its number."""

    async def at_once(work, *args, **kwargs):
        await asyncio.sleep(0)  # not a wait: others get their turn, as they would
        return work(*args, **kwargs)

    monkeypatch.setattr(asyncio, "to_thread", at_once)


SYNCS = ("fdatasync-EIO", "fdatasync-ENOSPC", "fsync-EIO")


@pytest.mark.parametrize("step", [5, pytest.param(1, marks=pytest.mark.slow)], ids=["every-fifth", "each"])
@pytest.mark.parametrize(
    ("fault", "drops"), [*((fault, False) for fault in FAULTS), *((fault, True) for fault in SYNCS)]
)
def test_a_call_that_fails_anywhere_in_a_teams_life_loses_nothing(tmp_path, monkeypatch, faults, fault, drops, step):
    names, what, times, only = FAULTS[fault]
    for first in count(1 + list(FAULTS).index(fault) % step, step):
        root = tmp_path / str(first)
        root.mkdir()
        with monkeypatch.context() as patch:
            disk = Disk(patch, root)
            disk.fail(names, first, what, times=times, only=only)
            if fault.endswith("not-taken-back"):
                disk.fail(("ftruncate",), 1, EIO, times=2)
            try:
                story = played(root, disk, drops=drops)
            except BaseException as error:
                error.add_note(f"{fault}, call {first}")
                raise
        if not disk.hits:
            break
        faults("disk, in-process")
        if "fdatasync" in names:
            assert story.exits == 1, "a failed sync ends the daemon"
    assert first > 3, "the story has such calls"


def test_a_story_on_a_sound_disk_is_refused_nothing(tmp_path, monkeypatch):
    disk = Disk(monkeypatch, tmp_path)
    story = played(tmp_path, disk)
    assert (story.refused, story.exits, disk.hits) == ([], 0, 0)
    assert disk.calls["ftruncate"] == 0
    print(dict(disk.calls))


def test_a_log_line_that_finds_no_room_does_not_end_what_it_tells_of():
    """The log lies in the run directory, whose disk may be as full as the project's."""
    tells = (
        "import structlog; from orchestrator.protocol.daemon_log import configure_log; configure_log('info', 'logfmt'); "
        "log = structlog.get_logger(); log.warning('broadcast delayed', run='r'); log.exception('bug'); print('went on')"
    )
    with Path("/dev/full").open("w") as full:
        done = subprocess.run([sys.executable, "-c", tells], stdout=subprocess.PIPE, stderr=full, text=True)
    assert (done.returncode, done.stdout) == (0, "went on\n")
