"""Plays seeds of a local team and of a fleet, and prints of a failing one what happened and the command to repeat it."""

from __future__ import annotations

import argparse
import sys
import traceback

from tests.simulation import fleet_world, local_team

WORLDS = {"local": local_team.play, "fleet": fleet_world.play}


def main() -> int:
    """The exit code: 1 if a seed failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--world", choices=(*WORLDS, "both"), default="both", help="what is simulated")
    parser.add_argument("--seeds", type=int, default=200, metavar="N", help="how many of each")
    parser.add_argument("--from", type=int, default=0, dest="first", metavar="SEED", help="the first one")
    parser.add_argument("--trace", action="store_true", help="print what happened in each")
    arguments = parser.parse_args()
    failed = 0
    for world, play in WORLDS.items():
        if arguments.world not in (world, "both"):
            continue
        for seed in range(arguments.first, arguments.first + arguments.seeds):
            trace: list[str] = []
            try:
                play(seed, trace)
            except Exception:  # noqa: BLE001 - whatever is wrong, the other seeds are played too
                failed += 1
                print("\n".join(trace))
                traceback.print_exc(limit=-3, file=sys.stdout)
                print(f"seed {seed} of {world} failed; again: {again(world, seed)}\n")
            else:
                if arguments.trace:
                    print("\n".join(trace))
        print(f"{world}: {arguments.seeds} seeds")
    print(f"{failed} failed")
    return 1 if failed else 0


def again(world: str, seed: int) -> str:
    """The command that repeats a run."""
    return f".venv/bin/python -m tests.simulation --world {world} --seeds 1 --from {seed}"


if __name__ == "__main__":
    sys.exit(main())
