"""What each tool of project intelligence promises, by the numbers of its document, over stdio (B3.6 to B3.33)."""

import json
import os
import re
import sqlite3
import subprocess
import sys

import pytest

from tests.support.gsd_trees import write
from tests.support.stage import tree

PURPOSES = {
    "src/lib/db": "Connection pool and queries for the whole shop.",
    "src/services/user-service": "Registers and finds users.",
    "src/api/auth": "Routes that log users in.",
    "src/api/cart": "Routes of the cart.",
    "src/services/user-service.test": "Tests of the user service.",
    "src/pages/home": "The first page.",
}
TYPES = {
    "src/lib/db": "util", "src/services/user-service": "service", "src/api/auth": "api", "src/api/cart": "api",
    "src/services/user-service.test": "test", "src/pages/home": "component",
}  # fmt: skip
EDGES = [
    ("src/services/user-service", "src/lib/db"),
    ("src/api/cart", "src/lib/db"),
    ("src/api/auth", "src/services/user-service"),
    ("src/services/user-service.test", "src/services/user-service"),
    ("src/pages/home", "src/api/auth"),
    ("src/lib/db", "src/pages/home"),  # a cycle through all of it
]
HUBS = 14


def slug(path):
    return path.replace("/", "-").replace(".", "-")


def graph_db(root, nodes, edges):
    """A store as GSD's own hook writes it: bodies without purpose, ids generated from them."""
    path = root / ".planning/intel/graph.db"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    db = sqlite3.connect(path)
    db.executescript(
        "CREATE TABLE nodes (body TEXT, id TEXT GENERATED ALWAYS AS (json_extract(body,'$.id')) VIRTUAL NOT NULL UNIQUE);"
        "CREATE INDEX id_idx ON nodes(id);"
        "CREATE TABLE edges (source TEXT NOT NULL, target TEXT NOT NULL, relationship TEXT DEFAULT 'depends_on',"
        " UNIQUE(source,target,relationship) ON CONFLICT REPLACE);"
    )
    for name, kind in nodes.items():
        body = {"id": slug(name), "path": f"/home/her/shop/{name}.ts", "type": kind, "status": "active"}
        db.execute("INSERT INTO nodes(body) VALUES (?)", (json.dumps(body),))
    db.executemany("INSERT INTO edges(source, target) VALUES (?, ?)", [(slug(a), slug(b)) for a, b in edges])
    db.commit()
    db.close()
    return path


def make(root):
    """A project whose graph has a cycle, a hub and a purpose for each file."""
    files = {
        f".planning/intel/entities/{slug(name)}.md": f"---\npath: /home/her/shop/{name}.ts\ntype: {TYPES[name]}\n---\n\n"
        f"# {name}\n\n## Purpose\n\n{text}\n\n## Exports\n\n- `thing(): void` - a thing\n"
        for name, text in PURPOSES.items()
    }
    files |= {
        f"{name}.ts": "export const one = 1;\n"
        for name in (*PURPOSES, "src/lib/hub", *(f"src/use/u{n}" for n in range(HUBS)))
    }
    files[".planning/PROJECT.md"] = (
        "# Shop\n\n## Vision\n\nTea for all.\n\n## Core Value\n\nTea in a minute.\n\n## Key Decisions\n\n"
        "| Decision | Rationale | Outcome |\n|---|---|---|\n| SQLite | One file | ✓ Good |\n"
    )
    write(root, files)
    users = {f"src/use/u{n}": "module" for n in range(HUBS)}
    graph_db(root, {**TYPES, "src/lib/hub": "util", **users}, [*EDGES, *((name, "src/lib/hub") for name in users)])
    return root


@pytest.fixture(scope="module")
def store(shared_stage):
    return make(shared_stage.root / "store")


@pytest.fixture(scope="module")
def connect(shared_stage):
    def connect(root):
        wire = shared_stage.wire(None, "--toolsets", "gsd", cwd=root)
        wire.begin()
        return wire

    return connect


@pytest.fixture(scope="module")
def wire(connect, store):
    return connect(store)


