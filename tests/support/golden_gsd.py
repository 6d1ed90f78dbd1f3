"""The questions whose answers about each real tree stand in golden files, and how answers are made comparable.

`python -m tests.support.golden_gsd` writes the files anew; what it changes is to be read against the tree before it is kept.
The trees hold no source code, so what needs code answers that it found none: that is part of what is held here.
"""

import sys
import tempfile
from pathlib import Path
from typing import Any

import orjson

from orchestrator.base.errors import BadRequest
from orchestrator.gsd import pages
from orchestrator.gsd.intelligence import Intelligence
from tests.support import gsd_trees

HERE = gsd_trees.ARCHIVES / "golden"
Question = tuple[str, dict[str, Any]]

EVERYWHERE: tuple[Question, ...] = (
    ("check", {}),
    ("gsd_phase_status", {}),
    ("gsd_untraceable_requirements", {}),
    ("gsd_get_conventions", {}),
)
PAGES = (
    "gsd://intel/summary",
    "gsd://intel/hotspots",
    "gsd://project/vision",
    "gsd://project/requirements/pending",
    "gsd://project/decisions",
    "gsd://roadmap/current-phase",
)
ABOUT: dict[str, tuple[Question, ...]] = {
    "gsd-v1.9.1": (
        ("gsd_phase_status", {"phase": "4"}),
        ("gsd_requirement_status", {"requirement_id": "INTEL-05"}),
        ("gsd_requirement_status", {"requirement_id": "INTEL-08"}),
        ("gsd_phase_relevant_files", {"phase_goal": "5"}),
        ("gsd_query_intel", {"query": "subagent entity generation"}),
        ("gsd_similar_past_work", {"current_goal": "Query the graph from the command line"}),
        ("gsd_verify_behavior", {"must_have": "graph.db persists nodes and edges across sessions"}),
    ),
    "mlx-manager": (
        ("gsd_phase_status", {"phase": "12"}),
        ("gsd_phase_status", {"phase": "13"}),
        ("gsd_phase_status", {"phase": "v1.1 phase 3"}),
        ("gsd_requirement_status", {"requirement_id": "PROD-02"}),
        ("gsd_requirement_status", {"requirement_id": "AUTH-01"}),
        ("gsd_requirement_status", {"requirement_id": "PERF-01"}),
        ("gsd_requirement_status", {"requirement_id": "INT-01"}),
        ("gsd_query_intel", {"query": "database session", "include_blast_radius": True}),
        ("gsd_query_intel", {"query": "server tile", "include_purposes": False, "include_exports": True}),
        ("gsd_query_intel", {"query": "auth", "type_filter": "test"}),
        ("gsd_blast_radius", {"file": "backend/mlx_manager/database.py"}),
        ("gsd_blast_radius", {"file": "models.py"}),
        ("gsd_pre_edit_check", {"file": "backend/mlx_manager/models.py", "planned_change": "rename UserStatus"}),
        ("gsd_similar_past_work", {"current_goal": "Add a login page with JWT sessions"}),
        ("gsd_similar_past_work", {"current_goal": "Dark mode"}),
        ("gsd_phase_relevant_files", {"phase_goal": "Let admins export users"}),
        ("gsd_codebase_patterns", {"query": "svelte components"}),
        ("gsd_verify_behavior", {"must_have": "Unauthenticated requests redirect to /login page"}),
    ),
    "pike-lsp": (
        ("gsd_phase_status", {"phase": "v1 phase 3"}),
        ("gsd_phase_status", {"phase": "6"}),
        ("gsd_phase_status", {"phase": "99"}),
        ("gsd_requirement_status", {"requirement_id": "ENT-02"}),
        ("gsd_query_intel", {"query": "bridge", "include_blast_radius": True}),
        ("gsd_query_intel", {"query": "handler", "type_filter": "feature"}),
        ("gsd_blast_radius", {"file": "packages/pike-bridge/src/types.ts", "change_type": "signature_change"}),
        (
            "gsd_pre_edit_check",
            {"file": "packages/pike-bridge/src/constants.ts", "planned_change": "rename a constant"},
        ),
        ("gsd_blast_radius", {"file": "packages/pike-lsp-server/src/core/errors.ts"}),
        ("gsd_similar_past_work", {"current_goal": "Split a large module into handlers"}),
        ("gsd_similar_past_work", {"current_goal": "Speed up startup"}),
        ("gsd_codebase_patterns", {"query": "error handling"}),
        ("gsd_phase_relevant_files", {"phase_goal": "Faster startup of the Pike subprocess bridge"}),
        ("gsd_verify_artifact", {"must_exist": "packages/pike-bridge/src/bridge.ts"}),
        ("gsd_verify_behavior", {"must_have": "Parser.pike class exists with all four request methods"}),
    ),
    "to-tui": (
        ("gsd_phase_status", {"phase": "13"}),
        ("gsd_requirement_status", {"requirement_id": "MIGR-02"}),
        ("gsd_requirement_status", {"requirement_id": "KEYS-03"}),
        ("gsd_query_intel", {"query": "plugin keybindings"}),
        ("gsd_blast_radius", {"file": "src/todo/mod.rs"}),
        ("gsd_similar_past_work", {"current_goal": "Let plugins store metadata in the database"}),
        ("gsd_verify_behavior", {"must_have": "Hooks execute without blocking the UI"}),
        ("gsd_pre_edit_check", {"file": "src/app/state.rs", "change_type": "signature_change"}),
        ("gsd_blast_radius", {"file": "src/mcp/mod.rs"}),
        ("gsd_query_intel", {"query": "api", "type_filter": "service"}),
        ("gsd_requirement_status", {"requirement_id": "PLUG-03"}),
        ("gsd_requirement_status", {"requirement_id": "DB-01"}),
        ("gsd_phase_status", {"phase": "3"}),
        ("gsd_codebase_patterns", {"query": "error handling"}),
        ("gsd_similar_past_work", {"current_goal": "Add a clickable link to the status bar"}),
    ),
}


