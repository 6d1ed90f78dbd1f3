"""Which names a sentence says that a file exports or defines: ``src/auth.py exports login``. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass

from orchestrator.gsd.evidence import naming
from orchestrator.gsd.sources.code import LANGUAGES, ending

_SAYS = re.compile(r"(?i)\b(?P<out>export(?:s|ed|ing)?)\b|\b(?:define[sd]?|defining|declare[sd]?|declaring)\b")
_KIND = re.compile(
    r"(?i)(?:async|function|class|method|hook|component|constant|variable|type|interface|enum|struct|trait|symbol"
    r"|name|decorator|middleware|handler|model|const|def|fn|func)(?:s|es)?"
)
_GRAMMAR = frozenset({
    "a", "an", "the", "and", "as", "both", "must", "should", "shall", "will", "is", "are", "be", "been", "named",
    "called", "default", "by", "from", "in", "of", "file", "module", "it", "its", "also", "at", "least",
    "has", "have", "contains", "contain", "there", "exist", "exists",
})  # fmt: skip
_WORD = re.compile(r"[`\"'](?P<quoted>[A-Za-z_$][\w$]{0,120})(?:\(\))?[`\"']|(?P<word>[A-Za-z_$][\w$]*)(?P<call>\()?")
_CODE = re.compile(r"[^_].*_.*[^_]|.*[a-z\d][A-Z]")
_NOT = re.compile(r"(?i)\b(?:not|no longer|never|without|neither|nor|cannot|remov\w*|instead)\b|n't\b")
_AGAIN = re.compile(r"(?i)\bre-?export")
_BRACKETS = re.compile(r"\([^()]{0,200}\)")


@dataclass(frozen=True)
class Demand:
    """Names that a file must have; none where it says that there are some, and not plainly which.

    ``sure``: the names that are certainly meant as such; ``exported``: other files are to be able to import them;
    ``whole``: the sentence says nothing else; ``denied``: it may say that they are not there.
    """

    path: str
    names: tuple[str, ...]
    sure: frozenset[str]
    exported: bool
    whole: bool
    denied: bool


def demanded(text: str, *, implied: bool = False) -> Demand | None:
    """What a sentence demands of the one source file that it names; None where it demands no name of a file.

    It says so by a word (exports, defines, declares), or with a kind of thing beside a name that is one of code
    (``the function refresh_token in src/auth.py``). ``implied``: every other word may be a name.
    """
    apart = _AGAIN.sub("export", naming.apart(text))
    paths = [path for path in naming.paths_in(apart) if ending(path) in LANGUAGES]
    if not paths:
        return None
    rest = apart
    for path in sorted(paths, key=len, reverse=True):
        rest = rest.replace(path, "\0")
    says = _SAYS.search(rest)
    exported = implied or bool(says and says["out"])
    denied = bool(_NOT.search(rest))
    plain = bool(says) or implied or naming.apart(text) != text
    if not plain and not re.search(rf"\b{_KIND.pattern.removeprefix('(?i)')}\b", rest, re.IGNORECASE):
        return None
    names, sure, whole = _names(rest)
    if not plain:
        names = [name for name in names if name in sure]
        if not names:
            return None
    if len(paths) > 1:
        names, whole = [], False
    return Demand(paths[0], tuple(names), frozenset(sure), exported, whole and bool(names) and not denied, denied)


def _names(rest: str) -> tuple[list[str], set[str], bool]:
    """The names of a sentence without its path, those that are certainly names, and whether it says nothing else.

    Between commas and "and" stands one name, or a sentence: of one only what is certainly a name counts.
    """
    names: list[str] = []
    sure: set[str] = set()
    whole = True
    for part in re.split(r",|;|&|\band\b", _BRACKETS.sub("()", rest)):
        left: list[str] = []
        for one in _WORD.finditer(part):
            name = one["quoted"] or one["word"] or ""
            if one["quoted"] or one["call"] or _CODE.match(name):
                sure.add(name)
            elif name.lower() in _GRAMMAR or _KIND.fullmatch(name) or _SAYS.fullmatch(name):
                continue
            left.append(name)
        certain = [name for name in left if name in sure]
        names += left if len(left) == 1 else certain
        whole = whole and len(left) <= max(1, len(certain))
    return list(dict.fromkeys(names)), sure, whole
