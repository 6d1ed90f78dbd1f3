"""When the next member of a CLI may start whose start disturbs another that has just begun."""

import asyncio
import contextlib
from concurrent.futures import ThreadPoolExecutor

import pytest

from orchestrator.engines import opencode
from orchestrator.engines.gemini import ROW
from orchestrator.squad.member_beginnings import LOOK_S, MemberBeginnings
from orchestrator.squad.member_process import StopRequest
from tests.support.team import FakeClock

KEY = ("gemini", "/project")
BOUND_S = ROW.headless.record({}, "").bound_s
CHAT, OTHER = "0d4c1f5e-5b7e-4c0c-9d5b-1f2f3f4f5f6f", "1e4c1f5e-5b7e-4c0c-9d5b-1f2f3f4f5f6f"
HEADER = '{"sessionId":"%s","startTime":"2026-01-01T00:00:00.000Z","kind":"main"}\n'
CONTEXT = '{"$set":{"messages":[{"id":"a","type":"user","content":[{"text":"<session_context>"}]}]}}\n'
MESSAGE = '{"id":"b","timestamp":"2026-01-01T00:00:00.000Z","type":"user","content":[{"text":"# Role"}]}\n'


class World:
    """A home with a name that is a pattern, a clock moved by hand, and members that start in turn."""

    def __init__(self, base):
        self.home = base / "ada[1]"
        self.clock = FakeClock()
        self.beginnings = MemberBeginnings(self.clock)
        self.stop = StopRequest()
        self.started = []
        self.ends = {}

    def write(self, chat, text):
        path = self.home / ".gemini/tmp/project/chats" / f"session-2026-01-01T00-00-{chat[:8]}.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a") as file:
            file.write(text)

    async def member(self, name, chat):
        self.ends[name] = asyncio.Event()
        env = {"HOME": str(self.home)}
        record = opencode.ROW.headless.opening(env) if chat == "opencode" else chat and ROW.headless.record(env, chat)
        async with self.beginnings.of(KEY, record, self.stop):
            self.started.append(name)
            await self.ends[name].wait()

    async def looked(self, *started):
        """After a few looks of the one whose turn it is: who has started."""
        for _ in range(30):
            await self.clock.advance(LOOK_S / 10)
            await asyncio.to_thread(lambda: None)  # its look, in the same thread, comes before
        assert self.started == list(started)


@pytest.fixture
def scene(tmp_path):
    return World(tmp_path)


def run(scene, body, *members):
    async def whole():
        asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(1))
        tasks = [asyncio.get_running_loop().create_task(scene.member(*one)) for one in members]
        try:
            await body()
        finally:
            for task in tasks:
                task.cancel()
            for task in tasks:
                with contextlib.suppress(asyncio.CancelledError):
                    await task

    asyncio.run(whole())


def test_the_next_starts_once_the_new_chat_has_a_message_of_its_own(scene):
    async def body():
        await scene.looked("first")
        scene.write(CHAT, HEADER % CHAT)
        scene.write(CHAT, CONTEXT)
        scene.write(OTHER, MESSAGE)
        await scene.looked("first")
        scene.write(CHAT, MESSAGE)
        await scene.looked("first", "second")

    run(scene, body, ("first", CHAT), ("second", "2" + CHAT[1:]))


def test_a_chat_that_goes_on_is_recorded_once_it_has_one_more_message(scene):
    scene.write(CHAT, HEADER % CHAT + MESSAGE)

    async def body():
        await scene.looked("first")
        scene.write(CHAT, MESSAGE.replace('"b"', '"c"'))
        await scene.looked("first", "second")

    run(scene, body, ("first", CHAT), ("second", OTHER))


def test_the_next_starts_when_the_one_before_it_ends_without_a_message(scene):
    async def body():
        await scene.looked("first")
        scene.ends["first"].set()
        await scene.looked("first", "second")

    run(scene, body, ("first", CHAT), ("second", OTHER))


def test_a_cli_that_records_its_chats_elsewhere_delays_the_next_for_a_while_only(scene):
    async def body():
        await scene.looked("first")
        await scene.clock.advance(BOUND_S)
        await scene.looked("first", "second")

    run(scene, body, ("first", CHAT), ("second", OTHER))


def test_the_next_opencode_starts_once_the_one_before_it_has_opened_its_database(scene):
    log = scene.home / ".local/share/opencode/log/opencode.log"
    log.parent.mkdir(parents=True)
    old = 'timestamp=2026-11-27T14:21:56.396Z level=INFO run=e978a1df message="creating instance" directory=/p\n'
    log.write_text(old)

    async def body():
        await scene.looked("first")
        with log.open("a") as file:
            file.write(old.replace("e978a1df", "1f3a18c4"))
        await scene.looked("first", "second")
        await scene.clock.advance(opencode.ROW.headless.opening({}).bound_s)  # of one that logs less
        await scene.looked("first", "second", "third")

    run(scene, body, ("first", "opencode"), ("second", "opencode"), ("third", "opencode"))


def test_nobody_waits_for_a_member_without_a_record_or_after_a_stop(scene):
    async def body():
        await scene.looked("plain", "first")
        scene.stop.ask("canceled")
        await scene.looked("plain", "first", "second")

    run(scene, body, ("first", CHAT), ("second", OTHER), ("plain", None))
