"""Who may import whom, read from the import graph; and a few rules about files."""

import ast
import functools
import re
import sys
from collections import Counter
from pathlib import Path

import pytest

from orchestrator.engines.table import ENGINES

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "orchestrator"

# The packages in the order of their imports: each may import itself, and of those above it what its row names.
PACKAGES = {
    # What everything may stand on: errors, clock, failpoints, package data, what differs between systems.
    "base": set(),
    # Identities, seals, what the user allowed. Below the journal, which seals every record.
    "trust": {"base"},
    # Decides, and does nothing else.
    "core": {"base"},
    # All that is particular to one CLI; speaks in the core's words and does nothing either.
    "engines": {"base", "core"},
    # Appends, syncs, reads and repairs logs; knows no rule of tasks and agents.
    "journal": {"base", "trust"},
    # Speaks to tmux; knows no rule of tasks and agents.
    "tmux": {"base", "core"},
    # Runs beside each CLI, so it pays at every start: the standard library, and where trust keeps its facts.
    "edge": {"base", "trust"},
    # The shell engine's program: a client of its own relay, as any agent's CLI is.
    "worker": {"base", "trust", "edge"},
    # Settings, which name engines and are allowed by the user.
    "config": {"base", "trust", "engines"},
    # The MCP surface below every feature: it knows connections, their rights and calls, and no feature.
    "protocol": {"base", "trust", "core", "engines", "edge"},
    "roles": {"base", "trust", "engines"},
    # Writes into the files of CLIs as their engines say, and needs nothing of a running team.
    "setup": {"base", "engines", "edge"},
    # The features. Each holds its rules, its tools, their models and their wiring.
    "team": {"base", "trust", "core", "engines", "journal", "tmux", "edge", "config", "protocol", "roles"},
    # One team on several hosts: what a host does for the others. The team asks it through an interface of its own.
    # A host writes `[fleet]` into the project's configuration and allows it, when a human joins it.
    "fleet": {"base", "trust", "core", "engines", "journal", "config", "edge", "protocol", "setup", "team"},
    "squad": {"base", "trust", "core", "engines", "journal", "edge", "config", "protocol", "roles", "team"},
    "spawn": {"base", "trust", "engines", "journal", "config", "protocol", "roles", "team", "squad"},
    "gsd": {"base", "core", "journal", "edge", "protocol"},
    # What of a project's files acts, and a human's answer to whether it may.
    "project_trust": {
        "base", "trust", "edge", "config", "protocol", "roles", "team", "squad", "spawn",
    },
    # Wiring only: one process, its door, its connections.
    "daemon": {
        "base", "trust", "core", "edge", "config", "protocol", "team", "fleet", "squad", "spawn", "gsd",
        "project_trust",
    },
    # What people look at: the snapshot and what shows it. Knows the daemon by its socket alone.
    "faces": {"base", "trust", "core", "edge", "worker", "team"},
    # Parse, call one service, render.
    "cli": {
        "base", "trust", "core", "engines", "edge", "worker", "config", "roles", "setup", "team", "fleet", "squad", "spawn",
        "gsd", "project_trust", "daemon", "faces",
    },
    # A file of its own: its path stands in the settings of CLIs that run, and of users who registered it.
    "hook": {"edge"},
    "__main__": {"base", "edge", "worker", "gsd", "daemon", "cli"},
}  # fmt: skip

# Inside the team: who a run belongs to and what the files say; above it what acts on it.
INNER = {
    # Git alone; knows no agent but by its id.
    "worktrees": set(),
    # Agents, runs and tasks in memory and in their logs. Offline answers tell of worktrees.
    "roster": {"worktrees"},
    # Where a run is shown.
    "panes": {"roster"},
    # When an idle CLI is called; a master is found by its pane.
    "wake": {"panes", "roster"},
    # What a CLI's launch and end ask for; nothing wakes, shows or keeps an agent by calling it.
    "life": {"wake", "panes", "roster", "worktrees"},
    # What people see of the team and answer: the snapshot, the inbox, approvals, notifications.
    "people": {"life", "wake", "panes", "roster", "worktrees"},
    # Repairs and removes what no life will touch again: it asks the supervisor, who never asks it.
    "recovery": {"life", "roster", "worktrees"},
}

