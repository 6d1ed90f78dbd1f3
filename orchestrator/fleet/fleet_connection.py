"""The functions of the fleet's database on PostgreSQL: what `database_functions.FleetDatabase` says, call by call.

The head of `schema/0001_1_tables.sql` lists the functions and what they return. psycopg is used only in this package.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

import orjson

from orchestrator.base.clock import Clock
from orchestrator.base.errors import BadRequest, NotReady
from orchestrator.base.waiting import elapse
from orchestrator.fleet.database_functions import (
    NEW_LINES,
    POSTS_A_ROUND,
    Ask,
    Beat,
    BeatRequest,
    HomeAgent,
    HostFacts,
    HostRow,
    HostView,
    Joined,
    KeptLateLine,
    LateLine,
    LogName,
    LogPart,
    MirroredLine,
    MovedAgent,
    NewFleetAgent,
    NewLines,
    NewPost,
    News,
    NewsKind,
    OwnAgent,
    Ownership,
    PlacedAgent,
    Post,
    PostAnswer,
    RunHomeRow,
    ShipAnswer,
    UntakenPost,
)
from orchestrator.fleet.host_news import CALL_ITSELF_S, NewsListener, NewsSender, channel_of
from orchestrator.fleet.migrations import SCHEMA
from orchestrator.fleet.post_batches import PostBatches
from orchestrator.fleet.server_connection import Reconnection, ResultRow, ServerConnection

T = TypeVar("T")
_S = "select * from orchestrator_fleet."
AGAIN_WITHIN_S = 5.0
"""How long a call whose answer was lost is sent again."""
SHORTEST_PAUSE_S = 0.05


class FleetConnection:
    """One host of one project at its database; four connections, opened when they are needed.

    Writes of callers go on the first, ships and reads of logs on the second. The third carries what may not wait
    behind those and needs no sync: renewals, fences, posts to take, news. The fourth listens.
    """

    def __init__(self, dsn: str, project: str, host: str, clock: Clock) -> None:
        self._host = host
        self._clock = clock
        self._reconnection = reconnection = Reconnection(clock)

        def connection(purpose: str, *, synchronous: bool = True) -> ServerConnection:
            return ServerConnection(dsn, f"{host} {purpose}", clock, reconnection, synchronous=synchronous)

        self._work, self._ship = connection("work"), connection("ship")
        self._notify, self._listen = connection("notify", synchronous=False), connection("listen")
        self._sender = NewsSender(self._notify, project, clock)
        self._listener = NewsListener(self._listen, channel_of(project, host), clock, self._heard)
        self._posts = PostBatches(self._work)
        self.on_news: Callable[[News], None] = lambda _news: None

    def _heard(self, news: News) -> None:
        self.on_news(news)

    def tell(self, host: str, kind: NewsKind, agents: Iterable[str] = ()) -> None:
        """Tell a host that there is something for it; returns at once, never raises, and may be lost."""
        self._sender.tell(host, kind, agents)

    async def close(self) -> None:
        """End all connections."""
        await self._sender.close()
        await self._listener.close()
        for connection in (self._work, self._ship, self._notify, self._listen):
            await connection.close()

    async def _accepted(self, call: Callable[[], Awaitable[T]]) -> T:
        """A call that the database knows again by its ``req``: sent once more if its answer was lost.

        `fleet_away` with ``sent`` if it is not known in the end whether it was accepted.
        """
        until = None
        while True:
            try:
                return await call()
            except NotReady as error:
                if error.code != "fleet_away" or not (error.facts.get("sent") or until):
                    raise
                error.facts["sent"] = True
                until = until or self._clock.monotonic() + AGAIN_WITHIN_S
                if self._clock.monotonic() >= until:
                    raise
            await elapse(max(SHORTEST_PAUSE_S, self._reconnection.pause_s), self._clock)

    # -- the host -----------------------------------------------------------------------------------------------

    async def join(self, facts: HostFacts) -> Joined:
        """Bind this host to its instance and boot; from then on it hears news."""
        values = (SCHEMA, facts.instance, facts.boot, facts.version, facts.log_v, _json(facts.caps), facts.repository)
        (row,) = await self._work.call(_S + "join_host(%s, %s, %s, %s, %s, %s, %s)", values)
        self._listener.begin()
        return Joined(*row)

    async def beat(self, request: BeatRequest) -> Beat:
        """Renew the lease, and see that news can still be heard."""
        self._listener.begin()
        view = None if request.view is None else _json(request.view)
        values = (
            request.instance,
            request.boot,
            _json(request.caps),
            request.fresh,
            view,
            _json(request.known_views),
        )
        (answer,) = await self._notify.call(_S + "beat(%s, %s, %s, %s, %s, %s)", values)
        if self._listener.listening and self._listener.silent_s > CALL_ITSELF_S:
            self._sender.tell(self._host, None)
        incarnation, timeline, own, homes, hosts, runs, views, asks = answer
        return Beat(
            incarnation,
            timeline,
            own=tuple(OwnAgent(*row) for row in own),
            homes=tuple(HomeAgent(*row) for row in homes),
            hosts=tuple(HostRow(*row) for row in hosts),
            runs=tuple(RunHomeRow(*row) for row in runs),
            views=tuple(HostView(host, number, _opened(view)) for host, number, view in views),
            asks=_asks(asks),
        )

    async def move(self, dead: str) -> list[MovedAgent]:
        """Give the agents of a lost host to live hosts."""
        return [MovedAgent(*row) for row in await self._work.call(_S + "move(%s)", (dead,))]

    async def take_run(self, run_id: str, gen: int) -> RunHomeRow:
        """Make this host the home of a run."""
        (row,) = await self._work.call(_S + "take_run(%s, %s)", (run_id, gen))
        return RunHomeRow(*row)

    # -- posts --------------------------------------------------------------------------------------------------

    async def create(self, run_id: str, agents: Sequence[NewFleetAgent]) -> list[PlacedAgent]:
        """Make agents, their queues and `create` posts."""
        wanted = [
            {
                "base": agent.base,
                "taken": agent.taken,
                "host": agent.host,
                "engine": agent.engine,
                "on_host_lost": agent.on_host_lost,
                "req": agent.req,
                "body": _json(agent.body),
            }
            for agent in agents
        ]
        values = (run_id, _json(wanted))
        rows = await self._accepted(partial(self._work.call, _S + "create_agents(%s, %s)", values))
        return [PlacedAgent(*placed) for _, *placed in rows]

    async def post(self, post: NewPost) -> PostAnswer:
        """Accept a call for an agent; committed when it returns."""
        values = (post.agent, post.kind, post.req, post.task_id, _json(post.body), post.limit, post.force)
        row = await self._accepted(partial(self._posts.send, values))
        answer = PostAnswer(*row)
        return answer if answer.body is None else answer._replace(body=_object(row[6]))

    async def take(self, after: Mapping[str, int], each: int = POSTS_A_ROUND) -> list[Post]:
        """Posts of own agents behind these numbers."""
        rows = await self._notify.call(_S + "take(%s, %s, %s)", (list(after), list(after.values()), each))
        return [Post._make((*row[:-1], _object(row[-1]))) for row in rows]

    async def untaken(self, after: Mapping[str, int], each: int) -> list[UntakenPost]:
        """Posts of any agents behind these numbers."""
        rows = await self._work.call(_S + "untaken(%s, %s, %s)", (list(after), list(after.values()), each))
        return [UntakenPost(*row) for row in rows]

    async def ownership(self, agents: Sequence[str]) -> dict[str, Ownership]:
        """Who holds these agents now."""
        rows = await self._notify.call(_S + "ownership(%s)", (list(agents),))
        return {agent: Ownership(host, fence) for agent, host, fence in rows}

    async def forget(self, agents: Sequence[str]) -> list[str]:
        """Remove deleted agents of this home."""
        return [agent for (agent,) in await self._work.call(_S + "forget(%s)", (list(agents),))]

    # -- mirrors ------------------------------------------------------------------------------------------------

    async def ship(self, parts: Sequence[LogPart]) -> list[ShipAnswer]:
        """Store records of own agents; the answers are in the order of the parts."""
        lines = [
            (number, log, *line)
            for number, part in enumerate(parts, 1)
            for log, shipped in (("inbox", part.inbox), ("outbox", part.outbox))
            for line in shipped
        ]
        heads = [(part.agent, part.fence, part.life) for part in parts]
        values = [*_columns(heads, 3), *_columns(lines, 6)]
        rows = await self._ship.call(_S + "ship(%s, %s, %s, %s, %s, %s, %s, %s, %s)", values)
        return [ShipAnswer(*answer) for _, *answer in rows]

    async def read(self, agent: str, log: LogName, after: int, lines: int, max_bytes: int) -> list[MirroredLine]:
        """Lines of the mirror behind ``after``, in order."""
        rows = await self._ship.call(_S + "read(%s, %s, %s, %s, %s)", (agent, log, after, lines, max_bytes))
        return [MirroredLine(*row) for row in rows]

    async def read_new(self, after: Mapping[str, tuple[int, int]]) -> list[NewLines]:
        """Lines behind (inbox, outbox) of several mirrors."""
        values = (list(after), *_columns(list(after.values()), 2), NEW_LINES)
        lines: dict[str, dict[str, list[MirroredLine]]] = {}
        for agent, log, *line in await self._ship.call(_S + "read_new(%s, %s, %s, %s)", values):
            lines.setdefault(agent, {"inbox": [], "outbox": []})[log].append(MirroredLine(*line))
        return [NewLines(agent, tuple(logs["inbox"]), tuple(logs["outbox"])) for agent, logs in lines.items()]

    async def late(self, agent: str, fence: int, lines: Sequence[LateLine]) -> None:
        """Keep what a former owner could not ship."""
        await self._ship.call(_S + "late(%s, %s, %s, %s, %s)", (agent, fence, *_columns(lines, 3)))

    async def late_lines(self, agent: str, after: int, lines: int, max_bytes: int) -> list[KeptLateLine]:
        """What other hosts kept of an agent after line number ``after``."""
        rows = await self._ship.call(_S + "late_lines(%s, %s, %s, %s)", (agent, after, lines, max_bytes))
        return [KeptLateLine(*row) for row in rows]

    # -- questions ----------------------------------------------------------------------------------------------

    async def ask(self, to_host: str, verb: str, body: Any, wait_s: float) -> int:
        """Put a question to a host; its id."""
        ((number,),) = await self._work.call(_S + "ask(%s, %s, %s, %s)", (to_host, verb, _json(body), wait_s))
        return int(number)

    async def asks(self) -> list[Ask]:
        """Questions to this host that have no answer and time left."""
        return list(_asks(await self._work.call(_S + "asks()")))

    async def answer(self, ask_id: int, answer: Any) -> None:
        """Answer a question."""
        await self._work.call(_S + "answer(%s, %s)", (ask_id, _json(answer)))

    async def answered(self, ask_id: int) -> tuple[bool, Any]:
        """Whether a question of this host has its answer, and the answer."""
        ((done, answer),) = await self._work.call(_S + "answered(%s)", (ask_id,))
        return done, None if answer is None else _opened(answer)


def _json(value: Any) -> str:
    try:
        return orjson.dumps(value).decode()
    except orjson.JSONEncodeError as error:
        raise BadRequest("bad_argument", f"the payload cannot be stored as JSON: {error}") from None


def _opened(text: str) -> Any:
    """The JSON of another host; None if it is none that can be read here, for that host may have sent anything."""
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        return None


def _object(text: str) -> dict[str, Any] | None:
    value = _opened(text)
    return value if isinstance(value, dict) else None


def _asks(rows: Iterable[Sequence[Any]]) -> tuple[Ask, ...]:
    asks = [Ask(number, by_host, verb, _object(body), left) for number, by_host, verb, body, left in rows]
    return tuple(ask for ask in asks if ask.body is not None)


def _columns(rows: Sequence[ResultRow], width: int) -> list[list[Any]]:
    """The columns of rows, each as a list; as many lists without any row."""
    return [[row[column] for row in rows] for column in range(width)]
