"""`orchestrator setup tmux`: shows, writes or removes our lines in the user's tmux.conf."""

from __future__ import annotations

import os
import shlex
import shutil
from typing import TYPE_CHECKING

from orchestrator.cli import output

if TYPE_CHECKING:
    from orchestrator.setup.tmux_conf import TmuxConfChange

NAME = "tmux"


def print_lines(key: str, as_json: bool) -> None:
    """Print the lines for manual use."""
    from orchestrator.setup import tmux_conf  # noqa: PLC0415

    path, text = tmux_conf.conf_file(os.environ), "\n".join(tmux_conf.lines(key or tmux_conf.DEFAULT_KEY))
    if as_json:
        output.print_json({"cli": NAME, "snippets": [{"for": "tmux", "file": str(path), "text": text}]})
        return
    output.say(f"# The status line and the key of tmux, in {shlex.quote(str(path))}")
    output.say(text)


def change(key: str, *, uninstall: bool, force: bool, dry: bool) -> list[TmuxConfChange]:
    """Write or remove the lines."""
    from orchestrator.setup import tmux_conf  # noqa: PLC0415

    if uninstall:
        return [tmux_conf.remove(os.environ, force=force, dry=dry)]
    return [tmux_conf.install(os.environ, key, force=force, dry=dry)]


def print_change(done: TmuxConfChange, dry: bool, as_json: bool) -> None:
    """Print what became of the file, with the exact lines."""
    quiet = done.action in ("kept", "absent")
    diff = [] if quiet else [*(f"- {line}" for line in done.before), *(f"+ {line}" for line in done.after)]
    notes = list(_notes(done))
    if as_json:
        part = {"what": "lines", "path": [NAME], "action": done.action, "edited": done.edited, "diff": diff}
        backup = str(done.backup) if done.backup else None
        file = {"file": str(done.path), "written": done.written, "backup": backup, "changes": [part]}
        output.print_json({"cli": NAME, "dry_run": dry, "files": [file], "notes": notes})
        return
    if quiet:
        state = "are as they should be" if done.action == "kept" else "are not there"
        output.say(f"{done.path}: our lines {state}")
        output.say("nothing to change")
    else:
        output.say(f"{done.path}: our lines {'would be ' if dry else ''}{done.action}")
        for line in diff:
            output.say(f"  {line}")
        if done.backup:
            output.say(f"  backup: {done.backup}")
    for note in notes:
        output.say(f"note: {note}")


def _notes(done: TmuxConfChange) -> list[str]:
    notes = []
    if done.action in ("added", "updated"):
        notes.append(f"a running tmux reads it with: tmux source-file {shlex.quote(str(done.path))}")
    elif done.action == "removed":
        notes.append("a running tmux keeps the segment and the key until it is restarted")
    if shutil.which("tmux") is None:
        notes.append("tmux is not on PATH; the file is ready for when it is installed")
    return notes
