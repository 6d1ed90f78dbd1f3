"""Decides how one part in one file's text changes, and makes the new text. Pure.

Every new text is parsed again and compared with the intended content, so that a file in an unforeseen form is left
unchanged instead of being damaged.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from orchestrator.base.errors import Conflict
from orchestrator.base.toolsets import GSD
from orchestrator.engines.user_setup import UserSetup
from orchestrator.setup import entries, jsonc, toml_text
from orchestrator.setup.entries import EntryPart
from orchestrator.setup.jsonc import JsonKey, Unreadable

ChangeState = Literal["absent", "current", "other", "edited", "foreign"]
Action = Literal["added", "updated", "removed", "kept", "absent"]
_READ = {"json": jsonc.read, "toml": toml_text.read}


@dataclass(frozen=True)
class FoundPart:
    """A part in a file: ``current`` is what this installation writes, ``other`` what another one wrote.

    ``foreign``: another server has the name `gsd`, which is not ours alone.
    """

    state: ChangeState
    path: tuple[JsonKey, ...] = ()
    value: Any = None


@dataclass(frozen=True)
class PartChange:
    """What became of one part. ``edited``: a user's form of it was met (and kept, unless ``action`` says else)."""

    what: str
    path: tuple[str, ...]
    action: Action
    before: Any = None
    after: Any = None
    edited: bool = False


def look(cli: UserSetup, text: str | None, part: EntryPart) -> FoundPart:
    """Whether the part is there, and whose; None is a missing file. Raises ``Unreadable``."""
    if not text:
        return FoundPart("absent")
    data = _read(cli, text)
    node: Any = data
    for key in part.path:
        node = node.get(key) if isinstance(node, Mapping) else None
    if not part.element:
        return FoundPart("absent") if node is None else _judge(cli, text, part, part.path, node)
    for at, element in enumerate(node if isinstance(node, list) else []):
        if entries.names_us(part, element):
            return _judge(cli, text, part, (*part.path, at), element)
    return FoundPart("absent")


def put(cli: UserSetup, text: str | None, part: EntryPart, *, force: bool = False) -> tuple[str, PartChange]:
    """The text with the part in it. Conflict ``entry_edited`` where a user's own form starts something else."""
    file_part = look(cli, text, part)
    if file_part.state == "absent":
        old = text or ""
        tool = jsonc.add if cli.form == "json" else toml_text.add
        new = tool(old, part.path, part.value, element=part.element) + ("\n" if text is None else "")
        wanted = _with(_read(cli, old) if old else {}, part)
        return _checked(cli, new, wanted), PartChange(part.what, part.path, "added", after=part.value)
    if file_part.state == "foreign" and not force:
        step = "rename that one, or write setup's own instead with --force"
        raise _conflict(part, "is a server that is not ours", step)
    edited = file_part.state == "edited"
    if file_part.state == "current" or (edited and not force and entries.starts_same(part, file_part.value)):
        return text or "", PartChange(part.what, part.path, "kept", file_part.value, file_part.value, edited)
    if edited and not force:
        raise _edited(part, "--force writes setup's own instead")
    return _replaced(cli, text or "", part, file_part), PartChange(
        part.what, part.path, "updated", file_part.value, part.value, edited
    )


def take(cli: UserSetup, text: str | None, part: EntryPart, *, force: bool = False) -> tuple[str | None, PartChange]:
    """The text without the part; None: nothing is left. Conflict ``entry_edited`` for a user's own form."""
    file_part = look(cli, text, part)
    if file_part.state in ("absent", "foreign") or text is None:
        return text, PartChange(part.what, part.path, "absent")
    edited = file_part.state == "edited"
    if edited and not force:
        raise _edited(part, "--force takes it out all the same")
    new = _without(cli, text, _own_path(file_part))
    return new, PartChange(part.what, part.path, "removed", before=file_part.value, edited=edited)


def _judge(cli: UserSetup, text: str, part: EntryPart, path: tuple[JsonKey, ...], value: Any) -> FoundPart:
    if part.path[-1] == GSD and not entries.names_us(part, value):
        return FoundPart("foreign", path, value)
    if not entries.ours(cli, part, value) or (cli.form == "json" and jsonc.commented(text, path)):
        return FoundPart("edited", path, value)
    return FoundPart("current" if value == part.value else "other", path, value)


def _own_path(file_part: FoundPart) -> tuple[JsonKey, ...]:
    """The place of our own part: in a group of hooks with the user's hooks, only our hook."""
    inner = file_part.value.get("hooks") if isinstance(file_part.value, Mapping) else None
    if isinstance(file_part.path[-1], int) and isinstance(inner, list) and len(inner) > 1:
        at = next(n for n, hook in enumerate(inner) if entries.hook_words({"hooks": [hook]}) is not None)
        return (*file_part.path, "hooks", at)
    return file_part.path


def _replaced(cli: UserSetup, text: str, part: EntryPart, file_part: FoundPart) -> str:
    if cli.form == "toml":
        text = _without(cli, text, _own_path(file_part)) or ""
        wanted = _with(_read(cli, text) if text else {}, part)
        new = toml_text.add(text, part.path, part.value, element=part.element)
        return _checked(cli, new if new.endswith("\n") else new + "\n", wanted)
    path = _own_path(file_part)
    value = part.value if path == file_part.path else part.value["hooks"][0]
    wanted = copy.deepcopy(_read(cli, text))
    _at(wanted, path[:-1])[path[-1]] = value
    return _checked(cli, jsonc.replace(text, path, value), wanted)


def _without(cli: UserSetup, text: str, path: Sequence[JsonKey]) -> str | None:
    wanted = copy.deepcopy(_read(cli, text))
    del _at(wanted, path[:-1])[path[-1]]
    new = jsonc.remove(text, path) if cli.form == "json" else toml_text.remove(text, path)
    document = _read(cli, new) if new else {}
    if _pruned(document, path) != _pruned(wanted, path):
        raise Unreadable(1, f"{'.'.join(map(str, path))} cannot be taken out safely; do it by hand")
    return new


def _checked(cli: UserSetup, new: str, wanted: Any) -> str:
    if _read(cli, new) != wanted:
        raise Unreadable(1, "its form is not understood; add the snippet by hand")
    return new


def _with(data: Any, part: EntryPart) -> Any:
    out = copy.deepcopy(data)
    node = out
    for key in part.path[:-1]:
        node = node.setdefault(key, {})
    if part.element:
        node.setdefault(part.path[-1], []).append(part.value)
    else:
        node[part.path[-1]] = part.value
    return out


def _at(data: Any, path: Sequence[JsonKey]) -> Any:
    for key in path:
        data = data[key]
    return data


def _pruned(data: Any, path: Sequence[JsonKey]) -> Any:
    """The data without containers on the path that are empty: whether they go or stay is a matter of form."""
    if not path or not isinstance(data, dict) or path[0] not in data:
        return data
    inner = _pruned(data[path[0]], path[1:])
    rest = {key: value for key, value in data.items() if key != path[0]}
    return rest if inner in ({}, []) else {**rest, path[0]: inner}


def _read(cli: UserSetup, text: str) -> Any:
    return _READ[cli.form](text)


def _edited(part: EntryPart, step: str) -> Conflict:
    return _conflict(part, "is not as setup wrote it: it was changed by hand", step)


def _conflict(part: EntryPart, what: str, step: str) -> Conflict:
    name = ".".join(part.path)
    return Conflict("entry_edited", f"{name} {what}", step, entry=name)
