"""Another machine over ssh, played by a shell on this one: what it is told, and what it goes on with."""

import pytest

from orchestrator.base.errors import Environment
from orchestrator.edge import project_location
from orchestrator.fleet.remote_machine import RemoteMachine

# "ssh", whose home is $0; the words after the address are the script.
SSH = 'shift; HOME="$0" exec sh -c "$*"'
# A Python whose environments are made at once: their pip installs nothing, their program says its version.
PYTHON = """#!/bin/sh
echo "$*" >> "$HOME/calls"
mkdir -p bin
echo '#!/bin/sh' > bin/python
printf '#!/bin/sh\\necho orchestrator {version}\\n' > bin/orchestrator
chmod +x bin/python bin/orchestrator
"""


@pytest.fixture
def machine(tmp_path):
    return RemoteMachine(["sh", "-c", SSH, str(tmp_path)], "box")


def test_the_last_lines_of_a_failed_script_are_shown_whole_and_of_a_traceback_its_end(machine):
    with pytest.raises(Exception, match=r"exit 3: second third$"):
        machine.run(f"echo {'x' * 395} >&2; echo second >&2; echo third >&2; exit 3")
    with pytest.raises(Exception, match=r"exit 1: ModuleNotFoundError: No module named 'x'$"):
        machine.run("printf 'Traceback (most recent call last):\\n  File \"a\"\\n    b\\n' >&2; "
                    "echo \"ModuleNotFoundError: No module named 'x'\" >&2; exit 1")  # fmt: skip
    with pytest.raises(Environment) as caught:
        machine.run("echo no route >&2; exit 255")
    assert caught.value.code == "ssh_failed"


def test_an_installation_that_was_interrupted_is_made_anew(machine, tmp_path):
    version = project_location.version()
    python = tmp_path / "python3"
    python.write_text(PYTHON.format(version=version))
    place = tmp_path / ".local" / "share" / "orchestrator" / version
    (place / "bin").mkdir(parents=True)
    python.chmod(0o755)
    half_made = place / "bin" / "python"
    half_made.write_text("#!/bin/sh\nexit 1\n")  # as a Python without pip
    half_made.chmod(0o755)
    facts = {"home": str(tmp_path), "python": str(python)}
    assert machine.program(facts) == f"{place}/bin/orchestrator"
    assert (tmp_path / "calls").read_text() == "-m venv --clear .\n"
    assert list(place.glob("*.whl")), "it is there after the environment was cleared"
    machine.program(facts)
    assert (tmp_path / "calls").read_text().count("venv") == 1, "what is whole is kept"
