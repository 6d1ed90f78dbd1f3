"""What a query asks for: the words of it that are looked for in paths, purposes and exports. Pure."""

from __future__ import annotations

import re
from unicodedata import normalize

from orchestrator.gsd.graph.slugs import extension

MAX_QUERY = 4_000
MAX_WORDS = 12
_WORD = re.compile(r"\w+")
_PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_EDGES = "\"'`.,;:!?()[]{}<>*"
STOP = frozenset(
    """
    a about add adding all also an and any anything are as at be before being belong belongs between but by can
    change changes changing code could did do does doing done each every everything file files find finds for from
    get gets give go had has have having here how i if implement implemented implementing implements in into is it
    its let like list look looking make makes me more most must my need needed needs no not of off on one only or
    other our out over please related responsible should show shows so some something tell than that the their them
    then there these they thing things this those through to too under us use used uses using want was way we were
    what when where whether which who whose why will with within without work works would you your
    """.split()  # noqa: SIM905  (one word after another reads better than so many quotes)
)
"""Words of a question that name nothing."""


def fold(text: str) -> str:
    """The text as it is compared: composed, lower-cased."""
    return text.lower() if text.isascii() else normalize("NFC", text).lower()


def singular(word: str) -> str:
    """The word without the ending of an English plural; the word itself where it has none that is plain."""
    if not word.isascii() or not word.isalpha() or len(word) < 5 or word.endswith(("ss", "us", "is")):
        return word
    if word.endswith("ies"):
        return f"{word[:-3]}y"
    if word.endswith(("sses", "xes", "ches", "shes")):
        return word[:-2]
    return word.removesuffix("s")


def keywords(query: str) -> list[str]:
    """The words to look for, at most twelve, lower-cased, in the query's order.

    A path or a name with a dot stays whole beside its last name; an identifier stays whole beside its parts
    (``getUser_id`` → ``getuser_id``, ``user``), so that who names it exactly ranks first. Stop words and single
    characters count only where there is nothing else.
    """
    whole: list[str] = []
    parts: list[str] = []
    if len(query) > MAX_QUERY:
        query = query[:MAX_QUERY].rpartition(" ")[0]
    for raw in normalize("NFC", query).split():
        token = raw.strip(_EDGES).replace("\\", "/").removeprefix("./").strip("/")
        if "/" in token or (extension(token) and _WORD.search(token)):
            whole.append(token.lower())
            token = token.rpartition("/")[2].partition(".")[0]
        for word in _WORD.findall(token):
            whole.append(word.lower())
            found = _PART.findall(word) if word.isascii() else []
            if len(found) > 1:
                parts += [part.lower() for part in found if len(part) > 2]
    every = list(dict.fromkeys([*whole, *parts]))
    good = [word for word in every if word not in STOP and (len(word) > 1 or not word.isascii())]
    return (good or every)[:MAX_WORDS]
