"""The files of a run, below ``<home>/artifacts/<run id>/``: written atomically, verified when read, private, masked.

Touches that directory only; a row's path is never followed out of the home. Calls block: they sync.
"""

from __future__ import annotations

import contextlib
import hashlib
import ipaddress
import json
import os
import re
import stat
from decimal import Decimal
from pathlib import Path
from typing import Any

import orjson

from orchestrator.base.errors import BadRequest, Corrupt, Environment
from orchestrator.base.secret_masks import without_tokens
from orchestrator.journal.project_files import check_id, confine, failure, make_dir, replace
from orchestrator.spawn.run_data import ArtifactRow, CostSource, Node, Reply
from orchestrator.trust.seals import Seal

PLACE = "artifacts"
REDACTED = "[redacted]"
PHONE_DIGITS = 8


def write(home: Path, run_id: str, name: str, data: bytes) -> tuple[str, int, str]:
    """Write a file of the run, atomically and synced; returns its path relative to the home, its bytes, its sha256.

    Raises BadRequest ``bad_id``, Environment ``home_unusable`` (a directory on the way is a link), ``disk_full``,
    ``io_failed``; the previous file is unchanged then.
    """
    relative = f"{PLACE}/{check_id(run_id, 'run id')}/{check_id(name, 'artifact')}"
    directory = home
    for part in (PLACE, run_id):
        directory /= part
        if directory.is_symlink():
            raise Environment("home_unusable", f"{directory} is a link", "remove it", file=str(directory))
        make_dir(directory, 0o700)
    replace(directory / name, data, mode=0o600)
    return relative, len(data), hashlib.sha256(data).hexdigest()


def clear(home: Path, run_id: str) -> None:
    """Remove what a daemon that was killed while it wrote left half-written in the run's directory.

    BadRequest ``bad_id``.
    """
    directories = home / PLACE, home / PLACE / check_id(run_id, "run id")
    if any(path.is_symlink() for path in directories):
        return  # where it leads nothing is ours
    with contextlib.suppress(OSError):
        for path in directories[-1].glob(".*.tmp"):
            path.unlink()


def probe(home: Path) -> None:
    """Write a file into the artifacts directory and remove it; raises if that is impossible."""
    directory = home / PLACE
    if directory.is_symlink():
        raise Environment("home_unusable", f"{directory} is a link", "remove it", file=str(directory))
    make_dir(directory, 0o700)
    path = directory / f".probe-{os.getpid()}"
    replace(path, b"", mode=0o600)
    path.unlink(missing_ok=True)


def read(home: Path, row: ArtifactRow) -> bytes:
    """The artifact, as it was written; Corrupt ``corrupt_home`` naming the file when it is another or is gone."""
    try:
        path = confine(home, row.path, what="artifact")
        # Beside the artifacts lie the key and the salt.
        if (home / PLACE).is_symlink() or not path.is_relative_to(home.resolve() / PLACE):
            raise BadRequest("path_escape", f"it is not below {PLACE}/")  # noqa: TRY301
    except BadRequest as error:
        raise Corrupt(
            "corrupt_home", f"{row.path[:200]!r} of {row.node_id} leaves the artifacts", file=row.path
        ) from error
    try:
        data = _content(path, row.bytes + 1)
    except FileNotFoundError as error:
        raise Corrupt("corrupt_home", f"{path} is gone", file=str(path)) from error
    except OSError as error:
        raise failure(path, error) from error
    if len(data) != row.bytes or hashlib.sha256(data).hexdigest() != row.sha256:
        raise Corrupt("corrupt_home", f"{path} is not what was written", file=str(path))
    return data


def document(
    *,
    run_id: str,
    node: Node,
    reply: Reply,
    output: str,
    cost: Decimal | None,
    cost_source: CostSource,
    attempt: int,
    token: str,
    at: str,
) -> bytes:
    """The content of a node's file: the original's keys, then ours; the cost is exact to the last digit.

    ``output`` is the reply's text, redacted if configured. A daemon that finds the file after the end of another
    daemon can end the attempt from it alone.
    """
    prompt, completion = reply.prompt_tokens or 0, reply.completion_tokens or 0
    return orjson.dumps(
        {
            "runId": run_id,
            "nodeId": node.id,
            "model": reply.model or node.model,
            "task": node.task,
            "output": output,
            "tokens": {"prompt": prompt, "completion": completion, "total": prompt + completion},
            "costUsd": None if cost is None else orjson.Fragment(f"{cost:f}".encode()),
            "costSource": cost_source,
            "finishReason": reply.finish_reason,
            "truncated": reply.truncated,
            "attempt": attempt,
            "token": token,
            "finishedAt": at,
        },
        option=orjson.OPT_INDENT_2,
    )


