"""The four calls of a task by the simplest means: a server with a queue and two files per agent, and relays that copy.

No rule is checked, no argument validated, nothing folded or watched; what is left is what any such server must do. It
appends and syncs as often as the product at the least: a synced task, `delivered`, `ack`, a synced result.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import sys
from collections import defaultdict, deque
from pathlib import Path
from typing import Any

from benchmarks.wire import Wire

HERE = str(Path(__file__).resolve())


class Server:
    """One server process in a directory, and the relays to it."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.directory.mkdir()
        self._wires: list[Wire] = []
        self._process: asyncio.subprocess.Process | None = None

    async def start(self) -> None:
        self._process = await asyncio.create_subprocess_exec(
            sys.executable, "-P", HERE, "serve", cwd=self.directory, stdout=asyncio.subprocess.PIPE
        )
        assert self._process.stdout is not None
        await self._process.stdout.readline()  # it listens

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    async def relay(self) -> Wire:
        wire = await Wire.through([sys.executable, "-P", HERE, "relay"], self.directory, dict(os.environ))
        self._wires.append(wire)
        return wire

    async def close(self) -> None:
        for wire in self._wires:
            await wire.close()
        if self._process is not None:
            self._process.terminate()
            await self._process.wait()


def relay() -> None:
    """Copy lines between stdin, stdout and the server."""
    import select

    server = socket.socket(socket.AF_UNIX)
    server.connect("socket")
    to = {0: server.fileno(), server.fileno(): 1}
    while True:
        for fd in select.select(list(to), [], [])[0]:
            data = os.read(fd, 1 << 16)
            if not data:
                return
            os.write(to[fd], data)


class Queues:
    """The state of the server: each agent's tasks, its waiting call, its files."""

    def __init__(self) -> None:
        self.tasks: dict[str, deque[Any]] = defaultdict(deque)
        self.waiting: dict[str, asyncio.Future[None]] = {}
        self.files: dict[str, int] = {}

    def append(self, name: str, record: dict[str, Any], *, sync: bool) -> None:
        if name not in self.files:
            self.files[name] = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        os.write(self.files[name], json.dumps(record).encode() + b"\n")
        if sync:
            os.fdatasync(self.files[name])

    async def call(self, tool: str, told: dict[str, Any]) -> dict[str, Any]:
        agent = told["agent_id"]
        if tool == "task_enqueue":
            self.append(f"{agent}.inbox", {"type": "task", **told}, sync=True)
            self.tasks[agent].append(told["task"])
            if (waiter := self.waiting.pop(agent, None)) is not None:
                waiter.set_result(None)
            return {"status": "queued"}
        if tool == "wait_for_command":
            if not self.tasks[agent]:
                self.waiting[agent] = asyncio.get_running_loop().create_future()
                await self.waiting[agent]
            task = self.tasks[agent].popleft()
            self.append(f"{agent}.outbox", {"type": "delivered", "task_id": task["task_id"]}, sync=False)
            return {"status": "command", "command": task}
        if tool == "emit_event":
            self.append(f"{agent}.outbox", told, sync=told["type"] == "result")
            return {"status": "recorded"}
        waits = "inside wait_for_command" if agent in self.waiting else ""
        return {"meta": {"reason": waits}}


async def serve() -> None:
    queues = Queues()
    busy: set[asyncio.Task[None]] = set()

    async def answer(line: bytes, writer: asyncio.StreamWriter) -> None:
        asked = json.loads(line)
        content = await queues.call(asked["params"]["name"], asked["params"]["arguments"])
        result = {"jsonrpc": "2.0", "id": asked["id"], "result": {"structuredContent": content}}
        writer.write(json.dumps(result).encode() + b"\n")

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while line := await reader.readline():
            task = asyncio.create_task(answer(line, writer))
            busy.add(task)
            task.add_done_callback(busy.discard)

    server = await asyncio.start_unix_server(connected, "socket")
    print("listening", flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    if sys.argv[1] == "relay":
        relay()
    else:
        asyncio.run(serve())
