"""The kernel says who is at the other end of a socket."""

import os
import socket
import sys

from orchestrator.base.platform.peer_credentials import is_own_user


def test_a_peer_of_our_own_user_is_let_in_and_nobody_else():
    ours, theirs = socket.socketpair()
    with ours, theirs:
        assert is_own_user(ours)

    class Foreign:
        def getsockopt(self, *_):
            return b"".join(n.to_bytes(4, sys.byteorder) for n in (1, os.geteuid() + 1, 1))

    class Broken:
        def getsockopt(self, *_):
            raise OSError

    assert not is_own_user(Foreign())
    assert not is_own_user(Broken())
