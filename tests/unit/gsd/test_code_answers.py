"""The answers about code, in the documents' shapes, over made-up graphs and real trees."""

import json

import pytest

from orchestrator.base.errors import BadRequest
from orchestrator.gsd.graph import code_answers
from orchestrator.gsd.graph.merging import Merging
from orchestrator.gsd.graph.said import Said
from orchestrator.gsd.graph_snapshot import Snapshot
from orchestrator.gsd.intel.reading import IntelStore
from orchestrator.gsd.model import Intel, Trouble
from tests.support.gsd_trees import unpack


def index(path, *targets, **more):
    return Said("index", "", path, targets=targets, by_path=True, **more)


NOTHING = Intel()


def snapshot(*said, intel=NOTHING, stale=lambda paths: [], entity=lambda entity_id: None):
    made = Merging()
    made.replace("index", {each.path: each for each in said})
    return Snapshot(None, None, made.graph, intel, entity, stale)


def real(name, tmp_path):
    root = unpack(name, tmp_path)
    store = IntelStore(root)
    graph, intel = store.read()
    return Snapshot(root, None, graph, intel, store.entity, lambda paths: [])


SHOP = (
    index("src/db.ts", purpose="Database access", type="service", exports=("query", "connect")),
    index("src/services/user.ts", "src/db.ts", purpose="Users in the database", type="service"),
    index("src/api/user.ts", "src/services/user.ts", type="api"),
    index("src/api/user.test.ts", "src/api/user.ts", type="test"),
    index("tests/test_db.py", "src/db.ts", type="test"),
    index("src/alone.ts"),
)


def refused(call, *args, **more):
    with pytest.raises(BadRequest) as error:
        call(*args, **more)
    assert error.value.code == "bad_argument"
    return error.value.message


def test_query_intel_has_the_documents_shape():
    answer = code_answers.query_intel(snapshot(*SHOP), query="where is the database?")
    assert answer == {
        "files": [
            {
                "id": "src-db", "path": "src/db.ts", "purpose": "Database access", "type": "service", "score": 15,
                "why": ["purpose: database"], "sources": ["index"],
            },
            {
                "id": "src-services-user", "path": "src/services/user.ts", "purpose": "Users in the database",
                "type": "service", "score": 18, "why": ["purpose: database"], "sources": ["index"],
            },
        ][::-1],
        "total": 2, "keywords": ["database"],
    }  # fmt: skip


def test_query_intel_gives_what_is_asked_for_and_says_what_is_stale():
    shop = snapshot(*SHOP, stale=lambda paths: [path for path in paths if path == "src/db.ts"])
    answer = code_answers.query_intel(
        shop, query="db", include_purposes=False, include_blast_radius=True, include_exports=True, max_results=1
    )
    assert answer["files"] == [
        {
            "id": "src-db", "path": "src/db.ts", "type": "service", "exports": ["query", "connect"],
            "directDependents": 2, "score": 10, "why": ["path: db"], "sources": ["index"],
        },
    ]  # fmt: skip
    assert (answer["total"], answer["stale"]) == (2, ["src/db.ts"])


def test_a_plural_that_stands_nowhere_finds_its_singular_and_no_other_score_changes():
    graph = snapshot(index("src/keys.rs", purpose="Keybinding configuration"), index("src/user.ts"))
    (found,) = code_answers.query_intel(graph, query="keybindings")["files"]
    assert (found["score"], found["why"]) == (15, ["purpose: keybinding"])
    graph = snapshot(index("src/users.ts"), index("src/user.ts"))
    assert [one["path"] for one in code_answers.query_intel(graph, query="users")["files"]] == ["src/users.ts"]


def test_the_type_is_taken_before_the_limit():
    said = [index(f"src/user{number:02}.ts", type="util") for number in range(20)] + [
        index("src/z-user.ts", type="api")
    ]
    answer = code_answers.query_intel(snapshot(*said), query="user", type_filter="api", max_results=1)
    assert ([each["path"] for each in answer["files"]], answer["total"]) == (["src/z-user.ts"], 1)


def test_types_are_the_documents_and_those_there_are():
    shop = snapshot(*SHOP, index("a.x", type="hook"))
    assert code_answers.query_intel(shop, query="user", type_filter="model")["files"] == []
    assert code_answers.query_intel(shop, query="a", type_filter="Hook")["total"] == 1
    message = refused(code_answers.query_intel, shop, query="user", type_filter="nonsense")
    assert "service, api, util, component, model, config, hook, test, unknown" in message


