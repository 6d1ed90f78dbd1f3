"""Who holds a relay: found among the processes, written down for this boot, and read by every daemon of the user."""

import os
import subprocess
import sys

import pytest

from orchestrator.base.platform import process_facts
from orchestrator.trust import relay_holders
from orchestrator.trust.relay_holders import RelayHolders
from orchestrator.trust.state_dir import StateDirUnsafe

# A process that looks like a relay: what it is called is all that is asked.
PROGRAM = "import sys; print(flush=True); sys.stdin.read()"


@pytest.fixture
def state(tmp_path, monkeypatch):
    monkeypatch.setenv("ORCHESTRATOR_STATE_DIR", str(tmp_path / "state"))
    return tmp_path / "state"


@pytest.fixture
def relay(tmp_path):
    script = tmp_path / "orchestrator"
    script.write_text(PROGRAM)
    with subprocess.Popen([sys.executable, str(script), "mcp"], stdin=-1, stdout=-1) as process:
        process.stdout.readline()
        yield process.pid
        process.stdin.close()


def me():
    return os.getpid(), process_facts.start_time(os.getpid())


def place(state):
    (found,) = (state / "holders").iterdir()
    return found


def test_a_relay_that_runs_names_its_holder_and_what_is_above(state, relay):
    known = RelayHolders().known()
    assert me() in known.processes
    assert os.getppid() in {1, *(pid for pid, _ in known.above)}
    assert known.sessions[os.getsid(0)] <= process_facts.start_time(relay)
    assert known.first <= me()[1]
    assert not state.exists(), "looking writes nothing"


def test_a_holder_that_was_recorded_stays_known_to_other_programs_when_its_relay_has_ended(state, tmp_path):
    script = tmp_path / "orchestrator"
    script.write_text(PROGRAM)
    holders = RelayHolders()
    with subprocess.Popen([sys.executable, str(script), "mcp"], stdin=-1, stdout=-1) as process:
        process.stdout.readline()
        for _ in range(2):
            holders.record(process.pid)
        process.stdin.close()
    assert len(place(state).read_text().splitlines()) == 1
    assert me() in RelayHolders().known().processes
    holders.record(process.pid)  # has ended


def test_lines_that_are_none_disturb_nothing(state, relay):
    RelayHolders().record(relay)
    whole = place(state).read_bytes()
    bad = [b"{", b"[]", b"{}", b'{"session":1,"start":2,"holders":[[1]],"above":[]}', b'{"session":"1","start":2}']
    bad += [b'{"session":1,"start":2,"holders":7,"above":[]}', b'{"session":1,"start":2,"holders":[1],"above":[]}']
    place(state).write_bytes(b"\n".join(bad) + b"\n" + whole)
    assert me() in RelayHolders().known().processes


def test_an_unsafe_place_is_said_and_the_holder_is_known_all_the_same(state, tmp_path):
    state.mkdir(mode=0o755)
    script = tmp_path / "orchestrator"
    script.write_text(PROGRAM)
    holders = RelayHolders()
    with subprocess.Popen([sys.executable, str(script), "mcp"], stdin=-1, stdout=-1) as process:
        process.stdout.readline()
        with pytest.raises(StateDirUnsafe):
            holders.record(process.pid)
        process.stdin.close()
    assert me() in holders.known().processes


@pytest.mark.parametrize(
    ("above", "carried"), [("claude", True), ("bash", False), ("-zsh", False), ("bash start.sh", True)]
)
def test_a_script_that_somebody_has_started_by_hand_holds_its_relay_itself(monkeypatch, above, carried):
    """A shell at which somebody types starts such programs, and stays a human's."""
    words = {2: "bash wrapper.sh", 3: above}
    monkeypatch.setattr(process_facts, "words_of", lambda pid: [*words[pid].encode().split(b" "), b""])
    monkeypatch.setattr(os, "getsid", lambda pid: 3)
    assert relay_holders._carries(2, 3) == carried
