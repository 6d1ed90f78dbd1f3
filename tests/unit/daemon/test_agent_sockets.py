"""The sockets of a daemon's agents, without a daemon."""

import asyncio

from orchestrator.daemon.agent_sockets import AgentSockets
from orchestrator.edge.project_location import agent_socket
from orchestrator.team.roster.agent_entry import AgentEntry


async def _serve(name, reader, writer):
    writer.close()


def test_what_is_seen_of_an_agent_after_the_end_opens_no_socket(tmp_path):
    async def scene():
        sockets, entry = AgentSockets(tmp_path, _serve), AgentEntry("a")
        sockets.begin([entry])
        assert [path.name for path in tmp_path.iterdir()] == [agent_socket("a")]
        await sockets.close()
        sockets.seen(entry)  # its last record became durable while the daemon ended
        assert list(tmp_path.iterdir()) == []

    asyncio.run(scene())
