"""A CLI as squads start it: notes how it was called, then does what a line ``DO {json}`` of its prompt says.

``python -IS member.py [options] PROMPT``; ``create-chat`` in the place of all that prints the id of a new chat. Each
call is a JSON line in ``$MEMBER_LOG``. What can be done: say (else ``$MEMBER_SAYS``), err, bytes (hex to stdout),
exit, hold (until that file exists), mb (megabytes to stdout, of the byte "fill"), linger (a child that stays, and
where: "session", "group", "scrubbed", or "child": its own session and a scrubbed environment, but still this one's
child), deaf (ignores SIGTERM), close (both outputs), endless (writes until killed), spin (starts so many children,
which start one each), swap (puts a pipe in the place of its stdout's file), remove (that path, with all below), kill
and kill_group (signals for itself and its group), kill_daemon (SIGKILL for its parent's group).
"""

# Started without what pathlib would load.
# ruff: noqa: PTH106, PTH108, PTH109, PTH110, PTH112, PTH115, PTH118, PTH123
import json
import os
import signal
import sys
import time


def note(**facts):
    line = json.dumps({"pid": os.getpid(), "argv": sys.argv[1:], "cwd": os.getcwd(), **facts}).encode() + b"\n"
    fd = os.open(os.environ["MEMBER_LOG"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.write(fd, line)
    os.close(fd)


def linger(where):
    """A grandchild that nobody waits for; its pid is noted."""
    if os.fork():
        return
    if where in ("session", "child"):
        os.setsid()
    if where != "child" and os.fork():
        os._exit(0)
    if where in ("scrubbed", "child"):
        words = ["sh", "-c", 'echo $$ >> "$0"; exec sleep 1000', os.environ["MEMBER_LOG"] + ".pids"]
        os.execve("/bin/sh", words, {"PATH": os.environ["PATH"]})
    with open(os.environ["MEMBER_LOG"] + ".pids", "a") as file:
        file.write(f"{os.getpid()}\n")
    while True:
        time.sleep(1000)


def main():
    said = sys.stdin.buffer.read() if os.environ.get("MEMBER_READS") else b""
    if sys.argv[1:2] == ["create-chat"]:
        note(step="create")
        sys.stderr.write(os.environ.get("CREATE_STDERR", ""))
        sys.stdout.write(os.environ.get("CREATE_STDOUT", f"chat-{os.getpid()}\n"))
        sys.exit(int(os.environ.get("CREATE_EXIT", "0")))
    prompt = said.decode(errors="surrogateescape") or sys.argv[-1]
    do = next((json.loads(line[3:]) for line in prompt.splitlines() if line.startswith("DO ")), {})
    note(step="run", prompt=prompt, stdin=bool(said), member=os.environ.get("ORCHESTRATOR_MEMBER_ID"),
         secret=os.environ.get("MY_KEY"), lead=os.getpgrp() == os.getsid(0) == os.getpid())  # fmt: skip
    if do.get("deaf"):
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    for where in do.get("linger", []):
        linger(where)
    sys.stdout.write(do.get("say", os.environ.get("MEMBER_SAYS", "")))
    sys.stdout.flush()
    sys.stderr.write(do.get("err", ""))
    sys.stderr.flush()
    os.write(1, bytes.fromhex(do.get("bytes", "")))
    block = bytes.fromhex(do.get("fill", "78")) * (1 << 20)
    for _ in range(do.get("mb", 0)):
        os.write(1, block)
    while do.get("endless"):
        os.write(1, block[: 1 << 16])
        time.sleep(0.001)
    if do.get("swap"):
        path = os.readlink("/proc/self/fd/1")
        os.unlink(path)
        os.mkfifo(path)
    if do.get("remove"):
        for place, folders, files in os.walk(do["remove"], topdown=False):
            for name in files:
                os.unlink(os.path.join(place, name))
            for name in folders:
                os.rmdir(os.path.join(place, name))
        if os.path.isdir(do["remove"]):
            os.rmdir(do["remove"])
        else:
            os.unlink(do["remove"])
    if do.get("close"):
        os.close(1)
        os.close(2)
    for _ in range(do.get("spin", 0)):
        if os.fork() == 0:
            os.fork()
            time.sleep(1000)
    while do.get("hold") and not os.path.exists(do["hold"]):
        time.sleep(0.02)
    if do.get("kill_group"):
        os.killpg(0, do["kill_group"])
    if do.get("kill_daemon"):
        os.killpg(os.getpgid(os.getppid()), signal.SIGKILL)
        time.sleep(1000)
    if do.get("kill"):
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # which Python ignores
        os.kill(os.getpid(), do["kill"])
    os._exit(do.get("exit", 0))


main()
