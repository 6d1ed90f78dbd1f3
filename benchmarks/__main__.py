"""`make bench`: every figure the project promises, what is to be reached beside it, in tables of rounds.

Each group runs in a process of its own, which starts real daemons, relays and CLIs below one temporary directory.
"""

from __future__ import annotations

import argparse
import importlib
import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from benchmarks.figures import MISSED, columns
from benchmarks.project import PLACE
from benchmarks.trees import ROOT, GroupRun, Tree, end_left_processes

ROUNDS = 5
GROUPS = (
    "commands", "relays", "starts", "cycles", "profile", "waits", "tmux", "large", "growth", "recovery", "day",
    "squads", "spawn", "gsd", "gsd_index", "gsd_team", "faces", "fleet",
)  # fmt: skip
WIDTHS = (62, 32, 32, 28, 14, 6)


def main(argv: list[str] | None = None) -> int:
    """Measure the groups named, or all. 1 if a group failed, or with --strict if a figure was missed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__.partition("\n")[0])
    parser.add_argument("groups", nargs="*", metavar="group", help=f"of {', '.join(GROUPS)}; all if none is named")
    parser.add_argument("--rounds", type=int, default=ROUNDS, metavar="N", help=f"rounds per group, {ROUNDS}")
    parser.add_argument("--against", metavar="TREE", help="measure this other checkout too, in turn, as 'before'")
    parser.add_argument("--strict", action="store_true", help="exit 1 if a figure is missed")
    args = parser.parse_args(argv)
    if unknown := sorted(set(args.groups) - set(GROUPS)):
        parser.error(f"no such group: {', '.join(unknown)}")
    if args.rounds < 1:
        parser.error("--rounds is at least 1")
    try:
        trees = [Tree(ROOT), *([Tree(Path(args.against))] if args.against else [])]
    except FileNotFoundError as error:
        parser.error(str(error))
    pythons = sorted({tree.interpreter() for tree in trees})
    if len(pythons) > 1:
        parser.error(f"the checkouts have different Pythons: {'; '.join(pythons)}. Set one up anew with PYTHON=...")
    place = Path(tempfile.mkdtemp(prefix="orchestrator-bench-", dir=os.environ.get(PLACE)))
    try:
        missed, failed = tables(args.groups or GROUPS, trees, args.rounds, place)
    except KeyboardInterrupt:
        return 130
    finally:
        end_left_processes(place)
        shutil.rmtree(place, ignore_errors=True)
    print(f"\n{missed} missed, {failed} failed; load {os.getloadavg()[0]:.1f} at the end")
    return int(failed > 0 or (args.strict and missed > 0))


def tables(groups: list[str] | tuple[str, ...], trees: list[Tree], rounds: int, place: Path) -> tuple[int, int]:
    """Print the table of each group; how many figures were missed, and how many groups failed."""
    names = ["before", "after", "ratio"] if len(trees) > 1 else ["measured"]
    line(["median (least..greatest) of the rounds", *names, "reach", ""])
    missed = failed = 0
    for group in groups:
        print(f"\n{group} (load {os.getloadavg()[0]:.1f})", flush=True)
        began = time.monotonic()
        values, why = measured([partial(GroupRun, tree, group, place) for tree in trees], rounds)
        for figure in importlib.import_module(f"benchmarks.{group}").FIGURES:
            cells = columns(
                figure, *(each.get(figure.key, []) for each in values), *(() if len(trees) > 1 else (None,))
            )
            missed += MISSED in cells
            line(cells)
        for tree, reason in zip(trees, why, strict=True):
            if reason:
                print(f"  FAILED in {tree.root}: {reason}", flush=True)
        failed += bool(why[0])
        print(f"  {time.monotonic() - began:.0f} s", flush=True)
    return missed, failed


def measured(starts: list[Callable[[], GroupRun]], rounds: int) -> tuple[list[dict[str, list[float]]], list[str]]:
    """Of each run its numbers by figure, and why it failed; the runs have their rounds in turn."""
    runs: list[GroupRun] = []
    values: list[dict[str, list[float]]] = [{} for _ in starts]
    ended = False
    try:
        runs += [start() for start in starts]
        for number in range(rounds):
            # Each is the first in every second round: what the other leaves to do must not fall on one of them only.
            for run, found in list(zip(runs, values, strict=True))[:: -1 if number % 2 else 1]:
                for key, value in run.measure().items():
                    found.setdefault(key, []).append(value)
        ended = True
    finally:
        for run in runs:
            run.close(at_once=not ended)
    return values, [run.failed for run in runs]


def line(cells: list[str]) -> None:
    widths = WIDTHS if len(cells) == len(WIDTHS) else (*WIDTHS[:2], *WIDTHS[4:])
    print("  " + " ".join(f"{cell:<{width}}" for cell, width in zip(cells, widths, strict=True)).rstrip(), flush=True)


if __name__ == "__main__":
    for number in (signal.SIGTERM, signal.SIGHUP):  # end as after ctrl-C: what was started must not go on alone
        if signal.getsignal(number) is not signal.SIG_IGN:  # as nohup asks for
            signal.signal(number, signal.default_int_handler)
    sys.exit(main())
