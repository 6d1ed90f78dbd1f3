"""What a stranger does in tests: git by itself, and another machine."""

import contextlib
import os
import subprocess

from orchestrator.trust.state_dir import VARIABLE

GIT = {"GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null", "PATH": os.environ["PATH"],
       "GIT_AUTHOR_NAME": "x", "GIT_AUTHOR_EMAIL": "x@x", "GIT_COMMITTER_NAME": "x", "GIT_COMMITTER_EMAIL": "x@x",
       "GIT_TERMINAL_PROMPT": "0", "HOME": "/nonexistent"}  # fmt: skip


def git(at, *words):
    subprocess.run(["git", "-c", "protocol.file.allow=always", *words], cwd=at, env=GIT, check=True,
                   stdout=subprocess.PIPE, stderr=subprocess.STDOUT)  # fmt: skip


def commit(at, message="all of it"):
    git(at, "add", "-Af")
    git(at, "commit", "-qm", message)


@contextlib.contextmanager
def elsewhere(monkeypatch, base):
    """On another machine: with a state directory of its own."""
    with monkeypatch.context() as patch:
        patch.setenv(VARIABLE, str(base / "their-state"))
        yield
