"""`FleetDatabase` by the bare SQL functions, one statement per call: for tests of the schema itself."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import psycopg

from orchestrator.base.errors import BadRequest, Conflict, Environment, NotReady, OrchestratorError
from orchestrator.fleet import database_functions as functions
from orchestrator.fleet.migrations import SCHEMA

CODES: dict[str, tuple[type[OrchestratorError], str]] = {
    "OF001": (BadRequest, "host_unknown"), "OF002": (Conflict, "host_taken"), "OF003": (Conflict, "project_taken"),
    "OF004": (Environment, "schema_newer"), "OF005": (Environment, "schema_older"), "OF006": (Conflict, "not_home"),
    "OF007": (Conflict, "host_alive"), "OF008": (NotReady, "too_early"), "OF009": (BadRequest, "unknown_run"),
    "OF010": (BadRequest, "bad_argument"),
}  # fmt: skip


def _text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


class SqlConnection:
    on_news: Callable[[functions.News], None] = staticmethod(lambda _news: None)

    def __init__(self, connection: psycopg.AsyncConnection[Any]) -> None:
        self.connection = connection

    def tell(self, host: str, kind: functions.NewsKind, agents: Iterable[str] = ()) -> None:
        raise NotImplementedError

    async def _rows(self, function: str, types: str, *arguments: Any) -> list[Any]:
        """The rows of one call; ``types`` are those of the arguments, in order."""
        places = ", ".join(f"%s::{name}" for name in types.split())
        try:
            cursor = await self.connection.execute(
                f"select * from orchestrator_fleet.{function}({places})", arguments
            )
            return await cursor.fetchall()
        except psycopg.Error as error:
            if error.sqlstate not in CODES:
                raise
            kind, code = CODES[error.sqlstate]
            raise kind(code, str(error)) from None

    async def join(self, facts: functions.HostFacts) -> functions.Joined:
        asked = (SCHEMA, facts.instance, facts.boot, facts.version, facts.log_v, _text(facts.caps), facts.repository)
        (row,) = await self._rows("join_host", "int text text text int text text", *asked)
        return functions.Joined(*row)

    async def beat(self, request: functions.BeatRequest) -> functions.Beat:
        view = None if request.view is None else _text(request.view)
        asked = (request.instance, request.boot, _text(request.caps), request.fresh, view, _text(request.known_views))
        (row,) = await self._rows("beat", "text text text bool text text", *asked)
        incarnation, timeline, own, homes, hosts, runs, views, asks = row
        return functions.Beat(
            incarnation,
            timeline,
            own=tuple(functions.OwnAgent(*each) for each in own),
            homes=tuple(functions.HomeAgent(*each) for each in homes),
            hosts=tuple(functions.HostRow(*each) for each in hosts),
            runs=tuple(functions.RunHomeRow(*each) for each in runs),
            views=tuple(functions.HostView(host, n, _opened(view)) for host, n, view in views),
            asks=tuple(_asks(asks)),
        )

    async def create(self, run_id: str, agents: Sequence[functions.NewFleetAgent]) -> list[functions.PlacedAgent]:
        news = _text([{**vars(agent), "body": _text(agent.body)} for agent in agents])
        return [
            functions.PlacedAgent(*row[1:]) for row in await self._rows("create_agents", "text text", run_id, news)
        ]

    async def post(self, post: functions.NewPost) -> functions.PostAnswer:
        asked = (post.agent, post.kind, post.req, post.task_id, _text(post.body), post.limit, post.force)
        ((*first, body, outcome),) = await self._rows("post", "text text text text text int bool", *asked)
        return functions.PostAnswer(*first, None if body is None else json.loads(body), outcome)

    async def take(self, after: Mapping[str, int], each: int = functions.POSTS_A_ROUND) -> list[functions.Post]:
        rows = await self._rows("take", "text[] bigint[] int", list(after), list(after.values()), each)
        return [functions.Post(*row[:7], json.loads(row[7])) for row in rows]

    async def untaken(self, after: Mapping[str, int], each: int) -> list[functions.UntakenPost]:
        rows = await self._rows("untaken", "text[] bigint[] int", list(after), list(after.values()), each)
        return [functions.UntakenPost(*row) for row in rows]

    async def ship(self, parts: Sequence[functions.LogPart]) -> list[functions.ShipAnswer]:
        lines = [
            (n, log, *line)
            for n, part in enumerate(parts, 1)
            for log, of_log in (("inbox", part.inbox), ("outbox", part.outbox))
            for line in of_log
        ]
        columns = [[line[column] for line in lines] for column in range(6)]
        heads = [[getattr(part, name) for part in parts] for name in ("agent", "fence", "life")]
        types = "text[] bigint[] text[] int[] text[] bigint[] text[] text[] text[]"
        return [functions.ShipAnswer(*row[1:]) for row in await self._rows("ship", types, *heads, *columns)]

    async def ownership(self, agents: Sequence[str]) -> dict[str, functions.Ownership]:
        return {
            name: functions.Ownership(*row) for name, *row in await self._rows("ownership", "text[]", list(agents))
        }

    async def move(self, dead: str) -> list[functions.MovedAgent]:
        return [functions.MovedAgent(*row) for row in await self._rows("move", "text", dead)]

    async def read(
        self, agent: str, log: functions.LogName, after: int, lines: int, max_bytes: int
    ) -> list[functions.MirroredLine]:
        rows = await self._rows("read", "text text bigint int bigint", agent, log, after, lines, max_bytes)
        return [functions.MirroredLine(*row) for row in rows]

    async def read_new(self, after: Mapping[str, tuple[int, int]]) -> list[functions.NewLines]:
        ends = [list(after), [end for end, _ in after.values()], [end for _, end in after.values()]]
        new: dict[str, dict[str, list[functions.MirroredLine]]] = {}
        for agent, log, *line in await self._rows(
            "read_new", "text[] bigint[] bigint[] int", *ends, functions.NEW_LINES
        ):
            new.setdefault(agent, {"inbox": [], "outbox": []})[log].append(functions.MirroredLine(*line))
        return [functions.NewLines(name, tuple(logs["inbox"]), tuple(logs["outbox"])) for name, logs in new.items()]

    async def late(self, agent: str, fence: int, lines: Sequence[functions.LateLine]) -> None:
        columns = [[line[column] for line in lines] for column in range(3)]
        await self._rows("late", "text bigint text[] bigint[] text[]", agent, fence, *columns)

    async def late_lines(self, agent: str, after: int, lines: int, max_bytes: int) -> list[functions.KeptLateLine]:
        rows = await self._rows("late_lines", "text bigint int bigint", agent, after, lines, max_bytes)
        return [functions.KeptLateLine(*row) for row in rows]

    async def take_run(self, run_id: str, gen: int) -> functions.RunHomeRow:
        (row,) = await self._rows("take_run", "text int", run_id, gen)
        return functions.RunHomeRow(*row)

    async def forget(self, agents: Sequence[str]) -> list[str]:
        return [name for (name,) in await self._rows("forget", "text[]", list(agents))]

    async def ask(self, to_host: str, verb: str, body: Any, wait_s: float) -> int:
        ((ask_id,),) = await self._rows("ask", "text text text float8", to_host, verb, _text(body), wait_s)
        return int(ask_id)

    async def asks(self) -> list[functions.Ask]:
        return _asks(await self._rows("asks", ""))

    async def answer(self, ask_id: int, answer: Any) -> None:
        await self._rows("answer", "bigint text", ask_id, _text(answer))

    async def answered(self, ask_id: int) -> tuple[bool, Any]:
        ((done, text),) = await self._rows("answered", "bigint", ask_id)
        return done, json.loads(text) if done else None


def _opened(value: Any) -> Any:
    """JSON that the answer has as text."""
    return json.loads(value) if isinstance(value, str) else value


def _asks(rows: Iterable[Any]) -> list[functions.Ask]:
    return [functions.Ask(ask_id, host, verb, _opened(body), float(left)) for ask_id, host, verb, body, left in rows]
