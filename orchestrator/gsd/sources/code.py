"""What can be told from the text of one source file: comments, words, stubs, tests, definitions. Pure, linear."""

from __future__ import annotations

import bisect
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

Family = Literal["c", "python", "hash", "markup", "sql", "rust", "go", "plain"]

_FAMILIES: dict[Family, str] = {
    "c": "js jsx ts tsx mjs cjs mts cts java kt kts swift c h cc cpp cxx hpp hh cs scala dart php groovy pike pmod "
    "prisma proto zig less scss",
    "python": "py pyi",
    "hash": "rb ex exs sh bash zsh pl pm r jl nim cr tf graphql gql",
    "markup": "svelte vue astro html htm",
    "sql": "sql lua hs elm",
    "rust": "rs",
    "go": "go",
}
LANGUAGES: dict[str, Family] = {f".{e}": family for family, ends in _FAMILIES.items() for e in ends.split()}
"""The endings of files that count as source, and how their comments look."""

SCRIPTS = frozenset({
    ".js", ".jsx", ".ts", ".tsx", ".mjs", ".cjs", ".mts", ".cts", ".svelte", ".vue", ".astro",
})  # fmt: skip

# A string always matches where its quote stands (to the line's or the file's end if nothing closes it), and a
# comment likewise: the scanner never goes back, whatever the text.
_DOUBLE = r'"(?:[^"\\\n]|\\[\s\S])*+"?'
_SINGLE = r"'(?:[^'\\\n]|\\[\s\S])*+'?"
_BACK = r"`(?:[^`\\]|\\[\s\S])*+`?"
_BLOCK = r"(?P<block>/\*[\s\S]*?(?:\*/|\Z))"
_REGEX = r"(?<=[=(,:;!&|?{}\[+~>]) ?/(?![*/])(?:[^/\\\n\[]|\\.|\[(?:[^\]\\\n]|\\.){0,60}+\]){1,150}+/"
_SCANNERS: dict[Family, re.Pattern[str]] = {
    "c": re.compile(rf"{_BLOCK}|(?P<line>(?<!:)//[^\n]*)|{_DOUBLE}|{_SINGLE}|{_BACK}|{_REGEX}"),
    "python": re.compile(
        # Not possessive: before Python 3.11.4 such a repetition around a lookahead may end too early.
        rf'(?P<triple>"""[^"\\]*(?:(?:\\[\s\S]|"(?!""))[^"\\]*)*(?:"""|\Z)'
        rf"|\'\'\'[^\'\\]*(?:(?:\\[\s\S]|\'(?!\'\'))[^\'\\]*)*(?:\'\'\'|\Z))"
        rf"|(?P<line>\#[^\n]*)|{_DOUBLE}|{_SINGLE}"
    ),
    "hash": re.compile(
        rf"(?P<block>^=begin\b[\s\S]*?(?:^=end\b|\Z))|(?P<line>\#[^\n]*)|{_DOUBLE}|{_SINGLE}", re.MULTILINE
    ),
    "markup": re.compile(
        rf"(?P<block><!--[\s\S]*?(?:-->|\Z)|/\*[\s\S]*?(?:\*/|\Z))|(?P<line>(?<!:)//[^\n]*)|{_DOUBLE}|{_BACK}"
    ),
    "sql": re.compile(rf"{_BLOCK}|(?P<line>--[^\n]*)|{_DOUBLE}|{_SINGLE}"),
    "rust": re.compile(rf"{_BLOCK}|(?P<line>//[^\n]*)|\"(?:[^\"\\]|\\[\s\S])*+\"?|'(?:\\[^'\n]{{1,10}}|[^'\\\n])'"),
    "go": re.compile(rf"{_BLOCK}|(?P<line>//[^\n]*)|{_DOUBLE}|`[^`]*`?|'(?:\\[^'\n]{{1,10}}|[^'\\\n])'"),
    "plain": re.compile(r"(?!)"),
}
_NOT_LINE = re.compile(r"[^\n]")
_SEVERAL = re.compile(r"\S\s+\S")
_BETWEEN_TAGS = re.compile(r"(?<=>)[^<>{}=;]{0,300}\w\s[^<>{}=;]{0,300}(?=<)")
_OPEN = frozenset("(,=[{+\\%")


def without_comments(text: str, family: Family) -> str:
    """The text with comments and Python's docstrings blanked; every other character stays at its offset."""
    pieces: list[str] = []
    last = 0
    for found in _SCANNERS[family].finditer(text):
        kind = found.lastgroup
        if kind is None or (kind == "triple" and not _is_docstring(text, found.start())):
            continue
        pieces += [text[last : found.start()], _NOT_LINE.sub(" ", found[0])]
        last = found.end()
    return "".join([*pieces, text[last:]])


