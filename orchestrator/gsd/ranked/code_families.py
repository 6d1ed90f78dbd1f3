"""Families in code that fit a question: names, file names, imports, well-known constructs. Reads only."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

from orchestrator.gsd.ranked.ranking import stems as stems_of
from orchestrator.gsd.shown import at
from orchestrator.gsd.sources.code import Text, definitions, ending, is_test, words
from orchestrator.gsd.sources.text import Source

LEAST = 2
"""Fewer members are no family."""
_FILES = 8
_MOST = 60
_SPEC = re.compile(r"""\b(?:from|import|require)\b\s{0,4}\(?\s{0,4}["']([@\w][\w@/.-]{0,100})["']""")
_PY = re.compile(r"(?m)^[ \t]{0,40}(?:from|import)[ \t]{1,4}([A-Za-z_]\w{0,80})")
_RS = re.compile(r"(?m)^[ \t]{0,40}use[ \t]{1,4}([a-z_]\w{0,80})::")

# What people call a construct, and the texts that are one. Literal, and only in code: no comments, no strings.
_CONSTRUCTS: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    ("error exception failure", "try/except", ("except ", "except:")),
    ("error exception failure", "try/catch", ("catch (", "catch(", "} catch {")),
    ("error promise", "promise .catch()", (".catch(",)),
    ("error exception throw", "throw new …Error", ("throw new ",)),
    ("error exception raise", "raise …", ("raise ",)),
    ("error result", "Result<…>", ("Result<",)),
    ("error context", ".with_context()/.context()", (".with_context(", ".context(")),
    ("error", "if err != nil", ("err != nil",)),
    ("error boundary", "ErrorBoundary", ("ErrorBoundary",)),
    ("middleware", "app.use(…)", ("app.use(", "router.use(")),
    ("middleware", "add_middleware", ("add_middleware(", ".middleware(")),
    ("middleware layer", ".layer(…)", (".layer(",)),
    ("middleware guard auth", "@UseGuards", ("@UseGuards(",)),
    ("dependency injection", "Depends(…)", ("Depends(",)),
    ("dependency injection", "@Injectable", ("@Injectable(",)),
    ("validation schema", "zod schema", ("z.object(", ".safeParse(", ".parse(")),
    ("validation schema model", "pydantic BaseModel", ("(BaseModel)",)),
    ("validation", "Joi / yup schema", ("Joi.", "yup.")),
    ("test fixture", "@pytest.fixture", ("@pytest.fixture",)),
    ("test parametrize", "@pytest.mark.parametrize", ("@pytest.mark.parametrize",)),
    ("test fixture setup", "beforeEach()", ("beforeEach(", "beforeAll(")),
    ("test", "describe() blocks", ("describe(",)),
    ("test", "#[test]", ("#[test]", "#[tokio::test]")),
    ("test mock", "jest.mock / vi.mock", ("jest.mock(", "vi.mock(", "jest.fn(", "vi.fn(")),
    ("test mock", "monkeypatch / mock.patch", ("monkeypatch.", "patch(")),
    ("log", "logger calls", ("logger.", "log.info(", "log.error(")),
    ("log", "console.log", ("console.log(", "console.error(")),
    ("log trace", "tracing macros", ("tracing::", "info!(", "warn!(", "error!(")),
    ("state", "createContext / useContext", ("createContext(", "useContext(")),
    ("state store", "stores", ("writable(", "defineStore(", "createStore(", "$state(")),
    ("route endpoint api", "router methods", ("router.get(", "router.post(", "app.get(", "app.post(", ".route(")),
    ("query database repository", "ORM queries", ("prisma.", "session.query(", "select(", ".findMany(", ".objects.")),
    ("async concurrency", "async functions", ("async def ", "async fn ", "async function", "async (")),
    ("configuration environment env", "environment variables", ("process.env.", "os.environ", "env::var(")),
)  # fmt: skip
# A question's word, and beginnings of names that mean it.
_PREFIX_WORDS = {
    "hook": ("use",),
    "fixture": ("make", "create"),
    "event": ("on", "handle"),
    "wrapper": ("with",),
    "handler": ("handle", "on"),
}
_END_WORDS = {
    "error": ("Error", "Exception"), "exception": ("Error", "Exception"), "test": ("Test", "Spec"),
    "validation": ("Schema", "Validator"),
    "middleware": ("Middleware", "Guard"), "repository": ("Repository", "Repo", "Store"), "service": ("Service",),
}  # fmt: skip


@cache
def _prefixes() -> dict[str, tuple[str, ...]]:
    return {stem: found for word, found in _PREFIX_WORDS.items() for stem in stems_of(word)}


@cache
def _ends() -> dict[str, tuple[str, ...]]:
    return {stem: found for word, found in _END_WORDS.items() for stem in stems_of(word)}


@dataclass(frozen=True)
class Family:
    """Members of one kind: ``frequency`` counts them (names, files or lines), ``files`` has the first files."""

    name: str
    frequency: int
    match: float
    example: dict[str, Any]
    files: tuple[str, ...]


class _Members:
    """Collects where a family was met."""

    def __init__(self) -> None:
        self.count = 0
        self.files: dict[str, int] = {}
        self.example: tuple[Text, int] | None = None
        self._lines: dict[str, tuple[Text, int]] = {}

    def add(self, text: Text, line: int, count: int = 1) -> None:
        self.count += count
        self.files[text.path] = self.files.get(text.path, 0) + count
        first = self._lines.setdefault(text.path, (text, line))
        # The file with most of them shows best how it is done.
        if self.example is None or self.files[text.path] > self.files[self.example[0].path]:
            self.example = first


def families(source: Source, stems: tuple[str, ...]) -> list[Family]:
    """The families that fit the stems of a question, unsorted, at most 60. Deterministic: files are read in order."""
    heads = {stem: stem[: max(3, len(stem) - 1)] for stem in stems if len(stem) > 2}
    if not heads:
        return []
    wanted = [(name, texts, stem) for told, name, texts in _CONSTRUCTS for stem in stems if stem in stems_of(told)]
    members: dict[tuple[str, str], _Members] = defaultdict(_Members)
    packages: dict[str, _Members] = defaultdict(_Members)
    for text in source.texts():
        related = _names(text, heads, members)
        related |= _file_name(text, heads, members)
        for name, literals, stem in wanted:
            hits = sum(text.bare.count(literal) for literal in literals)
            if hits:
                first = min(at for literal in literals if (at := text.bare.find(literal)) >= 0)
                members[name, stem].add(text, text.line_of(first), hits)
        if related:
            for package, offset in _packages(text):
                packages[package].add(text, text.line_of(offset))
    found = list(_shown(members, len(heads)))
    for name, one in sorted(packages.items(), key=lambda pair: (-len(pair[1].files), pair[0]))[:3]:
        if len(one.files) >= LEAST and one.example is not None:
            found.append(_family(f"imports {name}", one, 0.3 / len(heads)))
    found.sort(key=lambda family: (-family.match, -family.frequency, family.name))
    return found[:_MOST]


def _names(text: Text, heads: dict[str, str], members: dict[tuple[str, str], _Members]) -> bool:
    related = False
    if not any(head in text.lowered for head in heads.values()) and not any(
        stem in _prefixes() or stem in _ends() for stem in heads
    ):
        return False
    for name, line in definitions(text).items():
        parts = words(name)
        if len(parts) < 2:
            continue
        for stem, head in heads.items():
            for label in _labels(name, parts, stem, head):
                members[label, stem].add(text, line)
                related = True
    return related


def _labels(name: str, parts: list[str], stem: str, head: str) -> Iterator[str]:
    camel = "_" not in name.strip("_")
    for prefix in _prefixes().get(stem, ()):
        if parts[0] == prefix:
            yield f"{prefix}*" if camel else f"{prefix}_*"
    if any(name.endswith(end) and len(name) > len(end) for end in _ends().get(stem, ())):
        end = next(end for end in _ends()[stem] if name.endswith(end))
        yield f"*{end}"
    elif parts[-1].startswith(head):
        yield f"*{parts[-1].capitalize()}" if camel else f"*_{parts[-1]}"
    if parts[0].startswith(head):
        if camel:
            yield f"{parts[0] if name[0].islower() else parts[0].capitalize()}*"
        else:
            yield f"{parts[0]}_*"


def _file_name(text: Text, heads: dict[str, str], members: dict[tuple[str, str], _Members]) -> bool:
    name = text.path.rpartition("/")[2]
    end = ending(name)
    pieces = name[: -len(end)].split(".") if end else name.split(".")
    directory = text.path.split("/")[-2] if "/" in text.path else ""
    related = False
    for stem, head in heads.items():
        label = ""
        if len(pieces) > 1 and pieces[-1].lower().startswith(head):
            label = f"*.{pieces[-1]}{end}"
        elif (found := re.match(r"^([A-Za-z]{2,30})([_-]).", pieces[0])) and found[1].lower().startswith(head):
            label = f"{found[1]}{found[2]}*{end}"
        elif (found := re.search(r".([_-])([A-Za-z]{2,30})$", pieces[0])) and found[2].lower().startswith(head):
            label = f"*{found[1]}{found[2]}{end}"
        elif stem == "test" and is_test(text.path) and len(pieces) > 1:
            label = f"*.{pieces[-1]}{end}"
        elif directory.lower().startswith(head):
            label = f"{directory}/*{end}"
        if label:
            members[f"files {label}", stem].add(text, _telling_line(text))
            related = True
    return related


def _telling_line(text: Text) -> int:
    """The first line that shows something: none of those that every file begins with."""
    return next(
        (n for n, line in enumerate(text.code.split("\n"), 1) if line.strip() and "from __future__" not in line), 1
    )


def _packages(text: Text) -> Iterator[tuple[str, int]]:
    end = ending(text.path)
    pattern = _PY if end == ".py" else _RS if end == ".rs" else _SPEC
    seen: set[str] = set()
    for found in pattern.finditer(text.code):
        name = "/".join(found[1].split("/")[: 2 if found[1].startswith("@") else 1])
        if (
            name not in seen
            and not text.bare[found.start()].isspace()
            and name not in {"@", "crate", "self", "super", "__future__", "src", "std"}
            and not name.startswith("@/")
        ):
            seen.add(name)
            yield name, found.start()


def _shown(members: dict[tuple[str, str], _Members], many: int) -> Iterator[Family]:
    every: dict[str, Counter[str]] = defaultdict(Counter)
    for (label, stem), one in members.items():
        every[label][stem] = one.count
    for label, stems in every.items():
        one = members[label, stems.most_common(1)[0][0]]
        if one.count >= LEAST:
            yield _family(label, one, len(stems) / many)


def _family(name: str, one: _Members, match: float) -> Family:
    assert one.example is not None
    text, line = one.example
    return Family(
        name, one.count, round(match, 2), at(text.path, line, text.line(line)), tuple(sorted(one.files)[:_FILES])
    )
