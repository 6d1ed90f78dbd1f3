"""Parse and evaluate the inside of a template tag: tokens, and conditions with JavaScript semantics. Pure.

Knows a source text and offsets in it, but no quoting, no commands and no meaning of the names.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Callable, Mapping
from typing import NamedTuple

from orchestrator.base.errors import BadRequest

MAX_DEPTH = 50
"""How deep conditions, and the blocks they guard, may be nested."""

_RESERVED = """
    await break case catch class const continue debugger default delete do else enum export extends false finally for
    function if import in instanceof let new null return static super switch this throw true try typeof undefined var
    void while with yield
"""
RESERVED = frozenset(_RESERVED.split())
"""What JavaScript would not take as a variable's name, or only to say that it has no value."""

_TOKEN = re.compile(
    r"""(?P<name>[A-Za-z_$][A-Za-z0-9_$]*)
    | (?P<string>'(?:[^'\\\n]|\\['"\\])*'|"(?:[^"\\\n]|\\['"\\])*")
    | (?P<sign>===|!==|&&|\|\||[!(){}])""",
    re.VERBOSE,
)


class Undefined(enum.Enum):
    """The value of a name that has none; equal to itself only."""

    VALUE = "undefined"


Value = str | bool | Undefined | None  # None is null
Condition = Callable[[Mapping[str, str]], Value]
_OPEN = "this ( is not closed"
_CONSTANTS: dict[str, Value] = {"undefined": Undefined.VALUE, "null": None, "true": True, "false": False}


class TemplateSource(NamedTuple):
    """A template's text and what its file is called in errors."""

    text: str
    where: str

    def refuse(self, offset: int, why: str, next_step: str = "") -> BadRequest:
        """The error for the text at ``offset``; it names file, line and column, both from 1."""
        line = self.text.count("\n", 0, offset) + 1
        column = offset - (self.text.rfind("\n", 0, offset) + 1) + 1
        return BadRequest(
            "bad_template",
            f"{self.where}, line {line}, column {column}: {why}",
            next_step,
            file=self.where,
            line=line,
            column=column,
        )


class TemplateToken(NamedTuple):
    """One word of a tag; ``kind`` is ``name``, ``string``, ``sign``, or ``end`` after the last."""

    kind: str
    text: str
    offset: int


def tokens(source: TemplateSource, start: int, end: int) -> list[TemplateToken]:
    """The words between two offsets, and one of kind ``end``; anything else is refused."""
    words: list[TemplateToken] = []
    text = source.text
    while True:
        while start < end and text[start].isspace():
            start += 1
        if start >= end:
            return [*words, TemplateToken("end", "", end)]
        match = _TOKEN.match(text, start, end)
        if match is None:
            raise source.refuse(start, _unknown(text[start]))
        words.append(TemplateToken(str(match.lastgroup), match[str(match.lastgroup)], start))
        start = match.end()


def condition(source: TemplateSource, words: list[TemplateToken], names: set[str]) -> Condition:
    """What ``words`` say, as a function of the values; all of them must be one expression. Adds to ``names``."""
    parser = _Parser(source, words, names)
    expression = parser.either()
    if parser.word.kind != "end":
        raise parser.unexpected()
    return expression


def truthy(value: Value) -> bool:
    """Whether an ``if`` takes its first branch."""
    return value is True or (isinstance(value, str) and value != "")


def _unknown(sign: str) -> str:
    if sign in "'\"":
        return "a string here does not end on its line, or escapes more than quotes and backslashes"
    return f"{sign!r} is not known here: names, strings, !, &&, ||, ===, !==, typeof and parentheses are"


def _typeof(value: Value) -> str:
    if isinstance(value, str):
        return "string"
    if isinstance(value, bool):
        return "boolean"
    return "object" if value is None else "undefined"


def _same(left: Value, right: Value) -> bool:
    return type(left) is type(right) and left == right


class _Parser:
    """Recursive descent, its depth bounded; chains of one operator are loops, here and when they are evaluated."""

    def __init__(self, source: TemplateSource, words: list[TemplateToken], names: set[str]) -> None:
        self.source = source
        self.words = words
        self.names = names
        self.at = 0
        self.depth = 0

    @property
    def word(self) -> TemplateToken:
        return self.words[self.at]

    def unexpected(self) -> BadRequest:
        what = repr(self.word.text) if self.word.text else "the end of the tag"
        return self.source.refuse(self.word.offset, f"{what} does not fit here")

    def take(self, *signs: str) -> str:
        """Skip one of ``signs`` and return it; "" if none is here."""
        if self.word.kind == "sign" and self.word.text in signs:
            self.at += 1
            return self.words[self.at - 1].text
        return ""

    def either(self) -> Condition:
        terms = [self.both()]
        while self.take("||"):
            terms.append(self.both())
        return terms[0] if len(terms) == 1 else _first(terms, wanted=True)

    def both(self) -> Condition:
        terms = [self.equal()]
        while self.take("&&"):
            terms.append(self.equal())
        return terms[0] if len(terms) == 1 else _first(terms, wanted=False)

    def equal(self) -> Condition:
        left = self.unary()
        rest: list[tuple[bool, Condition]] = []
        while sign := self.take("===", "!=="):
            rest.append((sign == "===", self.unary()))
        return _compared(left, rest) if rest else left

    def unary(self) -> Condition:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise self.source.refuse(self.word.offset, f"the condition is nested more than {MAX_DEPTH} deep")
        operand = self.operand()
        self.depth -= 1
        return operand

    def operand(self) -> Condition:
        if self.take("!"):
            inner = self.unary()
            return lambda values: not truthy(inner(values))
        word = self.word
        if self.take("("):
            inner = self.either()
            if not self.take(")"):
                raise self.unexpected() if self.word.kind != "end" else self.source.refuse(word.offset, _OPEN)
            return inner
        if word.kind == "string":
            self.at += 1
            text = re.sub(r"\\(.)", r"\1", word.text[1:-1])
            return lambda _values: text
        if word.kind != "name":
            raise self.unexpected()
        if word.text == "typeof":
            self.at += 1
            inner = self.unary()
            return lambda values: _typeof(inner(values))
        if word.text in _CONSTANTS:
            self.at += 1
            constant = _CONSTANTS[word.text]
            return lambda _values: constant
        if word.text in RESERVED:
            raise self.unexpected()
        self.at += 1
        self.names.add(word.text)
        return lambda values: values.get(word.text, Undefined.VALUE)


def _first(terms: list[Condition], *, wanted: bool) -> Condition:
    """``||`` and ``&&``: the first value that decides, else the last; a value, as in JavaScript, not a boolean."""

    def decide(values: Mapping[str, str]) -> Value:
        value: Value = None
        for term in terms:
            value = term(values)
            if truthy(value) is wanted:
                break
        return value

    return decide


def _compared(left: Condition, rest: list[tuple[bool, Condition]]) -> Condition:
    """``a === b !== c``: from the left, each result compared with the next."""

    def compare(values: Mapping[str, str]) -> Value:
        value = left(values)
        for same, right in rest:
            value = _same(value, right(values)) is same
        return value

    return compare
