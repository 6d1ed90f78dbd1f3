"""Plays seeds of the local team, and prints of a failing one what happened and the command that repeats it."""

from __future__ import annotations

import argparse
import sys
import traceback

from tests.simulation.local_team import play


def main() -> int:
    """The exit code: 1 if a seed failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--seeds", type=int, default=200, metavar="N", help="how many")
    parser.add_argument("--from", type=int, default=0, dest="first", metavar="SEED", help="the first one")
    parser.add_argument("--trace", action="store_true", help="print what happened in each")
    arguments = parser.parse_args()
    failed = 0
    for seed in range(arguments.first, arguments.first + arguments.seeds):
        trace: list[str] = []
        try:
            play(seed, trace)
        except Exception:  # noqa: BLE001 - whatever is wrong, the other seeds are played too
            failed += 1
            print("\n".join(trace))
            traceback.print_exc(limit=-3, file=sys.stdout)
            print(f"seed {seed} failed; again: .venv/bin/python -m tests.simulation --seeds 1 --from {seed}\n")
        else:
            if arguments.trace:
                print("\n".join(trace))
    print(f"{arguments.seeds} seeds, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
