"""Text of other programs as one line that a person may read: secrets masked, invisible characters shown. Pure.

A mask errs on the safe side: a word that only looks like a secret is masked too. Each pattern begins where a word
does and has a bound, so that none takes longer than the text is long.
"""

from __future__ import annotations

import re

MASK = "…"
READ_CHARS = 3000
"""Of a longer text the rest is not read."""

_TOKENS = re.compile(
    r"""(?x)
    (?<![A-Za-z0-9])(?:
        (?:sk|pk|rk)[-_][A-Za-z0-9_-]{8,512}
      | gh[pousr]_[A-Za-z0-9]{20,512} | github_pat_[A-Za-z0-9_]{20,512} | gl[a-z]{2,6}-[A-Za-z0-9_-]{20,512}
      | (?:AKIA|ASIA)[0-9A-Z]{16}(?![0-9A-Z])
      | AIza[0-9A-Za-z_-]{35} | ya29\.[0-9A-Za-z_-]{20,512} | SG\.[\w-]{16,64}\.[\w-]{16,64}
      | (?:hf|npm|dop_v1|shpat|whsec|pypi)[_-][A-Za-z0-9_-]{20,512} | xox[abeoprs]-[A-Za-z0-9-]{10,512}
    )
  | (?<![A-Za-z0-9_-])eyJ[A-Za-z0-9_-]{10,4096}\.[A-Za-z0-9_-]{10,8192}(?:\.[A-Za-z0-9_-]{0,4096})?
  | -----BEGIN\ [A-Z ]{0,40}PRIVATE\ KEY-----(?:(?!-----BEGIN)[\s\S]){0,16384}?
      (?:-----END\ [A-Z ]{0,40}PRIVATE\ KEY-----|(?=-----BEGIN)|\Z)
    """
)
# The value of a header ends with the quotation mark around the header, or with the line.
_HEADER = re.compile(
    r"(?i)(?<![A-Za-z0-9])((?:proxy-)?authorization|(?:set-)?cookie|[a-z0-9]{1,32}-[a-z0-9-]{0,32}(?:key|token|secret))"
    r"(\s{0,4}:\s{0,4})(?:(bearer|basic|digest|token)\s{1,8})?(?!\s)[^\"'\n]{2,4096}"
)
_SCHEME = re.compile(
    r"(?i)(?<![a-z0-9])(bearer|basic)(\s{1,8})(?=[^\s\"']{0,512}\d|[^\s\"']{20})[a-z0-9._~+/=-]{8,4096}"
)
_IN_URL = re.compile(r"(?<=://)(?:([^\s/:@\"']{0,256}):[^\s/@\"']{1,512}|[^\s/:@\"']{16,512})(?=@)")
_USER = re.compile(r"(?<!\S)((?:-u|--user|--proxy-user)[ =]{1,4}[\"']?[^\s:\"']{1,128}:)[^\s\"']{1,512}")
_WORDS = (
    r"passphrase|password|passwd|passcode|pwd|secret|token|api[_-]?key|access[_-]?key|private[_-]?key"
    r"|encryption[_-]?key|signing[_-]?key|account[_-]?key|credentials?|client[_-]?secret|auth[_-]?key"
)
_WORD = rf"(?i:{_WORDS})"
# Looked for in the case-folded text before a pattern that needs one of them: ten times as fast as the pattern.
_ANY_WORD = re.compile(_WORDS)
_VALUE = r"(?:\\?\"[^\"\n]{1,4096}\"?|'[^'\n]{1,4096}'?|\$\{\w{1,64}\}|[^\s\"'`;&|<>(){},]{1,4096})"
# `NAME=value`, `"name": "value"`, `--name value`; not `tokens: 5`, `tokenizer=x`, `pwd` or `cat token.txt`.
# The word is looked for before what precedes it: a text without one costs little.
_NAMED = re.compile(
    rf"(?={_WORD})(?<![A-Za-z0-9]{{65}})({_WORD}(?![a-z])[A-Za-z0-9_]{{0,32}}\\?[\"']?\s{{0,4}}(?:=>|:=|[=:])\s{{0,4}})({_VALUE})"
    rf"|(?<!\S)(--?[A-Za-z0-9-]{{0,64}}{_WORD}\s{{1,4}}(?![-=:]))({_VALUE})"
)
_ATTACHED = re.compile(
    r"(\b(?:mysql|mysqldump|mysqladmin|mariadb|sshpass)\b[^|;&\n]{0,256}?\s-p\s?)[^\s\"'-][^\s]{0,512}"
)
_SPOKEN = re.compile(
    rf"({_WORD}s?\s{{1,4}}(?:is\s{{1,4}})?[\"']?)(?=[A-Za-z0-9+/=_-]{{0,512}}\d)[A-Za-z0-9+/=_-]{{20,4096}}"
)
_VARIABLE = re.compile(r"\\?\"?\$(?:[A-Za-z_]\w*|\{[A-Za-z_]\w*\})\\?\"?\Z")


def without_tokens(text: str, mark: str = MASK) -> str:
    """The text with ``mark`` in place of secrets known by their form: keys, bearer tokens, passwords in URLs."""
    text = _TOKENS.sub(mark, text)
    text = _SCHEME.sub(lambda match: f"{match[1]}{match[2]}{mark}", text)
    return _IN_URL.sub(lambda match: mark if match[1] is None else f"{match[1]}:{mark}", text)


def masked(text: str) -> str:
    """The text with `…` in place of what looks like a secret: keys, tokens, passwords, what a secret's name is given.

    A variable's name (`"$TOKEN"`) is no secret.
    """
    text = _HEADER.sub(lambda match: f"{match[1]}{match[2]}{f'{match[3]} ' if match[3] else ''}{MASK}", text)
    text = without_tokens(text)
    text = _USER.sub(_first, text)
    has_word = _ANY_WORD.search(text.casefold()) is not None
    if has_word:
        text = _NAMED.sub(_given, text)
    text = _ATTACHED.sub(_first, text)
    return _SPOKEN.sub(_first, text) if has_word else text


def _first(match: re.Match[str]) -> str:
    return match[1] + MASK


def _given(match: re.Match[str]) -> str:
    name, value = match[1] or match[3], match[2] or match[4]
    if _VARIABLE.match(value):
        return match[0]
    quoted = re.match(r"\\?[\"']", value)
    if quoted is None:
        return name + MASK
    return name + quoted[0] + MASK + (quoted[0] if len(value) > 2 and value.endswith(quoted[0]) else "")


def shown_text(text: str) -> str:
    """The whole text for a human's decision: secrets masked, invisible characters as escapes, line breaks kept."""
    return "\n".join("".join(map(_visible, line)) for line in masked(text).split("\n"))


def one_line(text: str, limit: int) -> str:
    """The text as one masked line of at most ``limit`` characters; a longer one ends in `…`.

    Line breaks are shown as `⏎`, white space is collapsed, other invisible characters and those that change the
    direction of writing are shown as escapes.
    """
    if len(text) > READ_CHARS:
        # Half a secret is not known as one.
        text = text[:READ_CHARS].rpartition(" ")[0] or text[:READ_CHARS]
    lines = (" ".join(line.split()) for line in masked(text).splitlines())
    line = "".join(_visible(char) for char in " ⏎ ".join(filter(None, lines)))
    return line if len(line) <= limit else line[: limit - 1].rstrip() + MASK


def _visible(char: str) -> str:
    return char if char.isprintable() else char.encode("unicode_escape", "replace").decode("ascii")
