"""A small JSON-RPC client over the real relay or straight over the daemon's socket, so that many cost little."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import signal
import sys
from pathlib import Path
from typing import Any

OWN = [sys.executable, "-P", "-m", "orchestrator"]


class Wire:
    """One MCP conversation; ``process`` is the relay that carries it, None if it goes to the daemon's socket."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, process: asyncio.subprocess.Process | None
    ) -> None:
        self.process = process
        self._lines, self._writer = reader, writer
        self._ids = itertools.count(1)
        self._open: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._reader = asyncio.create_task(self._read())

    @classmethod
    async def start(cls, project: Path, env: dict[str, str], *arguments: str) -> Wire:
        return await cls.through([*OWN, "mcp", *arguments], project, env)

    @classmethod
    async def through(cls, relay: list[str], directory: Path, env: dict[str, str]) -> Wire:
        """Over the stdin and stdout of this command."""
        process = await asyncio.create_subprocess_exec(
            *relay, cwd=directory, env=env, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL, limit=1 << 24,
        )  # fmt: skip
        assert process.stdin is not None
        assert process.stdout is not None
        return cls(process.stdout, process.stdin, process)

    @classmethod
    async def to_daemon(cls, path: Path, hello: dict[str, Any]) -> Wire:
        """A conversation without a relay, for what a relay costs is not measured."""
        reader, writer = await asyncio.open_unix_connection(path, limit=1 << 24)
        writer.write(json.dumps({"hello": hello}).encode() + b"\n")
        welcome = json.loads(await reader.readline())["hello"]
        if "error" in welcome:
            raise RuntimeError(welcome)
        return cls(reader, writer, None)

    async def _read(self) -> None:
        while line := await self._lines.readline():
            message = json.loads(line)
            waiter = self._open.pop(message.get("id"), None)
            if waiter is not None and not waiter.done():
                waiter.set_result(message)
        for waiter in self._open.values():
            if not waiter.done():
                waiter.set_exception(ConnectionError("the conversation has ended"))

    async def ask(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        key = next(self._ids)
        waiter = self._open[key] = asyncio.get_running_loop().create_future()
        line = json.dumps({"jsonrpc": "2.0", "id": key, "method": method, "params": params})
        self._writer.write(line.encode() + b"\n")
        answer = await waiter
        if "error" in answer:
            raise RuntimeError(answer["error"])
        return answer["result"]

    async def greet(self) -> None:
        who = {"name": "bench", "version": "0"}
        await self.ask("initialize", {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": who})
        self._writer.write(b'{"jsonrpc":"2.0","method":"notifications/initialized"}\n')

    async def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """The answer of a tool; an error is raised, and so is a duplicate, for nothing was done then."""
        result = await self.ask("tools/call", {"name": tool, "arguments": arguments})
        answer: dict[str, Any] = result["structuredContent"]
        if result.get("isError") or answer.get("duplicate"):
            raise RuntimeError(f"{tool}: {answer}")
        return answer

    async def close(self) -> None:
        """End the conversation and the relay; harmless twice."""
        self._writer.close()
        if self.process is not None:
            with contextlib.suppress(ProcessLookupError):
                self.process.send_signal(signal.SIGTERM)
            await self.process.wait()
        self._reader.cancel()


def agent_env(env: dict[str, str], project: Path, agent_id: str) -> dict[str, str]:
    """The environment of an agent's own relay, from its launch file."""
    launch = json.loads((project / ".agents/agents" / agent_id / "engine/launch.json").read_text())
    return {**env, **{k: v for k, v in launch["env"].items() if k.startswith("ORCHESTRATOR_")}}
