"""Source files are parsed in processes of their own: what kills one costs one file, and none outlives its caller."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from orchestrator.base.errors import Environment
from orchestrator.gsd.index import parsing
from tests.support.gsd_trees import write


def test_children_parse_and_one_that_dies_of_a_file_costs_that_file_only(tmp_path):
    root = write(tmp_path, {f"f{n}.py": f"import f{n + 1}\n" for n in range(70)})
    script = write(tmp_path / "fake", {
        "child.py": (
            "import os, signal, sys\n"
            "from orchestrator.gsd.index import parse_child\n"
            "real = parse_child.look\n"
            "def look(root, path):\n"
            "    if path == 'f3.py': os._exit(3)\n"
            "    if path == 'f5.py': os.kill(os.getpid(), signal.SIGPROF)\n"
            "    return real(root, path)\n"
            "parse_child.look = look\n"
            "parse_child.main(sys.argv[1])\n"
        )
    }) / "child.py"  # fmt: skip
    command = (sys.executable, str(script))
    env_root = str(Path(__file__).resolve().parents[3])
    found = {
        one.path: one
        for one in parsing.parse_files(
            root, [*(f"f{n}.py" for n in range(70)), "none.py"], ("env", f"PYTHONPATH={env_root}", *command)
        )
    }
    assert len(found) == 71
    assert found["none.py"].parsed is None
    dead = {path: one.parsed.trouble.what for path, one in found.items() if one.parsed and one.parsed.trouble}
    assert dead == {"f3.py": "not parsed: its parser crashed", "f5.py": "not parsed: it took too long"}
    assert found["f4.py"].parsed.raw == ("f5",)


def test_children_that_do_not_start_are_told(tmp_path):
    for command in (("/none/such",), ("false",)):
        with pytest.raises(Environment) as caught:
            list(parsing.parse_files(tmp_path, ["a.py"], command))
        assert caught.value.code == "gsd_failed"


def test_the_children_are_gone_when_the_caller_stops_listening(tmp_path):
    slow = "f'" + "{a}" * 20_000 + "'\n"  # all of them take seconds: the children are at work while we look
    root = write(tmp_path, {f"f{n}.py": slow if n else "" for n in range(100)})
    looking = parsing.parse_files(root, [f"f{n}.py" for n in range(100)])
    next(looking)
    before = _children()
    assert before
    looking.close()
    assert not before & _children()


def _children():
    out = subprocess.run(["ps", "-ww", "-o", "pid=,ppid=,args="], capture_output=True, text=True).stdout
    rows = [line.split(None, 2) for line in out.splitlines()]
    return {pid for pid, ppid, args in rows if ppid == str(os.getpid()) and "parse_child" in args}


def test_a_file_that_takes_for_ever_is_given_up_by_its_child(tmp_path):
    root = write(tmp_path, {"slow.py": "f'" + "{a}" * 150_000 + "'\n", "b.py": "import a\n"})
    child = "import sys; from orchestrator.gsd.index import parse_child; parse_child.FILE_S = 0.3; parse_child.main(sys.argv[1])"
    found = {one.path: one for one in parsing.parse_files(root, ["slow.py", "b.py"], (sys.executable, "-c", child))}
    assert found["slow.py"].parsed.trouble.what == "not parsed: it took too long"
    assert found["b.py"].parsed.raw == ("a",)
