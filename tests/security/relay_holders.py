"""An AI CLI that holds a relay, and what its shell tool runs: as its child, or left behind in one way or another."""

from __future__ import annotations

import json
import shlex
import sys
from typing import Any

from tests.security.human import OURS, Human

# An AI CLI: it holds a relay that has shaken hands, and its shell tool runs a command. `kill`: the relay has ended.
MASTER = """
import json, os, subprocess, sys, time
relay, how, out, *command = json.loads(sys.argv[1]), *sys.argv[2:]
words = ["sh", "-c", '"$@"; exit $?', "cli", *relay] if how == "shell" else relay
held = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
held.stdin.write(json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello}).encode() + b"\\n")
held.stdin.flush()
held.stdout.readline()
if how == "kill":
    held.kill()
    held.wait()
with open(out + ".new", "wb") as file:
    done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=file, stderr=subprocess.STDOUT)
    file.write(b"ended with %d" % done.returncode)
os.rename(out + ".new", out)
if how != "kill":
    held.stdin.close()
    held.wait()
"""
# Runs a command without a living parent, in the session it is in or in one of its own, and leaves what it says.
LEFT_BEHIND = """
import os, subprocess, sys, time
out, how, *command = sys.argv[1:]
above = os.getpid()
if os.fork():
    os._exit(0)
while os.getppid() == above:
    time.sleep(0.01)
if how == "setsid":
    os.setsid()
with open(out + ".new", "wb") as file:
    done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=file, stderr=subprocess.STDOUT)
    file.write(b"ended with %d" % done.returncode)
os.rename(out + ".new", out)
"""


def below_a_master(stage: Any, how: str, *command: str) -> str:
    """What a command says below a process that holds a relay; ``how``: `directly`, by a `shell`, or `kill` it first."""
    out = stage.base / f"out-{how}-{len(command)}"
    out.unlink(missing_ok=True)
    with Human(stage, *master_words(how, str(out), *command), ours=()) as human:
        human.end()
    return str(out.read_text())


def left_by_a_master(stage: Any, how: str, *command: str) -> str:
    """What a command says that has lost its parent below such a process; ``how``: `setsid`, or `session`."""
    out = stage.base / f"left-{how}"
    out.unlink(missing_ok=True)
    words = shlex.join([sys.executable, "-IS", "-c", LEFT_BEHIND, str(out), how, *command])
    # The CLI goes on meanwhile: a terminal that closes would end what is left in its session.
    line = f"{words}; until [ -e {shlex.quote(str(out))} ]; do sleep 0.1; done"
    with Human(stage, *master_words("directly", str(stage.base / "out"), "sh", "-c", line), ours=()) as human:
        human.end()
    return str(out.read_text())


def master_words(how: str, out: str, *command: str) -> list[str]:
    """The command line of such a process; what the command says is in the file ``out`` when it has ended."""
    return [sys.executable, "-IS", "-c", MASTER, json.dumps([*OURS, "mcp"]), how, out, *command]
