"""The daemon's log: each event is one line of the form that was asked for, whoever logs it and whatever it holds."""

import json
import shlex
import subprocess
import sys

import pytest

LOGS = """
import logging, sys
from pathlib import Path
import structlog
from orchestrator.protocol.daemon_log import configure_log
configure_log(sys.argv[1], sys.argv[2])
log = structlog.get_logger()
log.debug("too small")
log.info("agent ready", agent="a b", n=3, ok=True, none=None, path=Path("/x"), title="\\x1b]0;\\u202etitle\\x07", odd='say "hi" = \\\\ \\n two')
try:
    raise ValueError("first\\nsecond")
except ValueError:
    log.exception("bug in a tool", tool="t")
logging.getLogger("asyncio").info("a library's chatter")
logging.getLogger("asyncio").warning("slow callback took %s s", 2)
"""


def logged(level, form):
    code = LOGS.replace("get_logger()", "get_logger('orchestrator.test')")
    done = subprocess.run([sys.executable, "-P", "-c", code, level, form], capture_output=True, text=True, check=True)
    assert done.stdout == ""
    return done.stderr.splitlines()


def test_json_is_one_object_per_line_with_the_same_first_keys_for_us_and_for_libraries():
    ready, bug, slow = map(json.loads, logged("info", "json"))
    assert (ready["event"], ready["agent"], ready["n"], ready["ok"], ready["odd"]) == (
        "agent ready", "a b", 3, True, 'say "hi" = \\ \n two',
    )  # fmt: skip
    assert ready["title"] == "\x1b]0;\u202etitle\x07"
    assert "ValueError: first\nsecond" in bug["exception"]
    assert (slow["event"], slow["level"]) == ("slow callback took 2 s", "warning")
    for line in (ready, bug, slow):
        assert {"timestamp", "level", "event"} <= line.keys()
        assert line["timestamp"].endswith("Z")


def test_logfmt_begins_with_time_level_and_event_and_keeps_every_event_on_one_line():
    lines = logged("info", "logfmt")
    assert len(lines) == 3
    for line in lines:
        assert [word.partition("=")[0] for word in line.split(" ")[:2]] == ["timestamp", "level"]
    assert 'event="agent ready"' in lines[0]
    assert {"agent=a b", "n=3", "ok=true"} <= set(shlex.split(lines[0]))
    assert r"title=\x1b]0;\u202etitle\x07" in lines[0]
    assert "first\\nsecond" in lines[1]
    assert 'level=warning event="slow callback took 2 s"' in lines[2]


@pytest.mark.parametrize(("level", "count"), [("debug", 4), ("warning", 2), ("error", 2)])
def test_the_level_bounds_our_events_and_libraries_report_from_warning_on(level, count):
    assert len(logged(level, "logfmt")) == count