# Of a feature that stands on another one, only what joins the two may import it.
JOINTS = {
    "squad": {"orchestrator.squad.wiring"},
    "spawn": {"orchestrator.spawn.wiring", "orchestrator.spawn.squad_and_agent_callers"},
}

# Modules that import beyond their package's row: the daemon hands the journal its syncer and paths, what the
# user allows needs `.agents/`, doctor looks itself, and what calls tmux asks for its version.
EXCEPTIONS = {
    ("orchestrator.daemon.process", "journal"),
    ("orchestrator.project_trust.trust_store", "journal"),
    ("orchestrator.cli.agent_panes", "tmux"),
    ("orchestrator.cli.demo_project", "tmux"),
    ("orchestrator.cli.doctor", "tmux"),
    ("orchestrator.cli.doctor_leftovers", "tmux"),
    ("orchestrator.cli.doctor_live", "tmux"),
    ("orchestrator.cli.top", "tmux"),
}
PURE = {"core", "engines"}
IMPURE = {
    "asyncio", "datetime", "http", "io", "multiprocessing", "os", "pathlib", "random", "secrets", "select", "shutil",
    "socket", "sqlite3", "subprocess", "threading", "time", "uuid", "libtmux", "mcp", "structlog", "watchfiles",
}  # fmt: skip
OWNERS = {
    "libtmux": {"tmux"},
    "mcp": {"protocol", "daemon", "gsd", "cli"},
    "watchfiles": {"config", "roles", "gsd"},
    "sqlite3": {"spawn", "gsd", "journal"},
    "typer": {"cli"},
    "filelock": {"gsd", "journal", "team"},
    "yaml": {"roles", "gsd"},
    "rich": {"cli", "faces"},
    "textual": {"faces"},
    "httpx2": {"spawn"},
    "starlette": {"faces"},
    "uvicorn": {"faces"},
    "segno": {"cli"},
    "psutil": {"base"},
    "psycopg": {"fleet"},
    "structlog": {
        "protocol",
        "team",
        "fleet",
        "squad",
        "spawn",
        "gsd",
        "project_trust",
        "daemon",
        "cli",
        "journal",
        "config",
        "tmux",
        "roles",
    },
    "tree_sitter": {"gsd"},
}
SAYS_NOTHING = {"one", "found", "told", "beside", "around"}
FORBIDDEN_WORDS = ("manager", "handler", "helper", "util", "factory", "controller", "registry")


def modules():
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        if "_data" in parts:
            continue
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        yield name, path


