"""Who may import whom (design §12), read from the import graph; and a few rules about files."""

import ast
import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "orchestrator"

# A layer may import itself and what stands in its row.
LAYERS = {
    "base": set(),
    "core": {"base"},
    "engines": {"base", "core"},
    "trust": {"base"},
    "config": {"base", "engines", "trust"},
    "roles": {"base", "core", "engines", "trust"},
    "edge": {"trust"},
    "journal": {"base", "trust"},
    "protocol": {"base", "core", "edge", "engines"},
    "tmux": {"base", "core"},
    "team": {"base", "config", "core", "edge", "engines", "journal", "protocol", "roles", "tmux", "trust"},
    "squad": {"base", "config", "core", "edge", "engines", "journal", "protocol", "roles", "team", "trust"},
    "acting": {"base", "config", "roles", "squad", "team", "trust"},
    "gsd": {"base", "core", "edge", "journal"},
    "spawn": {"base", "config", "engines", "journal", "protocol", "roles", "squad", "team", "trust"},
    "server": {"acting", "base", "config", "core", "edge", "engines", "gsd", "journal", "protocol", "spawn", "squad", "team", "trust"},
    "setup": {"base", "edge"},
    "worker": {"base", "edge", "trust"},
    "cli": {"acting", "base", "config", "edge", "engines", "gsd", "roles", "server", "setup", "spawn", "team", "tmux", "trust", "worker"},
    "hook": set(),
    "__main__": {"cli", "edge", "gsd", "hook", "server", "worker"},
}  # fmt: skip

# The daemon wires the layers together: it alone of the surfaces hands the store its syncer and paths.
WIRING = {
    ("orchestrator.server.daemon", "journal"),
    ("orchestrator.cli.doctor", "journal"),
    ("orchestrator.cli.doctor_stale", "tmux"),
    ("orchestrator.cli.doctor_live", "tmux"),
}
PURE = {"core", "engines"}
IMPURE = {
    "asyncio", "datetime", "http", "io", "multiprocessing", "os", "pathlib", "random", "secrets", "select", "shutil",
    "socket", "sqlite3", "subprocess", "threading", "time", "uuid", "libtmux", "mcp", "structlog", "watchfiles",
}  # fmt: skip
OWNERS = {
    "libtmux": {"tmux"},
    "mcp": {"protocol", "server", "cli"},
    "watchfiles": {"config", "roles", "gsd"},
    "sqlite3": {"spawn", "gsd", "journal"},
    "typer": {"cli"},
    "filelock": {"gsd", "journal", "team"},
    "yaml": {"roles", "gsd"},
    "rich": {"cli"},
    "httpx2": {"spawn"},
    "tree_sitter": {"gsd"},
}
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


GRAPH = {name: set(imports_of(path)) for name, path in modules()}
OURS = {name: {i for i in found if i in GRAPH} for name, found in GRAPH.items()}


def layer(module):
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else ""


@pytest.mark.parametrize("module", [m for m in GRAPH if layer(m)])
def test_imports_go_in_the_designs_direction(module):
    allowed = LAYERS[layer(module)] | {layer(module), ""}
    wrong = {i for i in OURS[module] if layer(i) not in allowed and (module, layer(i)) not in WIRING}
    assert not wrong, f"{module} may not import {sorted(wrong)}"


PURE_OF_SPAWN = {
    f"orchestrator.spawn.{name}"
    for name in (
        "model", "splitter", "plan", "table", "prompts", "judge", "money", "replies", "schedule", "drawing",
        "drawing_page", "drawing_words",
    )
}  # fmt: skip
# A module of gsd whose head says "Pure" is held to it.
PURE_OF_GSD = {
    name
    for name, path in modules()
    if name.startswith("orchestrator.gsd.")
    and re.search(
        r"\bPure\b", (ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or "").partition("\n")[0]
    )
}
# Inside gsd: a package may import itself, what stands in its row, and the words all of them share.
SHARED_IN_GSD = {"model", "shown"}
PACKAGES_OF_GSD = {
    "sources": set(),
    "index": {"sources"},
    "graph": {"index", "snapshot"},
    "snapshot": {"graph"},
    "intel": {"graph", "index"},
    "planning": {"snapshot"},
    "routes": {"sources"},
    "ranked": {"graph", "sources", "snapshot"},
    "evidence": {"graph", "ranked", "routes", "sources", "snapshot"},
    "picture": {"graph", "snapshot"},
}


