"""Which process holds the other end of a TCP connection of this machine."""

import os
import socket
import subprocess
import sys

import pytest

from orchestrator.base.platform import tcp_peers

HOLD = "import socket, sys; kept = socket.create_connection((sys.argv[1], int(sys.argv[2]))); print('open', flush=True); kept.recv(1)"


@pytest.mark.parametrize(
    ("family", "host"),
    [(socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1"), (socket.AF_INET6, "::ffff:127.0.0.1")],
)
def test_the_process_of_a_connection_is_its_holder(family, host):
    with socket.socket(family) as listener:
        try:
            listener.bind(("::" if host.startswith("::ffff") else host, 0))
        except OSError:
            pytest.skip("this machine has no IPv6")
        listener.listen()
        port = listener.getsockname()[1]
        words = [sys.executable, "-IS", "-c", HOLD, host, str(port)]
        with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as other, listener.accept()[0] as connection:
            client = connection.getpeername()
            other.stdout.readline()
            found = tcp_peers.socket_of(client[:2], connection.getsockname()[:2])
            assert found is not None and found.uid == os.geteuid() and found.inode
            connection.settimeout(60)
            assert tcp_peers.holders_of(found.inode).pids == (other.pid,)
            assert tcp_peers.holders_of(found.inode, first=[other.pid]).pids == (other.pid,)
            assert tcp_peers.holders_of(found.inode, first=[1]).pids == (other.pid,)
        gone = tcp_peers.socket_of(client[:2], (host, port))
        assert gone is None or gone.inode == 0


def test_elsewhere_the_holder_is_found_among_this_users_processes_and_else_nobody_from_here_is(monkeypatch):
    monkeypatch.setattr(tcp_peers, "LINUX", False)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = listener.getsockname()
        words = [sys.executable, "-IS", "-c", HOLD, *map(str, server)]
        with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as other, listener.accept()[0] as connection:
            client = connection.getpeername()
            other.stdout.readline()
            found = tcp_peers.socket_of(client, server)
            assert found is not None and found.holders is not None
            assert (found.uid, found.holders.pids) == (os.geteuid(), (other.pid,))
        gone = tcp_peers.socket_of(client, server)
        assert gone is not None and gone.holders is not None and gone.holders.pids == ()
    assert tcp_peers.socket_of(("192.0.2.1", 1), ("192.0.2.1", 2)) is None, "another machine"
    assert "127.0.0.1" in tcp_peers._own_addresses()
    monkeypatch.setattr(tcp_peers, "_own_addresses", lambda: {"192.0.2.1"})
    here = tcp_peers.socket_of(("192.0.2.1", 1), ("192.0.2.1", 2))
    assert here is not None and here.holders is not None and here.holders.pids == ()


def test_an_address_that_nobody_has_is_no_socket():
    assert tcp_peers.socket_of(("192.0.2.1", 1), ("192.0.2.1", 2)) is None
    assert tcp_peers.plain("::ffff:127.0.0.1") == "127.0.0.1"
    assert tcp_peers.plain("fe80::1%eth0") == "fe80::1"


def test_a_process_that_hides_its_descriptors_is_a_candidate(monkeypatch):
    def refuse(path):
        raise PermissionError(path)

    monkeypatch.setattr(tcp_peers.os, "listdir", refuse)
    monkeypatch.setattr(tcp_peers, "pids", lambda: [os.getppid(), os.getpid()])
    assert tcp_peers.holders_of(5) == ((), (os.getppid(),))
