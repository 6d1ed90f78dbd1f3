"""Runs in the pane of a squad member: prints the member's output files as they grow, until the member has ended.

Standard library only. It reads the files, looks at the process and writes to its own terminal; the member knows
nothing of it and never waits for it.
"""

from __future__ import annotations

import argparse
import codecs
import contextlib
import os
import re
import shlex
import sys
import termios
import time
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO

from orchestrator.base.platform.ancestry import Watched

EVERY_S = 0.2
LAST_LOOKS = 5
"""This many looks in a row must find nothing new after the member's end, because its children may still write."""
LOOK_MAX = 1 << 18
KEPT = 1 << 16
"""Of more than LOOK_MAX new bytes in one look only the last KEPT are printed: no terminal keeps much more, and tmux
would be slow for everybody while it draws what nobody can read."""

PLAIN, DIM = "\x1b[0m", "\x1b[0;2m"

# Colours may pass; whatever else would act on the terminal is shown and not done.
_ACTING = re.compile(r"(\x1b\[[0-9;:]*m)|[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")
_UNFINISHED = re.compile(r"\x1b(?:\[[0-9;:]{0,64})?\Z")

USAGE = "orchestrator show --pid PID --start TICKS FILE [FILE]   (run by the daemon, in a squad member's pane)"


class ViewerTerminal:
    """The terminal: keeps apart on it what comes from different files."""

    def __init__(self, out: BinaryIO) -> None:
        self._out = out
        self._style = PLAIN
        self._fresh = True  # the cursor stands at the beginning of a line

    def begin(self) -> None:
        """Begin with an empty line: tmux pushes the first one out of sight when it reports the pane's death."""
        self._out.write(b"\n")
        self._out.flush()

    def write(self, text: str, style: str) -> None:
        """Print text of one file; where another file's line is unfinished, on a line of its own."""
        if not text:
            return
        if style != self._style:
            text = f"{'' if self._fresh else chr(10)}{style}{text}"
            self._style = style
        self._fresh = text.endswith("\n")
        self._out.write(text.encode(errors="replace"))
        self._out.flush()

    def say(self, sentence: str) -> None:
        """Print a sentence of our own, on a line of its own."""
        self._style = ""  # whatever comes next says its style anew
        self._out.write(f"{'' if self._fresh else chr(10)}{DIM}{sentence}{PLAIN}\n".encode(errors="replace"))
        self._out.flush()
        self._fresh = True


class Growing:
    """One growing file, of which each look prints what is new."""

    def __init__(self, path: Path, style: str) -> None:
        self.path = path
        self.style = style
        self._fd = -1
        self._at = 0
        self._start_over()

    def _start_over(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._held = ""  # the beginning of a colour whose end has not been written yet

    def look(self, pane: ViewerTerminal) -> bool:
        """Print what is new; returns whether there was anything."""
        if self._fd < 0:
            try:
                self._fd = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
            except OSError:
                return False  # not there yet
        size = os.fstat(self._fd).st_size
        if size < self._at:  # cut short and written anew
            self._at = 0
            self._start_over()
        if size - self._at > LOOK_MAX:
            pane.say(f"[{size - KEPT - self._at} bytes are not shown; the whole output is in {quoted(self.path)}]")
            self._at = size - KEPT
            self._start_over()
        data = os.pread(self._fd, LOOK_MAX, self._at)
        self._at += len(data)
        self._print(pane, self._decoder.decode(data), last=False)
        return bool(data)

    def finish(self, pane: ViewerTerminal) -> None:
        """Print the rest that waited for more to come: half a character, half a colour."""
        self._print(pane, self._decoder.decode(b"", final=True), last=True)

    def _print(self, pane: ViewerTerminal, text: str, *, last: bool) -> None:
        text, self._held = self._held + text, ""
        unfinished = None if last else _UNFINISHED.search(text)
        if unfinished is not None:
            text, self._held = text[: unfinished.start()], unfinished[0]
        pane.write(harmless(text), self.style)


def harmless(text: str) -> str:
    """The text with every character made visible that would do more to a terminal than colour it. Pure."""
    return _ACTING.sub(lambda match: match[1] or _picture(ord(match[0])), text)


def _picture(code: int) -> str:
    return chr(0x2400 + code) if code < 0x20 else "\u2421" if code == 0x7F else "\ufffd"


def quoted(path: Path) -> str:
    """The path on one line, quoted for a shell if it has special characters. Pure."""
    return shlex.quote(harmless(str(path).replace("\n", "\u240a")))


def follow(pid: int, began: int, files: Sequence[Growing], pane: ViewerTerminal) -> None:
    """Print the files until that very process has ended and nothing more comes."""
    quiet, member = 0, Watched(pid, began)
    while quiet < LAST_LOOKS:
        over = not member.alive()  # before the look: what it wrote last must be seen
        news = [file.look(pane) for file in files]
        quiet = 0 if any(news) else quiet + over
        time.sleep(EVERY_S)
    for file in files:
        file.finish(pane)


def main(arguments: Sequence[str]) -> int:
    """Show the files that ``arguments`` name; the exit status."""
    parser = argparse.ArgumentParser(prog="orchestrator show", usage=USAGE)
    parser.add_argument("--pid", type=int, required=True)
    parser.add_argument("--start", type=int, required=True)
    parser.add_argument("files", nargs="+", type=Path)
    given = parser.parse_args(arguments)
    pane = ViewerTerminal(sys.stdout.buffer)
    files = [Growing(path, DIM if number else PLAIN) for number, path in enumerate(given.files)]
    _take_no_input()
    try:
        pane.begin()
        follow(given.pid, given.start, files, pane)
        pane.say(f"[ended; its output is in {' '.join(quoted(path) for path in given.files)}]")
    except OSError:  # the terminal is gone; the interpreter must not meet it again when it flushes
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    return 0


def _take_no_input() -> None:
    """Do not echo what is typed into the pane, because nothing reads it."""
    with contextlib.suppress(OSError, termios.error):
        modes = termios.tcgetattr(0)
        modes[3] &= ~termios.ECHO
        termios.tcsetattr(0, termios.TCSANOW, modes)