def text_of(wire, uri):
    (one,) = wire.ask("resources/read", {"uri": uri})["result"]["contents"]
    return one["text"]


# -- B3.8, B3.17 to B3.20: what is found, and how it is ranked --------------------------------------------------------


def test_files_are_found_by_path_and_purpose_and_ranked_by_the_score(wire):
    found = wire.tool("gsd_query_intel", {"query": "user"})["files"]
    # In its path +10 and in its purpose +15; the route has it in its purpose only, the test in both.
    assert {one["path"] for one in found[:2]} == {"src/services/user-service.ts", "src/services/user-service.test.ts"}
    assert "src/api/auth.ts" in {one["path"] for one in found[2:]}
    assert all({"id", "path", "purpose", "type"} <= one.keys() for one in found)
    scores = [one["score"] for one in found]
    assert scores == sorted(scores, reverse=True)


def test_a_purpose_comes_from_the_entity_for_the_store_has_none(wire):
    (found,) = wire.tool("gsd_query_intel", {"query": "pool"})["files"]
    assert (found["path"], found["purpose"]) == ("src/lib/db.ts", PURPOSES["src/lib/db"])
    (bare,) = wire.tool("gsd_query_intel", {"query": "pool", "include_purposes": False})["files"]
    assert "purpose" not in bare


def test_direct_dependents_are_counted_when_asked_for(wire):
    (found,) = wire.tool("gsd_query_intel", {"query": "pool", "include_blast_radius": True})["files"]
    assert found["directDependents"] == 2
    (bare,) = wire.tool("gsd_query_intel", {"query": "pool"})["files"]
    assert "directDependents" not in bare


def test_the_type_filters_before_the_limit_cuts(wire):
    found = wire.tool("gsd_query_intel", {"query": "src", "type_filter": "test", "max_results": 1})["files"]
    assert [one["path"] for one in found] == ["src/services/user-service.test.ts"]
    assert len(wire.tool("gsd_query_intel", {"query": "src", "max_results": 3})["files"]) == 3


@pytest.mark.parametrize(
    "query", ["%", "_", "zzz' OR 'zzz'='zzz", "zzz'; DROP TABLE nodes; --", 'zzz" OR path LIKE "%']
)
def test_a_query_is_never_a_part_of_sql(wire, store, query):
    before = (store / ".planning/intel/graph.db").read_bytes()
    answer = wire.tool("gsd_query_intel", {"query": query, "max_results": 100})
    if query in "%_":  # no word to look for, or one that stands nowhere
        assert answer.get("files", []) == []
    else:
        assert not [one for one in answer["files"] if "zzz" not in " ".join(one["why"]) and one["type"] == "module"]
    assert (store / ".planning/intel/graph.db").read_bytes() == before
    assert wire.tool("gsd_query_intel", {"query": "pool"})["files"]


def test_hotspots_are_the_most_depended_on_first_and_at_most_ten(wire):
    text = text_of(wire, "gsd://intel/hotspots")
    order = [text.index(name) for name in ("src/lib/hub.ts", "src/lib/db.ts")]
    assert order == sorted(order)
    assert str(HUBS) in text


def test_more_than_ten_hotspots_are_cut_at_ten(connect, shared_stage):
    root = write(shared_stage.root / "wide", {".planning/PROJECT.md": "# Wide\n"})
    hubs = [f"src/hub{n:02}" for n in range(12)]
    edges = [(f"src/use{m}", hub) for n, hub in enumerate(hubs) for m in range(n + 1)]
    graph_db(root, dict.fromkeys([*hubs, *(f"src/use{m}" for m in range(12))], "module"), edges)
    text = text_of(connect(root), "gsd://intel/hotspots")
    assert re.findall(r"src/hub\d\d", text) == hubs[:1:-1]


# -- B3.9, B3.18: what a change reaches -------------------------------------------------------------------------------


