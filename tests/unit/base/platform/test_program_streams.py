"""A program that cannot be started costs no descriptor, whichever of its streams was the one too many."""

import contextlib
import itertools
import json
import subprocess
import sys
from pathlib import Path

import pytest

from orchestrator.base.platform import program_streams

FAILING = """
import itertools, json, os, resource, subprocess
from orchestrator.base.platform import program_streams
program_streams.repair()
def used(): return len(os.listdir("/proc/self/fd"))
lost, failed, given = [], 0, (None, subprocess.PIPE, subprocess.DEVNULL)
for streams in itertools.product(given, given, (*given, subprocess.STDOUT)):
    for spare in range(9):
        before = used()
        resource.setrlimit(resource.RLIMIT_NOFILE, (before - 1 + spare, 4096))
        try:
            subprocess.run(["true"], stdin=streams[0], stdout=streams[1], stderr=streams[2])
        except OSError:
            failed += 1
        resource.setrlimit(resource.RLIMIT_NOFILE, (1024, 4096))
        lost += [(streams, spare)] * (used() - before)
print(json.dumps([len(lost), failed]))
"""


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="counts descriptors in /proc")
def test_a_failed_start_gives_back_all_it_had():
    root = Path(__file__).parents[4]
    command = [sys.executable, "-W", "ignore", "-c", FAILING]
    lost, failed = json.loads(subprocess.run(command, cwd=root, capture_output=True, check=True).stdout)
    assert failed > 50
    assert lost == 0


GIVEN = (subprocess.PIPE, subprocess.DEVNULL, "file", "number")
STREAMS = {"stdin": "r", "stdout": "w", "stderr": "w"}
SCRIPT = "read -r line; echo out $line; echo err $line >&2"


@pytest.mark.parametrize("words", [*itertools.product(GIVEN, (None, *GIVEN), (None, *GIVEN, subprocess.STDOUT))])
def test_every_stream_goes_where_python_leads_it(words, tmp_path, monkeypatch):
    def said():
        with contextlib.ExitStack() as stack:
            (tmp_path / "stdin").write_text("file\n")
            files = [stack.enter_context((tmp_path / name).open(mode)) for name, mode in STREAMS.items()]
            given = [
                file if word == "file" else file.fileno() if word == "number" else word
                for file, word in zip(files, words, strict=True)
            ]
            program = subprocess.Popen(["sh", "-c", SCRIPT], **dict(zip(STREAMS, given, strict=True)))
            answer = program.communicate(b"pipe\n" if words[0] == subprocess.PIPE else None)
        return answer, (tmp_path / "stdout").read_text(), (tmp_path / "stderr").read_text()

    of_python = said()
    monkeypatch.setattr(subprocess.Popen, "_get_handles", program_streams._handles)
    assert said() == of_python
