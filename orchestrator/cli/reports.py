"""The files that commands draw: where a page goes, and that it replaces nothing but an older page of ours."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

from orchestrator.base.errors import BadRequest

REPORTS = Path(".agents") / "reports"
_BEGINNING = 1024  # bytes within which a page of ours has its mark


def place_of(root: Path, chosen: Path | None, name: str) -> Path:
    """The file to write: the ``chosen`` one, else ``name`` in the project's `.agents/reports/`, which is made.

    BadRequest ``path_escape`` if that directory or file is a link out of the project: a cloned repository must not
    choose where we write.
    """
    if chosen is not None:
        return chosen
    directory = root / REPORTS
    place = directory / Path(name).name
    for path in (directory, place):
        if not Path(os.path.realpath(path)).is_relative_to(os.path.realpath(root)):
            raise BadRequest("path_escape", f"{path} leads out of the project", "remove the link, or give -o FILE")
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    ignore = directory / ".gitignore"
    if not os.path.lexists(ignore):
        ignore.write_text("*\n")
    return place


def refuse_others(place: Path, mark: str, *, force: bool) -> None:
    """BadRequest ``bad_argument`` for a file that holds something else; a device or a pipe is not even opened."""
    if place.exists() and not place.is_file():
        raise BadRequest("bad_argument", f"{place} is not a file", "choose another -o")
    directory = Path(os.path.realpath(place)).parent
    if not directory.is_dir():
        raise BadRequest("bad_argument", f"{place}: there is no such directory", "choose another -o, or make it")
    if force or not place.exists():
        return
    with place.open("rb") as there:
        if mark.encode() not in there.read(_BEGINNING):
            raise BadRequest(
                "bad_argument",
                f"{place} is a file that this command has not written",
                "choose another -o, or add --force",
            )


def write(place: Path, text: str) -> None:
    """Replace the file whole, through a link: nobody ever sees half a page."""
    target = Path(os.path.realpath(place))
    aside = target.with_name(f".{target.name[:100]}.{secrets.token_hex(4)}")
    try:
        with aside.open("x", encoding="utf-8") as file:
            file.write(text)
        aside.replace(target)
    except BaseException:
        aside.unlink(missing_ok=True)
        raise