def test_what_cannot_be_asked_is_refused():
    shop = snapshot(*SHOP)
    refused(code_answers.query_intel, shop, query="  ")
    refused(code_answers.query_intel, shop, query="?!")
    refused(code_answers.query_intel, shop, query="x" * 5_000)
    for max_results in (0, -1, 101):
        refused(code_answers.query_intel, shop, query="x", max_results=max_results)
    for max_depth in (0, 11):
        refused(code_answers.blast_radius, shop, file="src/db.ts", max_depth=max_depth)
    refused(code_answers.blast_radius, shop, file="")
    refused(code_answers.blast_radius, shop, file="src/db.ts", change_type="rename")
    refused(code_answers.pre_edit_check, shop, file="src/db.ts", change_type="rename")
    refused(code_answers.get_conventions, shop, type="nonsense")


def test_blast_radius_counts_direct_and_transitive_apart():
    answer = code_answers.blast_radius(snapshot(*SHOP), file="./src/db.ts", change_type="signature_change")
    assert answer == {
        "file": "src/db.ts", "directDependents": 2, "transitiveDependents": 2, "totalAffected": 4,
        "criticalFiles": ["src/api/user.test.ts", "src/api/user.ts", "src/services/user.ts"],
        "testFiles": ["src/api/user.test.ts", "tests/test_db.py"],
        "recommendation": (
            "Change the 2 files that use it in the same step. 2 more are affected through them. "
            "Run src/api/user.test.ts, tests/test_db.py."
        ),
        "details": {
            "directDependents": [
                {"id": "src-services-user", "path": "src/services/user.ts", "purpose": "Users in the database",
                 "depth": 1, "via": "index"},
                {"id": "tests-test-db", "path": "tests/test_db.py", "purpose": "", "depth": 1, "via": "index"},
            ],
            "transitiveDependents": [
                {"id": "src-api-user", "path": "src/api/user.ts", "purpose": "", "depth": 2, "via": "index",
                 "through": "src/services/user.ts"},
                {"id": "src-api-user-test", "path": "src/api/user.test.ts", "purpose": "", "depth": 3, "via": "index",
                 "through": "src/api/user.ts"},
            ],
        },
        "known": True,
    }  # fmt: skip
    near = code_answers.blast_radius(snapshot(*SHOP), file="src/db.ts", max_depth=1)
    assert (near["directDependents"], near["transitiveDependents"], near["testFiles"]) == (2, 0, ["tests/test_db.py"])


@pytest.mark.parametrize("change_type", ["any", "signature_change", "behavior_change", "deletion", "export"])
def test_more_than_ten_dependents_ask_for_care(change_type):
    hub = snapshot(index("src/hub.ts"), *[index(f"src/f{number:02}.ts", "src/hub.ts") for number in range(11)])
    advice = code_answers.blast_radius(hub, file="src/hub.ts", change_type=change_type)["recommendation"]
    assert "11 files are affected" in advice
    assert "eprecate" in advice
    assert "migration path" in advice
    few = snapshot(index("src/hub.ts"), *[index(f"src/f{number:02}.ts", "src/hub.ts") for number in range(10)])
    advice = code_answers.blast_radius(few, file="src/hub.ts", change_type=change_type)["recommendation"]
    assert "10 files" in advice
    assert "migration" not in advice


def test_long_lists_are_cut_and_counts_are_not():
    said = [index("src/hub.ts")] + [index(f"src/api/f{number:05}.test.ts", "src/hub.ts") for number in range(3_000)]
    answer = code_answers.blast_radius(snapshot(*said), file="src/hub.ts", max_depth=10)
    assert (answer["directDependents"], answer["totalAffected"], answer["truncated"]) == (3_000, 3_000, True)
    assert len(answer["details"]["directDependents"]) == len(answer["testFiles"]) == code_answers.MAX_LISTED
    assert answer["details"]["directDependents"][0]["path"] == "src/api/f00000.test.ts"
    assert len(json.dumps(answer)) < 60_000


def test_an_unknown_file_is_never_called_safe():
    for answer in (
        code_answers.blast_radius(snapshot(*SHOP), file="src/db.py"),
        code_answers.pre_edit_check(snapshot(*SHOP), file="src/db.py"),
    ):
        assert answer["known"] is False
        assert answer["candidates"] == ["src/db.ts"]
        assert "does not mean that there are none" in answer["recommendation"]
        assert "src/db.ts" in answer["recommendation"]
    assert answer["safe"] is None
    empty = code_answers.blast_radius(snapshot(), file="src/x.ts")
    assert (empty["totalAffected"], empty["known"], empty["details"]["directDependents"]) == (0, False, [])


