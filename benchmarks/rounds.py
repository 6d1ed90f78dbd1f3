"""One group of figures of one tree, round by round: measures at each line of its stdin, ends with it.

Each answer is a line of JSON: ``{"figures": {...}}``, or ``{"failed": "why"}`` and nothing more. A group is a module
with ``FIGURES`` and ``rounds()``, an asynchronous generator that gives the figures of one round at a time.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import json
import os
import signal
import sys
import traceback
from pathlib import Path
from typing import Any


async def serve(group: str, orders: Any, answers: Any) -> None:
    lines = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), orders)
    try:
        module = importlib.import_module(f"benchmarks.{group}")
        async with contextlib.aclosing(module.rounds()) as rounds:
            while await lines.readline():
                print(json.dumps({"figures": await anext(rounds)}), file=answers, flush=True)
    except Exception as error:  # noqa: BLE001 - whatever it is, the other groups go on
        traceback.print_exc()
        print(json.dumps({"failed": f"{type(error).__name__}: {error}"[:300]}), file=answers, flush=True)


def main() -> None:
    """The orders and answers have descriptors of their own: what a group starts or prints must not touch them."""
    orders, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "w")
    with Path(os.devnull).open("rb") as nothing:
        os.dup2(nothing.fileno(), 0)
    os.dup2(2, 1)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job would ignore it
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(serve(sys.argv[1], orders, answers))


if __name__ == "__main__":
    main()
