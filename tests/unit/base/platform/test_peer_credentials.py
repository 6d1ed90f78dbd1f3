"""The kernel says who is at the other end of a socket."""

import errno
import os
import socket
import struct
import sys

import pytest

from orchestrator.base.platform import basic_facts, peer_credentials
from orchestrator.base.platform.peer_credentials import PeerCredentials, credentials_of, is_own_user, pidfd_of


class Broken:
    def getsockopt(self, *_):
        raise OSError(errno.ENOTCONN, "not connected")


def test_a_peer_of_our_own_user_is_let_in_and_nobody_else():
    ours, theirs = socket.socketpair()
    with ours, theirs:
        assert is_own_user(ours)

    class Foreign:
        def getsockopt(self, *_):
            return b"".join(n.to_bytes(4, sys.byteorder) for n in (1, os.geteuid() + 1, 1))

    assert not is_own_user(Foreign())
    assert not is_own_user(Broken())


class OfMacos:
    """A socket as macOS has it: nothing is asked of it but what sys/un.h of xnu names."""

    def __init__(self, pid=4711, uid=501, version=0, *, pid_known=True):
        self.answers = {(0, 1): struct.pack("=IiHxx16i", version, uid, 1, *[20] * 16)}
        if pid_known:
            self.answers[0, 2] = struct.pack("=i", pid)

    def getsockopt(self, level, option, size):
        answer = self.answers.get((level, option))
        if answer is None:
            raise OSError(errno.ENOPROTOOPT, "no such option")
        assert len(answer) == size
        return answer


@pytest.mark.parametrize(
    ("sock", "peer"),
    [
        (OfMacos(), PeerCredentials(4711, 501)),
        (OfMacos(pid_known=False), PeerCredentials(0, 501)),
        (OfMacos(pid=-1), PeerCredentials(0, 501)),
        (OfMacos(version=7), PeerCredentials(4711, -1)),
        (Broken(), PeerCredentials(0, -1)),
    ],
)
def test_macos_names_pid_and_user_by_two_options_and_what_it_does_not_name_is_nobody(monkeypatch, sock, peer):
    monkeypatch.setattr(peer_credentials, "LINUX", False)
    assert credentials_of(sock) == peer
    assert pidfd_of(sock) is None


def test_the_form_of_linux_is_taken_on_linux_unless_the_portable_one_is_wanted():
    wanted = os.environ.get(basic_facts.VARIABLE) != basic_facts.PORTABLE
    assert basic_facts.LINUX is (sys.platform == "linux" and wanted)
    assert (107 if basic_facts.LINUX else 103) == basic_facts.SUN_PATH_MAX


def test_who_names_no_user_is_known_by_its_process_or_else_by_the_closed_directory_of_the_socket(monkeypatch):
    monkeypatch.setattr(peer_credentials, "LINUX", False)
    assert is_own_user(OfMacos(uid=os.geteuid()))
    assert not is_own_user(OfMacos(uid=os.geteuid() + 1))
    assert is_own_user(OfMacos(pid=os.getpid(), version=7))
    assert not is_own_user(OfMacos(pid=1 << 30, version=7))
    assert is_own_user(Broken()), "and then gets no rights of a master"
