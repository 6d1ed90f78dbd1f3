"""A tiny MCP server with wait_for_command and emit_event, so that CLIs and scripted models are proven without the product.

    python stub.py FILE AGENT_ID     FILE: a JSON list of commands, handed out in order, a task until it has ended

Standard library only. Each call and answer is a line of JSON in ``FILE.log``.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

AGENT = {"type": "string"}
TOOLS = [
    {
        "name": "wait_for_command",
        "description": "Wait until there is a command for you.",
        "inputSchema": {
            "type": "object",
            "properties": {"agent_id": AGENT, "timeout_ms": {"type": "integer"}, "cursor": {"type": "string"}},
            "required": ["agent_id"],
        },
        "annotations": {"readOnlyHint": True},
        "_meta": {"anthropic/alwaysLoad": True},
    },
    {
        "name": "emit_event",
        "description": "Report on the task you hold.",
        "inputSchema": {
            "type": "object",
            "properties": {
                "agent_id": AGENT, "task_id": {"type": "string"}, "type": {"type": "string"},
                "payload": {"type": "object"}, "done": {"type": "boolean"},
            },
            "required": ["agent_id", "type"],
        },
        "annotations": {"readOnlyHint": False, "destructiveHint": False, "openWorldHint": False},
        "_meta": {"anthropic/alwaysLoad": True},
    },
]  # fmt: skip


class Stub:
    """The commands left, and the task that is out."""

    def __init__(self, place: Path, agent_id: str) -> None:
        self.commands = json.loads(place.read_text())
        self.log = Path(f"{place}.log")
        self.agent_id = agent_id
        self.lease: str | None = None
        self.ended: set[str] = set()
        self.cancel = False
        self.calls = 0

    def answer(self, name: str, given: dict[str, Any]) -> dict[str, Any]:
        self.calls += 1
        reminder = f"You are agent {self.agent_id}; call wait_for_command."
        if given.get("agent_id") != self.agent_id:
            return {"error": {"code": "not_your_agent", "message": "another agent"}, "reminder": reminder}
        if name == "emit_event":
            if given.get("task_id") in self.ended:
                return {"ok": True, "duplicate": True, "cancel_requested": False, "reminder": reminder}
            if given.get("task_id", self.lease) != self.lease:
                return {"error": {"code": "not_your_task", "message": f"you hold {self.lease}"}, "reminder": reminder}
            if given["type"] in {"result", "error", "canceled"}:
                self.ended.add(str(self.lease))
                self.lease, self.cancel = None, False
                self.commands.pop(0)
            return {"ok": True, "cancel_requested": self.cancel, "reminder": reminder}
        tail = {"cursor": f"c{self.calls}", "reminder": reminder}
        if not self.commands:
            return {"status": "timeout", "park": True, **tail}
        command = self.commands[0]
        if command["kind"] == "task":
            command = {**command, "redelivered": True} if self.lease else command
            self.lease = command["task_id"]
        else:
            self.commands.pop(0)
        return {"status": "command", "command": command, **tail}

    def call(self, params: dict[str, Any]) -> dict[str, Any]:
        answer = self.answer(params["name"], params.get("arguments") or {})
        with self.log.open("a") as file:
            file.write(
                json.dumps({"tool": params["name"], "given": params.get("arguments"), "answer": answer}) + "\n"
            )
        content = [{"type": "text", "text": json.dumps(answer)}]
        return {"content": content, "structuredContent": answer, "isError": "error" in answer}


def main() -> None:
    stub = Stub(Path(sys.argv[1]), sys.argv[2])
    for line in sys.stdin:
        message = json.loads(line)
        if "id" not in message or "method" not in message:
            continue
        method, params = message["method"], message.get("params") or {}
        reply: dict[str, Any] = {"jsonrpc": "2.0", "id": message["id"]}
        if method == "initialize":
            reply["result"] = {
                "protocolVersion": params["protocolVersion"],
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "stub", "version": "1"},
            }
        elif method == "tools/list":
            reply["result"] = {"tools": TOOLS}
        elif method == "tools/call":
            reply["result"] = stub.call(params)
        elif method == "ping":
            reply["result"] = {}
        else:
            reply["error"] = {"code": -32601, "message": "no such method"}
        sys.stdout.write(json.dumps(reply) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
