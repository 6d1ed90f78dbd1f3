"""A figure of a table: what it is called, what is to be reached, how its rounds are summed up and compared."""

from __future__ import annotations

import statistics
from dataclasses import dataclass

MISSED = "MISSED"


@dataclass(frozen=True)
class Figure:
    """``key`` names it in what a round gives; each round gives one number. Without a bound it is only shown."""

    key: str
    what: str
    unit: str = ""
    at_most: float | None = None
    at_least: float | None = None

    @property
    def reach(self) -> str:
        if self.at_most is not None:
            return f"<= {self.at_most:g} {self.unit}".rstrip()
        return "" if self.at_least is None else f">= {self.at_least:g} {self.unit}".rstrip()

    def missed(self, values: list[float]) -> bool:
        """Whether the median does not reach the bound; without a measurement it does not either."""
        if self.at_most is None and self.at_least is None:
            return False
        if not values:
            return True
        median = statistics.median(values)
        return (self.at_most is not None and median > self.at_most) or (
            self.at_least is not None and median < self.at_least
        )


def number(value: float) -> str:
    """Three digits that count, no exponent.

    >>> [number(value) for value in (0, 0.0421, 1.375, 23.41, 0.999, 204.6, 123456.7)]
    ['0', '0.042', '1.38', '23.4', '1.00', '205', '123,457']
    """
    if value == 0:
        return "0"
    size = abs(value)
    digits = 0 if size >= 100 else 1 if size >= 10 else 2 if size >= 0.1 else 3
    return f"{value:,.{digits}f}"


def measured(values: list[float], unit: str = "") -> str:
    """The median, and the least and the greatest of the rounds.

    >>> measured([1.5, 1.25, 1.375], "ms")
    '1.38 (1.25..1.50) ms'
    """
    if not values:
        return "not measured"
    if len(values) == 1:
        return f"{number(values[0])} {unit}".rstrip()
    return f"{number(statistics.median(values))} ({number(min(values))}..{number(max(values))}) {unit}".rstrip()


def ratios(before: list[float], after: list[float]) -> list[float]:
    """After to before, of the pairs of rounds that ran one after the other; none of what may be nothing or less.

    >>> ratios([2.0, 4.0], [1.0, 3.0]), ratios([2.0, -0.1], [1.0, 3.0])
    ([0.5, 0.75], [])
    """
    if min([*before, *after], default=0) <= 0:
        return []
    return [now / then for then, now in zip(before, after, strict=False)]


def columns(figure: Figure, after: list[float], before: list[float] | None) -> list[str]:
    """The cells of a row; ``before`` is None if one tree is measured, and empty if the other gave no figure."""
    cells = [measured(after, figure.unit)]
    if before is not None:
        old = measured(before, figure.unit) if before else "not comparable"
        pairs = ratios(before, after)
        cells = [old, *cells, measured(pairs) if pairs else ""]
    return [figure.what, *cells, figure.reach, MISSED if figure.missed(after) else ""]
