"""What faces ask of the daemon for people: the snapshot, and answers to items of the inbox. For the command line."""

from __future__ import annotations

import asyncio
import os
import pwd
from functools import partial
from typing import Any, cast, get_args

from orchestrator.base import failpoints
from orchestrator.base.errors import BadRequest
from orchestrator.core.inbox_items import ItemDecision
from orchestrator.protocol.offers import AdminMethods
from orchestrator.protocol.tool_calls import Client
from orchestrator.team.people.answer_authority import AnswerAuthority
from orchestrator.team.people.answer_words import GivenAnswer
from orchestrator.team.people.approval_rules import ApprovalRules
from orchestrator.team.people.inbox_answers import InboxAnswers
from orchestrator.team.people.snapshot_feed import SnapshotFeed

TEXT_MAX = 20_000
FACE_MAX = 32


class PeopleRequests:
    """The requests of one daemon's faces."""

    def __init__(
        self, feed: SnapshotFeed, inbox: InboxAnswers, authority: AnswerAuthority, rules: ApprovalRules
    ) -> None:
        self._feed = feed
        self._inbox = inbox
        self._authority = authority
        self._rules = rules
        self._judged: dict[str, bool] = {}  # connection of a face -> whether it may answer

    def admin(self, client: Client) -> AdminMethods:
        """The methods of this connection."""
        return {
            "snapshot": partial(self._snapshot, client),
            "answer": partial(self._answer, client),
            "approval_rules": self._listed_rules,
            "remove_approval_rule": partial(self._remove_rule, client),
        }

    def part(self, client: Client) -> None:
        """The connection has ended: its face is closed."""
        self._feed.closed(client.origin.conn)
        self._judged.pop(client.origin.conn, None)

    async def _snapshot(
        self,
        client: Client,
        *,
        since: int = 0,
        boot: str = "",
        wait_ms: int = 0,
        face: str = "cli",
        answers: bool = False,
    ) -> dict[str, Any]:
        """The snapshot, or what has changed since a version of it. One that is read once opens no face.

        ``answers``: the face can answer items; that counts only for one that may.
        """
        if not wait_ms and not since and not answers:
            return await self._feed.once()
        conn = client.origin.conn
        if answers and conn not in self._judged:
            self._judged[conn] = await self._authority.may_answer(client)
        place = self._feed.opened(conn, face[:FACE_MAX], answers=bool(answers) and self._judged[conn])
        return await self._feed.since(int(since), str(boot), int(wait_ms) / 1000, place)

    async def _answer(
        self, client: Client, *, item: str, decision: str, text: str = "", face: str = "cli", req: str
    ) -> dict[str, Any]:
        if decision not in get_args(ItemDecision):
            raise BadRequest("bad_argument", f"decision is one of: {', '.join(get_args(ItemDecision))}")
        if len(text) > TEXT_MAX:
            raise BadRequest("bad_argument", f"the text is longer than {TEXT_MAX} characters", "use fewer words")
        await self._inbox.returned(item)
        entry = self._inbox.agent_of(item)
        by = await self._authority.answerer(client, face[:FACE_MAX], user_name(), entry)
        given = GivenAnswer(cast("ItemDecision", decision), text, by, req=req)
        answered = await self._inbox.answer(item, given)
        failpoints.passed("answer:inbox")
        return answered

    async def _listed_rules(self) -> dict[str, Any]:
        return {"rules": await asyncio.to_thread(self._rules.listed)}

    async def _remove_rule(self, client: Client, *, rule: str) -> dict[str, Any]:
        """Remove a rule; only a human may, as only a human makes one."""
        await self._authority.human(client)
        await asyncio.to_thread(self._rules.remove, str(rule))
        return {"ok": True, "rule": rule}


def user_name() -> str:
    """The name of the user whose daemon this is; its number if it has none."""
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return str(os.geteuid())
