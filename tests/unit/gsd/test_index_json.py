"""What GSD indexed: paths of other machines, imports as written, both families of files."""

import json

import pytest

from orchestrator.gsd.graph import foreign
from orchestrator.gsd.intel import index_json
from orchestrator.gsd.intel.import_names import Names
from tests.support.gsd_trees import unpack, write

INDEX = ".planning/intel/index.json"


def told(root, files, **more):
    write(root, {INDEX: json.dumps({"version": 1, "files": files, **more})})
    return index_json.read(root, root / INDEX)


def test_real_pike_lsp(tmp_path):
    root = unpack("pike-lsp", tmp_path)
    found = index_json.read(root, root / INDEX)
    assert (len(found.files), found.troubles, found.updated) == (40, [], "2026-01-21T16:11:26.570Z")
    server = found.files["packages/pike-lsp-server/src/server.ts"]
    assert server.targets == tuple(
        f"packages/pike-lsp-server/src/{name}" for name in (
            "workspace-index.ts", "type-database.ts", "stdlib-index.ts", "utils/regex-patterns.ts",
            "services/bridge-manager.ts", "services/document-cache.ts", "core/logging.ts", "core/types.ts",
            "features/index.ts",
        )
    )  # fmt: skip
    resolved = sum(target in found.files for each in found.files.values() for target in each.targets)
    assert resolved == 29  # A2: 29 of 90


def test_real_to_tui_has_relative_paths_and_crates(tmp_path):
    root = unpack("to-tui", tmp_path)
    found = index_json.read(root, root / INDEX)
    assert len(found.files) == 45
    assert found.files["src/main.rs"].targets == ("src/lib.rs",)
    assert found.files["src/bin/totui-mcp.rs"].targets == ("src/mcp/mod.rs",)
    assert found.files["src/cli.rs"].purpose == "Clap-based CLI argument parsing"
    assert found.updated == "2026-01-21"


def test_real_mlx_manager_resolves_python_and_svelte(tmp_path):
    root = unpack("mlx-manager", tmp_path)
    found = index_json.read(root, root / INDEX).files
    assert "backend/mlx_manager/services/auth_service.py" in found["backend/mlx_manager/dependencies.py"].targets
    page = found["frontend/src/routes/(public)/login/+page.svelte"]
    assert "frontend/src/lib/stores/index.ts" in page.targets
    assert "async" not in {name for each in found.values() for name in each.exports}


@pytest.mark.parametrize(
    ("importer", "name", "expected"),
    [
        ("src/a.ts", "./process.js", "src/process.ts"),
        ("src/a.ts", "./process", "src/process.ts"),
        ("src/a.ts", "./lib", "src/lib/index.ts"),
        ("src/a.ts", "../web/page.svelte", "web/page.svelte"),
        ("src/a.ts", "./gone.js", "src/gone.js"),
        ("src/a.ts", "../../outside", None),
        ("src/a.ts", "react", None),
        ("src/a.ts", "@scope/pkg", None),
        ("src/a.ts", "@/lib/x", "src/lib/x.ts"),
        ("src/a.ts", "~/lib/x.js", "src/lib/x.ts"),
        ("src/a.ts", "bad\nname", None),
        ("web/page.svelte", "$lib/stores", "web/src/lib/stores/index.ts"),
        ("web/page.svelte", "$stores", "web/src/lib/stores/index.ts"),
        ("web/page.svelte", "$app/paths", None),
        ("py/app/main.py", "app.db", "py/app/db.py"),
        ("py/app/main.py", "app.db.Session", "py/app/db.py"),
        ("py/app/main.py", "app", "py/app/__init__.py"),
        ("py/app/main.py", ".db", "py/app/db.py"),
        ("py/app/main.py", "..app.db", "py/app/db.py"),
        ("py/app/main.py", ".....db", None),
        ("py/app/main.py", "os", None),
        ("py/app/main.py", "main", "py/app/main.py"),
        ("rs/src/main.rs", "crate::todo::Item", "rs/src/todo/mod.rs"),
        ("rs/src/todo/mod.rs", "self::list", "rs/src/todo/list.rs"),
        ("rs/src/todo/list.rs", "super::item", "rs/src/todo/item.rs"),
        ("rs/src/main.rs", "made::todo::*", "rs/src/todo/mod.rs"),
        ("rs/src/main.rs", "made::*", "rs/src/lib.rs"),
        ("rs/src/main.rs", "clap::*", None),
        ("rs/src/main.rs", "tokio::todo", None),
        ("go/main.go", "github.com/x/y", None),
    ],
)
def test_what_an_import_means(importer, name, expected):
    paths = {
        "src/a.ts", "src/process.ts", "src/lib/index.ts", "src/lib/x.ts", "web/page.svelte",
        "web/src/lib/stores/index.ts", "py/app/__init__.py", "py/app/db.py", "py/app/main.py",
        "rs/src/lib.rs", "rs/src/main.rs", "rs/src/todo/mod.rs", "rs/src/todo/list.rs", "rs/src/todo/item.rs",
    }  # fmt: skip
    assert Names(paths, "made").resolve(importer, name) == expected