def test_direct_and_transitive_dependents_are_disjoint_also_in_a_cycle(wire):
    found = wire.tool("gsd_blast_radius", {"file": "src/lib/db.ts", "max_depth": 10})
    details = found["details"]
    direct = {one["path"] for one in details["directDependents"]}
    further = {one["path"] for one in details["transitiveDependents"]}
    assert direct == {"src/services/user-service.ts", "src/api/cart.ts"}
    assert further == {"src/api/auth.ts", "src/services/user-service.test.ts", "src/pages/home.ts"}
    assert (found["directDependents"], found["transitiveDependents"], found["totalAffected"]) == (2, 3, 5)
    assert {one["depth"] for one in details["directDependents"]} == {1}
    assert {(one["path"], one["depth"]) for one in details["transitiveDependents"]} >= {
        ("src/api/auth.ts", 2), ("src/pages/home.ts", 3),
    }  # fmt: skip
    assert all({"id", "path", "purpose", "depth"} <= one.keys() for one in details["transitiveDependents"])


def test_critical_and_test_files_are_taken_over_both(wire):
    found = wire.tool("gsd_blast_radius", {"file": "src/lib/db.ts"})
    assert set(found["criticalFiles"]) == {
        "src/services/user-service.ts", "src/api/cart.ts", "src/api/auth.ts", "src/services/user-service.test.ts",
    }  # fmt: skip
    assert found["testFiles"] == ["src/services/user-service.test.ts"]


def test_the_depth_is_kept_to(wire):
    found = wire.tool("gsd_blast_radius", {"file": "src/lib/db.ts", "max_depth": 1})
    assert (found["directDependents"], found["transitiveDependents"]) == (2, 0)


@pytest.mark.parametrize("name", ["src/lib/db.ts", "src-lib-db", "./src/lib/db.ts", "/home/her/shop/src/lib/db.ts"])
def test_a_file_is_known_by_its_path_its_id_and_the_path_of_another_machine(wire, name):
    assert wire.tool("gsd_blast_radius", {"file": name})["directDependents"] == 2


def test_the_recommendation_goes_by_the_kind_of_change_and_by_what_it_reaches(wire):
    said = {
        kind: wire.tool("gsd_blast_radius", {"file": "src/lib/hub.ts", "change_type": kind})["recommendation"]
        for kind in ("any", "signature_change", "behavior_change", "deletion")
    }
    assert len(set(said.values())) == 4
    for text in said.values():
        assert any(word in text.lower() for word in ("compatible", "deprecat", "migrat")), text


def test_a_file_that_nobody_knows_is_not_called_safe(wire):
    found = wire.tool("gsd_blast_radius", {"file": "src/nowhere.ts"})
    assert (found["known"], found["totalAffected"]) == (False, 0)
    assert wire.tool("gsd_pre_edit_check", {"file": "src/nowhere.ts"})["safe"] is None
    assert wire.tool("gsd_pre_edit_check", {"file": "src/lib/hub.ts", "change_type": "deletion"})["safe"] is False


def test_a_store_without_imports_makes_no_file_safe(connect, shared_stage):
    files = {f"src/a{n}.rs": {"exports": [], "imports": ["serde"]} for n in range(5)}
    index = {"generated": "2026-01-21", "language": "rust", "files": files}
    root = write(shared_stage.root / "edgeless", {
        ".planning/PROJECT.md": "# X\n", ".planning/intel/index.json": json.dumps(index), **dict.fromkeys(files, "use x;\n"),
    })  # fmt: skip
    wire = connect(root)
    found = wire.tool("gsd_pre_edit_check", {"file": "src/a1.rs"})
    assert (found["known"], found["safe"]) == (True, None)
    assert "0 imports between 5 files" in wire.tool("gsd_blast_radius", {"file": "src/a1.rs"})["recommendation"]


