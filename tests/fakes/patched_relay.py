"""Runs the real relay with the fake daemon in the real one's place, and shorter limits where a test asks for them.

Arguments: a JSON object of constants of `orchestrator.edge.relay`, then the arguments of `orchestrator mcp`.
"""

import json
import sys
from pathlib import Path

from orchestrator.__main__ import take_wire

WIRE = take_wire()

from orchestrator.edge import daemon_connection, project_location, relay  # noqa: E402 - as in __main__: after the wire is safe

FAKE = str(Path(__file__).with_name("fake_daemon.py"))


def command(place, lock, listener):
    fds = ["--lock-fd", str(lock), "--socket-fd", str(listener)]
    return [sys.executable, "-S", FAKE, *fds, str(project_location.run_dir(place.root))]


daemon_connection.daemon_command = command
for name, value in json.loads(sys.argv[1]).items():
    target = daemon_connection if hasattr(daemon_connection, name) else relay
    assert hasattr(target, name), name
    setattr(target, name, value)
sys.exit(relay.main(sys.argv[2:], *WIRE))
