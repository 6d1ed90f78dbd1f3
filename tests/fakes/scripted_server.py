"""A stand-in for the daemon behind the worker's MCP server: hands out scripted tasks, records every call.

Usage: scripted_server.py script.json. The script: {"calls": file the calls are appended to, "commands": [...],
"cancel_on": {task_id: event type},
"faults": [{"tool", "type"?, "nth", "error": {...} | "die": true | "mute": true | "declined": code}],
"says": {method: [lines printed before its answer]}}. What the client answers to those is recorded as tool "client".
The state is derived from the file of calls, so a server that died is continued by the next one. Without
commands left, wait_for_command answers "timeout" at once, or "stop" when the script says {"stop": true}.
Standard library only.
"""

import json
import os
import sys
from pathlib import Path

TERMINAL = {"result", "error", "canceled"}
script = json.loads(Path(sys.argv[1]).read_text())
calls_file = Path(script["calls"])


def past() -> list[dict]:
    return [json.loads(line) for line in calls_file.read_text().splitlines()] if calls_file.exists() else []


def note(**call) -> None:
    with calls_file.open("a") as log:
        log.write(json.dumps(call) + "\n")


def ended() -> set[str]:
    return {c["task_id"] for c in past() if c.get("type") in TERMINAL and not c.get("fault")}


def fault_of(tool: str, arguments: dict) -> dict | None:
    for fault in script.get("faults", []):
        if fault["tool"] != tool or fault.get("type") not in {None, arguments.get("type")}:
            continue
        same = [c for c in past() if c["tool"] == tool and fault.get("type") in {None, c.get("type")}]
        if len(same) + 1 == fault["nth"] or fault.get("from", len(same) + 2) <= len(same) + 1:
            return fault
    return None


def wait_for_command() -> dict:
    done = ended()
    for command in script.get("commands", []):
        if command["task_id"] not in done or command.get("again", 0) > handed(command["task_id"]) - 1:
            again = {"redelivered": True} if handed(command["task_id"]) else {}
            out = {k: v for k, v in command.items() if k != "again"}
            note(tool="handed", task_id=command["task_id"])
            return {"status": "command", "command": {"attempt": 1, **out, **again}, "cursor": os.urandom(4).hex()}
    if script.get("stop"):
        return {"status": "command", "command": {"kind": "stop"}, "cursor": "x"}
    return {"status": "timeout", "cursor": "x"}


def handed(task_id: str) -> int:
    return sum(c["tool"] == "handed" and c["task_id"] == task_id for c in past())


def cancel_requested(task_id: str | None) -> bool:
    wanted = script.get("cancel_on", {}).get(task_id)
    return wanted is not None and any(c.get("task_id") == task_id and c.get("type") == wanted for c in past())


def call(tool: str, arguments: dict) -> tuple[dict | None, bool]:
    fault = fault_of(tool, arguments)
    note(tool=tool, **arguments, **({"fault": True} if fault else {}))
    if fault and fault.get("die"):
        os._exit(9)
    if fault and fault.get("mute"):
        return None, False
    if fault and fault.get("declined"):
        raise Declined(fault["declined"])
    if fault:
        return {"error": {"message": "scripted", "next_step": "", **fault["error"]}}, True
    if tool == "wait_for_command":
        return wait_for_command(), False
    return {"ok": True, "cancel_requested": cancel_requested(arguments.get("task_id")), "reminder": ""}, False


class Declined(Exception):
    """A call that is answered with an error of the protocol."""


def answer(message: dict) -> dict | None:
    method = message["method"]
    if method == "initialize":
        return {
            "protocolVersion": message["params"]["protocolVersion"],
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "scripted", "version": "0"},
        }
    if method == "tools/list":
        schema = {"type": "object"}
        return {"tools": [{"name": n, "inputSchema": schema} for n in ("wait_for_command", "emit_event")]}
    if method == "tools/call":
        told, is_error = call(message["params"]["name"], message["params"]["arguments"])
        if told is None:
            return None
        text = [{"type": "text", "text": json.dumps(told)}]
        return {"content": text, "structuredContent": told, "isError": is_error}
    return {}


for line in sys.stdin:
    request = json.loads(line)
    if "id" not in request:
        continue
    if "method" not in request:
        note(tool="client", said={name: request[name] for name in ("id", "result", "error") if name in request})
        continue
    for said in script.get("says", {}).get(request["method"], []):
        sys.stdout.write(said + "\n")
        sys.stdout.flush()
    try:
        result = answer(request)
        if result is None:
            continue
        told = {"result": result}
    except Declined as declined:
        told = {"error": {"code": declined.args[0], "message": "scripted"}}
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", "id": request["id"], **told}) + "\n")
    sys.stdout.flush()
