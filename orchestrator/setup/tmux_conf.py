"""Our lines in the user's tmux.conf: the count of agents that need somebody, and the key that opens `top` in a popup.

Reads and writes one file of the user. Every byte outside our markers stays, also when the lines are removed again.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from orchestrator.base.errors import BadRequest, Conflict
from orchestrator.edge import project_location
from orchestrator.setup import cli_files
from orchestrator.setup.text_change import Action

DEFAULT_KEY = "T"  # tmux binds nothing to it
NO_KEY = "none"
_BEGIN, _END = "# >>> orchestrator setup tmux >>>", "# <<< orchestrator setup tmux <<<"
# What the beginning says of the file as it was, so that the removal brings back each byte.
_NEW_FILE, _BREAK = " (the file is new)", " (the line above had no end)"
_BEGINNING = re.compile(f"{re.escape(_BEGIN)}({re.escape(_NEW_FILE)}|{re.escape(_BREAK)}|)")
_SEGMENT = "##{?##{@orchestrator_needs},#[fg=yellow] ◐ ##{@orchestrator_needs} #[default],}"
# In front, because tmux cuts the end; only if it is not there, because a tmux.conf is read again and again.
_STATUS = (
    "if-shell -F '#{m:*@orchestrator_needs*,#{status-right}}' '' "
    f"\"set-option -gF status-right '{_SEGMENT}#{{status-right}}'\""
)
_POPUP = "display-popup -E -d '#{pane_current_path}' -w 90% -h 90%"
_KEY_LINE = re.compile(rf"bind-key (\S+) {re.escape(_POPUP)} .+")
_KEY = re.compile(r"(?:[CMS]-){0,3}(?:[A-Za-z0-9]|F(?:[1-9]|1[0-2]))")


@dataclass(frozen=True)
class TmuxConfChange:
    """What became of the file: our lines before and after, and the copy that was kept. Dry: ``written`` is False."""

    path: Path
    action: Action
    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    edited: bool = False
    written: bool = False
    backup: Path | None = None


@dataclass(frozen=True)
class _Block:
    """Our lines in a text: where they begin and end, and what stands between the markers."""

    begin: int
    end: int
    lines: tuple[str, ...]
    note: str

    @property
    def key(self) -> str:
        """The key that the lines bind; `NO_KEY` without one."""
        match = next(filter(None, map(_KEY_LINE.fullmatch, self.lines)), None)
        return match[1] if match else NO_KEY

    @property
    def edited(self) -> bool:
        """Whether somebody has changed the lines."""
        return any(line != _STATUS and not _KEY_LINE.fullmatch(line) for line in self.lines)


def lines(key: str = DEFAULT_KEY) -> tuple[str, ...]:
    """The lines for that key. BadRequest ``bad_argument`` if it is no key."""
    if key == NO_KEY:
        return (_STATUS,)
    if not _KEY.fullmatch(key):
        raise BadRequest(
            "bad_argument", f"{key!r} is no key", f"give a letter, a digit or F1 to F12, as M-o; or {NO_KEY}"
        )
    top = shlex.join(project_location.own_command("top", "--in-popup"))
    quoted = "'" + top.replace("'", "'\\''") + "'"
    return (_STATUS, f"bind-key {key} {_POPUP} {quoted}")


def conf_file(env: Mapping[str, str]) -> Path:
    """The user's tmux.conf: the one that has our lines, else the last that exists, else ``~/.tmux.conf``.

    tmux reads each that exists, and the last has the last word.
    """
    home = Path(env["HOME"]) if env.get("HOME", "").startswith("/") else Path.home()
    xdg = env.get("XDG_CONFIG_HOME", "")
    places = [home / ".tmux.conf", *([Path(xdg) / "tmux/tmux.conf"] if xdg.startswith("/") else [])]
    places.append(home / ".config/tmux/tmux.conf")
    there = [path for path in places if path.is_file()]
    return [places[0], *there, *filter(_has_ours, there)][-1]


def _has_ours(path: Path) -> bool:
    try:
        return _BEGIN.encode() in path.read_bytes()
    except OSError:
        return False


def install(env: Mapping[str, str], key: str = "", *, force: bool = False, dry: bool = False) -> TmuxConfChange:
    """Write our lines; ``key`` "": the one they have, else `DEFAULT_KEY`.

    Conflict ``entry_edited`` if our lines were changed by hand or the key has another meaning in the file, unless
    ``force``. Errors as `cli_files.read` and `cli_files.write`.
    """
    original = cli_files.read(conf_file(env))
    text, block = original.text, _block(original)
    wanted = lines(key or (block.key if block else DEFAULT_KEY))
    rest = text or ""
    if block is not None:
        rest = rest[: block.begin] + rest[block.end :]
        if block.lines == wanted:
            return TmuxConfChange(original.path, "kept", wanted, wanted)
        if block.edited and not force:
            raise _conflict(original.path, "our lines were changed by hand", "--force writes setup's own instead")
    bound = next(filter(None, map(_bound_key, wanted)), None)
    at = _bound_at(rest, bound) if bound and not force else 0
    if at:
        raise _conflict(original.path, f"line {at} binds the key {bound}", "give another: --key M-o, or --key none")
    if block is not None:
        head = (text or "")[block.begin :].partition("\n")[0]
        new = (text or "")[: block.begin] + _framed(head, wanted) + (text or "")[block.end :]
        change = TmuxConfChange(original.path, "updated", block.lines, wanted, block.edited)
    else:
        endless = bool(rest) and not rest.endswith("\n")
        head = _BEGIN + (_NEW_FILE if text is None else _BREAK if endless else "")
        new = rest + ("\n" if endless else "") + _framed(head, wanted)
        change = TmuxConfChange(original.path, "added", (), wanted)
    return _written(original, new, change, dry)


def remove(env: Mapping[str, str], *, force: bool = False, dry: bool = False) -> TmuxConfChange:
    """Take our lines out; the rest of the file is as it was before. Errors as `install`."""
    original = cli_files.read(conf_file(env))
    block = _block(original)
    if block is None:
        return TmuxConfChange(original.path, "absent")
    if block.edited and not force:
        raise _conflict(original.path, "our lines were changed by hand", "--force takes them out all the same")
    above, below = (original.text or "")[: block.begin], (original.text or "")[block.end :]
    if not below and block.note == _BREAK:
        above = above.removesuffix("\n")
    gone = block.note == _NEW_FILE and not above and not below
    change = TmuxConfChange(original.path, "removed", block.lines, (), block.edited)
    return _written(original, None if gone else above + below, change, dry)


def _written(original: cli_files.Original, text: str | None, change: TmuxConfChange, dry: bool) -> TmuxConfChange:
    if dry:
        return change
    backup = cli_files.write(original, text, f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}")
    return replace(change, written=True, backup=backup)


def _framed(head: str, wanted: Sequence[str]) -> str:
    return "".join(f"{line}\n" for line in (head, *wanted, _END))


def _block(original: cli_files.Original) -> _Block | None:
    """Our lines in the file. Environment ``config_unreadable`` if a marker is missing or there are several."""
    text, whole, begin, at = original.text or "", None, None, 0
    inside: list[str] = []
    for number, line in enumerate(text.split("\n"), 1):
        bare = line.rstrip("\r")
        head = _BEGINNING.fullmatch(bare)
        if (head and (begin or whole)) or (bare == _END and not begin):
            raise cli_files.unreadable(original.path, number, "a marker of ours is not where setup wrote it")
        if head:
            begin, inside = (at, head), []
        elif bare == _END and begin is not None:
            whole = _Block(begin[0], min(at + len(line) + 1, len(text)), tuple(inside), begin[1][1])
            begin = None
        elif begin is not None:
            inside.append(bare)
        at += len(line) + 1
    if begin is not None:
        raise cli_files.unreadable(original.path, text[: begin[0]].count("\n") + 1, "the end of our lines is missing")
    return whole


def _bound_key(line: str) -> str | None:
    match = _KEY_LINE.fullmatch(line)
    return match[1] if match else None


def _bound_at(text: str, key: str) -> int:
    """The number of the line that binds the key after the prefix; 0 if none is seen to do so."""
    for number, line in enumerate(text.split("\n"), 1):
        words = line.split()
        if not words or words[0] not in ("bind", "bind-key"):
            continue
        rest, table = words[1:], "prefix"
        while rest and re.fullmatch(r"-[nrNT]+\S*", rest[0]):
            flag = rest.pop(0)
            if "n" in flag:
                table = "root"
            elif flag.endswith("T") and rest:
                table = rest.pop(0)
            elif flag.endswith("N") and rest:
                note = rest.pop(0)
                while note[0] in "'\"" and rest and not (len(note) > 1 and note.endswith(note[0])):
                    note += " " + rest.pop(0)
        if rest and table == "prefix" and rest[0].strip("'\"") == key:
            return number
    return 0


def _conflict(path: Path, what: str, step: str) -> Conflict:
    return Conflict("entry_edited", f"{path}: {what}", step, file=str(path))
