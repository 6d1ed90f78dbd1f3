"""The tests of a source file: what each says it shows, whether it runs, and whether it shows anything. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from orchestrator.gsd.sources.code import SCRIPTS, Text, ending, words


@dataclass(frozen=True, slots=True)
class Case:
    """One test: what it says it shows, where; ``skipped`` when it is not run.

    ``hollow``: nothing in it looks like a check, so that it passes whatever the code does.
    """

    description: str
    line: int
    skipped: bool
    hollow: bool = False


_JS_CASE = re.compile(
    r"(?m)^[ \t]{0,200}(?P<what>x?describe|context|suite|x?it|test|fit|specify|Deno\.test)"
    r"(?P<how>(?:\.(?:only|skip|todo|concurrent|each|fails|skipIf|runIf)){0,3})\s{0,8}\(\s{0,80}"
    r"(?P<quote>[\"'`])(?P<name>[^\n]{1,400}?)(?P=quote)\s{0,40}[,)]"
)
_NAMED_CASE = re.compile(
    r"(?m)^(?P<before>[ \t]{0,200})(?:async\s{1,4})?(?:def\s{1,4}(?P<py>test_\w{1,200})\s{0,4}\(|"
    r"func\s{1,4}(?P<go>Test\w{1,200})\s{0,4}\(|(?:pub\s{1,4})?(?:async\s{1,4})?fn\s{1,4}(?P<rs>\w{1,200})\s{0,4}\(|"
    r"(?:public\s{1,4})?(?:void|fun|async Task|Task)\s{1,4}`?(?P<jvm>[^`\n(]{1,200}?)`?\s{0,4}\()"
)
_RB_CASE = re.compile(
    r"(?m)^[ \t]{0,200}(?P<what>it|test|scenario|describe|context)[ (]{1,4}[\"'](?P<name>[^\"'\n]{1,400})"
)
_SKIPPED = re.compile(r"skip|todo|xfail|ignore|Disabled|Ignore", re.IGNORECASE)


_CHECKS = re.compile(
    r"(?i)(?<![a-z])(?:assert|expect|should|verif|check|raises|refute|ensure|must)\w*|\bt\.(?:error|fatal|fail|is|equal|deep|truthy|ok|true|same|not)"
    r"|\bis_expected\b|\bmatchsnapshot|\bpanics?\b|\bfail(?:now|f)?\s{0,4}\(|\brequire\.\w|\bstepverifier\b"
)
_ALWAYS = re.compile(
    r"\bassert\s{1,4}(?:True|1)\b|\bexpect\s{0,2}\(\s{0,4}(?:true|1)\s{0,4}\)\.to\w{1,20}\(\s{0,4}(?:true|1)?\s{0,4}\)"
    r"|\bassert!?\(\s{0,4}(?:true|1)\s{0,4}\)|\bassertTrue\(\s{0,4}[Tt]rue\s{0,4}\)"
)
_SKIPS = re.compile(
    r"\bpytest\.skip\s{0,2}\(|\bskipTest\s{0,2}\(|\bt\.Skip\w{0,3}\s{0,2}\(|\b(?:this|test|ctx|t)\.skip\s{0,2}\(\s{0,2}\)|^\s{0,40}(?:skip|pending)\b"
    r"|\bunimplemented!|\btodo!|\braise NotImplementedError\b|\bAssume\.",
    re.MULTILINE,
)
_ALL_SKIPPED = re.compile(
    r"(?m)^pytestmark\s{0,4}=[^\n]{0,200}\bskip|\ballow_module_level\s{0,4}=\s{0,4}True|@(?:Disabled|Ignore)\b[^\n]{0,200}\n(?:\s{0,20}@[^\n]{0,200}\n){0,4}"
    r"\s{0,20}(?:public\s{1,4})?(?:final\s{1,4})?class\b"
)
_BODY_CHARS = 8000


def cases(text: Text) -> Iterator[Case]:
    """The tests a file defines, each behind the name of the block around it (``login: refuses a password``)."""
    found = list(_found(text))
    off = bool(_ALL_SKIPPED.search(text.code))
    for index, case in enumerate(found):
        start = text.start_of(case.line)
        until = text.start_of(found[index + 1].line) if index + 1 < len(found) else len(text.code)
        body = _own(text.bare[start : min(until, start + _BODY_CHARS)], text)
        skipped = case.skipped or off or bool(_SKIPS.search(body.partition("\n")[2] or body))
        # Its own name may hold such a word: what stands before the first bracket's end is not looked at.
        inner = _ALWAYS.sub(" ", body)
        head = inner.partition("\n")[0].find("(") + 1
        yield replace(case, skipped=skipped, hollow=not _CHECKS.search(inner, head))


def _own(body: str, text: Text) -> str:
    """What belongs to a test: in Python the lines that are indented below its first."""
    if ending(text.path) != ".py":
        return body
    lines = body.split("\n")
    depth = len(lines[0]) - len(lines[0].lstrip())
    kept = [lines[0]]
    for line in lines[1:]:
        if line.strip() and len(line) - len(line.lstrip()) <= depth and not line.lstrip().startswith(")"):
            break
        kept.append(line)
    return "\n".join(kept)


def _found(text: Text) -> Iterator[Case]:
    end = ending(text.path)
    if end in SCRIPTS:
        yield from _blocks(text, _JS_CASE, {"describe", "context", "suite"})
    elif end == ".rb":
        yield from _blocks(text, _RB_CASE, {"describe", "context"})
    else:
        for found in _NAMED_CASE.finditer(text.code):
            name = found["py"] or found["go"] or found["rs"] or found["jvm"]
            line = text.line_of(found.start() + len(found["before"]))
            if text.bare[found.end() - 1].isspace():
                continue
            above = _marks_above(text, line) + _class_marks(text, line, found["before"] if found["py"] else "")
            if (found["rs"] and "test" not in above) or (
                found["jvm"] and "Test" not in above and "Fact" not in above
            ):
                continue
            yield Case(
                " ".join(words(name)[0 if found["rs"] or found["jvm"] else 1 :]), line, bool(_SKIPPED.search(above))
            )


def _marks_above(text: Text, line: int) -> str:
    """The decorators, attributes or annotations right above a line."""
    marks: list[str] = []
    for number in range(line - 1, max(0, line - 9), -1):
        above = text.line(number).strip()
        if not above.startswith(("@", "#[", "[")):
            break
        marks.append(above[:200])
    return " ".join(marks)


def _class_marks(text: Text, line: int, before: str) -> str:
    """The decorators of the class around a test of Python."""
    if not before:
        return ""
    for number in range(line - 1, max(0, line - 400), -1):
        above = text.line(number)
        if above.strip() and len(above) - len(above.lstrip()) < len(before):
            return _marks_above(text, number) if above.lstrip().startswith("class ") else ""
    return ""


def _blocks(text: Text, pattern: re.Pattern[str], outer: set[str]) -> Iterator[Case]:
    around: list[tuple[int, str, bool]] = []
    for found in pattern.finditer(text.code):
        start = found.start("what")
        if text.bare[start].isspace():
            continue
        indent = start - text.code.rfind("\n", 0, start) - 1
        while around and around[-1][0] >= indent:
            around.pop()
        how = found["what"] + (found.groupdict().get("how") or "")
        skipped = "skip" in how or "todo" in how or how.startswith("x") or any(entry[2] for entry in around)
        if found["what"].removeprefix("x") in outer:
            around.append((indent, found["name"], skipped))
            continue
        yield Case(": ".join([*(entry[1] for entry in around[-2:]), found["name"]]), text.line_of(start), skipped)