_MAC = (b',\n  "mac": "', b'"\n}')


def sealed(data: bytes, seal: Seal) -> bytes:
    """The document with the seal of all its other keys as the last key."""
    return data.removesuffix(b"\n}") + _MAC[0] + seal.mac(data).encode() + _MAC[1]


def _is_sealed(data: bytes, seal: Seal) -> bool:
    head, _, tail = data.rpartition(_MAC[0])
    return seal.fits(head + b"\n}", tail.removesuffix(_MAC[1]).decode(errors="replace"))


def unrecorded_answer(home: Path, run_id: str, node_id: str, seal: Seal | None) -> dict[str, Any] | None:
    """The document of an answer whose daemon ended before it recorded it; None if there is none of ours.

    Numbers with a point are Decimal. Besides the document's keys it has ``path``, ``bytes`` and ``sha256``, as
    `write` returned them. Raises Environment if the file cannot be read.
    """
    name = f"{check_id(node_id, 'node id')}.json"
    relative = f"{PLACE}/{check_id(run_id, 'run id')}/{name}"
    try:
        path = confine(home, relative, what="artifact")
        data = _content(path)
    except (BadRequest, FileNotFoundError):
        return None
    except OSError as error:
        raise failure(home / relative, error) from error
    if seal is None or not _is_sealed(data, seal):
        return None
    try:
        answer = json.loads(data, parse_float=Decimal)
    except (ValueError, RecursionError):
        return None
    if not isinstance(answer, dict) or (answer.get("runId"), answer.get("nodeId")) != (run_id, node_id):
        return None
    tokens, cost = answer.get("tokens"), answer.get("costUsd")
    sound = (
        all(isinstance(answer.get(key), str) for key in ("output", "token", "model", "finishReason", "costSource"))
        and type(answer.get("attempt")) is int
        and isinstance(tokens, dict)
        and all(type(tokens.get(key)) is int for key in ("prompt", "completion"))
        and (cost is None or (type(cost) in (int, Decimal) and cost >= 0))
    )
    if not sound:
        return None
    answer["costUsd"] = None if cost is None else Decimal(cost)
    return answer | {"path": relative, "bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}


def _content(path: Path, limit: int = -1) -> bytes:
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY)
    with os.fdopen(fd, "rb") as file:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise FileNotFoundError(path)
        return file.read(limit)


# -- what nobody should read ----------------------------------------------------------------------------------------
# Each pattern begins where a word does and has a bound, so that none takes longer than the text is long.

_EMAIL = re.compile(
    r"(?<![A-Za-z0-9._%+-])[A-Za-z0-9._%+-]{1,64}@[A-Za-z0-9-]{1,63}(?:\.[A-Za-z0-9-]{1,63}){1,8}(?![A-Za-z0-9])"
)
_CARD = re.compile(r"(?<![\w.-])\d(?:[ -]?\d){12,18}(?![\w-])")
_PHONE = re.compile(
    r"(?<![\w.+-])(?:\+\d{1,3}[ .-]?(?:\(\d{1,4}\)[ .-]?)?\d{1,4}(?:[ .-]?\d{2,4}){1,4}"
    r"|\(\d{3}\) ?\d{3}[ .-]\d{4}|\d{3}[ .-]\d{3}[ .-]\d{4}|0\d{1,4}[ /-]\d{3,4}[ -]?\d{3,5})(?![\w-])"
)
_ADDRESS = re.compile(
    r"(?<![\w.:])(?:\d{1,3}(?:\.\d{1,3}){3}|(?:[0-9A-Fa-f]{0,4}:){2,7}[0-9A-Fa-f]{0,4})(?![\w:]|\.\d)"
)


def redacted(text: str) -> str:
    """The text without secrets, and without what looks like an e-mail or IP address, a card's or phone's number."""
    text = _EMAIL.sub(REDACTED, without_tokens(text, REDACTED))
    text = _ADDRESS.sub(lambda match: REDACTED if _is_address(match[0]) else match[0], text)
    text = _CARD.sub(lambda match: REDACTED if _is_card(match[0]) else match[0], text)
    return _PHONE.sub(lambda match: REDACTED if sum(map(str.isdecimal, match[0])) >= PHONE_DIGITS else match[0], text)


def _is_address(text: str) -> bool:
    try:
        return str(ipaddress.ip_address(text)) != "::"  # which is an operator in many languages
    except ValueError:
        return False


def _is_card(text: str) -> bool:
    """Luhn's check, which nine of ten other numbers fail."""
    digits = [int(char) for char in text if char.isdecimal()]
    doubled = [digit * 2 - 9 * (digit > 4) for digit in digits[-2::-2]]
    return (sum(digits[-1::-2]) + sum(doubled)) % 10 == 0
