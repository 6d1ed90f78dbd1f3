"""The form of one log line: encode a record, decode and verify lines, name the defect of a bad line.

Pure: bytes in, records out. ``seq`` is dense from 1, so the line number of a record follows from its ``seq`` and from
the one its file begins with.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from zlib import crc32

import orjson
from orjson import loads

from orchestrator.base.errors import BadRequest, Corrupt, Environment
from orchestrator.trust.seals import MAC_CHARS, Seal

Record = dict[str, Any]

VERSION = 1
STAMPS = frozenset({"v", "seq", "mac", "crc"})
SEAL_BYTES = len(b',"crc":"00000000"}')
MAC_BYTES = len(b',"mac":""') + MAC_CHARS
# Readers that search by byte offset read the seq from a line's first bytes, without the rest of the line.
SEQ_AT_START = re.compile(rb'\{"v":1,"seq":(\d{1,19}),')
HEAD_BYTES = len(b'{"v":1,"seq":,') + 19
_SEALED = re.compile(rb',"crc":"[0-9a-f]{8}"\}\Z')


def encode(record: Record, seq: int, seal: Seal | None = None) -> tuple[Record, bytes]:
    """The record with ``v``, ``seq`` first, ``mac`` (with a ``seal``) and ``crc`` last, and its line.

    Raises ``BadRequest("bad_argument")`` for what JSON files cannot hold (integers beyond 64 bits, lone
    surrogates, nesting too deep): such values come from callers' payloads.
    """
    assert STAMPS.isdisjoint(record), "v, seq, mac and crc are stamped here"
    stamped = {"v": VERSION, "seq": seq, **record}
    try:
        body = orjson.dumps(stamped)[:-1]
    except orjson.JSONEncodeError as error:
        raise BadRequest("bad_argument", f"the payload cannot be stored as JSON: {error}") from None
    if seal is not None:
        stamped["mac"] = mac = seal.mac(body)
        body = b'%b,"mac":"%b"' % (body, mac.encode())
    crc = f"{crc32(body):08x}"
    stamped["crc"] = crc
    return stamped, b'%b,"crc":"%b"}\n' % (body, crc.encode())


def is_sealed(line: bytes, seal: Seal) -> bool:
    """Whether a line (without its newline) carries the MAC that the seal gives it."""
    mac = seal.mac(line[: -SEAL_BYTES - MAC_BYTES])
    return line[-SEAL_BYTES - MAC_BYTES : -SEAL_BYTES] == b',"mac":"%b"' % mac.encode()


def foreign(path: Path, line: int) -> Environment:
    """The error for an intact line that was not written here, or not as part of this log."""
    return Environment(
        "foreign_data", f"{path}, line {line}: this record was not written on this machine", file=str(path), line=line
    )


def resealed(lines: list[bytes], seal: Seal) -> list[bytes]:
    """The intact lines of a log (with their newlines), unchanged if they are accepted or their seal is valid.

    The others are written with a new seal.
    """
    accepted = seal.accepted_count(line[:-1] for line in lines)
    sealed_lines: list[bytes] = lines[:accepted]
    for line in lines[accepted:]:
        if is_sealed(line[:-1], seal):
            sealed_lines.append(line)
        else:
            record = loads(line)
            plain = {key: value for key, value in record.items() if key not in STAMPS}
            sealed_lines.append(encode(plain, record["seq"], seal)[1])
    return sealed_lines


def decode(
    lines: list[bytes],
    seq: int,
    types: frozenset[str],
    path: Path,
    file_first: int = 1,
    *,
    seal: Seal | None = None,
) -> Iterator[Record]:
    """The records of complete lines (without their newlines), the first of which must have ``seq``.

    Raises ``Corrupt`` with file and line at the first line that ``encode`` did not write, and ``Environment``
    foreign_data at the first behind the seal's ``trusted_seq`` without its MAC. ``file_first`` is the seq that the
    file begins with. This is the inner loop of every start; it yields one record at a time, so that the garbage
    collector has nothing to do.
    """
    trusted_seq = 0 if seal is None else seal.trusted_seq or 0
    for line in lines:
        try:
            record = loads(line)
            # The checksum is compared as text: as a number, a hex digit with a flipped case bit would pass.
            good = (
                record["crc"] == crc32(line[:-SEAL_BYTES]).to_bytes(4).hex()
                and record["seq"] == seq
                and record["v"] == VERSION
                and record["type"] in types
            )
        except (ValueError, KeyError, TypeError):
            good = False
        if not good:
            raise diagnose(line, seq, types, path, file_first)
        if seal is not None and seq > trusted_seq and not is_sealed(line, seal):
            raise foreign(path, seq - file_first + 1)
        yield record
        seq += 1


def received(
    lines: Sequence[bytes],
    seq: int,
    types: frozenset[str],
    path: Path,
    file_first: int = 1,
    *,
    seal: Seal | None = None,
) -> list[Record]:
    """As `decode`, for lines that came from elsewhere: also their form must be that of ``encode``, byte for byte.

    A search by byte offset relies on it, and a line with a newline in it would be two.
    """
    for at, line in enumerate(lines, seq):
        match = SEQ_AT_START.match(line)
        if match is None or int(match[1]) != at or b"\n" in line or _SEALED.search(line) is None:
            raise diagnose(line, at, types, path, file_first)
    return list(decode(list(lines), seq, types, path, file_first, seal=seal))


def intact(line: bytes, types: frozenset[str], path: Path) -> Record | None:
    """The record of one line, whatever its place in the log; None if the line is damaged.

    Raises ``Corrupt("unknown_version")`` for a line that a newer version wrote.
    """
    try:
        record = loads(line)
        seq = record["seq"]
        good = (
            record["crc"] == crc32(line[:-SEAL_BYTES]).to_bytes(4).hex()
            and type(seq) is int
            and seq >= 1
            and record["v"] == VERSION
            and record["type"] in types
        )
    except (ValueError, KeyError, TypeError):
        good, seq = False, 0
    if good:
        return record  # type: ignore[no-any-return]
    error = diagnose(line, seq if isinstance(seq, int) else 0, types, path)
    if error.code == "unknown_version" and _SEALED.search(line) is not None:
        raise error
    return None


def diagnose(line: bytes, seq: int, types: frozenset[str], path: Path, file_first: int = 1) -> Corrupt:
    """The error for a bad line: its defect and the probable cause."""
    code = "corrupt_log"
    try:
        record = loads(line)
    except ValueError:
        record = None
    sealed = _SEALED.search(line) is not None
    intact = sealed and line[-SEAL_BYTES:] == b',"crc":"%08x"}' % crc32(line[:-SEAL_BYTES])
    fields = record if isinstance(record, dict) else {}
    version, kind = fields.get("v"), fields.get("type")
    if fields and version != VERSION and (intact or not sealed):
        # A newer format may seal its lines another way, so only a line with OUR seal can be called damaged.
        code, cause = "unknown_version", f"it has format version {version!r}; a newer orchestrator wrote it"
    elif intact and fields.get("seq") != seq:
        cause = f"seq {fields.get('seq')!r} where {seq} must follow; lines were removed, repeated or moved"
    elif intact and not (isinstance(kind, str) and kind in types):
        code, cause = "unknown_version", f"record type {kind!r} is unknown here; a newer orchestrator wrote it"
    elif b"\0" in line:
        cause = "it contains NUL bytes; the disk lost a block, or power failed before it was written"
    elif record is None:
        cause = "it is not JSON; the file was damaged, or two programs wrote to it"
    elif not sealed:
        cause = "its checksum is missing; the file was edited by hand or damaged"
    elif not intact:
        cause = "its checksum does not fit; the file was edited by hand or damaged"
    else:
        cause = "its keys are not in the order orchestrator writes; the file was edited by hand"
    at = seq - file_first + 1
    return Corrupt(code, f"{path}, line {at}: {cause}", file=str(path), line=at, seq=seq, cause=cause)