def test_a_file_is_safe_where_its_importers_would_be_known(connect, shared_stage):
    root = write(shared_stage.root / "leaf", {"pkg/__init__.py": "", "pkg/a.py": "import pkg.b\n", "pkg/b.py": ""})
    indexed = [sys.executable, "-P", "-m", "orchestrator", "gsd", "index", "."]
    subprocess.run(indexed, cwd=root, env=shared_stage.env, capture_output=True, check=True, timeout=120)
    wire = connect(root)
    found = wire.tool("gsd_pre_edit_check", {"file": "pkg/a.py"})
    assert (found["safe"], found["blast_radius"]) == (True, 0)
    assert found["as_of"]
    assert wire.tool("gsd_pre_edit_check", {"file": "pkg/b.py"})["safe"] is False


# -- B3.10, B3.11, B3.14 to B3.16: what the code and the plans show ---------------------------------------------------

TOLD = {
    ".planning/ROADMAP.md": "# Roadmap\n\n- [x] **Phase 1: Accounts** - a\n- [ ] **Phase 2: Login** - b\n\n"
    "### Phase 1: Accounts\n**Goal**: Users register an account.\n\n### Phase 2: Login\n**Goal**: Users log in.\n",
    ".planning/phases/01-accounts/01-01-PLAN.md": "---\nphase: 01-accounts\nplan: 01\n---\n",
    ".planning/phases/01-accounts/01-01-SUMMARY.md": "---\nphase: 01-accounts\nplan: 01\nkey-files:\n"
    "  created: [src/db.ts]\nkey-decisions: [Keep accounts in SQLite]\n---\n# Phase 1: Accounts Summary\n\n"
    "## Issues Encountered\n\n- The lock was held too long.\n",
    ".planning/intel/entities/src-db.md": "---\npath: src/db.ts\n---\n# db\n\n## Purpose\n\nKeeps users.\n",
    ".planning/intel/entities/src-api.md": "---\npath: src/api.ts\n---\n# api\n\n## Purpose\n\nLogs users in.\n\n"
    "## Dependencies\n\n- [[src-db]]\n",
    "src/db.ts": "export function findUser(name) {\n  try {\n    return get(name)\n  } catch (error) {\n    throw error\n  }\n}\n",
    "src/api.ts": "import express from 'express'\nimport { findUser } from './db'\nexport const app = express()\n"
    "app.post('/api/login', limited, (req, res) => {\n  try {\n    res.json(findUser(req.body.name))\n"
    "  } catch (error) {\n    res.end()\n  }\n})\n",
}  # fmt: skip


@pytest.fixture(scope="module")
def told(connect, shared_stage):
    """A client in a project with an endpoint, a phase that is done and one that is not."""
    return connect(write(shared_stage.root / "told", TOLD))


def test_a_behaviour_is_verified_by_lines_and_what_nothing_shows_is_not_known(told):
    found = told.tool("gsd_verify_behavior", {"must_have": "src/db.ts exports `findUser`"})
    (line,) = found["evidence"]
    assert (found["verified"], found["confidence"]) == (True, "high")
    assert (line["file"], line["line"], line["code"]) == ("src/db.ts", 1, "export function findUser(name) {")
    none = told.tool("gsd_verify_behavior", {"must_have": "Invoices are printed in colour"})
    assert (none["verified"], none["evidence"]) == (None, [])


def test_an_endpoint_is_located_with_its_method_and_middleware_and_another_method_is_denied(told):
    asked = {"must_exist": "POST /api/login endpoint", "check_type": "endpoint"}
    found = told.tool("gsd_verify_artifact", asked)
    assert [found[key] for key in ("exists", "location", "method", "middleware")] == [
        True, "src/api.ts:4", "POST", ["limited"],
    ]  # fmt: skip
    none = told.tool("gsd_verify_artifact", {**asked, "must_exist": "DELETE /api/login endpoint"})
    assert (none["exists"], none["location"]) == (False, None)


def test_the_files_of_a_goal_come_best_first_and_with_what_was_asked_for(told):
    found = told.tool("gsd_phase_relevant_files", {"phase_goal": "users log in"})
    assert [one["path"] for one in found["relevant_files"]] == ["src/api.ts", "src/db.ts"]
    assert [one["purpose"] for one in found["relevant_files"]] == ["Logs users in.", "Keeps users."]
    assert found["relevant_files"][1]["blast_radius"]["direct"] == 1
    assert "src/api.ts" in found["suggested_approach"]
    switched = {"include_purposes": False, "include_blast_radius": False}
    bare = told.tool("gsd_phase_relevant_files", {"phase_goal": "users log in", **switched})
    assert {(one["purpose"], one["blast_radius"]) for one in bare["relevant_files"]} == {("", None)}