def imports_of(path):
    """Every module the file imports, at the top or inside functions."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative imports hide the direction"
            yield node.module
            # `from orchestrator import project` names a module too
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


@functools.cache  # read by the tests, not by each process that collects them
def graph():
    return {name: set(imports_of(path)) for name, path in modules()}


@functools.cache
def ours():
    return {name: {i for i in found if i in graph()} for name, found in graph().items()}


@functools.cache
def said_pure():
    """The modules whose head says "Pure"; they are held to it."""
    heads = {name: ast.get_docstring(ast.parse(path.read_text("utf-8"))) or "" for name, path in modules()}
    return {name for name, head in heads.items() if re.search(r"\bPure\b", head.partition("\n\n")[0])}


def layer(module):
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else ""


def test_a_package_imports_only_what_stands_above_it():
    seen = set()
    for package, row in PACKAGES.items():
        assert row <= seen, f"{package} may not import {sorted(row - seen)}: they stand below it"
        seen.add(package)
    assert seen == {layer(module) for module in graph()} - {""}


@pytest.mark.parametrize("package", list(PACKAGES))
def test_every_import_is_in_the_row_of_its_package(package):
    wrong = {
        (module, found)
        for module in graph()
        if layer(module) == package
        for found in ours()[module]
        if layer(found) not in PACKAGES[package] | {package, ""} and (module, layer(found)) not in EXCEPTIONS
    }
    assert not wrong


def test_no_row_and_no_exception_allows_what_nobody_imports():
    used = {(layer(module), layer(found)) for module in graph() for found in ours()[module]}
    crossed = {(module, layer(found)) for module in graph() for found in ours()[module]}
    assert {(package, below) for package, row in PACKAGES.items() for below in row} - used == set()
    assert EXCEPTIONS - crossed == set()


def inner(module):
    parts = module.split(".")
    return parts[2] if parts[1:2] == ["team"] and len(parts) > 3 else ""


def test_the_team_imports_in_one_direction():
    seen = set()
    for package, row in INNER.items():
        assert row <= seen
        seen.add(package)
    assert seen == {inner(module) for module in graph()} - {""}
    folders = {name for name, path in modules() if path.stem == "__init__"}
    for module in filter(inner, graph()):
        crossed = {i for i in ours()[module] if layer(i) == "team" and inner(i) != inner(module)} - folders
        assert {inner(found) for found in crossed} <= INNER[inner(module)], f"{module} imports {crossed}"


@pytest.mark.parametrize("feature", list(JOINTS))
def test_the_rules_of_a_feature_do_not_know_another_one(feature):
    others = {"team", "squad", "spawn", "gsd"} - {feature}
    users = {m for m in graph() if layer(m) == feature and {layer(i) for i in ours()[m]} & others}
    assert users == JOINTS[feature]


def test_one_loose_module_stands_beside_the_packages():
    assert {p.stem for p in PACKAGE.glob("*.py")} == {"__init__", "__main__", "hook"}


AGREED = {"__init__", "tools", "models", "wiring"}


def test_no_file_name_is_there_twice():
    # gsd is rebuilt by an issue of its own; until then only its surface is held to it.
    names = Counter(
        p.stem for p in PACKAGE.rglob("*.py") if not p.is_relative_to(PACKAGE / "gsd") or p.parent.name == "gsd"
    )
    assert {name for name, times in names.items() if times > 1} - AGREED == set()


# Inside gsd: a package may import itself, what stands in its row, and the words all of them share.
SHARED_IN_GSD = {"model", "shown"}
PACKAGES_OF_GSD = {
    "sources": set(),
    "index": {"sources"},
    "graph": {"index", "graph_snapshot"},
    "graph_snapshot": {"graph"},
    "intel": {"graph", "index"},
    "planning": {"graph_snapshot"},
    "routes": {"sources"},
    "ranked": {"graph", "sources", "graph_snapshot"},
    "evidence": {"graph", "ranked", "routes", "sources", "graph_snapshot"},
    "picture": {"graph", "graph_snapshot"},
}


def test_pure_modules_import_no_io_clock_or_randomness():
    for module, path in modules():
        if layer(module) in PURE or module in said_pure():
            # A moment or a path may be handed in as a value; none of them asks for the time.
            given = set() if module in PURE else {"datetime", "pathlib"}
            assert not {i.split(".")[0] for i in graph()[module]} & (IMPURE - given), module
            assert ".now(" not in path.read_text(encoding="utf-8"), module


@pytest.mark.parametrize("package", sorted(PACKAGES_OF_GSD))
def test_the_packages_of_gsd_import_in_one_direction(package):
    below = {m for m in graph() if f"{m}.".startswith(f"orchestrator.gsd.{package}.")}
    allowed = PACKAGES_OF_GSD[package] | SHARED_IN_GSD | {package}
    wrong = {
        i
        for m in below
        for i in ours()[m]
        if layer(i) == "gsd" and i.split(".")[2:3] and i.split(".")[2] not in allowed
    }
    assert below
    assert not wrong, f"{package} may not import {sorted(wrong)}"


@pytest.mark.parametrize("module", [name for name in graph() if layer(name) in ("hook", "edge")])
def test_what_a_cli_starts_imports_the_standard_library_only(module):
    foreign = {
        i
        for i in graph()[module]
        if i.split(".")[0] not in {*sys.stdlib_module_names, "_sha2", "_sha256"} and not i.startswith("orchestrator")
    }
    assert not foreign


@pytest.mark.parametrize("package", sorted(OWNERS))
def test_each_outside_library_has_its_owners(package):
    users = {layer(m) for m, found in graph().items() if any(i.split(".")[0] == package for i in found)}
    assert users <= OWNERS[package]


def reach(module):
    seen, todo = set(), [module]
    while todo:
        one = todo.pop()
        if one not in seen:
            seen.add(one)
            todo += ours().get(one, ())
    return seen


def test_the_agents_tools_never_reach_code_that_creates_or_kills_agents():
    reached = reach("orchestrator.team.agent_tools") | reach("orchestrator.team.agent_toolsets")
    assert not {m for m in reached if m.startswith("orchestrator.tmux")}
    assert not reached & {
        "orchestrator.team.life.agent_commands", "orchestrator.team.life.creation", "orchestrator.team.life.supervisor",
        "orchestrator.team.panes.team_panes", "orchestrator.team.panes.run_windows", "orchestrator.team.life.deletion",
        "orchestrator.team.panes.detached_session",
        "orchestrator.base.platform.processes", "orchestrator.team.tools",
    }  # fmt: skip


CLIS = {row.name: row.program for row in ENGINES.values() if row.program}
# "cursor" is also the key of a position in a log.
CLI_WORDS = ({*CLIS, *CLIS.values()} - {"cursor"}) | {rf"/?\.{name}\b.*" for name in CLIS}
CLI_WORDS |= {f"{name.upper()}_[A-Z_]+" for name in CLIS}


def test_no_module_outside_engines_knows_a_cli_by_name_or_its_folders_and_variables():
    """Such a word alone is a decision about one CLI; in a sentence it is an example."""
    words, seen = re.compile("|".join(CLI_WORDS)), set()
    for module, path in modules():
        if layer(module) == "engines":
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and words.fullmatch(node.value):
                seen.add((module, node.value))
    assert seen == set()


OF_A_SYSTEM = {
    "os": {"pidfd_open", "fdatasync", "waitid", "O_PATH", "pipe2", "eventfd", "memfd_create", "copy_file_range"},
    "socket": {"SO_PEERCRED", "SO_PEERPIDFD", "SCM_CREDENTIALS"},
    "select": {"epoll", "kqueue"},
    "signal": {"pidfd_send_signal"},
    "time": {"CLOCK_BOOTTIME"},
    "fcntl": {"F_FULLFSYNC", "F_GETPATH", "F_OFD_SETLK"},
    "sys": {"platform", "getwindowsversion"},
}
SHOWN_BY_A_SYSTEM = re.compile(r"^/(proc|sys)(/|$)|\bprctl\b|^ORCHESTRATOR_PLATFORM$")


def test_only_base_platform_knows_what_one_system_has_and_another_has_not():
    seen = set()
    for module, path in modules():
        if module.startswith("orchestrator.base.platform."):
            continue
        text = path.read_text(encoding="utf-8")
        if re.search(r"/proc\b", text):
            seen.add((module, "/proc"))
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
                name, attribute = node.value.id, node.attr
                if attribute in OF_A_SYSTEM.get(name, ()) or (name == "os" and attribute.startswith("sched_")):
                    seen.add((module, f"{name}.{attribute}"))
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                if SHOWN_BY_A_SYSTEM.search(node.value):
                    seen.add((module, node.value))
            elif isinstance(node, ast.Import) and {alias.name for alias in node.names} & {"ctypes", "platform"}:
                seen.add((module, ast.unparse(node)))
    assert seen == set()


def test_the_hook_and_what_it_loads_import_next_to_nothing():
    """It lives as long as its agent is parked."""
    light = {"errno", "os", "select", "sys"}
    facts = "orchestrator.base.platform.basic_facts"
    assert ours()["orchestrator.hook"] - {"orchestrator"} == {"orchestrator.edge.cli_hook"}
    assert ours()["orchestrator.edge.cli_hook"] - {"orchestrator"} == {facts}
    tree = ast.parse((PACKAGE / "base/platform/basic_facts.py").read_text(encoding="utf-8"))
    assert {alias.name for node in tree.body if isinstance(node, ast.Import) for alias in node.names} == light
    assert [node.module for node in tree.body if isinstance(node, ast.ImportFrom)] == ["__future__"]


def test_the_import_graph_has_no_cycle():
    done, active = set(), []

    def visit(module):
        if module in done:
            return
        assert module not in active, " -> ".join([*active[active.index(module) :], module])
        active.append(module)
        for other in sorted(ours()[module] - {module, "orchestrator"}):
            visit(other)
        active.pop()
        done.add(module)

    for module in graph():
        visit(module)


def test_package_inits_are_empty_so_that_a_relay_starts_fast():
    for path in PACKAGE.rglob("__init__.py"):
        assert path.read_text() == "", path


def test_no_file_is_over_600_lines():
    lengths = {name: len(path.read_text().splitlines()) for name, path in modules()}
    assert {name: lines for name, lines in lengths.items() if lines > 600} == {}


def test_names_are_those_of_the_glossary():
    for name, path in modules():
        for defined in re.findall(r"^\s*(?:class|(?:async )?def) (\w+)", path.read_text(), re.MULTILINE):
            assert not any(word in defined.lower() for word in FORBIDDEN_WORDS), f"{name}: {defined}"


def bound_names(tree):
    """Every name that the code gives to a thing."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.id if isinstance(node, ast.Name) else node.attr
        elif isinstance(node, ast.arg):
            yield node.arg
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.ExceptHandler):
            yield node.name or ""


