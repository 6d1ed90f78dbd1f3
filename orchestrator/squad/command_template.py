"""The command template language: parse a template once, then render the words of a command for any values. Pure.

Handles tags, blocks and the leading lines; `template_expressions` handles conditions, `shell_words` splits words.
Starts nothing and reads no file.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from orchestrator.squad.shell_words import Piece, WordScan
from orchestrator.squad.template_expressions import (
    MAX_DEPTH,
    RESERVED,
    Condition,
    TemplateSource,
    TemplateToken,
    condition,
    tokens,
    truthy,
)

MAX_BYTES = 65_536

_DIRECTIVE = re.compile(r"#[ \t]*(stdin|shell)[ \t]*:[ \t]*(.*?)[ \t]*", re.IGNORECASE)
_ALLOWED = {"stdin": "prompt", "shell": "true"}
# NUL ends an argument for the kernel, and a lone surrogate has no bytes: neither could be passed on.
_UNUSABLE = re.compile("[\0\ud800-\udfff]")
# The templates of Gs Squad 1.5.0 knew no leading line and were all run by a shell: of their pipes this is the form.
_JQ_TAIL = re.compile(r"\\\n[ \t]*\| jq -rc '((?!<%|%>)[^'])*'[ \t\n]*\Z")


class _Slot(NamedTuple):
    """The place of a value, and the quotes around it."""

    name: str
    quote: str


@dataclass
class _TemplateBlock:
    """An ``if``: two lists of nodes, of which one is taken."""

    offset: int
    asks: Condition
    quote: str
    then: list[_Node] = field(default_factory=list)
    other: list[_Node] | None = None


_Node = Piece | _Slot | _TemplateBlock


@dataclass(frozen=True)
class Template:
    """A template that can be used: what would be wrong with it has been refused when it was loaded.

    ``stdin``: the prompt goes to the command's standard input. ``shell``: it is a script (`script`), else it is one
    command (`words`). ``names``: every name it uses, known or not; one without a value is undefined, which is false
    in a condition and empty as a value.
    """

    where: str
    stdin: bool
    shell: bool
    names: frozenset[str]
    _nodes: Sequence[_Node] = field(repr=False)

    def words(self, values: Mapping[str, str]) -> list[str]:
        """The words of the command, each value whole and unchanged inside one of them.

        A word in which an unquoted value is empty is left out. Never of a template with ``shell``.
        """
        assert not self.shell
        words: list[str] = []
        word: list[str] | None = None
        dropped = False
        for node in (*_taken(self._nodes, values), Piece("gap", "")):
            if isinstance(node, _Slot):
                value = values.get(node.name, "")
                dropped = dropped or not (value or node.quote)
                word = word or []
                word.append(value)
            elif node.kind != "gap":
                word = word or []
                word.append(node.text if node.kind == "text" else "")
            elif word is not None:
                if not dropped:
                    words.append("".join(word))
                word, dropped = None, False
        return words

    def script(self, values: Mapping[str, str]) -> str:
        """The script, with each value quoted so that a shell reads it as the one string it is.

        An unquoted empty value drops its word here too, words being what blanks and operators part. Only of a
        template with ``shell``.
        """
        assert self.shell
        parts: list[str] = []
        begin = 0
        dropped = False
        for node in (*_taken(self._nodes, values), Piece("gap", "")):
            if isinstance(node, _Slot):
                value = values.get(node.name, "")
                dropped = dropped or not (value or node.quote)
                parts.append(node.quote + _single_quoted(value) + node.quote)
            elif node.kind != "gap":
                parts.append(node.text)
            else:
                if dropped:
                    del parts[begin:]
                parts.append(node.text)
                begin, dropped = len(parts), False
        return "".join(parts)


def load(text: str, *, where: str) -> Template:
    """The template that ``text`` is; ``where`` is what errors call its file.

    Raises BadRequest ``bad_template`` with line and column for all that is not in the language.
    """
    source = TemplateSource(text.removeprefix("\ufeff").replace("\r\n", "\n"), where)
    if len(source.text.encode(errors="surrogatepass")) > MAX_BYTES:
        raise source.refuse(0, f"it is longer than {MAX_BYTES} bytes", "make it shorter; a script may be a file")
    if bad := _UNUSABLE.search(source.text):
        raise source.refuse(bad.start(), "a NUL or half a character pair cannot be part of a command")
    directives, body = _leading_lines(source)
    shell = "shell" in directives
    if not shell and (tail := _JQ_TAIL.search(source.text, body)):
        # All before the pipe must be a command that would need no shell.
        _Loading(source, body, tail.start(), shell=False).whole()
        shell = True
    loading = _Loading(source, body, len(source.text), shell=shell)
    nodes = loading.whole()
    return Template(where, "stdin" in directives, shell, frozenset(loading.names), nodes)


def _single_quoted(value: str) -> str:
    # Always quoted, unlike shlex.quote: a bare word could be a keyword, or the number of a redirection.
    return "'" + value.replace("'", "'\\''") + "'"


def _taken(nodes: Sequence[_Node], values: Mapping[str, str]) -> Iterator[Piece | _Slot]:
    for node in nodes:
        if isinstance(node, _TemplateBlock):
            yield from _taken(node.then if truthy(node.asks(values)) else node.other or (), values)
        else:
            yield node


def _leading_lines(source: TemplateSource) -> tuple[set[str], int]:
    """The directives at the top, and where the text begins after them, comments and empty lines."""
    directives: set[str] = set()
    at = 0
    while at < len(source.text):
        end = source.text.find("\n", at)
        end = end if end >= 0 else len(source.text)
        line = source.text[at:end]
        if line.strip(" \t") and not line.startswith("#"):
            break
        if match := _DIRECTIVE.fullmatch(line):
            word = match[1].lower()
            if match[2] != _ALLOWED[word]:
                raise source.refuse(at + match.start(2), f"the only form of this line is: # {word}: {_ALLOWED[word]}")
            directives.add(word)
        at = min(end + 1, len(source.text))
    return directives, at


class _Loading:
    """One pass over the text, tag by tag; open blocks are on a stack.

    Both branches of a block must end in the quotes that they began in. So the quotes at each place do not depend on
    the branches that are taken, and one pass is enough.
    """

    def __init__(self, source: TemplateSource, start: int, end: int, *, shell: bool) -> None:
        self.source = source
        self.start = start
        self.end = end
        self.scan = WordScan(source, shell=shell)
        self.names: set[str] = set()
        self.nodes: list[_Node] = []
        self.open: list[_TemplateBlock] = []

    def whole(self) -> list[_Node]:
        at = self.start
        while (tag := self.source.text.find("<%", at, self.end)) >= 0:
            self.read(at, tag, last=False)
            at = self.tag(tag)
        self.read(at, self.end, last=True)
        if self.open:
            raise self.source.refuse(self.open[-1].offset, "this if is not closed", "close it with: <% } %>")
        if self.scan.quote:
            raise self.source.refuse(self.scan.opened, f"this {self.scan.quote} is not closed")
        return self.nodes

    @property
    def here(self) -> list[_Node]:
        """Where the next node belongs."""
        if not self.open:
            return self.nodes
        block = self.open[-1]
        return block.then if block.other is None else block.other

    def read(self, start: int, end: int, *, last: bool) -> None:
        if (stray := self.source.text.find("%>", start, end)) >= 0:
            raise self.source.refuse(stray, "this %> has no <%")
        self.here.extend(self.scan.read(start, end, first=start == self.start, last=last))

    def tag(self, start: int) -> int:
        """Read the tag at ``start``; returns where it ends."""
        stop = self.source.text.find("%>", start + 2, self.end)
        if stop < 0:
            raise self.source.refuse(start, "this <% has no %>")
        shows = self.source.text[start + 2] in "=-"
        words = tokens(self.source, start + (3 if shows else 2), stop)
        signs = [word.text for word in words[:-1]]
        if shows:
            self.value(start, words)
        elif signs[:1] == ["if"]:
            self.begin(start, words)
        elif signs == ["}", "else", "{"]:
            self.otherwise(start)
        elif signs == ["}"]:
            self.finish(start)
        else:
            raise self.source.refuse(start, "a tag is <%= name %>, <% if (…) { %>, <% } else { %> or <% } %>")
        return stop + 2

    def value(self, start: int, words: list[TemplateToken]) -> None:
        if len(words) != 2 or words[0].kind != "name" or words[0].text in RESERVED:
            raise self.source.refuse(start, "a value's tag takes one name")
        self.names.add(words[0].text)
        self.here.append(_Slot(words[0].text, self.scan.quote))

    def begin(self, start: int, words: list[TemplateToken]) -> None:
        ends = [word.text for word in words[-3:-1]]
        if len(words) < 5 or words[1].text != "(" or ends != [")", "{"]:
            raise self.source.refuse(start, "this if is not of the form <% if (…) { %>")
        asks = condition(self.source, [*words[2:-3], TemplateToken("end", ")", words[-3].offset)], self.names)
        if len(self.open) >= MAX_DEPTH:
            raise self.source.refuse(start, f"blocks are nested more than {MAX_DEPTH} deep")
        block = _TemplateBlock(start, asks, self.scan.quote)
        self.here.append(block)
        self.open.append(block)

    def otherwise(self, start: int) -> None:
        if not self.open or self.open[-1].other is not None:
            raise self.source.refuse(start, "this else has no if")
        self.same_quotes(self.open[-1])
        self.open[-1].other = []

    def finish(self, start: int) -> None:
        if not self.open:
            raise self.source.refuse(start, "this } closes nothing")
        self.same_quotes(self.open[-1])
        self.open.pop()

    def same_quotes(self, block: _TemplateBlock) -> None:
        if self.scan.quote != block.quote:
            raise self.source.refuse(
                block.offset,
                f"a branch of this if opens or closes a {self.scan.quote or block.quote} that it leaves so",
                "let each branch close the quotes it opens",
            )
