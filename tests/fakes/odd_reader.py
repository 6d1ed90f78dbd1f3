"""The process that reads projects, doing with a question what its argument ``do`` says instead of answering it."""

import contextlib
import os
import signal
import sys
import threading
from pathlib import Path

from orchestrator.__main__ import main
from orchestrator.gsd import intelligence, reader_program

REAL = intelligence.Intelligence.answer
SAYS = reader_program.encoded


def odd(self, question, asking, arguments):
    """Be odd once per file ``once`` if that is given, else always."""
    rest = dict(arguments)
    do, once = rest.pop("do", ""), rest.pop("once", "")
    if once:
        with contextlib.suppress(FileExistsError):
            Path(once).touch(exist_ok=False)
            return acted(do)
        return {"pid": os.getpid()}
    return acted(do) if do else REAL(self, question, asking, rest)


def acted(do):
    """Do it."""
    match do:
        case "die":
            os.kill(os.getpid(), signal.SIGKILL)
        case "stop":
            os.kill(os.getpid(), signal.SIGSTOP)
            threading.Event().wait()  # the system may let this thread go on for a moment
        case "hang":
            threading.Event().wait()
        case _ if do.startswith("fifo "):
            os.close(os.open(do.removeprefix("fifo "), os.O_RDONLY))
        case "spin":
            while True:
                pass
        case "print":
            print("printed", flush=True)
            os.write(1, b"written\n")
            os.system("echo said by a child")
        case "bug":
            raise ZeroDivisionError("a bug")
        case "huge":
            return {"text": "x" * (reader_program.MAX_LINE + 1)}
        case "strange":
            return {"half": "\ud800", "path": Path("/p"), "set": {2, 1}, "mapping": os.environ, "nan": float("nan")}
        case "deep":
            told = {}
            for _ in range(100_000):
                told = {"in": told}
            return told
        case "garbage":
            reader_program.encoded = lambda _told: b"garbage\n"
        case "endless":
            reader_program.encoded = lambda _told: b"x" * (40 << 20)
        case "no id":
            reader_program.encoded = lambda _told: b'{"ok": 1}\n'
        case "stranger":
            reader_program.encoded = lambda told: SAYS({**told, "id": -7}) + SAYS(told)
    return {"pid": os.getpid()}


intelligence.Intelligence.answer = odd
sys.argv = ["orchestrator", "gsd-reader"]
sys.exit(main())
