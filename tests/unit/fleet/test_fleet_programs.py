"""Generated programs of calls notice each rule of the fleet's database, and agree where both sides keep all of them."""

from __future__ import annotations

import asyncio
import random
from datetime import timedelta

import pytest
from hypothesis import HealthCheck, Phase, find, given, settings

from tests.support.fleet_comparison import Comparison, ModelFleet, SetClock
from tests.support.fleet_model import FleetModel
from tests.support.fleet_programs import Op, programs
from tests.support.fleet_tables import FleetTables


def differs(program: list[Op], tables: type[FleetTables]) -> bool:
    other = ModelFleet("p", FleetModel(SetClock(), tables=tables()))
    try:
        asyncio.run(Comparison(ModelFleet("p"), other).run(program))
    except AssertionError:
        return True
    return False


@settings(max_examples=50, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
@given(programs(60))
def test_a_model_agrees_with_itself(program):
    assert not differs(program, FleetTables)


class NoFence(FleetTables):
    def owns(self, caller, agent, fence):
        return agent.host == caller.host


class NumberBySequence(FleetTables):
    numbers = 0

    def next_number(self, agent):
        self.numbers += 1
        return self.numbers


class MoveBeforeLeaseEnd(FleetTables):
    def expired(self, caller, host):
        return host.lease_until is not None and host.lease_until - timedelta(seconds=3) < caller.now


class TakeoverAfterAnOutage(FleetTables):
    def unbroken(self, caller, host):
        return self.lives(caller, host)


class GapStored(FleetTables):
    def first_misfit(self, agent, log, lines):
        return ""


class DrainedHostsGetAgents(FleetTables):
    def most_free(self, caller, fits):
        for host in self.projects[caller.project].hosts.values():
            host.draining = False
        return super().most_free(caller, fits)


@pytest.mark.parametrize(
    "tables",
    [NoFence, NumberBySequence, MoveBeforeLeaseEnd, TakeoverAfterAnOutage, GapStored, DrainedHostsGetAgents],
    ids=lambda tables: tables.__name__,
)
def test_programs_notice_a_planted_difference(tables):
    """`find` raises NoSuchExample if no program does."""
    quick = settings(
        max_examples=1000, phases=[Phase.generate], suppress_health_check=list(HealthCheck), database=None
    )
    find(programs(60), lambda program: differs(program, tables), settings=quick, random=random.Random(1))