def test_names_say_what_they_name():
    # gsd is rebuilt by an issue of its own. ShownMember.beside is a key of a file.
    seen = {
        (name, bound)
        for name, path in modules()
        if not name.startswith("orchestrator.gsd.")
        for bound in bound_names(ast.parse(path.read_text("utf-8")))
        if bound.strip("_").lower() in SAYS_NOTHING
    }
    assert seen == {("orchestrator.team.panes.member_panes", "beside")}


def types_of(tree):
    """The classes of a module and its names for types; what is annotated for one surface is no type of its own."""
    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            name, value = node.targets[0].id, ast.unparse(node.value)
            if re.match(r"[A-Z]\w*[a-z]", name) and not value.startswith("Annotated["):
                yield name


def test_a_type_that_needs_its_domain_to_be_understood_carries_it():
    found = [
        name
        for module, path in modules()
        if not module.startswith("orchestrator.gsd.")
        for name in types_of(ast.parse(path.read_text("utf-8")))
    ]
    assert {name for name, times in Counter(found).items() if times > 1} == set()


# Where each thing that varies from run to run may be read, in what a seeded simulation runs.
SIMULATED = ("orchestrator.core", "orchestrator.team.roster", "orchestrator.team.life", "orchestrator.team.wake",
             "orchestrator.journal", "orchestrator.fleet")  # fmt: skip
