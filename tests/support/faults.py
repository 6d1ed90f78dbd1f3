"""How many faults the tests put to the product, and how many it survived: one table at the end of a run.

Ask for the fixture ``faults`` and say what you did, as often as you do it::

    def test_a_torn_tail_is_cut_off(faults):
        for at in range(len(log)):
            ...
            faults("torn tail")             # one fault of this family was tried
        faults("kill -9 daemon", 12)        # twelve at once
        faults.figure("kill storm", tasks=400, seconds=61.2)  # a line of figures below the table

A fault is survived when the whole test passes: set-up, call and teardown. Works under xdist, for it travels on the
reports. A family is a few plain words, the same for the same fault in every file; the table is sorted by it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

TRIED, FIGURE = "faults tried", "faults figure"
_SEEN = pytest.StashKey["Seen"]()


class Faults:
    """Counts the faults of one test; call it with a family and how many."""

    def __init__(self, properties: list[tuple[str, object]]) -> None:
        self._properties = properties
        self._counts: dict[str, int] = {}
        self._properties.append((TRIED, self._counts))

    def __call__(self, family: str, count: int = 1) -> None:
        assert count >= 0
        self._counts[family] = self._counts.get(family, 0) + count

    def figure(self, what: str, **values: Any) -> None:
        """A line of figures for the end of the run; values are numbers or short words."""
        self._properties.append((FIGURE, [what, {key: str(value) for key, value in values.items()}]))


@pytest.fixture
def faults(request: pytest.FixtureRequest) -> Iterator[Faults]:
    """Counts faults for the table at the end of the run; see the head of tests/support/faults.py."""
    return Faults(request.node.user_properties)


class Seen:
    """What the reports of all tests have told."""

    def __init__(self) -> None:
        self.tried: dict[str, int] = {}
        self.survived: dict[str, int] = {}
        self.figures: list[tuple[str, dict[str, str]]] = []
        self._failed: set[str] = set()

    def take(self, report: pytest.TestReport) -> None:
        if report.failed:
            self._failed.add(report.nodeid)
        if report.when != "teardown":
            return
        passed = report.nodeid not in self._failed
        for name, value in report.user_properties:
            if name == TRIED:
                for family, count in value.items():  # type: ignore[attr-defined]
                    self.tried[family] = self.tried.get(family, 0) + count
                    self.survived[family] = self.survived.get(family, 0) + count * passed
            elif name == FIGURE:
                self.figures.append((value[0], value[1]))  # type: ignore[index]

    def lines(self) -> Iterator[str]:
        """The table, and the figures below it."""
        width = max(map(len, ["family", *self.tried]))
        yield f"{'family':<{width}}  survived / tried"
        for family in sorted(self.tried):
            yield f"{family:<{width}}  {self.survived[family]:>8} / {self.tried[family]}"
        yield f"{'all':<{width}}  {sum(self.survived.values()):>8} / {sum(self.tried.values())}"
        for what, values in sorted(self.figures, key=lambda one: (one[0], *one[1].values())):
            yield f"{what}: " + ", ".join(f"{key} {value}" for key, value in values.items())


def pytest_configure(config: pytest.Config) -> None:
    config.stash[_SEEN] = Seen()
    config.pluginmanager.register(_Reports(config.stash[_SEEN]), "faults reports")


class _Reports:
    def __init__(self, seen: Seen) -> None:
        self._seen = seen

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._seen.take(report)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    seen = config.stash[_SEEN]
    if seen.tried or seen.figures:
        terminalreporter.section("faults survived / tried")
        for line in seen.lines():
            terminalreporter.write_line(line)