def test_pre_edit_check_is_safe_on_evidence_alone():
    shop = snapshot(*SHOP)
    answer = code_answers.pre_edit_check(
        shop, file="src/db.ts", planned_change="rename query()", change_type="export"
    )
    assert (answer["safe"], answer["blast_radius"]) == (False, 4)
    assert answer["breaking_files"] == ["src/services/user.ts", "tests/test_db.py"]
    assert answer["named_exports"] == ["query"]
    assert answer["example"] == {
        "file": "src/services/user.ts", "purpose": "Users in the database", "via": "index",
    }  # fmt: skip
    answer = code_answers.pre_edit_check(shop, file="src/alone.ts", change_type="deletion")
    assert (answer["safe"], answer["blast_radius"], answer["breaking_files"]) == (True, 0, [])
    assert "not proof" in answer["recommendation"]
    assert "example" not in answer


def test_a_file_whose_language_nobody_reads_is_never_called_safe():
    graph = snapshot(*SHOP, index("tools/setup.sh", type="config"))
    answer = code_answers.pre_edit_check(graph, file="tools/setup.sh")
    assert answer["safe"] is None
    assert answer["recommendation"].startswith("Imports of shell files are not read")
    assert code_answers.blast_radius(graph, file="tools/setup.sh")["recommendation"] == answer["recommendation"]
    assert code_answers.pre_edit_check(graph, file="src/alone.ts")["safe"] is True


def test_nothing_is_safe_where_imports_end_nowhere():
    files = [index(f"tool{n}.py", type="util") for n in range(30)]
    answer = code_answers.pre_edit_check(snapshot(*files), file="tool1.py")
    assert answer["safe"] is None
    assert "0 imports between 30 files" in answer["recommendation"]
    linked = [index(f"tool{n}.py", *["tool0.py"] * (n in (2, 3, 4)), type="util") for n in range(30)]
    assert code_answers.pre_edit_check(snapshot(*linked), file="tool1.py")["safe"] is True


def test_an_answer_is_as_old_as_its_store_says_not_as_its_checkout(tmp_path):
    found = code_answers.pre_edit_check(real("pike-lsp", tmp_path), file="packages/pike-bridge/src/types.ts")
    assert found["as_of"].startswith("2026-01-21")


def test_a_store_that_could_not_be_read_is_told_and_nothing_is_safe_without_it():
    bad = Trouble(".planning/intel/graph.db", 0, "is not an SQLite database", "unreadable")
    graph = snapshot(*SHOP, intel=Intel(troubles=(bad, Trouble("src/x.py", 1, "is no Python", "unreadable"))))
    answers = [
        code_answers.query_intel(graph, query="database"), code_answers.query_intel(graph, query="nowhere"),
        code_answers.blast_radius(graph, file="src/db.ts"), code_answers.blast_radius(graph, file="gone.ts"),
        code_answers.pre_edit_check(graph, file="gone.ts"), code_answers.pre_edit_check(graph, file="src/alone.ts"),
    ]  # fmt: skip
    told = [".planning/intel/graph.db could not be read: is not an SQLite database"]
    imports = "What src/x.py imports could not be read: look there by hand."
    assert [answer["notes"] for answer in answers] == [told] * 5 + [[*told, imports]]
    assert answers[-1]["safe"] is None


def test_nothing_is_safe_while_a_source_file_could_not_be_parsed():
    bad = [Trouble(f"src/{name}", 1, "not parsed", "unreadable") for name in ("a.py", "b.ts", "alone.ts", "c.png")]
    graph = snapshot(*SHOP, intel=Intel(troubles=(*bad, Trouble("src/d.ts", 1, "not all is understood", "odd"))))
    answer = code_answers.pre_edit_check(graph, file="src/alone.ts")
    assert answer["safe"] is None
    assert answer["notes"] == ["What src/a.py, src/b.ts import could not be read: look there by hand."]
    assert "notes" not in code_answers.pre_edit_check(graph, file="src/db.ts")


def test_conventions_of_the_hooks(tmp_path):
    answer = code_answers.get_conventions(real("mlx-manager", tmp_path))
    assert answer["naming"]["exports"] == {"dominant": "snake_case", "count": 510, "percentage": 45}
    assert answer["directories"]["services"] == {"purpose": "Service layer", "files": 12}
    assert answer["suffixes"][".test."] == {"purpose": "Test files", "files": 15}
    assert (answer["imports"], answer["errors"], answer["other"]) == ({}, {}, {})
    assert answer["raw"]["version"] == 1


