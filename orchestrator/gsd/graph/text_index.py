"""Finding the rows whose text contains a word among 100,000: sets of rows as the bits of one integer. Pure.

Texts are looked at by their tokens, tokens by their pieces (``getUser`` is ``get`` and ``user``), of which there are
few. A word lies in a piece, or it lies over the seam of two: then the two characters at the seam are in the word, and
tokens are kept by those. So a word is found wherever it stands, and no more is looked through than must be. Row ``i``
is bit ``i``.
"""

from __future__ import annotations

import re
from array import array
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate, chain

_RUN = re.compile(r"[^\W\d_]+|\d+")
_PIECE = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+|[^A-Za-z0-9]+")
_DENSE = 32  # a token of more than a 32nd of the rows is kept as bits, of fewer as their numbers
_FEW = 8
_VERIFIED = 1_000  # of so many rows the texts are looked at, rather than the rows of another run found
Rows = Sequence[int]


class _Pieces:
    """Distinct texts; ``containing`` gives the numbers of those that contain a word."""

    def __init__(self, names: list[str]) -> None:
        self._names = names
        self._text = "\n".join(names) + "\n"
        self._starts = array("Q", accumulate(map(len, names), lambda at, length: at + length + 1, initial=0))

    def containing(self, word: str) -> list[int]:
        found: list[int] = []
        most = len(self._names) // 8
        at = self._text.find(word)
        while at >= 0:
            if len(found) > most:
                return [number for number, name in enumerate(self._names) if word in name]
            number = bisect_right(self._starts, at) - 1
            found.append(number)
            at = self._text.find(word, self._starts[number + 1])
        return found


class Tokens:
    """Distinct tokens, each with the rows that have it; ``containing`` finds those in which a word lies."""

    def __init__(self, rows_of: dict[str, list[int]], written: dict[str, str]) -> None:
        """Take the lower-cased tokens with their rows, and how they are written; a token has no line end."""
        self._names = list(rows_of)
        single: dict[int, Rows] = {}
        self._rows: list[Rows] = [
            single.setdefault(rows[0], (rows[0],)) if len(rows) == 1 else _packed(rows) for rows in rows_of.values()
        ]
        tokens_of: dict[str, list[int]] = {}
        seams: dict[str, list[int]] = {}
        for number, name in enumerate(self._names):
            at = 0
            for piece in _PIECE.findall(written[name]) if name.isascii() else (name,):
                if at:
                    seam = name[at - 2 if at > 1 else 0 : at + 1]
                    found = seams.get(seam)
                    if found is None:
                        seams[seam] = [number]
                    else:
                        found.append(number)
                end = at + len(piece)
                low = name[at:end]
                found = tokens_of.get(low)
                if found is None:
                    tokens_of[low] = [number]
                else:
                    found.append(number)
                at = end
        self._pieces = _Pieces(list(tokens_of))
        self._tokens = [_packed(numbers) for numbers in tokens_of.values()]
        self._seams = {seam: _packed(numbers) for seam, numbers in seams.items()}
        self._seams_by_end: dict[str, list[str]] = {}
        for seam in seams:
            self._seams_by_end.setdefault(seam[-2:], []).append(seam)

    def containing(self, word: str) -> set[int]:
        """The numbers of the tokens that contain the word."""
        found: set[int] = set().union(*map(self._tokens.__getitem__, self._pieces.containing(word)))
        names = self._names
        # Over a seam: its three last characters are in the word, or the word begins with the last one before it.
        seams = {word[at - 2 : at + 1] for at in range(2, len(word))}
        seams.update(self._seams_by_end.get(word[:2], ()) if len(word) > 1 else ())
        for seam in seams:
            found.update([number for number in self._seams.get(seam, ()) if word in names[number]])
        return found

    def rows(self, numbers: Iterable[int]) -> Iterable[Rows]:
        """The rows of each of these tokens."""
        return map(self._rows.__getitem__, numbers)


class Runs:
    """A column of texts, by its runs of letters and of digits; ``matching`` gives the rows that contain a word."""

    def __init__(self, texts: Sequence[str], fold: Callable[[str], str]) -> None:
        """Take the texts in order of rows, and how they are made comparable."""
        self._count = count = len(texts)
        self._texts = texts
        self._fold = fold
        rows_of: dict[str, list[int]] = {}
        written: dict[str, str] = {}
        for row, text in enumerate(texts):
            for run in _RUN.findall(text if text.isascii() else fold(text)):
                low = run.lower()
                found = rows_of.get(low)
                if found is None:
                    rows_of[low] = [row]
                    written[low] = run
                elif found[-1] != row:
                    found.append(row)
        dense = [run for run, rows in rows_of.items() if len(rows) * _DENSE > count]
        self._dense = {run: bits(count, (rows_of.pop(run),)) for run in dense}
        self._sparse = Tokens(rows_of, written)

    def matching(self, word: str) -> int:
        """The rows whose text contains the folded word, as bits."""
        runs = _RUN.findall(word)
        if len(runs) == 1 and runs[0] == word:
            return self._containing(word)
        # Letters beside digits or signs: rows that have each run, and then those where they stand as in the word.
        among = (1 << self._count) - 1
        for run in sorted(runs, key=len, reverse=True):
            if among.bit_count() > _VERIFIED:
                among &= self._containing(run)
        texts, fold = self._texts, self._fold
        return bits(self._count, ([row for row in numbers(among) if word in fold(texts[row])],)) if among else 0

    def _containing(self, run: str) -> int:
        found = 0
        for token, rows in self._dense.items():
            if run in token:
                found |= rows
        if found.bit_count() == self._count:
            return found
        sparse = self._sparse.containing(run)
        return found | bits(self._count, self._sparse.rows(sparse)) if sparse else found


