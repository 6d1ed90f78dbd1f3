"""Fixtures of the end-to-end tests: the scripted models, and worlds with real CLIs."""

from __future__ import annotations

import contextlib
import itertools
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.conftest import close_all
from tests.e2e import other_user
from tests.e2e.models.server import ModelServer
from tests.e2e.models.turn import KINDS, Kind
from tests.e2e.world import OtherStage, World, needs_node
from tests.support.stage import Stage

_COUNT = itertools.count(1)
_OPEN: list[World] = []
STRICT = os.environ.get("ORCHESTRATOR_E2E_STRICT") == "1"
LOG = Path(os.environ["ORCHESTRATOR_E2E_LOG"]).resolve() if "ORCHESTRATOR_E2E_LOG" in os.environ else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Everything in this directory is an end-to-end test."""
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.e2e)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
    """With a failure goes what the CLIs showed, what their models heard last and what the daemons logged."""
    report = yield
    if call.when == "call" and report.failed and item.get_closest_marker("e2e"):
        report.sections += [section for world in _OPEN for section in world.evidence()]
    return report


def unable(reason: str) -> None:
    """Skip for want of something on this machine; in ``make e2e`` that is a failure."""
    if STRICT:
        pytest.fail(reason, pytrace=False)
    pytest.skip(reason)


@contextlib.contextmanager
def scripted_models() -> Iterator[ModelServer]:
    """The server; what a master's script raised fails whoever used it."""
    with ModelServer(log=LOG) as server:
        yield server
    for error in server.brain.masters.errors():
        raise error


@contextlib.contextmanager
def worlds_of(own_world: Path, models: ModelServer) -> Iterator[Callable[..., World]]:
    """Makes worlds on demand, and ends them all."""
    if reason := needs_node():
        unable(reason)
    stages: list[Stage] = []
    worlds: list[World] = []

    def make(*kinds: Kind, user: int = 0, config: str = "", name: str = "project") -> World:
        if os.geteuid() != 0:
            user = 0  # whoever runs the tests is such a user
        if user and (reason := other_user.why_not()):
            unable(reason)
        place = own_world / f"e{next(_COUNT)}"
        place.mkdir(mode=0o700)
        stages.append((OtherStage if user else Stage)(place, config, name=name))
        worlds.append(World(stages[-1], models, kinds or KINDS, user))
        _OPEN.append(worlds[-1])
        return worlds[-1]

    yield make
    for world in worlds:
        _OPEN.remove(world)
        world.close()
    close_all(stages)


@pytest.fixture
def models() -> Iterator[ModelServer]:
    """The scripted models of one test."""
    with scripted_models() as server:
        yield server


@pytest.fixture
def make_world(own_world: Path, models: ModelServer) -> Iterator[Callable[..., World]]:
    """Worlds on demand: ``make_world(*kinds, user=0, config="", name="project")``; no kinds: all four."""
    with worlds_of(own_world, models) as make:
        yield make


@pytest.fixture
def world(make_world: Callable[..., World]) -> World:
    """A world with all four CLIs."""
    return make_world()