def test_paths_of_another_machine_are_told_by_what_lies_here(tmp_path):
    write(tmp_path, {"packages/a/src/x.ts": "", "lib/y.ts": ""})
    found = told(tmp_path, {"/w/other/packages/a/src/x.ts": {}, "/w/other/lib/y.ts": {}, "/w/other/gone.ts": {}})
    assert sorted(found.files) == ["gone.ts", "lib/y.ts", "packages/a/src/x.ts"]
    assert found.facts["roots"][-1] == "/w/other/"


def test_two_machines_wrote_it(tmp_path):
    write(tmp_path, {"src/a.ts": "", "src/b.ts": ""})
    found = told(
        tmp_path, {"/home/one/p/src/a.ts": {}, "C:\\Users\\two\\p\\src\\b.ts": {}, f"{tmp_path}/src/c.ts": {}}
    )
    assert sorted(found.files) == ["src/a.ts", "src/b.ts", "src/c.ts"]


def test_of_two_machines_that_wrote_of_one_file_the_later_counts(tmp_path):
    write(tmp_path, {"src/a.ts": "", "src/b.ts": ""})
    late = {"exports": ["now"], "imports": ["./b"], "indexed": 2}
    for files in (
        {"/home/one/p/src/a.ts": late, "/home/two/p/src/a.ts": {"exports": ["old"], "indexed": 1}},
        {"/home/one/p/src/a.ts": {"exports": ["old"], "indexed": "1"}, "/home/two/p/src/a.ts": late},
    ):
        found = told(tmp_path, {**files, "/home/one/p/src/b.ts": {}, "/home/two/p/src/b.ts": {}}).files["src/a.ts"]
        assert (found.exports, found.targets) == (("now",), ("src/b.ts",))


def test_roots_are_not_looked_for_without_end(tmp_path, monkeypatch):
    write(tmp_path, {"src/a.ts": ""})
    asked = []
    monkeypatch.setattr(
        foreign, "_root", lambda root, paths, ids: asked.append(paths) or paths[0].partition("src/")[0]
    )
    found = told(tmp_path, {f"/r{number}/src/a.ts": {} for number in range(2_000)})
    assert (list(found.files), len(asked)) == (["src/a.ts"], foreign.MOST)
    assert [each.what for each in found.troubles] == [
        f"{2_000 - foreign.MOST} paths are not of this project, as far as can be told"
    ]


def test_without_files_here_the_name_of_the_directory_tells_then_what_they_share(tmp_path):
    named = tmp_path / "shop"
    named.mkdir()
    assert foreign.Roots(named, ["/w/shop/src/a.ts", "/w/shop/b.ts"]).relative("/w/shop/src/a.ts") == "src/a.ts"
    assert foreign.Roots(tmp_path, ["/w/q/src/a.ts", "/w/q/src/b.ts"]).relative("/w/q/src/a.ts") == "src/a.ts"
    assert foreign.Roots(tmp_path, ["/w/q/src/a.ts"], {"src-a"}).relative("/w/q/src/a.ts") == "src/a.ts"
    entity = "/w/z/.planning/intel/entities/a.md"
    assert foreign.Roots(tmp_path, [entity, "/w/z/deep/a.ts"]).relative("/w/z/deep/a.ts") == "deep/a.ts"
    assert foreign.Roots(tmp_path, ["/a/b.ts", "/c/d.ts"]).relative("/a/b.ts") == ""


