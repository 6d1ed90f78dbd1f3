"""A scripted daemon for relay tests: adopts lock and socket like the real one, standard library only.

It reads `behaviour.json` of its run directory at the start and appends what happens to `effects.jsonl`, one
`write` per fact, so that the test sees it even after kill -9. That may cut the last line off at the end of a page.
"""

import contextlib
import json
import os
import signal
import socket
import struct
import sys
import threading
import time
from pathlib import Path

HERE = Path(sys.argv[sys.argv.index("--socket-fd") + 2])
LISTENER = socket.socket(fileno=int(sys.argv[sys.argv.index("--socket-fd") + 1]))
LOCK_FD = int(sys.argv[sys.argv.index("--lock-fd") + 1])
EFFECTS = os.open(HERE / "effects.jsonl", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
BEHAVIOUR = json.loads((HERE / "behaviour.json").read_text()) if (HERE / "behaviour.json").exists() else {}


def note(**fact):
    os.write(EFFECTS, json.dumps({"pid": os.getpid(), **fact}).encode() + b"\n")


def past():
    facts = []
    for line in (HERE / "effects.jsonl").read_bytes().split(b"\n")[:-1]:  # the last one may be half written
        with contextlib.suppress(ValueError):  # cut off by a kill -9: it never became a fact
            facts.append(json.loads(line))
    return facts


def die():
    os.kill(os.getpid(), signal.SIGKILL)


# A line that a kill -9 cut off ends here, or our first fact would be glued to it. Only we write: the lock is ours.
if (HERE / "effects.jsonl").read_bytes()[-1:] not in (b"", b"\n"):
    os.write(EFFECTS, b"\n")
STARTS = 1 + sum(fact["what"] == "start" for fact in past())


class Connection:
    def __init__(self, sock):
        self.sock = sock
        self.conn = ""
        self.version = BEHAVIOUR.get("version", "1")

    def raw(self, data):
        with contextlib.suppress(OSError):
            self.sock.sendall(data)

    def send(self, message):
        self.raw(json.dumps(message, separators=(",", ":")).encode() + b"\n")

    def answer(self, key, result):
        self.send({"jsonrpc": "2.0", "id": key, "result": result})

    def serve(self):
        with contextlib.suppress(OSError), self.sock.makefile("rb") as lines:
            first = lines.readline()
            if not first:
                return
            said = json.loads(first)["hello"]
            self.conn = said["conn"]
            note(what="hello", hello=said)
            mode = BEHAVIOUR.get("hello", "ok")
            if mode == "silent":
                lines.read()
                return
            if mode == "garbage":
                self.raw(b"Traceback (most recent call last):\n")
                return
            if mode == "die":
                die()
            if isinstance(mode, dict):
                note(what="refused", conn=self.conn)  # before it is sent: whoever has the answer may look at once
                self.send({"hello": {"error": mode}})
                return
            self.send({"hello": {"proto": 1, "version": self.version, "pid": os.getpid(), "boot": "b"}})
            for line in lines:
                message = json.loads(line)
                note(what="line", conn=self.conn, size=len(line), message=message if len(line) < 4000 else {})
                if "method" in message and "id" in message:
                    self.request(message["id"], message["method"], message.get("params") or {})
        note(what="gone", conn=self.conn)
        self.sock.close()

    def request(self, key, method, params):
        if method == "initialize":
            if params.get("fail"):
                self.send({"jsonrpc": "2.0", "id": key, "error": {"code": -32022, "message": "no"}})
                return
            info = {"name": "fake", "version": self.version}
            self.answer(
                key, {"protocolVersion": params.get("protocolVersion"), "capabilities": {}, "serverInfo": info}
            )
        elif method == "tools/call":
            self.tool(key, params["name"], params.get("arguments") or {})
        elif method == "die/before":
            if params["times"] >= STARTS:
                die()
            self.answer(key, {})
        else:
            self.answer(key, {})

    def tool(self, key, name, arguments):
        if name == "effect":  # like the real daemon: the key decides, and the effect is one write before the answer
            if not any(fact["what"] == "effect" and fact["key"] == [self.conn, key] for fact in past()):
                note(what="effect", key=[self.conn, key], n=arguments.get("n"))
            self.answer(key, {"n": arguments.get("n")})
        elif name == "effect_then_die":
            if not any(fact["what"] == "effect" and fact["key"] == [self.conn, key] for fact in past()):
                note(what="effect", key=[self.conn, key])
                die()
            self.answer(key, {"again": True})
        elif name == "hold":
            if arguments.get("lives", 10**9) >= STARTS:
                return
            self.answer(key, {"starts": STARTS})
        elif name == "half":
            if STARTS == 1:
                self.raw(b'{"jsonrpc":"2.0","id":%s,"result":{"half":' % json.dumps(key).encode())
                die()
            self.answer(key, {"whole": True})
        elif name == "twice":
            self.answer(key, {"n": 1})
            self.answer(key, {"n": 2})
            self.answer("never-asked", {})
        elif name == "big":
            self.answer(key, {"text": "x" * arguments["size"]})
        elif name == "ask":
            question = {"jsonrpc": "2.0", "id": f"{STARTS}:1", "method": "elicitation/create", "params": {}}
            self.send(question)
        elif name == "noise":
            self.raw(b'print from a library\n[1,2]\n\n{"a": 1}\nnull\n\xff\xfe\n')
            self.raw(b'{ "id": %s, "result": {"n": 1}, "jsonrpc": "2.0"}\n' % json.dumps(key).encode())
        elif name == "tell":
            note_ = {
                "jsonrpc": "2.0",
                "method": "notifications/progress",
                "params": {"progressToken": 1, "progress": 1},
            }
            self.send(note_)
            self.answer(key, {})
        elif name == "bye":  # an answer that is still queued when the connection ends
            self.answer(key, {"n": 1})
            self.sock.shutdown(socket.SHUT_RDWR)
            die()


def main():
    os.set_inheritable(LOCK_FD, False)
    LISTENER.set_inheritable(False)
    note(what="start", starts=STARTS, env=sorted(os.environ), fds=sorted(int(fd.name) for fd in Path("/proc/self/fd").iterdir()),
         cwd=str(Path.cwd()), sid=os.getsid(0), ppid=os.getppid(), argv=sys.argv)  # fmt: skip
    if "fail" in BEHAVIOUR:
        half = HERE / "failed.half"
        half.write_text(json.dumps(BEHAVIOUR["fail"]))
        half.replace(HERE / "failed")
        sys.exit(5)
    if BEHAVIOUR.get("crash_starts", 0) >= STARTS:
        die()
    for marker in ("failed", "starts"):
        (HERE / marker).unlink(missing_ok=True)
    if "load_s" in BEHAVIOUR:  # what imports cost the real one
        time.sleep(BEHAVIOUR["load_s"])
    note(what="ready")
    while True:
        sock, _ = LISTENER.accept()
        size = struct.calcsize("3i")
        note(what="peer", peer=struct.unpack("3i", sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size))[0])
        threading.Thread(target=Connection(sock).serve, daemon=True).start()


main()