def without_strings(code: str, family: Family, *, prose: bool = False) -> str:
    """Code without comments, with its strings blanked as well; ``prose``: only those of several words."""
    pieces: list[str] = []
    last = 0
    for found in _SCANNERS[family].finditer(code):
        inner = found[0].strip("\"'`/ ")
        if prose and not _SEVERAL.search(inner):
            continue
        pieces += [code[last : found.start()], _NOT_LINE.sub(" ", found[0])]
        last = found.end()
    return "".join([*pieces, code[last:]])


def _is_docstring(text: str, start: int) -> bool:
    """Whether the triple-quoted string there is a statement of its own, not a value."""
    at = start - 1
    while at >= 0 and start - at < 200 and text[at] in " \t":
        at -= 1
    if at >= 0 and text[at] != "\n":
        return False
    while at >= 0 and start - at < 400 and text[at] in " \t\r\n":
        at -= 1
    return at < 0 or text[at] not in _OPEN


def ending(path: str) -> str:
    """The ending of a path in lower case, with its dot; ``""`` without one."""
    name = path.rpartition("/")[2]
    dot = name.rfind(".")
    return name[dot:].lower() if dot > 0 else ""


def stem(path: str) -> str:
    """The file's name without its endings: ``src/a.test.ts`` → ``a``."""
    name = path.rpartition("/")[2]
    return name.lstrip(".").split(".", 1)[0]


@dataclass(frozen=True)
class Text:
    """The text of one file. ``code`` has its comments blanked; both have the same lines, which count from 1."""

    path: str
    raw: str

    @cached_property
    def code(self) -> str:
        return without_comments(self.raw, LANGUAGES.get(ending(self.path), "plain"))

    @cached_property
    def bare(self) -> str:
        """The code with its strings blanked as well: what is left is the program itself."""
        return without_strings(self.code, LANGUAGES.get(ending(self.path), "plain"))

    @cached_property
    def acting(self) -> str:
        """The code without what it only says: strings of several words, and the text between tags."""
        family = LANGUAGES.get(ending(self.path), "plain")
        code = without_strings(self.code, family, prose=True)
        if family == "markup" or ending(self.path) in {".tsx", ".jsx"}:
            code = _BETWEEN_TAGS.sub(lambda found: _NOT_LINE.sub(" ", found[0]), code)
        return code

    @property
    def derailed(self) -> bool:
        """Whether a string seems never to end: then what is a string cannot be told."""
        end = len(self.code.rstrip())
        return end > 0 and self.bare[end - 1 : end].isspace() and self.code[end - 1] not in "\"'`/"

    @cached_property
    def lowered(self) -> str:
        return self.code.lower()

    @cached_property
    def _starts(self) -> list[int]:
        return [0, *(found.end() for found in re.finditer("\n", self.raw))]

    def line_of(self, offset: int) -> int:
        """The line that a character of the file is in."""
        return bisect.bisect_right(self._starts, offset)

    def start_of(self, number: int) -> int:
        """The offset at which a line of the file begins."""
        return self._starts[number - 1]

    def line(self, number: int) -> str:
        """A line as written; ``""`` beyond the end."""
        if not 1 <= number <= len(self._starts):
            return ""
        start = self._starts[number - 1]
        end = self.raw.find("\n", start)
        return self.raw[start : end if end >= 0 else len(self.raw)]

    @property
    def lines(self) -> int:
        """How many lines have anything on them that is no comment."""
        return sum(1 for line in self.code.split("\n") if line and not line.isspace())

    @property
    def length(self) -> int:
        """How many lines the file has, as ``wc`` or an editor would say."""
        return len(self._starts) - (1 if self.raw.endswith("\n") or not self.raw else 0)


_WORD = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|[0-9]+|[^\W\d_A-Za-z]+")


def words(text: str) -> list[str]:
    """The words of prose or of identifiers, in lower case: ``resetPassword_v2`` → ``reset password v 2``."""
    return [found.lower() for found in _WORD.findall(text)]


# -- places and stubs ------------------------------------------------------------------------------------------------

_TEST_PATH = re.compile(
    r"(?:^|/)(?:tests?|__tests__|spec|specs|e2e|cypress)/|\.(?:test|spec|cy)\.\w+$|(?:^|/)test_[^/]*\.py$"
    r"|_test\.(?:py|go|rs|exs|dart)$|_spec\.rb$|(?:Test|Tests|Spec)\.(?:java|kt|cs|scala|swift|php)$"
)