class Names:
    """The lists of names of the rows; ``counts`` gives how many names of each row contain a word."""

    def __init__(self, lists: Sequence[Sequence[str]], fold: Callable[[str], str]) -> None:
        """Take the lists in order of rows, and how names are made comparable."""
        self._count = len(lists)
        rows_of: dict[str, list[int]] = {}
        written: dict[str, str] = {}
        for row, names in enumerate(lists):
            for name in names:
                low = fold(name)
                found = rows_of.get(low)
                if found is None:
                    rows_of[low] = [row]
                    written[low] = name
                else:
                    found.append(row)
        self._tokens = Tokens(rows_of, written)

    def counts(self, word: str) -> list[int]:
        """How many names of each row contain the folded word, in binary: the rows with a 1, a 2, a 4, …, as bits."""
        found = self._tokens.containing(word)
        if not found:
            return []
        times = bytearray(self._count)
        try:
            for row in chain.from_iterable(self._tokens.rows(found)):
                times[row] += 1
        except ValueError:  # more than 255 in one row
            return self._many(Counter(chain.from_iterable(self._tokens.rows(found))))
        times.reverse()
        return [int(times.translate(_BIT[shift]), 2) for shift in range(max(times).bit_length())]

    def _many(self, times: Counter[int]) -> list[int]:
        return [
            bits(self._count, ([row for row, count in times.items() if count >> shift & 1],))
            for shift in range(max(times.values()).bit_length())
        ]


_BIT = [bytes(49 if value >> shift & 1 else 48 for value in range(256)) for shift in range(8)]


def _packed(rows: list[int]) -> Rows:
    return tuple(rows) if len(rows) <= _FEW else array("I", rows)


def bits(count: int, rows: Iterable[Iterable[int]]) -> int:
    """The rows of all the lists, of ``count`` there are, as bits."""
    marks = bytearray(b"0") * count
    for row in chain.from_iterable(rows):
        marks[row] = 49
    marks.reverse()
    return int(marks, 2) if count else 0


def numbers(among: int) -> Iterable[int]:
    """The rows that are set, the lowest first."""
    marks = f"{among:b}"[::-1]  # "0" for none
    at = marks.find("1")
    while at >= 0:
        yield at
        at = marks.find("1", at + 1)


class Sums:
    """For each row a small number, in binary across the rows: ``planes[k]`` has the bits of weight ``2 ** k``."""

    def __init__(self) -> None:
        """Begin with nothing."""
        self.planes: list[int] = []

    def add(self, rows: int, weight: int) -> None:
        """Add ``weight`` to each of these rows."""
        shift = 0
        while weight:
            if weight & 1:
                self._carry(rows, shift)
            weight >>= 1
            shift += 1

    def at_least(self, least: int) -> int:
        """The rows with at least so much."""
        equal, more = -1, 0
        for shift in reversed(range(max(len(self.planes), least.bit_length()))):
            plane = self.planes[shift] if shift < len(self.planes) else 0
            if least >> shift & 1:
                equal &= plane
            else:
                more |= equal & plane
                equal &= ~plane
        return more | equal if least else -1

    def descending(self, among: int) -> Iterable[tuple[int, int]]:
        """Each number there is among these rows, the greatest first, with the rows that have it."""
        todo = [(len(self.planes) - 1, among, 0)] if among else []
        while todo:
            shift, rows, total = todo.pop()
            if shift < 0:
                yield total, rows
                continue
            have = rows & self.planes[shift]
            if rest := rows ^ have:
                todo.append((shift - 1, rest, total))
            if have:
                todo.append((shift - 1, have, total | 1 << shift))

    def _carry(self, rows: int, shift: int) -> None:
        while len(self.planes) < shift:
            self.planes.append(0)
        while rows:
            if shift == len(self.planes):
                self.planes.append(rows)
                return
            plane = self.planes[shift]
            self.planes[shift], rows = plane ^ rows, plane & rows
            shift += 1