def test_a_pattern_is_counted_and_shown_by_a_real_line_if_wanted(told):
    (found,) = told.tool("gsd_codebase_patterns", {"query": "error handling"})["patterns"]
    assert (found["name"], found["frequency"]) == ("try/catch", 2)
    at = found["example"]
    assert TOLD[at["file"]].splitlines()[at["line"] - 1].strip() == at["code"] == "} catch (error) {"
    (bare,) = told.tool("gsd_codebase_patterns", {"query": "error handling", "include_examples": False})["patterns"]
    assert bare.get("example") is None


def test_past_work_that_is_alike_comes_with_what_it_decided_learned_and_made(told):
    found = told.tool("gsd_similar_past_work", {"current_goal": "accounts of users"})["similar_phases"][0]
    assert (found["phase"], found["goal"]) == ("1", "Users register an account.")
    assert (found["approach"], found["lessons"]) == (["Keep accounts in SQLite"], ["The lock was held too long."])
    assert found["files_created"] == ["src/db.ts"]


# -- B3.24: entities --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", ["..%2F..%2FPROJECT", "%2Fetc%2Fpasswd", "a%00b", "x" * 400, "..", "src-lib-nothing"]
)
def test_an_entity_is_only_what_lies_among_the_entities(wire, name):
    answer = wire.ask("resources/read", {"uri": f"gsd://intel/entity/{name}"})
    assert answer["result"]["contents"][0]["text"].startswith("Entity not found")


# -- B3.25: the document's own heading --------------------------------------------------------------------------------


def test_the_vision_is_that_of_either_heading_and_the_core_value(wire):
    text = text_of(wire, "gsd://project/vision")
    assert "Tea for all." in text
    assert "Tea in a minute." in text


# -- B3.31 to B3.33, and what must hold -------------------------------------------------------------------------------