def is_test(path: str) -> bool:
    """Whether the file is one of tests, by its name or place."""
    return bool(_TEST_PATH.search(path))


_ASIDE = re.compile(
    r"^(?:(?!app/|src/|pages/|lib/|server/|api/|routes/)[^/]+/){0,8}?(?:examples?|samples?|demos?|docs?|documentation|playground"
    r"|benchmarks?|stories|\.storybook|third[_-]party|vendored)/"
    r"|(?:^|/)(?:fixtures?|__fixtures__|__mocks__|mocks|testdata|test-data|node_modules|vendor)/"
    r"|\.(?:stories|min|d|mock)\.\w+$"
)


def is_aside(path: str) -> bool:
    """Whether the file is none of the product itself: an example, a mock, a fixture, a copy of another's code."""
    return bool(_ASIDE.search(path))


_MARKED = re.compile(r"\b(?:TODO|FIXME|XXX|HACK|PLACEHOLDER)\b|\bnot implemented\b|\bcoming soon\b", re.IGNORECASE)
_LOUD = re.compile(r"\b(?:TODO|FIXME|XXX|HACK|PLACEHOLDER)\b|(?i:\bnot implemented\b|\bcoming soon\b)")
_EMPTY_RETURN = re.compile(r"^\s*return\s+(?:null|undefined|None|nil|\{\s*\}|\[\s*\])\s*;?\s*$")
_UNDONE = re.compile(
    r"\braise NotImplementedError\b|\b(?:todo|unimplemented)!\s*\("
    r"|\bthrow new (?:NotImplemented\w*|UnsupportedOperation\w*)\b"
)
_NOTHING = re.compile(r"^\s*(?:pass|\.\.\.)\s*$")
_BODY = re.compile(r"[A-Za-z0-9]")


@dataclass(frozen=True, slots=True)
class Stub:
    """A line that says something is not done. ``grave``: it alone makes a file not substantive."""

    line: int
    what: str
    grave: bool


def stubs(text: Text) -> list[Stub]:
    """Where a file says or shows that something of it is missing (A1), at most 20.

    Grave are ``raise NotImplementedError``, ``todo!()`` and the words "not implemented" or "coming soon" in code. A
    ``TODO`` in a comment, an empty return, ``pass`` or ``...`` is only told: real code has them as well.
    """
    found: list[Stub] = []
    code = text.code.split("\n")
    for number, line in enumerate(text.raw.split("\n"), 1):
        bare = code[number - 1][:2000]
        loud = _LOUD.search(line[:2000])
        if _UNDONE.search(bare):
            found.append(Stub(number, "not implemented", True))
        elif loud:
            grave = loud[0].lower() in {"not implemented", "coming soon"} and bool(_MARKED.search(bare))
            found.append(Stub(number, loud[0], grave))
        elif _EMPTY_RETURN.match(bare):
            found.append(Stub(number, "empty return", False))
        elif _NOTHING.match(bare):
            found.append(Stub(number, bare.strip(), False))
        if len(found) == 20:
            break
    return found


Kind = Literal["component", "route", "hook", "schema", "other"]
LEAST: dict[Kind, int] = {"component": 15, "route": 10, "hook": 10, "schema": 5, "other": 1}
"""The fewest lines of a substantive file, by kind (A1)."""


def kind_of(path: str, type_: str = "") -> Kind:
    """What kind of file a path names, for the fewest lines it must have; ``type_`` is the code graph's word."""
    low = path.lower()
    name = low.rpartition("/")[2]
    if "schema" in name or "migration" in low or ending(path) in {".prisma", ".sql", ".graphql", ".proto"}:
        return "schema"
    if (
        type_ == "api"
        or re.search(r"(?:^|/)(?:api|routes|routers|endpoints)/", low)
        or name.startswith(("route.", "+server."))
    ):
        return "route" if ending(path) not in {".svelte", ".vue", ".tsx", ".jsx"} else "component"
    if type_ == "component" or ending(path) in {".tsx", ".jsx", ".svelte", ".vue"}:
        return "component"
    if (
        type_ in {"hook", "util"}
        or re.match(r"use[A-Z]", path.rpartition("/")[2])
        or re.search(r"(?:^|/)(?:hooks|utils?)/", low)
    ):
        return "hook"
    return "other"


# -- what a file defines --------------------------------------------------------------------------------------------