PAGES_ABOUT: dict[str, tuple[str, ...]] = {
    "gsd-v1.9.1": ("gsd://phase/4", "gsd://phase/5", "gsd://phase/5/uat"),
    "mlx-manager": ("gsd://phase/13", "gsd://phase/3", "gsd://intel/entity/backend-tests-conftest"),
    "pike-lsp": (
        "gsd://phase/4",
        "gsd://phase/6/verification",
        "gsd://intel/entity/packages-pike-bridge-src-process",
        "gsd://intel/entity/packages-pike-lsp-server-src-utils-code-lens",
        "gsd://intel/entity/no-such-file",
    ),
    "to-tui": ("gsd://phase/current", "gsd://phase/15", "gsd://intel/entity/app-state"),
}


def answers(name: str, root: Path) -> dict[str, Any]:
    """Every answer about a tree in ``root``, by its question as one line; then its pages, by their URI, as lines."""
    intelligence = Intelligence()
    try:
        found: dict[str, Any] = {}
        for question, arguments in (*EVERYWHERE, *ABOUT[name]):
            line = f"{question} {orjson.dumps(arguments).decode()}"
            try:
                found[line] = intelligence.about(root, question, arguments)
            except BadRequest as error:  # what is asked of something that is not there
                found[line] = {"error": error.code, "message": error.message, **error.facts}
        snapshot = intelligence.snapshot(root)
        for uri in (*PAGES, *PAGES_ABOUT[name]):
            found[uri] = pages.page(snapshot, uri=uri)["text"].splitlines()
        return comparable(found, root)
    finally:
        intelligence.close()


def comparable(value: Any, root: Path) -> Any:
    """The value without what differs from machine to machine: the root's own path."""
    return orjson.loads(orjson.dumps(value).replace(str(root).encode(), b"<root>"))


def shown(value: Any) -> bytes:
    return orjson.dumps(value, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)


def main() -> None:
    HERE.mkdir(exist_ok=True)
    for name in sys.argv[1:] or gsd_trees.TREES:
        with tempfile.TemporaryDirectory() as into:
            (HERE / f"{name}.json").write_bytes(shown(answers(name, gsd_trees.unpack(name, Path(into).resolve()))))


if __name__ == "__main__":
    main()
