"""A real sshd of a test's own on 127.0.0.1: own keys, own configuration, logins of this user alone; ended by its pid."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tests.support.tmux_server import until

CONFIG = """
ListenAddress 127.0.0.1
Port {port}
HostKey {base}/host_key
PidFile none
AuthorizedKeysFile {base}/authorized_keys
UsePAM no
StrictModes no
PasswordAuthentication no
KbdInteractiveAuthentication no
"""
# Run by root, sshd wants a user and a directory that only an installed package makes: it sees them, nobody else does.
AS_ROOT = """
mount --make-rprivate / && mount --bind "$0/passwd" /etc/passwd && mount -t tmpfs none /run && mkdir /run/sshd &&
exec "$@"
"""


def program() -> str:
    """The path of sshd; skips the test where there is none, but not on CI."""
    places = os.pathsep.join(["/usr/sbin", "/usr/local/sbin", f"{sys.prefix}/sshd/usr/sbin", os.environ["PATH"]])
    found = shutil.which("sshd", path=places)
    if found is None:
        if "CI" in os.environ:
            pytest.fail("no sshd: tools/setup.sh sshd")
        pytest.skip("no sshd: tools/setup.sh sshd")
    return found


def _with_libraries() -> dict[str, str]:
    """The environment of sshd: also the library that `tools/setup.sh sshd` has unpacked beside it."""
    places = map(str, Path(sys.prefix, "sshd", "usr", "lib").glob("*-linux-gnu*"))
    return {**os.environ, "LD_LIBRARY_PATH": os.pathsep.join(places)}


@contextlib.contextmanager
def running(env: Mapping[str, str]) -> Iterator[list[str]]:
    """The words of an ssh command that logs in there, before the address; ``env`` is that of each session."""
    sshd = program()
    base = Path(tempfile.mkdtemp(prefix="orchestrator-sshd-"))
    for key in ("host_key", "user_key"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(base / key)], check=True)
    shutil.copy(base / "user_key.pub", base / "authorized_keys")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    variables = " ".join(f'"{name}={value}"' for name, value in env.items())
    (base / "config").write_text(f"{CONFIG.format(base=base, port=port)}SetEnv {variables}\n")
    known = (base / "host_key.pub").read_text().split()
    (base / "known_hosts").write_text(f"[127.0.0.1]:{port} {known[0]} {known[1]}\n")
    command = [sshd, "-D", "-e", "-f", str(base / "config")]
    if os.geteuid() == 0:
        (base / "passwd").write_text(Path("/etc/passwd").read_text() + "sshd:x:74:65534::/run/sshd:/bin/false\n")
        command = ["unshare", "-m", "sh", "-c", AS_ROOT, str(base), *command]
    with (base / "log").open("wb") as log:
        server = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=_with_libraries())
    try:

        def answers() -> bool:
            assert server.poll() is None, (base / "log").read_text()
            with socket.socket() as line:
                return line.connect_ex(("127.0.0.1", port)) == 0

        until(answers)
        options = ["BatchMode=yes", f"UserKnownHostsFile={base}/known_hosts", "IdentitiesOnly=yes"]
        words = [f"-o{option}" for option in options]
        yield ["ssh", "-F", "none", "-i", str(base / "user_key"), "-p", str(port), *words]
    finally:
        server.terminate()
        server.wait()
        shutil.rmtree(base)