_DEFINED = re.compile(
    r"(?m)^(?P<in>[ \t]{0,40})(?:(?:export|default|declare|abstract|public|private|protected|internal|static|final"
    r"|async|pub"
    r"|pub\([a-z]{1,10}\)|unsafe|data|sealed|open|override|inline|local)\s{1,4}){0,5}"
    r"(?:(?:function\*?|class|interface|type|enum|const\s{1,4}enum|const|let|var|def|fn|func|fun|struct|trait|mod|module|object|record|val"
    r"|protocol|model|defmodule)\s{1,4})(?:\([^)\n]{1,80}\)\s{0,4})?(?:self\.)?(?P<name>[A-Za-z_$][\w$]{0,120})"
)
_ASSIGNED = re.compile(r"(?m)^(?P<in>)(?P<name>[A-Za-z_]\w{0,120})\s{0,8}(?::[^=\n]{1,80})?=[^=]")
_EXPORT_LIST = re.compile(
    r"\bexport\s{0,4}(?:type\s{1,4})?\{([^}]{0,2000}+)\}|\bmodule\.exports\s{0,4}=\s{0,4}\{([^}]{0,2000}+)\}"
    r"|\bexport\s{1,4}(?:const|let|var)\s{0,4}\{([^}]{0,2000}+)\}"
)
_EXPORT_NAME = re.compile(
    r"\b(?:module\.)?exports\.(\w{1,120})\s{0,4}=|\bmodule\.exports\s{0,4}=\s{0,4}(?:new\s)?(\w{1,120})"
)
_EXPORTED = re.compile(
    r"\bexport\s{1,4}(?:(?:default|async|abstract|declare)\s{1,4}){0,3}(?:function\s{0,4}\*?|class|const\s{1,4}enum|const|let|var|type|interface|enum"
    r"|namespace|module)\s{1,4}([A-Za-z_$][\w$]{0,120})"
)
_EXPORT_ALL = re.compile(
    r"\bexport\s{0,4}\*|\bmodule\.exports\s{0,4}=\s{0,4}(?:require|Object|\{\s{0,8}\.\.\.)|\bexport\s{0,4}="
)
_DEFAULT = re.compile(r"\bexport\s{1,4}default\b|\bmodule\.exports\s{0,4}=|\bas\s{1,4}default\b")


def definitions(text: Text) -> dict[str, int]:
    """The names a file defines or exports, each with its first line; ``default`` for a default export."""
    found: dict[str, int] = {}
    patterns = [_DEFINED, *([_ASSIGNED] if ending(text.path) in {".py", ".pyi", ".rb"} else [])]
    for pattern in patterns:
        for one in pattern.finditer(text.code):
            if not text.bare[one.start("name")].isspace():
                found.setdefault(one["name"], text.line_of(one.start("name")))
    if ending(text.path) in SCRIPTS:
        for name, line in _exported(text):
            found.setdefault(name, line)
    return found


def _exported(text: Text) -> Iterator[tuple[str, int]]:
    for listed in _EXPORT_LIST.finditer(text.code):
        line = text.line_of(listed.start())
        for part in (listed[1] or listed[2] or listed[3] or "").split(","):
            name = part.replace(":", " ").split()
            if name and not text.bare[listed.start()].isspace():
                yield (name[0] if listed[2] else name[-1]).strip("\"'"), line
    for single in [*_EXPORT_NAME.finditer(text.code), *_EXPORTED.finditer(text.code)]:
        if not text.bare[single.start()].isspace():
            yield single[1] or single[2], text.line_of(single.start())
    default = _DEFAULT.search(text.code)
    if default and not text.bare[default.start()].isspace():
        yield "default", text.line_of(default.start())


def exported(text: Text) -> dict[str, int]:
    """The names that the exports of a script name, with their lines; there may be more by other ways."""
    found: dict[str, int] = {}
    for name, line in _exported(text):
        found.setdefault(name, line)
    return found


def exports(text: Text) -> dict[str, int] | None:
    """The names that other files can import, with their lines; None where that cannot be told from this file alone.

    In JavaScript and TypeScript what ``export`` or ``module.exports`` names (None for ``export *``, for a file
    without either, for components of Svelte, Vue and Astro); in other languages every definition.
    """
    if ending(text.path) not in SCRIPTS:
        return definitions(text)
    found = exported(text)
    told = found and not _EXPORT_ALL.search(text.bare) and ending(text.path) not in {".svelte", ".vue", ".astro"}
    return found if told else None


def has_word(code: str, name: str) -> int:
    """The offset where a name stands as a whole word in code; -1: nowhere."""
    at = code.find(name)
    while at >= 0:
        before = code[at - 1] if at else " "
        after = code[at + len(name) : at + len(name) + 1] or " "
        if not (before.isalnum() or before in "_$") and not (after.isalnum() or after in "_$"):
            return at
        at = code.find(name, at + 1)
    return -1