HOSTILE = {
    "empty": b"",
    "no database": b"this is no database at all, but it is longer than a header" * 40,
    "cut off": None,
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_a_broken_store_costs_that_store_alone_and_is_told(connect, shared_stage, kind):
    root = make(shared_stage.root / f"broken-{kind.replace(' ', '-')}")
    path = root / ".planning/intel/graph.db"
    path.write_bytes(path.read_bytes()[:5000] if HOSTILE[kind] is None else HOSTILE[kind])
    wire = connect(root)
    assert wire.tool("gsd_query_intel", {"query": "pool"})["files"][0]["path"] == "src/lib/db.ts"
    told = subprocess.run(
        [sys.executable, "-P", "-m", "orchestrator", "gsd", "check", "--json"],
        cwd=root, env=shared_stage.env, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    troubles = json.loads(told.stdout)["troubles"]
    assert any(one["file"] == ".planning/intel/graph.db" for one in troubles), troubles


def test_a_locked_store_is_waited_for_or_told_and_never_half_read(connect, shared_stage):
    root = make(shared_stage.root / "locked")
    holder = sqlite3.connect(root / ".planning/intel/graph.db", isolation_level=None)
    holder.execute("BEGIN EXCLUSIVE")
    try:
        answer = connect(root).tool("gsd_blast_radius", {"file": "src/lib/hub.ts"})
        if answer["directDependents"] != HUBS:
            assert (answer["directDependents"], answer["known"]) == (0, False)
            assert any("graph.db could not be read" in note for note in answer["notes"])
    finally:
        holder.execute("ROLLBACK")
        holder.close()
    assert connect(root).tool("gsd_blast_radius", {"file": "src/lib/hub.ts"})["directDependents"] == HUBS


def test_lines_of_windows_and_bytes_that_are_no_text_are_read(connect, shared_stage):
    root = make(shared_stage.root / "bytes")
    path = root / ".planning/PROJECT.md"
    path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n").replace(b"Tea for all.", b"Tea \xff for all."))
    text = text_of(connect(root), "gsd://project/vision")
    assert "Tea \ufffd for all." in text
    assert "\r" not in text


def test_without_graph_and_index_every_tool_answers_with_empty_lists(connect, shared_stage):
    root = write(shared_stage.root / "bare", {".planning/PROJECT.md": "# Bare\n"})
    wire = connect(root)
    assert wire.tool("gsd_query_intel", {"query": "anything"})["files"] == []
    assert wire.tool("gsd_blast_radius", {"file": "a.py"})["totalAffected"] == 0
    assert wire.tool("gsd_phase_relevant_files", {"phase_goal": "anything"})["relevant_files"] == []
    assert wire.tool("gsd_codebase_patterns", {"query": "anything"})["patterns"] == []
    assert wire.tool("gsd_similar_past_work", {"current_goal": "anything"})["similar_phases"] == []
    status = wire.tool("gsd_phase_status")
    assert (status["current_phase"], status["plans"]) == (None, [])
    assert wire.tool("gsd_verify_behavior", {"must_have": "it works"})["verified"] is None
    assert wire.tool("gsd_verify_artifact", {"must_exist": "a.py"})["exists"] is False
    assert wire.tool("gsd_requirement_status", {"requirement_id": "A-1"})["error"]["code"] == "unknown_requirement"
    assert wire.tool("gsd_pre_edit_check", {"file": "a.py"})["safe"] is None
    assert wire.tool("gsd_untraceable_requirements")["untraceable"] == []
    assert wire.tool("gsd_get_conventions")["naming"] == {}


def test_the_users_hooks_are_never_switched_on_and_the_tree_is_left_as_it_was(connect, shared_stage):
    root = write(
        shared_stage.root / "quiet", {"pkg/__init__.py": "", "pkg/a.py": "from pkg import b\n", "pkg/b.py": ""}
    )
    done = subprocess.run(
        [sys.executable, "-P", "-m", "orchestrator", "gsd", "index", "."],
        cwd=root, env=shared_stage.env, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert not (root / ".planning").exists()
    before = tree(root)
    found = connect(root).tool("gsd_blast_radius", {"file": "pkg/b.py"})
    assert [one["path"] for one in found["details"]["directDependents"]] == ["pkg/a.py"]
    assert tree(root) == before


# -- B3.6: what setup writes is what a CLI starts ---------------------------------------------------------------------


def test_the_entry_that_setup_writes_starts_the_server_of_the_document(shared_stage, store, tmp_path):
    env = {**shared_stage.env, "HOME": str(tmp_path)}
    env.pop("CLAUDE_CONFIG_DIR", None)
    settings = tmp_path / ".claude/settings.json"
    settings.parent.mkdir()
    settings.write_text('{"hooks": {"Stop": []}, "mcpServers": {"mine": {"command": "mine"}}}')
    setup = [sys.executable, "-P", "-m", "orchestrator", "setup", "claude", "--toolsets", "gsd", "--settings"]
    done = subprocess.run(setup, cwd=store, env=env, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    written = json.loads(settings.read_text())
    assert written["hooks"] == {"Stop": []}
    assert written["mcpServers"]["mine"] == {"command": "mine"}
    entry = written["mcpServers"]["gsd"]
    assert {"command", "args", "env"} <= entry.keys()
    ask = {
        "jsonrpc": "2.0", "id": 1, "method": "initialize",
        "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "0"}},
    }  # fmt: skip
    run = subprocess.run(
        [entry["command"], *entry["args"]], input=json.dumps(ask) + "\n", cwd=store, text=True, capture_output=True,
        env={**shared_stage.env, **entry["env"], "PWD": os.fspath(store)}, timeout=120,
    )  # fmt: skip
    assert json.loads(run.stdout.splitlines()[0])["result"]["serverInfo"]["name"] == "gsd"