def test_conventions_made_by_hand(tmp_path):
    tui = real("to-tui", tmp_path)
    answer = code_answers.get_conventions(tui)
    assert answer["source"] == ".planning/intel/conventions.json"
    assert answer["naming"]["structs"] == "PascalCase"
    assert answer["directories"]["src/mcp/"] == {"purpose": "Model Context Protocol server"}
    assert answer["suffixes"]["mod.rs"] == {"purpose": "Module root that re-exports public items"}
    assert answer["imports"]["super_imports"] == "use super::*"
    assert answer["errors"]["pattern"] == "anyhow::Result with .with_context()"
    assert sorted(answer["other"]) == ["database_conventions", "frameworks", "storage_conventions", "todo_states"]
    answer = code_answers.get_conventions(tui, type="directories", directory="src/plugin")
    assert sorted(answer) == ["directories", "source"]
    assert sorted(answer["directories"]) == ["src/", "src/plugin/", "src/plugin/generators/"]
    assert sorted(code_answers.get_conventions(tui, type="errors")) == ["errors", "source"]


def test_no_conventions_are_said_to_be_none():
    answer = code_answers.get_conventions(snapshot())
    assert (answer["source"], answer["naming"], answer["raw"]) == ("", {}, {})
    assert "orchestrator gsd index" in answer["note"]


@pytest.mark.parametrize(
    "raw", [{"naming": 7}, {"directories": ["a"], "suffixes": None}, {"naming": {"a": [1]}, "x": {}}]
)
def test_conventions_of_any_shape(raw):
    answer = code_answers.get_conventions(snapshot(intel=Intel(conventions=raw, conventions_from="x")), directory="a")
    assert json.dumps(answer)


def test_long_conventions_are_cut_and_say_so():
    long = {f"k{number}": "x" * 1_000 for number in range(1_000)}
    intel = Intel(conventions={"naming": long, "directories": {"src": "all"}}, conventions_from="x")
    for type_ in ("all", "naming"):
        answer = code_answers.get_conventions(snapshot(intel=intel), type=type_)
        assert (list(answer["naming"]), answer["truncated"]) == ([f"k{number}" for number in range(19)], True)
    assert answer.get("raw", {}) == {}
    assert "truncated" not in code_answers.get_conventions(snapshot(intel=intel), type="directories")


def test_hotspots():
    shop = snapshot(*SHOP)
    assert code_answers.hotspots(shop, 2) == [
        {"id": "src-db", "path": "src/db.ts", "purpose": "Database access", "type": "service", "dependents": 2},
        {"id": "src-api-user", "path": "src/api/user.ts", "purpose": "", "type": "api", "dependents": 1},
    ]
    page = code_answers.hotspots_page(shop)
    assert "1. `src/db.ts` — 2 dependents [service]: Database access" in page
    assert "2. `src/api/user.ts` — 1 dependent [api]\n" in page
    assert "No file is known" in code_answers.hotspots_page(snapshot())


def test_summary_page_falls_back_to_the_documents_sentence(tmp_path):
    assert code_answers.summary_page(snapshot()).startswith(
        "No intelligence summary available. Run /gsd:analyze-codebase."
    )
    assert code_answers.summary_page(real("to-tui", tmp_path)).startswith("# Codebase Intelligence")


def test_entity_page_is_the_file_or_what_is_known(tmp_path):
    assert code_answers.entity_page(real("to-tui", tmp_path), "todo-item").startswith("# ")
    shop = snapshot(*SHOP)
    page = code_answers.entity_page(shop, "src-db")
    assert "Database access" in page
    assert "- [[src-services-user]] — index" in page
    assert "- `query`" in page
    assert code_answers.entity_page(shop, "../secret") == "Entity not found: ../secret"


@pytest.mark.parametrize("tree", ["gsd-v1.9.1", "mlx-manager", "pike-lsp", "to-tui"])
def test_every_answer_about_every_real_file_is_json_and_short(tree, tmp_path):
    shop = real(tree, tmp_path)
    for node in shop.graph.nodes.values():
        for text in (node.path, node.id):
            answer = code_answers.blast_radius(shop, file=text, max_depth=10)
            assert answer["known"]
            assert answer["file"] == node.path
            assert answer["directDependents"] + answer["transitiveDependents"] == answer["totalAffected"]
            details = [each["path"] for each in answer["details"]["directDependents"]]
            details += [each["path"] for each in answer["details"]["transitiveDependents"]]
            assert node.path not in details
            assert len(set(details)) == len(details) == answer["totalAffected"]
            assert len(json.dumps(answer)) < 60_000
        code_answers.pre_edit_check(shop, file=node.path)
        code_answers.entity_page(shop, node.id)
