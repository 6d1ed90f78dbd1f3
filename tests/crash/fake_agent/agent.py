"""An agent of few lines, standard library only: waits for commands through the real relay and does what payloads say.

Payload: ``ledger`` (a file that gets one line per run), ``answers`` (one per last report that was answered), ``hold``
(go on once this file exists, or when canceled), ``exit_on`` (attempts in which it dies), ``stubborn`` (no cancel stops
it), ``ignores`` (signals), ``end`` (``result`` or ``error``). A task is run once per life and attempt, as a real agent
would: handed the same one again, it repeats its report only. With ``FAKE_AGENT_IDLE`` it does nothing: somebody else
speaks for the agent.
"""

import json
import os
import signal
import subprocess
import time

while "FAKE_AGENT_IDLE" in os.environ:
    signal.pause()
AGENT = os.environ["ORCHESTRATOR_AGENT_ID"]
PYTHON = os.environ["FAKE_AGENT_PYTHON"]
relay = subprocess.Popen(
    [PYTHON, "-P", "-m", "orchestrator", "mcp", "--agent", "--project", os.environ["ORCHESTRATOR_PROJECT"]],
    stdin=subprocess.PIPE,
    stdout=subprocess.PIPE,
)
count = 0


def ask(method, params):
    global count  # noqa: PLW0603
    count += 1
    relay.stdin.write(
        json.dumps({"jsonrpc": "2.0", "id": count, "method": method, "params": params}).encode() + b"\n"
    )
    relay.stdin.flush()
    while True:
        line = relay.stdout.readline()
        if not line:
            os._exit(9)
        answer = json.loads(line)
        if answer.get("id") == count and "method" not in answer:
            return answer


def call(tool, **arguments):
    while True:
        told = ask("tools/call", {"name": tool, "arguments": {"agent_id": AGENT, **arguments}})["result"]
        error = told["structuredContent"].get("error") if told.get("isError") else None
        if error is None:
            return told["structuredContent"]
        print(error, flush=True)
        if error["kind"] not in ("NotReady", "Environment"):
            os._exit(0 if error["code"] == "agent_ended" else 3)
        time.sleep(0.1)


def note(file, line):
    fd = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.write(fd, line.encode())
    os.close(fd)


def run(command):
    payload, task_id, attempt = command["payload"], command["task_id"], command["attempt"]
    if call("emit_event", type="ack", task_id=task_id)["cancel_requested"] and not payload.get("stubborn"):
        return "canceled"
    note(payload["ledger"], f"{task_id} {attempt}\n")
    while "gate" in payload and not os.path.exists(payload["gate"]):  # noqa: PTH110 - as below
        time.sleep(0.02)
    for name in payload.get("ignores", []):
        signal.signal(getattr(signal, name), signal.SIG_IGN)
    if attempt in payload.get("exit_on", []):
        os._exit(7)
    told = call("emit_event", type="progress", task_id=task_id, payload={"n": 1})
    while "hold" in payload and not os.path.exists(payload["hold"]):  # noqa: PTH110 - pathlib is slow to import
        if told["cancel_requested"] and not payload.get("stubborn"):
            return "canceled"
        time.sleep(0.02)
        told = call("emit_event", type="heartbeat")
    return payload.get("end", "result")


ask(
    "initialize",
    {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "fake", "version": "1"}},
)
relay.stdin.write(b'{"jsonrpc":"2.0","method":"notifications/initialized"}\n')
outcomes = {}
cursor = None
while True:
    answer = call("wait_for_command", timeout_ms=45000, **({"cursor": cursor} if cursor else {}))
    cursor, command = answer["cursor"], answer.get("command")
    if command is None:
        continue
    print(command, flush=True)
    if command["kind"] == "stop":
        break
    if command["kind"] == "cancel":
        call("emit_event", type="canceled", task_id=command["task_id"])
        continue
    key = (command["task_id"], command["attempt"])
    if key not in outcomes:
        outcomes[key] = run(command)
    call("emit_event", type=outcomes[key], task_id=command["task_id"], payload={"ran": command["attempt"]})
    if "answers" in command["payload"]:
        note(command["payload"]["answers"], f"{command['task_id']} {outcomes[key]}\n")
relay.stdin.close()
relay.wait(10)
