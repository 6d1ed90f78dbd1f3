"""Ranks texts for a question by BM25, and tells how alike two sentences are; both by SQLite's FTS5, in memory.

The question's words are given to FTS5 as quoted strings: operators and quotes in them are words like any other.
"""

from __future__ import annotations

import re
import sqlite3
import threading
from collections.abc import Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import lru_cache

from orchestrator.base.errors import Environment
from orchestrator.gsd.sources.code import words

NEAR = 0.8
"""Two sentences say the same if so much of their words is (`likeness`)."""

STOP = frozenset({
    "a", "an", "and", "are", "as", "at", "be", "been", "being", "by", "can", "could", "did", "do", "does",
    "for", "from", "had", "has", "have", "if", "into", "is", "it", "its", "may", "might", "must", "of", "on",
    "or", "our", "shall", "should", "so", "such", "than", "that", "the", "their", "them", "then", "there",
    "these", "they", "this", "those", "to", "via", "was", "we", "were", "when", "where", "which", "while",
    "who", "will", "with", "would", "you", "your",
})  # fmt: skip
_NEGATIONS = frozenset({
    "not", "no", "never", "cannot", "without", "none", "neither",
    "nor", "fail", "fails", "failed", "reject", "rejects", "rejected", "refuse", "refuses", "refused", "deny",
    "denies", "denied", "prevent", "prevents", "prevented", "disallow", "disallows", "forbid", "forbids",
    "forbidden", "missing", "unable", "invalid", "unauthenticated", "unauthorized", "disabled", "hidden",
})  # fmt: skip
# As they are left by `sentences`, which takes the apostrophes out.
_SHORT = frozenset(
    word.replace("'", "") for word in ("can't", "don't", "doesn't", "isn't", "won't", "aren't", "didn't")
)
_DOING = frozenset(
    [
        "add",
        "create",
        "implement",
        "build",
        "make",
        "update",
        "support",
        "introduce",
        "provide",
        "in",
        "out",
        "up",
        "off",
        "all",
        "any",
        "new",
    ]
)
"""Words that any goal may have: they find nothing."""
_QUERY_WORDS = 40
_TURNS = frozenset({
    "on", "off", "in", "out", "up", "down", "only", "except", "unless", "before", "after", "until", "than", "from",
})  # fmt: skip
_WORD = re.compile(r"\w+")
_LABEL = re.compile(r"^Patterns?(?:\s{1,4}\d{1,3})?\s{0,4}(?:\*\*)?:", re.IGNORECASE)


def terms(text: str) -> list[str]:
    """The words of a question that say something, in lower case, each once, at most 40; all of them if none does."""
    found = list(dict.fromkeys(words(text)))
    telling = [
        word for word in found if word not in STOP and word not in _DOING and (len(word) > 1 or word.isdigit())
    ]
    return (telling or found)[:_QUERY_WORDS]


def bare(text: str) -> str:
    """A written item without its emphasis and the label of a template (``Pattern 1: …``)."""
    return _LABEL.sub("", text.strip("*_ ")).strip("*_ ")


def connect() -> sqlite3.Connection:
    """An empty database in memory that has FTS5; Environment ``gsd_failed`` when this Python's SQLite has none."""
    con = sqlite3.connect(":memory:", check_same_thread=False)
    try:
        con.execute("CREATE VIRTUAL TABLE temp.probe USING fts5(a)")
    except sqlite3.OperationalError as error:
        con.close()
        raise Environment(
            "gsd_failed",
            f"the SQLite of this Python ({sqlite3.sqlite_version}) has no FTS5, which ranks texts.",
            "run orchestrator with a Python whose SQLite was built with FTS5",
        ) from error
    return con