OF_CHANCE = {"time", "secrets", "random", "uuid"}
READS_THE_CLOCK = {
    # Waits for another process, before there is an event loop.
    ("orchestrator.journal.project_lock", "import time"),
}


def test_time_and_chance_come_only_from_the_clock_and_the_one_source():
    """A seed names a whole run of the simulation: nothing in it may differ from run to run."""
    seen = set()
    for name, path in modules():
        if not f"{name}.".startswith(tuple(f"{package}." for package in SIMULATED)):
            continue
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Import | ast.ImportFrom):
                names = [node.module or ""] if isinstance(node, ast.ImportFrom) else [a.name for a in node.names]
                seen |= {(name, f"import {module}") for module in names if module.split(".")[0] in OF_CHANCE}
            elif isinstance(node, ast.Call) and ast.unparse(node.func) in NOT_SEEDED:
                seen.add((name, ast.unparse(node.func)))
    assert seen == READS_THE_CLOCK


NOT_SEEDED = ("datetime.now", "datetime.utcnow", "datetime.today", "date.today", "os.urandom", "os.getrandom")


def test_what_waits_is_never_held_in_a_set():
    """Futures and tasks hash by their address: the order in which they are woken would differ from run to run."""
    held = re.compile(r"\bset\[[^\]]*(Future|Task)\b")
    kept = ("orchestrator.base.", *(f"{package}." for package in SIMULATED))
    assert [n for n, path in modules() if n.startswith(kept) and held.search(path.read_text("utf-8"))] == []


def test_sleeping_happens_nowhere_in_the_package_but_where_it_is_argued():
    """Everything that waits, waits in base.waiting; what has no event loop has a loop of its own."""
    allowed = {
        "orchestrator.base.waiting",
        "orchestrator.edge.relay",
        "orchestrator.edge.launch_stub",
        "orchestrator.edge.member_viewer",
        "orchestrator.worker.task_loop",
        "orchestrator.worker.relay_client",
        "orchestrator.faces.daemon_client",
        "orchestrator.cli",
    }
    for name, path in modules():
        text = path.read_text()
        for node in ast.walk(ast.parse(text)) if ".sleep" in text else ():
            if isinstance(node, ast.Attribute) and node.attr == "sleep":
                assert name in allowed or name.startswith("orchestrator.cli."), f"{name}: sleeps"
