"""The server for work by hand: ``python -m tests.e2e.models --port N --log FILE``; runs until it is interrupted."""

from __future__ import annotations

import argparse
import threading
from pathlib import Path

from tests.e2e.models.faults import FAULTS
from tests.e2e.models.server import ModelServer
from tests.e2e.models.turn import KINDS


def main() -> None:
    """Serve, say where, and wait."""
    parser = argparse.ArgumentParser(prog="python -m tests.e2e.models", description=__doc__)
    parser.add_argument("--port", type=int, default=0, help="0: any free one")
    parser.add_argument("--log", type=Path, help="append every request as a line of JSON")
    parser.add_argument("--gate", action="append", default=[], help="a gate that is open from the start")
    parser.add_argument("--fault", action="append", default=[], choices=sorted(FAULTS), help="at every task")
    asked = parser.parse_args()
    with ModelServer(port=asked.port, log=asked.log) as server:
        for gate in asked.gate:
            server.brain.open(gate)
        for fault in asked.fault:
            server.brain.misbehave(fault, tasks=None)
        for kind in KINDS:
            print(f"{kind}: {server.base(kind)}", flush=True)
        try:
            threading.Event().wait()
        except KeyboardInterrupt:
            return


if __name__ == "__main__":
    main()