@pytest.mark.parametrize("path", ["../out.ts", "/w/p/../../etc/passwd", "a\0b.ts", "", "/", "x" * 5_000])
def test_paths_that_leave_the_project_are_left_out_and_counted(tmp_path, path):
    write(tmp_path, {"src/a.ts": ""})
    found = told(tmp_path, {"/w/p/src/a.ts": {}, path: {}})
    assert list(found.files) == ["src/a.ts"]
    assert [each.what for each in found.troubles] == ["1 paths are not of this project, as far as can be told"]


@pytest.mark.parametrize(
    ("content", "line"),
    [
        (b"{", 1),
        (b"", 1),
        (b'{"a": 1,\n\n "b": x}', 3),
        (b"[]", 0),
        (b'{"files": []}', 0),
        (b"\xff\xfe", 1),
        (b"[" * 9_000, 1),
    ],
)
def test_what_is_no_index_is_told_with_its_line(tmp_path, content, line):
    write(tmp_path, {INDEX: content})
    found = index_json.read(tmp_path, tmp_path / INDEX)
    assert (found.files, len(found.troubles)) == ({}, 1)
    assert (found.troubles[0].file, found.troubles[0].line, found.troubles[0].kind) == (INDEX, line, "unreadable")


def test_entries_of_any_shape(tmp_path):
    found = told(
        tmp_path,
        {
            "a.ts": {"exports": ["x", "async", 7, None, "x"], "imports": "no list", "type": 5, "description": ["no"]},
            "b.ts": [], "c.ts": None, "d.ts": {"imports": ["./a", "./a.js", "./d", 3, {}], "purpose": "P\ud800"},
        },
        updated="soon",
    )  # fmt: skip
    assert sorted(found.files) == ["a.ts", "d.ts"]
    assert (found.files["a.ts"].exports, found.files["a.ts"].type) == (("x",), "")
    assert found.files["d.ts"].targets == ("a.ts",)
    assert [each.what for each in found.troubles] == ["2 files have no object for what is known of them"]


def test_v3_under_both_names(tmp_path):
    files = {"_meta": {"updated_at": "2026-02-01T00:00:00Z", "version": 1}, "entries": {
        "src/index.ts": {"exports": ["main"], "imports": ["./a"], "type": "entry"}, "src/a.ts": {"type": "util"},
    }}  # fmt: skip
    deps = {
        "entries": {"express": {"version": "4", "used_by": ["src/a.ts"]}, "src/a.ts": {"depends_on": ["./index.js"]}}
    }
    for names in (("files.json", "deps.json"), ("file-roles.json", "dependency-graph.json")):
        paths = [tmp_path / name for name in names]
        for path, value in zip(paths, (files, deps), strict=True):
            path.write_text(json.dumps(value))
        found = index_json.read_v3(tmp_path, *paths)
        assert found.files["src/index.ts"].targets == ("src/a.ts",)
        assert found.files["src/a.ts"].targets == ("src/index.ts",)
        assert found.files["src/index.ts"].source == "files.json"
        assert (found.updated, found.facts["packages"]) == ("2026-02-01T00:00:00Z", 1)


@pytest.mark.parametrize("imports", [True, 5, "./c", {"./c": 1}, None, ["./index"]])
def test_v3_with_imports_of_any_shape_keeps_what_its_graph_says(tmp_path, imports):
    (tmp_path / "files.json").write_text(json.dumps({"entries": {"a.ts": {"imports": imports}, "index.ts": {}}}))
    (tmp_path / "deps.json").write_text(json.dumps({"entries": {"a.ts": {"imports": ["./index.js"]}}}))
    found = index_json.read_v3(tmp_path, tmp_path / "files.json", tmp_path / "deps.json")
    assert found.files["a.ts"].targets == ("index.ts",)


def test_a_dependency_graph_that_is_none_is_told(tmp_path):
    (tmp_path / "files.json").write_text(json.dumps({"entries": {"a.ts": {}}}))
    (tmp_path / "deps.json").write_text("[]")
    (trouble,) = index_json.read_v3(tmp_path, tmp_path / "files.json", tmp_path / "deps.json").troubles
    assert (trouble.file, trouble.kind) == ("deps.json", "unreadable")