class Ranked:
    """Documents of some columns, ranked by BM25 with a weight for each. May be shared between threads."""

    def __init__(self, columns: Sequence[str], weights: Sequence[float], documents: Iterable[Sequence[str]]) -> None:
        assert all(_WORD.fullmatch(column) for column in columns)
        assert len(columns) == len(weights)
        self._lock = threading.Lock()
        self._con = connect()
        self._con.execute(
            f"CREATE VIRTUAL TABLE documents USING fts5({', '.join(columns)}, tokenize='porter unicode61')"
        )
        places = ", ".join("?" * len(columns))
        self._con.executemany(
            f"INSERT INTO documents VALUES ({places})",  # noqa: S608  (only question marks)
            ([_plain(value) for value in document] for document in documents),
        )
        self._order = f"bm25(documents, {', '.join(str(float(weight)) for weight in weights)})"

    def best(self, question: str, limit: int) -> list[tuple[int, float]]:
        """The documents that have any of the words, best first: index in the order given, and score (> 0)."""
        query = " OR ".join(f'"{term}"' for term in terms(question))
        if not query:
            return []
        with self._lock:
            found = self._con.execute(
                f"SELECT rowid, {self._order} FROM documents WHERE documents MATCH ? "  # noqa: S608  (our own words)
                "ORDER BY 2, rowid LIMIT ?",
                (query, limit),
            ).fetchall()
        return [(rowid - 1, -score) for rowid, score in found]


def _plain(text: str) -> str:
    return text.encode("utf-8", "replace").decode("utf-8").replace("\0", " ")


# -- how alike two sentences are ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Sentence:
    """A sentence as `likeness` sees it: the stems of its telling words; its numbers and negations apart.

    ``order``: the stems as they come, each once. ``turns``: small words that turn a meaning around (on, off, only).
    """

    stems: tuple[str, ...]
    numbers: frozenset[str]
    negations: frozenset[str]
    order: tuple[str, ...] = ()
    turns: frozenset[str] = frozenset()


def sentences(texts: Sequence[str]) -> list[Sentence]:
    """The sentences of some texts, stemmed by FTS5's porter tokenizer."""
    whole = [words(text.replace("'", "").replace("\u2019", "")[:40_000]) for text in texts]
    split = [[word for word in line if word not in STOP] for line in whole]
    known = _stems({word for line in split for word in line})
    return [
        Sentence(
            stems=tuple(sorted({known.get(word, word) for word in line})),
            numbers=frozenset(word for word in line if word.isdigit()),
            negations=frozenset(known.get(word, word) for word in line if word in _NEGATIONS or word in _SHORT),
            order=tuple(dict.fromkeys(known.get(word, word) for word in line)),
            turns=_TURNS.intersection(every),
        )
        for line, every in zip(split, whole, strict=True)
    ]


@lru_cache(maxsize=512)
def stems(text: str) -> frozenset[str]:
    """The stems of a text's telling words."""
    return frozenset(sentences([text])[0].stems)


def _stems(every: set[str]) -> dict[str, str]:
    ordered = sorted(word for word in every if word.isalnum())
    if not ordered:
        return {}
    with closing(connect()) as con:
        con.execute("CREATE VIRTUAL TABLE w USING fts5(word, tokenize='porter unicode61 remove_diacritics 0')")
        con.execute("CREATE VIRTUAL TABLE v USING fts5vocab(w, 'instance')")
        con.executemany("INSERT INTO w VALUES (?)", ([word] for word in ordered))
        found = con.execute("SELECT doc, term FROM v WHERE offset = 0").fetchall()
    return {ordered[doc - 1]: term for doc, term in found}


def likeness(one: Sentence, other: Sentence) -> float:
    """How much two sentences say the same, 0..1: difflib's ratio over their sorted stems.

    0 when only one of them denies something ("cannot", "without", "refuses"), when they deny by different words, or
    when their numbers differ: "5 attempts" is not "10 attempts". From `NEAR` on they are taken to say the same.
    """
    if one.negations != other.negations or one.numbers != other.numbers or not one.stems or not other.stems:
        return 0.0
    return SequenceMatcher(None, one.stems, other.stems, autojunk=False).ratio()


def says_all(claim: Sentence, question: Sentence) -> bool:
    """Whether a claim says everything that a question asks, and in its order.

    Every stem of it, the same words that turn a meaning, `likeness` not below `NEAR`; "admins delete users" is not
    "users delete admins".
    """
    shared = [stem for stem in claim.order if stem in set(question.stems)]
    return (
        set(question.stems) <= set(claim.stems)
        and question.turns == claim.turns
        and likeness(claim, question) >= NEAR
        and SequenceMatcher(None, shared, question.order, autojunk=False).ratio() >= NEAR
    )


def covered(question: Sentence, by: Sentence) -> float:
    """The part of a question's stems that another text has, 0..1; 0 when only one of them denies something."""
    if question.negations != by.negations or not question.stems:
        return 0.0
    return len(set(question.stems) & set(by.stems)) / len(question.stems)
