"""The merged code graph: which file a link by name means, and what is known of a file that few sources tell of."""

from orchestrator.gsd.graph.merging import Merging
from orchestrator.gsd.graph.said import Said, exports


def _links(path: str, *links: str) -> Said:
    return Said("entity", path.partition(".")[0].replace("/", "-"), path, targets=links)


def _imports(path: str, *paths: str) -> Said:
    return Said("index.json", "", path, targets=paths, by_path=True)


def _merged(*said: Said) -> Merging:
    merging = Merging()
    for source in ("entity", "index.json"):
        merging.replace(source, {each.path: each for each in said if each.source == source})
    return merging


def _ends(merging: Merging, path: str) -> dict[str, str]:
    node = merging.graph.locate(path).node
    assert node is not None
    return {end.path: via for end, via in merging.graph.dependencies(node.id)}


def test_a_link_means_the_file_that_the_linking_one_imports_not_one_so_called_elsewhere() -> None:
    merging = _merged(
        _links("a/src/bridge.ts", "errors"),
        _imports("a/src/bridge.ts", "a/src/errors.js"),  # not indexed
        _imports("b/src/errors.ts"),
    )
    assert _ends(merging, "a/src/bridge.ts") == {}
    assert merging.graph.dangling == 1

    merging.change([("index.json", "a/src/errors.js", _imports("a/src/errors.js"))])
    assert list(_ends(merging, "a/src/bridge.ts")) == ["a/src/errors.js"]
    assert merging.graph.dangling == 0


def test_an_imported_index_is_called_like_its_directory() -> None:
    merging = _merged(
        _links("b/core/types.ts", "constants"),
        _imports("b/core/types.ts", "b/constants/index.ts"),
        _imports("b/constants/index.ts"),
        _imports("a/src/constants.ts"),
    )
    assert _ends(merging, "b/core/types.ts") == {"b/constants/index.ts": "entity+suffix, index.json"}


def test_what_is_imported_decides_between_two_of_one_name() -> None:
    said = (_links("s/server.ts", "types.js"), _imports("s/core/types.ts"), _imports("b/types.ts"))
    assert _ends(_merged(*said), "s/server.ts") == {}
    assert list(_ends(_merged(*said, _imports("s/server.ts", "s/core/types.ts")), "s/server.ts")) == [
        "s/core/types.ts"
    ]


def test_without_an_import_a_link_means_the_only_file_so_called_or_the_one_beside() -> None:
    merging = _merged(
        _links("f/a.ts", "b", "errors", "index.md"),
        _imports("f/b.ts"), _imports("g/b.ts"), _imports("g/errors.ts"), _imports("f/index.ts"),
        _imports("g/index.ts"),
    )  # fmt: skip
    assert sorted(_ends(merging, "f/a.ts")) == ["f/b.ts", "g/errors.ts"]


def test_a_test_is_one_by_its_path_where_no_source_knows_its_type() -> None:
    merging = _merged(_imports("tests/test_a.py"), _imports("a.py"), _imports("b.test.ts"))
    merging.change([("entity", "b", Said("entity", "b-test", "b.test.ts", type="module"))])
    types = {path: node.type for path in ("tests/test_a.py", "a.py", "b.test.ts")
             if (node := merging.graph.locate(path).node)}  # fmt: skip
    assert types == {"tests/test_a.py": "test", "a.py": "unknown", "b.test.ts": "module"}


def test_what_a_file_exports_is_what_any_source_says_of_it() -> None:
    merging = Merging()
    merging.replace("entity", {"r": Said("entity", "r", "r.py", exports=("router",))})
    merging.replace("index.json", {"r.py": Said("index.json", "", "r.py", exports=("start", "router"))})
    node = merging.graph.locate("r.py").node
    assert node is not None and node.exports == ("router", "start")
    assert exports(["async", "type Status", "run", "Status"]) == ("Status", "run")


def test_a_path_never_means_another_of_the_same_slug() -> None:
    paths = ("src/日本.ts", "src/lib/db.ts", "src/a-b.ts", "c-d.ts", "src/größe.ts")
    graph = _merged(*(_imports(path) for path in paths)).graph
    for text in (
        "src/中文.ts",
        "src/中文",
        "中文.ts",
        "src/lib-db.ts",
        "src/lib_db",
        "src/a_b.ts",
        "c_d.ts",
        "gröse.ts",
    ):
        assert graph.locate(text).node is None, text
    assert graph.locate("src/lib-db.ts").candidates == ("src/lib/db.ts",)
    for text, path in (
        ("src/日本.ts", "src/日本.ts"),
        ("SRC/Lib/DB.js", "src/lib/db.ts"),
        ("src-lib-db.ts", "src/lib/db.ts"),
        ("src/gro\u0308ße.ts", "src/größe.ts"),
    ):
        node = graph.locate(text).node
        assert node is not None, text
        assert node.path == path


def test_a_link_never_means_another_of_the_same_slug() -> None:
    merging = _merged(
        _links("a.ts", "src/日本", "src/中文.ts", "src-größe"),
        _imports("src/日本.ts"),
        _imports("src/größe.ts"),
    )
    assert _ends(merging, "a.ts") == {"src/日本.ts": "entity", "src/größe.ts": "entity"}
    assert merging.graph.dangling == 1


def _ids(merging: Merging) -> dict[str, str]:
    return {node.path: node.id for node in merging.graph.nodes.values()}


def test_what_has_no_path_is_changed_where_it_went_though_a_file_is_called_so() -> None:
    merging = _merged(*(_imports(f"f{number}.ts") for number in range(30)), _imports("x.ts"), _links("a.ts", "x"))
    merging.replace("graph.db", {"x": Said("graph.db", "x", "src/deep.ts")})
    for purpose in ("one", "two"):
        merging.change([("entity", "x", Said("entity", "x", "", purpose))])
        node = merging.graph.locate("src/deep.ts").node
        assert node is not None
        assert node.purpose == purpose


def test_ids_of_one_slug_do_not_hang_on_who_came_first() -> None:
    rest = [_imports(f"f{number}.ts") for number in range(30)]
    merging = _merged(*rest, _imports("src/a.py"), _links("b.ts", "src-a"))
    assert _ends(merging, "b.ts") == {"src/a.py": "entity"}
    merging.change([("index.json", "src/a.ts", _imports("src/a.ts"))])
    assert _ids(merging) == _ids(_merged(*rest, _imports("src/a.py"), _imports("src/a.ts"), _links("b.ts", "src-a")))
    assert _ends(merging, "b.ts") == {"src/a.ts": "entity"}
    base = merging.graph.base
    merging.change([("index.json", "src/a.css", _imports("src/a.css"))])
    assert merging.graph.base is base, "one more of the name, behind the others, is no reason to build all anew"
    assert merging.graph.nodes["src-a-css"].path == "src/a.css"
    merging.change([("index.json", "src/a.ts", None)])
    assert _ids(merging)["src/a.css"] == "src-a"
    assert _ends(merging, "b.ts") == {"src/a.css": "entity"}
