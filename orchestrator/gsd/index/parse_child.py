"""The process that reads and parses source files for the index, one at a time; started by `parsing`.

Project-relative paths come in on stdin, a JSON string per line; what each file says goes out on stdout, a JSON object
per line in the same order, behind a first line ``"ready"``. A file may hang or crash a parser: each gets `FILE_S`
seconds of processor time, then the system ends this process, and whoever started it knows which file it was. It reads
the project and writes nothing; it ends with its stdin.
"""

from __future__ import annotations

import contextlib
import resource
import signal
import sys
from typing import Any

import orjson

from orchestrator.gsd.index.languages import PARSED, language_of
from orchestrator.gsd.index.python_source import parse_python
from orchestrator.gsd.index.script_source import parse_component, parse_script
from orchestrator.gsd.index.source import Parsed, count_lines, sound
from orchestrator.gsd.index.source_files import MAX_BYTES, Content, NotThere, read_file
from orchestrator.gsd.model import Trouble

FILE_S = 10.0
"""Of processor time; a file of the largest size that is read takes one or two."""
MEMORY = 3 << 30
SAMPLE = 8000


def parse(path: str, data: bytes) -> Parsed:
    """What a source file says, by its language; of one that is not parsed, or is no text, its length alone."""
    language = language_of(path)
    if b"\0" in data[:SAMPLE]:
        return Parsed(trouble=Trouble(path, 0, "not a text file", "unreadable"))
    if language not in PARSED:
        return Parsed(lines=count_lines(data))
    if language == "python":
        return sound(parse_python(path, data))
    try:
        data.decode()
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        return Parsed(lines=count_lines(data), trouble=Trouble(path, line, "not UTF-8", "unreadable"))
    reading = parse_component if language in {"svelte", "vue"} else parse_script
    return sound(reading(path, data))


def look(root: str, path: str) -> dict[str, Any]:
    """What `parsing` is told of a file: ``gone``, or its stamp and what it says."""
    try:
        content = read_file(root, path)
    except NotThere:
        return {"gone": True}
    except OSError as error:
        told = Trouble(path, 0, f"cannot be read: {error.strerror or error}", "unreadable")
        return _answer(Content(b"", 0, 0, b""), Parsed(trouble=told))
    if content.data is None:
        told = Trouble(path, 0, f"larger than {MAX_BYTES >> 20} MiB: not read", "unreadable")
        return _answer(content, Parsed(trouble=told))
    return _answer(content, parse(path, content.data))


def _answer(content: Content, parsed: Parsed) -> dict[str, Any]:
    told = parsed.trouble
    return {
        "mtime_ns": content.mtime_ns, "size": content.size, "digest": content.digest.hex(),
        "exports": parsed.exports, "kinds": parsed.kinds, "raw": parsed.raw, "purpose": parsed.purpose,
        "lines": parsed.lines, "trouble": None if told is None else [told.line, told.what, told.kind],
    }  # fmt: skip


def main(root: str) -> None:
    """Answer until stdin ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # of the terminal: whoever started us has it too, and ends our stdin
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    hard = resource.getrlimit(resource.RLIMIT_AS)[1]
    if hard == resource.RLIM_INFINITY or hard > MEMORY:
        with contextlib.suppress(OSError, ValueError):  # macOS limits no address space
            resource.setrlimit(resource.RLIMIT_AS, (MEMORY, hard))
    out = sys.stdout.buffer
    out.write(b'"ready"\n')
    out.flush()
    for line in sys.stdin.buffer:
        signal.setitimer(signal.ITIMER_PROF, FILE_S)
        answer = look(root, orjson.loads(line))
        signal.setitimer(signal.ITIMER_PROF, 0)
        out.write(orjson.dumps(answer) + b"\n")
        out.flush()


if __name__ == "__main__":
    main(sys.argv[1])