@pytest.mark.parametrize("module", [m for m in GRAPH if layer(m) in PURE or m in PURE_OF_SPAWN | PURE_OF_GSD])
def test_pure_modules_import_no_io_clock_or_randomness(module):
    # A moment may be handed to a module of gsd as a value; none there asks for the time (no `now` in any of them).
    given = {"datetime"} if module in PURE_OF_GSD else set()
    assert not {i.split(".")[0] for i in GRAPH[module]} & (IMPURE - given)
    assert not given or ".now(" not in (ROOT / (module.replace(".", "/") + ".py")).read_text(encoding="utf-8")


@pytest.mark.parametrize("package", sorted(PACKAGES_OF_GSD))
def test_the_packages_of_gsd_import_in_one_direction(package):
    below = {m for m in GRAPH if f"{m}.".startswith(f"orchestrator.gsd.{package}.")}
    allowed = PACKAGES_OF_GSD[package] | SHARED_IN_GSD | {package}
    wrong = {
        i
        for m in below
        for i in OURS[m]
        if layer(i) == "gsd" and i.split(".")[2:3] and i.split(".")[2] not in allowed
    }
    assert below
    assert not wrong, f"{package} may not import {sorted(wrong)}"


@pytest.mark.parametrize(
    "module",
    [
        f"orchestrator.{name}"
        for name in ("hook", "edge.relay", "edge.launch_stub", "edge.member_viewer", "edge.project_location")
    ],
)
def test_what_a_cli_starts_imports_the_standard_library_only(module):
    foreign = {
        i
        for i in GRAPH[module]
        if i.split(".")[0] not in {*sys.stdlib_module_names, "_sha2"} and not i.startswith("orchestrator")
    }
    assert not foreign


@pytest.mark.parametrize("package", sorted(OWNERS))
def test_each_outside_library_has_its_owners(package):
    users = {layer(m) for m, found in GRAPH.items() if any(i.split(".")[0] == package for i in found)}
    assert users <= OWNERS[package]


def reach(module):
    seen, todo = set(), [module]
    while todo:
        one = todo.pop()
        if one not in seen:
            seen.add(one)
            todo += OURS.get(one, ())
    return seen


def test_the_agents_tools_never_reach_code_that_creates_or_kills_agents():
    reached = reach("orchestrator.team.agent_tools") | reach("orchestrator.team.agent_toolsets")
    assert not {m for m in reached if m.startswith("orchestrator.tmux")}
    assert not reached & {
        "orchestrator.team.life.agent_commands", "orchestrator.team.life.creation", "orchestrator.team.life.supervisor",
        "orchestrator.team.panes.team_panes", "orchestrator.team.panes.run_windows", "orchestrator.team.life.deletion",
        "orchestrator.base.platform.processes", "orchestrator.team.tools",
    }  # fmt: skip


def test_the_import_graph_has_no_cycle():
    done, active = set(), []

    def visit(module):
        if module in done:
            return
        assert module not in active, " -> ".join([*active[active.index(module) :], module])
        active.append(module)
        for other in sorted(OURS[module] - {module, "orchestrator"}):
            visit(other)
        active.pop()
        done.add(module)

    for module in GRAPH:
        visit(module)


def test_package_inits_are_empty_so_that_a_relay_starts_fast():
    for path in PACKAGE.rglob("__init__.py"):
        assert path.read_text() == "", path


@pytest.mark.parametrize("module", list(GRAPH))
def test_no_file_is_over_600_lines(module):
    path = dict(modules())[module]
    assert len(path.read_text().splitlines()) <= 600


def test_names_are_those_of_the_glossary():
    for name, path in modules():
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                assert not any(word in node.name.lower() for word in FORBIDDEN_WORDS), f"{name}: {node.name}"


def test_sleeping_happens_nowhere_in_the_package_but_where_it_is_argued():
    """Everything that waits, waits in clock.wait_until; relay, launch stub and member viewer have a loop of their own."""
    allowed = {
        "orchestrator.edge.relay",
        "orchestrator.edge.launch_stub",
        "orchestrator.edge.member_viewer",
        "orchestrator.worker.task_loop",
        "orchestrator.worker.relay_client",
        "orchestrator.cli",
    }
    for name, path in modules():
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Attribute) and node.attr == "sleep":
                assert name in allowed or name.startswith("orchestrator.cli."), f"{name}: sleeps"
