"""Fixtures every test may use: a private home, anyio's backend, and stages on which the whole product plays."""

from __future__ import annotations

import fcntl
import gc
import itertools
import os
import pwd
import shutil
import signal
import tempfile
import termios
from collections.abc import Callable, Iterator
from pathlib import Path

import hypothesis
import pytest

from orchestrator.base.platform.basic_facts import PORTABLE, VARIABLE
from tests.support.portable import sitecustomize as _refusal  # noqa: F401 - in the portable form, it acts on import
from tests.support.stage import MARK, Stage, processes_with
from tests.support.tmux_server import PrivateServer

pytest_plugins = ["tests.support.faults", "tests.support.postgres", "tests.support.spawn_stage"]
_COUNT = itertools.count(1)
# How long one example takes is the machine's matter.
hypothesis.settings.register_profile("any machine", deadline=None)
hypothesis.settings.load_profile("any machine")
# What takes longest as a whole, begun first: a module stays on one worker, and the last one keeps all waiting.
FIRST = (
    "test_team", "test_parking", "test_fleet_matrix", "test_fleet_matrix_network", "test_fleet_matrix_home", "test_fleet_matrix_server",
    "test_bad_input",
    "test_spawn_homes", "test_spawn_peers", "test_matrix_daemon", "test_spawn_matrix", "test_up_down", "test_matrix_pairs", "test_ac1_panes", "test_daemon", "test_world_door",
    "test_squad_crash", "test_ac3_waiting", "test_lives", "test_world_signals", "test_worktree_agents",
    "test_matrix_many", "test_worker", "test_engine_command", "test_blocked", "test_squad_hostile",
    "test_spawn_daemon", "test_spawn_limits", "test_spawn_cli", "test_spawn",
)  # fmt: skip
# What a developer's shell may have set; programs of users buffer what they print.
OURS = ("PYTHONUNBUFFERED", "TMUX", "TMUX_PANE", "TMUX_TMPDIR", "XDG_CONFIG_HOME")


def pytest_configure(config: pytest.Config) -> None:
    """The markers that belong to a directory of tests."""
    config.addinivalue_line("markers", "e2e: the real CLIs against scripted models, run by make e2e")
    # Who runs tests in the background or under nohup has signals ignored, which what tests start would inherit.
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM, signal.SIGQUIT):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)
    if "PYTEST_XDIST_WORKER" in os.environ:
        _take_a_terminal()


def _take_a_terminal() -> None:
    """Give this worker a terminal of its own where the run has none, as every human has one.

    Without it a test that answers as a human is no longer trusted with that while another worker, begun earlier, is
    the parent of a relay: nothing then proves that this one does not descend from that relay's CLI.
    """
    try:
        os.close(os.open("/dev/tty", os.O_RDWR | os.O_CLOEXEC))
    except OSError:
        os.setsid()
        _, terminal = os.openpty()  # both ends stay open as long as this process
        fcntl.ioctl(terminal, termios.TIOCSCTTY, 0)


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Iterator[None]:
    """Thousands of tests stay for the whole run: nothing of them is garbage, and looking for some costs a fifth of it."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The longest modules first."""
    places = {name: at for at, name in enumerate(FIRST)}
    items.sort(key=lambda item: places.get(item.path.stem, len(places)))


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Only a test that is marked may start a tmux server itself."""
    PrivateServer.may_start = any(item.iter_markers("tmux")) or any(item.iter_markers("e2e"))


@pytest.fixture(scope="session", autouse=True)
def own_world() -> Iterator[Path]:
    """No test sees the user's home, configuration, tmux or agent identity; nothing outlives the session.

    The directory is short, because a unix socket's path has a limit that pytest's own directories come near.
    """
    base = Path(tempfile.mkdtemp(prefix="ot-"))
    run_base = base.with_name(f"{base.name}-run")  # not below it: what tests start by themselves is not of a stage
    home = base / "home"
    home.mkdir()
    with pytest.MonkeyPatch.context() as patch:
        for name in [name for name in os.environ if name in OURS or name.startswith("ORCHESTRATOR_")]:
            if name != VARIABLE:
                patch.delenv(name)
        if os.environ.get(VARIABLE) == PORTABLE:  # all that the tests start is refused what only Linux has
            patch.setenv("PYTHONPATH", str(Path(__file__).parent / "support/portable"))
        patch.setenv("HOME", str(home))
        patch.setenv("ORCHESTRATOR_STATE_DIR", str(base / "state"))
        patch.setenv(MARK, str(run_base))
        # A test may clear the environment: the state directory then hangs on the home of the password database.
        real = pwd.getpwuid
        patch.setattr(pwd, "getpwuid", lambda uid: pwd.struct_passwd((*real(uid)[:5], str(home), real(uid)[6])))
        patch.setattr("orchestrator.tmux.tmux_server.TIMEOUT", 60.0)  # of this process: a busy machine answers later
        yield base
    left = processes_with(f"{MARK}={base}/")
    stages = [path.name for path in base.iterdir() if path.name not in ("home", "state", "runs")]
    for place in (base, run_base):
        shutil.rmtree(place, ignore_errors=True)
    assert not left, f"processes outlived the tests: {left}"
    assert not stages, f"stages were not closed: {stages}"


@pytest.fixture(autouse=True)
def own_launches(own_world: Path) -> Iterator[None]:
    """No test is judged by what another has started: one that runs a squad in this process makes it a leader."""
    yield
    for state in (own_world / "state", own_world / "home/.local/state/orchestrator"):
        shutil.rmtree(state / "launched", ignore_errors=True)


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    """Async tests run on asyncio, as the product does."""
    return "asyncio"


def _new(base: Path, config: str, name: str) -> Stage:
    place = base / str(next(_COUNT))
    place.mkdir(mode=0o700)
    return Stage(place, config, name=name)


@pytest.fixture
def make_stage(own_world: Path) -> Iterator[Callable[..., Stage]]:
    """Stages on demand: ``make_stage(config="", name="project")``; all are closed and checked at the end."""
    made: list[Stage] = []

    def make(config: str = "", name: str = "project") -> Stage:
        made.append(_new(own_world, config, name))
        return made[-1]

    yield make
    close_all(made)


@pytest.fixture
def stage(make_stage: Callable[..., Stage]) -> Stage:
    """A fresh stage for one test."""
    return make_stage()


@pytest.fixture(scope="module")
def shared_stage(own_world: Path) -> Iterator[Stage]:
    """One stage for all tests of a module that only look, or that keep apart by agent."""
    one = _new(own_world, "", "project")
    yield one
    close_all([one])


def close_all(stages: list[Stage]) -> None:
    """Close every stage, also when closing one fails; then say so."""
    failures: list[BaseException] = []
    for stage in stages:
        try:
            stage.close()
        except BaseException as error:  # noqa: BLE001  (the others must be closed too)
            failures.append(error)
            shutil.rmtree(stage.base, ignore_errors=True)
    if failures:
        raise failures[0]
