"""Project intelligence as the daemon sees it: who may ask, about which place, and how long it may take.

Nothing that reads a project is loaded here: another process does that (`gsd_reader`), begun with the first question.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from orchestrator.gsd.questions import Questions
from orchestrator.gsd.reader_process import Reader
from orchestrator.gsd.resource_texts import GsdResources
from orchestrator.gsd.spawn_prompts import SpawnPrompts
from orchestrator.protocol.offers import McpIdentity, Offer
from orchestrator.protocol.tool_calls import Call, Client, Tool

INSTRUCTIONS = (
    "gsd_* tools answer from the project's .planning/ and code graph, read-only: gsd_query_intel finds files, "
    "gsd_blast_radius tells what a change affects, gsd_phase_status where the work stands."
)
IDENTITY = McpIdentity("gsd", "1.0.0", "GSD Codebase Intelligence Server")
"""How the server introduces itself to a connection that has this toolset alone (B3.7)."""
TELL_S = 2.0
"""A question that takes longer says what it waits for."""
READING = "reading the project's planning and code graph"


class GsdWiring:
    """Project intelligence of one daemon, from its start to its end.

    ``listeners`` hear the root of each project whose files have changed, as long as the reading process watches it.
    """

    def __init__(self, log_file: str = "", command: list[str] | None = None) -> None:
        self.listeners: list[Callable[[str], None]] = []
        self.reader = Reader(self._changed, command, log_file)
        self._tools: dict[str, Tool] | None = None
        self._asked_by: dict[Client, Questions] = {}

    def offer(self, client: Client) -> Offer:
        """The toolset with its prompts and resources, for a connection that is no agent's."""
        questions = self.questions(client)
        return Offer(
            self.tools(client),
            INSTRUCTIONS,
            SpawnPrompts(questions),
            GsdResources(questions, self.listeners),
            questions.roots_changed,
            IDENTITY,
        )

    def tools(self, _client: Client) -> dict[str, Tool]:
        """The toolset."""
        if self._tools is None:
            from orchestrator.gsd import tools as gsd_tools  # noqa: PLC0415 - the schemas are for those who ask for them

            self._tools = gsd_tools.build(self._call)
        return self._tools

    def questions(self, client: Client) -> Questions:
        """What a connection asks by."""
        found = self._asked_by.get(client)
        if found is None:
            found = self._asked_by[client] = Questions(self.reader, client)
        return found

    def part(self, client: Client) -> None:
        """A connection is over."""
        questions = self._asked_by.pop(client, None)
        if questions is not None:
            questions.close()

    def look_around(self) -> None:
        """Now and then: give back the memory of what nobody asks about."""
        watching = [one for one in self._asked_by.values() if one.watching]
        self.reader.look_around(needed=bool(watching))
        if self.reader.pid is None:
            for one in watching:
                one.watch()

    async def close(self) -> None:
        """End the reading process, for the daemon ends."""
        await self.reader.close()

    def _changed(self, root: str) -> None:
        for listener in list(self.listeners):
            listener(root)

    async def _call(self, call: Call, question: str, named: str, arguments: dict[str, Any]) -> dict[str, Any]:
        slow = asyncio.get_running_loop().call_later(TELL_S, call.tell, READING)
        try:
            asked = self.questions(call.client)
            return await asked.ask(question, arguments, call.session, named=named, age_s=call.age_s)
        finally:
            slow.cancel()
