"""Split a template's text into words by the quoting rules of a POSIX shell, with and without a shell. Pure.

Handles the text between tags and the quote it begins in; `command_template` handles tags, values and conditions.
"""

from __future__ import annotations

import re
from typing import Literal, NamedTuple

from orchestrator.base.errors import BadRequest
from orchestrator.squad.template_expressions import TemplateSource

SPECIAL = "|;<>&"
_BLANK = " \t\n"
_PLAIN_RUN = re.compile(r"""[^ \t\n'"\\|;<>&]+""")
_DOUBLE_RUN = re.compile(r'[^"\\]+')
_SHELL_RUN = re.compile(r"""[^ \t\n'"\\|;<>&()`$#]+""")
_QUOTED_RUN = re.compile(r"""[^"\\`$]+""")
_CASE = re.compile(r"case(?![\w-])")
_BACKQUOTED = re.compile(r"`(?:[^`\\]|\\.)*`", re.DOTALL)
_PARAMETER = re.compile(r"""\$\{[^'"\\`${}()<>|;&\n]*\}""")
_USE_SHELL = "quote it, or begin the template with the line: # shell: true"
_USE_FILE = "put this part of the script into a file of its own, and let the template call that"


class Piece(NamedTuple):
    """A part of a text: ``gap`` between words, ``text`` of a word, or a quote ``mark``, which makes a word of "" too.

    Without a shell ``text`` is what arrives in the word; with one it is the script as it was written.
    """

    kind: Literal["gap", "text", "mark"]
    text: str


class WordScan:
    """Reads the texts of one template from first to last; ``quote`` is the one that is open where the next begins."""

    def __init__(self, source: TemplateSource, *, shell: bool) -> None:
        self.source = source
        self.shell = shell
        self.quote = ""
        self.opened = 0

    def read(self, start: int, end: int, *, first: bool, last: bool) -> list[Piece]:
        """The pieces between two offsets; ``first`` and ``last``: no tag is before or after them."""
        if self.shell:
            return _ShellText(self, start, end, first=first, last=last).pieces()
        return self._plain(start, end)

    def _plain(self, start: int, end: int) -> list[Piece]:
        text = self.source.text
        pieces: list[Piece] = []
        at = start
        while at < end:
            sign = text[at]
            if self.quote == "'":
                close = text.find("'", at, end)
                stop = close if close >= 0 else end
                pieces.append(Piece("text", text[at:stop]))
                at = stop
                if close < 0:
                    break
                self.quote = ""
                at += 1
            elif sign == "\\":
                _needs_next(self.source, at, end)
                after = text[at + 1]
                if after != "\n":
                    backslash = sign if self.quote and after not in '"\\$`' else ""
                    pieces.append(Piece("text", backslash + after))
                at += 2
            elif sign == '"' or (sign == "'" and not self.quote):
                pieces.append(Piece("mark", sign))
                self.quote, self.opened = ("" if self.quote else sign), at
                at += 1
            elif self.quote:
                run = _DOUBLE_RUN.match(text, at, end)
                assert run is not None
                pieces.append(Piece("text", run[0]))
                at = run.end()
            elif sign in _BLANK:
                pieces.append(Piece("gap", sign))
                at += 1
            elif sign in SPECIAL:
                raise self.source.refuse(at, f"an unquoted {sign} needs a shell, and none is used here", _USE_SHELL)
            else:
                run = _PLAIN_RUN.match(text, at, end)
                assert run is not None
                pieces.append(Piece("text", run[0]))
                at = run.end()
        return pieces


def _needs_next(source: TemplateSource, at: int, end: int) -> None:
    if at + 1 >= end:
        raise source.refuse(at, "a backslash right before a tag, or at the end, has nothing to act on")


