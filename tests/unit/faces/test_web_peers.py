"""What a connection's process may do on the web pages, with the kernel's facts made up."""

import asyncio
import os
import threading

import pytest

from orchestrator.base.errors import NotReady
from orchestrator.base.platform.tcp_peers import SocketHolders, TcpSocket
from orchestrator.faces.web import local_peers
from orchestrator.faces.web.local_peers import MOST_WAITING, LocalPeers, PeerQueues, WebPeer
from orchestrator.trust.human_origin import HumanOrigin

CLIENT, SERVER = ("127.0.0.1", 5000), ("127.0.0.1", 8750)
OURS = TcpSocket(os.geteuid(), 77)
KINDS = {1: "human", 2: "inside", 3: "master", 4: "unknown", 5: None}
"""Made-up processes: where they come from; None: they have ended."""


@pytest.fixture
def judged(monkeypatch):
    """Judge a connection whose socket and holders are given."""

    def judge(socket=OURS, pids=(), hidden=(), client=CLIENT, **settings):
        monkeypatch.setattr(local_peers.tcp_peers, "socket_of", lambda local, remote: socket)
        monkeypatch.setattr(local_peers.tcp_peers, "holders_of", lambda inode, first: SocketHolders(pids, hidden))
        monkeypatch.setattr(local_peers, "lines_of", lambda pid: (pid,) if KINDS[pid] else ())
        monkeypatch.setattr(local_peers, "human_origin", lambda lines, *_: HumanOrigin(KINDS[lines[0]]))
        peer = LocalPeers(**settings).judge(client, SERVER)
        return peer.rights, peer.why.code if peer.why else None

    return judge


def test_a_humans_program_may_do_everything_and_an_agents_nothing(judged):
    assert judged(pids=(1,)) == ("all", None)
    assert judged(pids=(2,)) == ("none", "not_for_agents")
    assert judged(pids=(3,)) == ("none", "not_allowed_to_answer")
    assert judged(pids=(4,)) == ("read", "origin_unknown")
    assert judged(pids=(5,)) == ("none", "web_refused")


def test_of_several_holders_the_worst_counts(judged):
    assert judged(pids=(1, 4)) == ("read", "origin_unknown")
    assert judged(pids=(1, 4, 2)) == ("none", "not_for_agents")


def test_a_program_that_hides_must_be_a_humans_among_all_that_hide(judged):
    assert judged(hidden=(1,)) == ("all", None)
    assert judged(hidden=(1, 1, 2)) == ("none", "not_for_agents")
    assert judged(hidden=(1, 4)) == ("read", "origin_unknown")
    assert judged() == ("none", "web_refused"), "nobody can be the holder"


def test_a_connection_that_the_kernel_does_not_show_is_refused_here_and_remote_elsewhere(judged):
    for socket in (None, TcpSocket(os.geteuid(), 0)):
        for address in ("127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1"):
            assert judged(socket, client=(address, 5000)) == ("none", "web_refused")
        assert judged(socket, client=("192.0.2.7", 5000)) == ("all", None)
    assert judged(client=("nonsense", 1), socket=None) == ("none", "web_refused")


@pytest.mark.anyio
async def test_who_has_no_token_waits_in_a_queue_of_its_own_that_ends():
    gate, judged = threading.Event(), []

    class Peers:
        def judge(self, client, server):
            judged.append(client)
            if client != "owner":
                gate.wait(60)
            return WebPeer("all")

    queues = PeerQueues(Peers())
    waiting = [asyncio.create_task(queues.judge(number, SERVER, token=False)) for number in range(MOST_WAITING)]
    await asyncio.sleep(0)
    with pytest.raises(NotReady):
        await queues.judge("late", SERVER, token=False)
    assert (await queues.judge("owner", SERVER, token=True)).rights == "all"
    gate.set()
    await asyncio.gather(*waiting)
    assert len(judged) == MOST_WAITING + 1
    assert (await queues.judge("late", SERVER, token=False)).rights == "all"


def test_another_user_is_let_in_only_as_the_proxy(judged):
    other = TcpSocket(os.geteuid() + 1, 77)
    assert judged(other, pids=(1,)) == ("none", "web_refused")
    assert judged(other, behind_proxy=True) == ("all", None)
    assert judged(pids=(2,), behind_proxy=True) == ("none", "not_for_agents"), "an agent is no proxy"
    assert judged(other, client=("192.168.1.5", 5000)) == ("none", "web_refused"), "by the outer address too"
