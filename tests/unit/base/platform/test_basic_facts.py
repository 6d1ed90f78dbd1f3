"""What a forked daemon keeps of the descriptors that it inherited."""

import os
import resource
import subprocess
import sys

import pytest

from orchestrator.base.platform import basic_facts

PROGRAM = """
import os, resource, sys
from orchestrator.base.platform.basic_facts import close_all_but
opened = [os.open("/dev/null", os.O_RDONLY) for _ in range(20)]
far = os.dup2(opened[0], 900)
kept = (opened[3], opened[15])
close_all_but(kept)
still = []
for fd in range(1000):
    try:
        os.fstat(fd)
        still.append(fd)
    except OSError:
        pass
assert still == [0, 1, 2, *kept], still
"""


@pytest.mark.parametrize("form", ["", basic_facts.PORTABLE])
def test_all_is_closed_but_what_is_kept(form):
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    environ = os.environ | {basic_facts.VARIABLE: form}
    subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env=environ,
        check=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (1024, hard)),
    )