class _ShellText:
    """One text of a script. What it opens, except quotes, it must close: a tag inside could not be quoted safely.

    A value is written into the script in quotes of its own, so the scan must know for certain which quotes are around
    each tag. Text that makes this doubtful is refused, whether or not a shell would understand it.
    """

    def __init__(self, scan: WordScan, start: int, end: int, *, first: bool, last: bool) -> None:
        self.scan = scan
        self.base = start
        self.text = scan.source.text[start:end]
        self.last = last
        self.at = 0
        self.stack: list[tuple[str, int]] = [(scan.quote, scan.opened - start)] if scan.quote else []
        self.fresh: bool | None = True if first else None  # at the start of a word; None: a tag stands before
        self.output: list[Piece] = []

    def refuse(self, why: str, next_step: str = _USE_FILE, *, at: int | None = None) -> BadRequest:
        return self.scan.source.refuse(self.base + (self.at if at is None else at), why, next_step)

    def pieces(self) -> list[Piece]:
        while self.at < len(self.text):
            frame = self.stack[-1][0] if self.stack else ""
            if frame == "'":
                close = self.text.find("'", self.at)
                if close >= 0:
                    self.stack.pop()
                self.copy(close + 1 if close >= 0 else len(self.text))
            elif not self.both_ways():
                if frame == '"':
                    self.quoted()
                else:
                    self.bare()
        self.close()
        return self.output

    def copy(self, stop: int) -> None:
        """Take the text up to ``stop`` as part of a word."""
        self.output.append(Piece("text", self.text[self.at : stop]))
        self.at = stop
        self.fresh = False

    def both_ways(self) -> bool:
        """Text that means the same inside and outside double quotes; False: there is none here."""
        rest = self.text[self.at : self.at + 3]
        if rest[0] == "\\":
            _needs_next(self.scan.source, self.base + self.at, self.base + len(self.text))
            fresh = self.fresh
            self.copy(self.at + 2)
            if rest[1] == "\n":
                self.fresh = fresh
            return True
        if rest[0] == "`":
            whole = _BACKQUOTED.match(self.text, self.at)
            if whole is None:
                raise self.unclosed("`", self.at)
            self.copy(whole.end())
            return True
        if rest[0] != "$":
            return False
        if rest == "$((" or rest[:2] == "$[":
            raise self.refuse("arithmetic is not supported here")
        if rest[:2] == "$(":
            self.stack.append(("$(", self.at))
            self.copy(self.at + 2)
            self.fresh = True
            return True
        if rest[:2] == "${":
            whole = _PARAMETER.match(self.text, self.at)
            if whole is None:
                raise self.refuse("a ${…} may hold no quotes, expansions or tags here")
            self.copy(whole.end())
            return True
        if rest == "$" and not self.last:
            raise self.refuse("a $ right before a tag would change what the tag's text means", "write \\$")
        return False

    def quoted(self) -> None:
        if self.text[self.at] == '"':
            self.stack.pop()
            self.copy(self.at + 1)
        else:
            run = _QUOTED_RUN.match(self.text, self.at)
            self.copy(run.end() if run else self.at + 1)

    def bare(self) -> None:
        sign, two = self.text[self.at], self.text[self.at : self.at + 2]
        if self.fresh is None and sign in "(<#":
            raise self.refuse(f"a {sign} right after a tag is ambiguous", "put a blank between, or quote it")
        if two == "$'":
            raise self.refuse("$'…' is not supported here", "use '…' or \"…\"")
        if two == "((":
            raise self.refuse("arithmetic is not supported here")
        # A function's () apart. Behind an error in a=( bash goes on with the next line, which may be a value's.
        if sign == "(" and self.fresh is False and two != "()":
            raise self.refuse("a ( right after a word is not supported here", "put a blank between, or quote it")
        if two == "<<" and self.text[self.at + 2 : self.at + 3] != "<":
            raise self.refuse("a here-document is not followed here")
        if sign in "'\"":
            self.stack.append((sign, self.at))
            self.copy(self.at + 1)
        elif sign == "#" and self.fresh:
            self.comment()
        elif sign in " \t\n|;<>&()":
            self.gap(3 if two == "<<" else 1)
        elif self.stack and self.fresh and _CASE.match(self.text, self.at):
            raise self.refuse("case inside $(…) is not followed here")
        else:
            run = _SHELL_RUN.match(self.text, self.at)
            self.copy(run.end() if run else self.at + 1)

    def comment(self) -> None:
        stop = self.text.find("\n", self.at)
        if stop < 0:
            stop = len(self.text)
            if not self.last:
                raise self.refuse("a tag is not allowed in a comment", "take it out", at=stop)
        self.at = stop

    def gap(self, length: int) -> None:
        """Blanks and operators separate words, except inside a substitution, which belongs to its word."""
        sign = self.text[self.at : self.at + length]
        if self.stack and sign == "(":
            self.stack.append(("(", self.at))
        elif self.stack and sign == ")":
            frame, _ = self.stack.pop()
            self.copy(self.at + 1)
            self.fresh = frame == "("
            return
        self.output.append(Piece("text" if self.stack else "gap", sign))
        self.at += length
        self.fresh = True

    def close(self) -> None:
        """The text is read: at most one quote may be open, and the next text begins in it."""
        for frame, opened in self.stack:
            if frame not in "'\"":
                raise self.unclosed(frame, opened)
        self.scan.quote, opened = self.stack[-1] if self.stack else ("", 0)
        self.scan.opened = self.base + opened

    def unclosed(self, frame: str, opened: int) -> BadRequest:
        if self.last:
            return self.refuse(f"this {frame} is not closed", at=opened)
        return self.refuse(f"a tag is not allowed in {frame}…: how to quote it is not known", at=len(self.text))
