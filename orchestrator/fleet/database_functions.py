"""What the fleet asks of its database: each function is one transaction. Types and the interface, no SQL.

`fleet_connection` calls PostgreSQL; the simulation has a model of the same functions. A test gives both the
same generated calls and expects the same answers.

A connection speaks for one host of one project, which the database knows by the role of the session. So no function
takes a host's name to act in. Every function raises NotReady ``fleet_away`` if the database does not answer: then the
call was done, not done, or done and not told, and is sent again as it was.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, Protocol

LEASE_S = 15.0
"""How long a renewal is valid, by the clock of the database."""
LOST_AFTER_S = 5.0
"""How long after the end of its lease a host may be declared lost."""
UNBROKEN_S = 20.0
"""How long a host must have renewed its own lease without a gap before it may declare another one lost."""
BEAT_S = 2.0
"""Seconds between two renewals."""
POSTS_A_ROUND = 100
"""Maximum number of posts that one `take` returns for an agent."""
SHIP_RECORDS = 500
SHIP_BYTES = 1 << 20
"""Limits of one `ship`."""

NEW_LINES = 100
"""Maximum number of lines of one log that `read_new` returns."""

PostKind = Literal["create", "task", "cancel", "restart", "stop"]
LogName = Literal["inbox", "outbox"]
OnHostLost = Literal["wait", "move"]


@dataclass(frozen=True)
class HostFacts:
    """A host as it joins. ``instance`` is the identity of its team data, ``boot`` names the boot of its machine.

    ``caps`` is ``{engines: [str], places: int}``; ``places`` is the maximum number of live fleet agents there.
    ``repository`` is the root commit of its checkout, or "" without one: two projects of one name are noticed.
    """

    instance: str
    boot: str
    version: str
    log_v: int
    caps: Mapping[str, Any]
    repository: str = ""


class Joined(NamedTuple):
    """The answer of `join`: who this session is. ``timeline`` and ``incarnation`` change with a restored database."""

    project: str
    host: str
    incarnation: str
    timeline: int


class HostRow(NamedTuple):
    """One host of the project. ``lease_left_s`` is negative after the end of the lease; None: it never renewed."""

    host: str
    lease_left_s: float | None
    version: str
    log_v: int
    draining: bool
    lost: bool
    places: int
    agents: int


class OwnAgent(NamedTuple):
    """An agent that this host owns: its fence, and how far its posts and its mirror go.

    ``ends``: its host was given up and it does not move: the new owner only writes its end. ``late`` is the number of
    its last late line.
    """

    agent: str
    run_id: str
    home: str
    fence: int
    last_post: int
    in_seq: int
    out_seq: int
    on_host_lost: OnHostLost
    ends: bool
    late: int = 0


class HomeAgent(NamedTuple):
    """An agent of a run of this home that another host owns."""

    agent: str
    run_id: str
    host: str
    fence: int
    last_post: int
    in_seq: int
    out_seq: int


class HostView(NamedTuple):
    """What a host last published of its agents (rows of the snapshot): ``n`` counts its versions.

    Of a host with no agents of a run whose home is here it has only the engines, and ``n`` is 0.
    """

    host: str
    n: int
    view: Any


class RunHomeRow(NamedTuple):
    """A run whose home is this host, or was: another ``home`` means that it was taken over. ``gen`` counts homes."""

    run_id: str
    home: str
    gen: int


class Ask(NamedTuple):
    """A question of another host that waits for an answer of this host; ``left_s`` seconds are left."""

    id: int
    by_host: str
    verb: str
    body: Any
    left_s: float


@dataclass(frozen=True)
class BeatRequest:
    """One renewal. ``fresh``: the first one of this connection, so nothing before it counts as unbroken.

    ``view`` replaces what this host publishes; None leaves it. ``known_views`` names the version known of each host.
    """

    instance: str
    boot: str
    caps: Mapping[str, Any]
    fresh: bool = False
    view: Any = None
    known_views: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Beat:
    """What a renewal returns: the heads of everything that this host may have to do something about."""

    incarnation: str
    timeline: int
    own: tuple[OwnAgent, ...]
    homes: tuple[HomeAgent, ...]
    hosts: tuple[HostRow, ...]
    runs: tuple[RunHomeRow, ...]
    views: tuple[HostView, ...]
    asks: tuple[Ask, ...]


@dataclass(frozen=True)
class NewFleetAgent:
    """An agent to create. ``base`` is the slug of its name: the id is the first of base, base-2, … that is free.

    ``taken`` are ids that the creating host uses itself. ``host`` None means `any`: the live host that has the engine
    and most free places. ``body`` becomes post 1 of kind `create`; ``req`` makes a re-sent call create nothing twice.
    """

    base: str
    taken: tuple[str, ...]
    host: str | None
    engine: str
    on_host_lost: OnHostLost
    req: str
    body: Mapping[str, Any]


class PlacedAgent(NamedTuple):
    """The answer for one new agent. ``why`` is "" or why there is none: `orchestrator.fleet.link.PLACES`."""

    agent: str
    host: str
    why: str
    again: bool


@dataclass(frozen=True)
class NewPost:
    """What is asked of an agent. ``limit`` is the maximum number of unfinished tasks, for a task."""

    agent: str
    kind: PostKind
    req: str
    body: Mapping[str, Any]
    task_id: str | None = None
    limit: int = 0
    force: bool = False


PostStatus = Literal[
    "accepted",  # a new post
    "again",  # the same req was accepted before: `seq` and `position` are those of the first time
    "known_task",  # a task has this id: `seq`, `position`, `body` and `outcome` are those of that task
    "no_agent",
    "agent_ended",  # it is closing, or its mirrored life is failed, stopped or deleted: see `life`
    "queue_full",
    "unknown_task",
    "task_over",  # the task to cancel has ended: see `outcome`
]


class PostAnswer(NamedTuple):
    """The answer of `post`. ``host`` is the owner; ``unfinished`` the number of unfinished tasks before this post."""

    status: PostStatus
    host: str
    seq: int = 0
    position: int = 0
    unfinished: int = 0
    life: str = ""
    body: Mapping[str, Any] | None = None
    outcome: str = ""


class Post(NamedTuple):
    """One accepted post, as its owner takes it; ``at`` is RFC 3339 by the clock of the database.

    ``body`` is None if its host posted what cannot be read here.
    """

    agent: str
    seq: int
    kind: PostKind
    task_id: str | None
    req: str
    by_host: str
    at: str
    body: Mapping[str, Any] | None


class UntakenPost(NamedTuple):
    """What other hosts may read of a post that its owner has not taken; ``title`` is "" if it has none."""

    agent: str
    seq: int
    kind: PostKind
    task_id: str | None
    at: str
    title: str


class ShippedLine(NamedTuple):
    """One record to ship: its line without the newline, as it is in the log."""

    seq: int
    type: str
    task_id: str | None
    line: str


@dataclass(frozen=True)
class LogPart:
    """New records of one agent, each log dense after the known end of the mirror; ``life`` is that after them."""

    agent: str
    fence: int
    life: str
    inbox: tuple[ShippedLine, ...] = ()
    outbox: tuple[ShippedLine, ...] = ()


class ShipAnswer(NamedTuple):
    """The answer for one agent, with the ends of its mirror now.

    ``stored``; ``gap``: the part does not begin behind the mirror's end (ship again from there); ``fenced``: another
    fence or host holds the agent; ``forked``: a record contradicts the mirror.
    """

    agent: str
    status: Literal["stored", "gap", "fenced", "forked"]
    in_seq: int
    out_seq: int
    fence: int
    host: str


class Ownership(NamedTuple):
    """Who holds an agent now."""

    host: str
    fence: int


class MovedAgent(NamedTuple):
    """An agent that has got another owner."""

    agent: str
    host: str
    fence: int
    ends: bool


class MirroredLine(NamedTuple):
    """One line of the mirror, without its newline, and the fence under which it was shipped."""

    seq: int
    fence: int
    line: str


class NewLines(NamedTuple):
    """What follows in the mirror of one agent; see `FleetDatabase.read_new`."""

    agent: str
    inbox: tuple[MirroredLine, ...]
    outbox: tuple[MirroredLine, ...]


class LateLine(NamedTuple):
    """A record that a former owner wrote and could not ship any more."""

    log: LogName
    seq: int
    line: str


class KeptLateLine(NamedTuple):
    """A late line as the database keeps it: its number, the fence that its sender gave, and who that was.

    Any host may have sent it, so nothing is certain but ``n`` and ``by_host``. ``line`` is "" if it is too long.
    """

    n: int
    fence: int
    by_host: str
    log: str
    seq: int
    line: str


NewsKind = Literal["posts", "log", "ask", "answer", "moved"]


class News(NamedTuple):
    """What a host is told: posts for these agents, new lines of these agents, a question, an answer, a move.

    ``agents`` is empty if there were too many to name. News may be lost or come twice; the beat finds what they said.
    """

    kind: NewsKind
    agents: tuple[str, ...]


class FleetDatabase(Protocol):
    """The functions of the database, as one host of one project uses them.

    ``on_news`` is called on the event loop with what other hosts have told this one.
    """

    on_news: Callable[[News], None]

    def tell(self, host: str, kind: NewsKind, agents: Iterable[str] = ()) -> None:
        """Tell a host that there is something for it; returns at once, never raises, and may be lost.

        The first news goes at once, further ones to the same host together, at most every 5 ms.
        """

    async def join(self, facts: HostFacts) -> Joined:
        """Bind this host to its instance and boot.

        Conflict ``host_taken`` if it is bound to another instance, or to another boot whose lease still lives;
        BadRequest ``host_unknown`` if no host has this session's role; Conflict ``project_taken`` if the project's
        repository is another; Environment ``schema_newer`` or ``schema_older``.
        """

    async def beat(self, request: BeatRequest) -> Beat:
        """Renew the lease. Conflict ``host_taken`` if another instance or boot is bound: this one is a copy."""

    async def create(self, run_id: str, agents: Sequence[NewFleetAgent]) -> list[PlacedAgent]:
        """Make agents, their queues and `create` posts in one transaction; the run's home is this host.

        Conflict ``not_home`` if the run's home is another host.
        """

    async def post(self, post: NewPost) -> PostAnswer:
        """Accept a call for an agent; committed when it returns. A re-sent ``req`` writes too: it is replicated."""

    async def take(self, after: Mapping[str, int], each: int = POSTS_A_ROUND) -> list[Post]:
        """Posts of own agents behind these numbers, by agent and number; at most ``each`` per agent.

        Agents that this host does not own are left out.
        """

    async def untaken(self, after: Mapping[str, int], each: int) -> list[UntakenPost]:
        """Posts of any agents behind these numbers, by agent and number; at most ``each`` per agent."""

    async def ship(self, parts: Sequence[LogPart]) -> list[ShipAnswer]:
        """Store records of own agents, all agents in one commit; one answer per part, in its order."""

    async def ownership(self, agents: Sequence[str]) -> dict[str, Ownership]:
        """Who holds these agents now; those that do not exist are left out."""

    async def move(self, dead: str) -> list[MovedAgent]:
        """Give the agents of a lost host to live hosts, each under the next fence.

        Agents with ``on_host_lost = move`` move to the host with most free places that has their engine and reads
        their logs, if there is one; the others only if the host was given up (``lost``), then to the home of their
        run, to be ended. Conflict ``host_alive`` if its lease has not expired for `LOST_AFTER_S`; NotReady
        ``too_early`` if this host has not renewed without a gap for `UNBROKEN_S`.
        """

    async def read(self, agent: str, log: LogName, after: int, lines: int, max_bytes: int) -> list[MirroredLine]:
        """Lines of the mirror behind ``after``, in order; at least one if there is any."""

    async def read_new(self, after: Mapping[str, tuple[int, int]]) -> list[NewLines]:
        """Lines behind (inbox, outbox) of several mirrors, all of one moment; at most `NEW_LINES` of each log.

        Agents without news are left out. The outbox may speak of tasks behind an inbox part that was cut at that
        limit.
        """

    async def late(self, agent: str, fence: int, lines: Sequence[LateLine]) -> None:
        """Keep what a former owner could not ship. A repeated call stores nothing twice."""

    async def late_lines(self, agent: str, after: int, lines: int, max_bytes: int) -> list[KeptLateLine]:
        """What other hosts kept of an agent after line number ``after``, in order; at most ``max_bytes`` together."""

    async def take_run(self, run_id: str, gen: int) -> RunHomeRow:
        """Make this host the home of a run if its ``gen`` is still this one; returns the run as it is then.

        BadRequest ``unknown_run``.
        """

    async def forget(self, agents: Sequence[str]) -> list[str]:
        """Remove deleted agents of this home with their posts and logs (gc); returns those that were removed."""

    async def ask(self, to_host: str, verb: str, body: Any, wait_s: float) -> int:
        """Put a question to a host; its id. BadRequest ``host_unknown``."""

    async def asks(self) -> list[Ask]:
        """Questions to this host that have no answer and time left."""

    async def answer(self, ask_id: int, answer: Any) -> None:
        """Answer a question; one that is over is ignored."""

    async def answered(self, ask_id: int) -> tuple[bool, Any]:
        """Whether a question of this host has its answer, and the answer; it is removed with that."""
