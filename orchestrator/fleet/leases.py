"""The lease of this host: renews it, and says by the time since the last renewal whether this host may act.

One `beat` every two seconds renews the lease and returns everything that this host may have to do something about.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import structlog

from orchestrator.base.clock import Clock
from orchestrator.base.errors import Conflict, OrchestratorError
from orchestrator.base.waiting import Signal, call_off, elapse, wait_until
from orchestrator.core.fleet_rules import may_act
from orchestrator.fleet.database_functions import BEAT_S, Beat, BeatRequest, FleetDatabase, HostFacts, OwnAgent

log = structlog.get_logger()

SOON_S = 0.5
"""Shortest time between two renewals: the changes of many hosts within it are learnt together."""
AWAY_AFTER_S = 5.0
"""Seconds without a renewal after which the database counts as away."""


class Lease:
    """The lease of one host. ``request`` makes each renewal, ``listeners`` get what it returned.

    ``own`` are the agents that this host owned at the last renewal, ``known`` says whether there was one. ``refused``
    is why this host may not act at all: it is a copy of another one, as far as the database knows.
    """

    def __init__(
        self,
        database: FleetDatabase,
        clock: Clock,
        request: Callable[[bool], BeatRequest],
        facts: Callable[[], HostFacts],
    ) -> None:
        self._facts = facts
        self._joined = False
        self._database = database
        self._clock = clock
        self._request = request
        self._renewed_at: float | None = None  # when the last successful renewal was sent, by `Clock.awake`
        self._poke = Signal()
        self._asked = False
        self._task: asyncio.Task[None] | None = None
        self.before: Callable[[Beat], Awaitable[None]] | None = None  # ends before anybody learns of the renewal
        self.listeners: list[Callable[[Beat], None]] = []
        self.on_accepted: Callable[[], None] = lambda: None  # this host was refused, and is accepted now
        self.own: dict[str, OwnAgent] = {}
        self.known = False
        self.fenced: set[str] = set()
        self.trouble: OrchestratorError | None = None
        self.refused: OrchestratorError | None = None
        self.renewed = Signal()

    def begin(self) -> None:
        """Renew from now on."""
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def close(self) -> None:
        """Stop renewing; the lease ends by itself."""
        if self._task is not None:
            await call_off([self._task])

    def renew_soon(self) -> None:
        """Renew before the next beat: something has changed that a renewal shows."""
        self._asked = True
        self._poke.notify()

    @property
    def age_s(self) -> float:
        """Seconds since the last renewal was sent; infinite before the first."""
        return float("inf") if self._renewed_at is None else self._clock.awake() - self._renewed_at

    @property
    def away(self) -> bool:
        """Whether the database has not answered for some seconds."""
        return self.age_s > AWAY_AFTER_S

    def may_act(self, name: str, *, moves: bool) -> bool:
        """Whether this host may hand out work of its agent now; read at each delivery, never by a timer."""
        if self.refused is not None:
            return False
        return may_act(moves=moves, fenced=name in self.fenced, renewal_age_s=self.age_s) == "act"

    async def _run(self) -> None:
        fresh = not self.known
        while True:
            began = self._clock.monotonic()
            try:
                await self.renew(fresh=fresh)
                fresh = False
            except Conflict as error:
                self.refuse(error)
                fresh = True
            except OrchestratorError as error:
                if self.trouble is None or self.trouble.code != error.code:
                    log.warning("the fleet's database does not answer", **error.as_dict())
                self.trouble, fresh = error, True
            except Exception:
                log.exception("bug in the fleet's beat")
                fresh = True
            await wait_until(lambda: True if self._asked else None, self._poke, began + BEAT_S, self._clock)
            await elapse(max(0.0, began + SOON_S - self._clock.monotonic()), self._clock)
            self._asked = False

    async def renew(self, *, fresh: bool) -> Beat:
        """One renewal; its answer has reached the listeners."""
        if not self._joined:
            await self._database.join(self._facts())
            self._joined = True
        sent = self._clock.awake()
        beat = await self._database.beat(self._request(fresh))
        self._renewed_at = sent
        if self.before is not None:
            await self.before(beat)
        if self.trouble is not None:
            log.info("the fleet's database answers again")
        was_refused, self.trouble, self.refused = self.refused is not None, None, None
        self.own = {row.agent: row for row in beat.own}
        self.known = True
        for listener in self.listeners:
            listener(beat)
        if was_refused:
            self.on_accepted()
        self.renewed.notify()
        return beat

    def refuse(self, error: Conflict) -> None:
        """Do nothing in the fleet: another machine is this host, or was a moment ago, before this one booted."""
        self._joined = False
        if self.refused is None:
            log.error("this host may not act in the fleet", **error.as_dict())
        self.refused = error
