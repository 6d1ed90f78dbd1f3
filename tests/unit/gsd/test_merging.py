"""Sources become one graph, and the graph that was changed a little at a time is the one that is built at once."""

import random
from dataclasses import replace

import pytest

from orchestrator.gsd.graph import codegraph, search
from orchestrator.gsd.graph.merging import Merging
from orchestrator.gsd.graph.said import Said
from orchestrator.gsd.graph.words import fold


def graph_db(node_id, path="", *targets, **more):
    return Said("graph.db", node_id, path, targets=targets, **more)


def entity(node_id, path="", *targets, **more):
    return Said("entity", node_id, path, targets=targets, **more)


def index(path, *targets, **more):
    return Said("index", "", path, targets=targets, by_path=True, **more)


def merged(*said):
    made = Merging()
    for source in {each.source for each in said}:
        made.replace(source, {each.id or each.path: each for each in said if each.source == source})
    return made.graph


def edges(graph):
    return {
        (graph.nodes[node_id].path, end.path): via
        for node_id in graph.nodes
        for end, via in graph.dependencies(node_id)
    }


def test_a_file_of_several_sources_is_one_node_with_the_fields_of_the_first_that_has_them():
    graph = merged(
        graph_db("src-a", "src/a.ts", type="unknown", status="active"),
        entity("home-x-src-a", "src/a.ts", purpose="Does a", type="service", exports=("a",)),
        index("src/a.ts", purpose="Other", type="util", exports=("b", "c")),
    )
    (node,) = graph.nodes.values()
    assert (node.id, node.path, node.purpose, node.type, node.exports, node.status, node.sources) == (
        "src-a", "src/a.ts", "Does a", "service", ("a", "b", "c"), "active", ("graph.db", "entity", "index"),
    )  # fmt: skip
    assert graph.locate("home-x-src-a").node == node


def test_what_has_no_path_joins_the_file_of_its_id_or_stands_for_itself():
    graph = merged(
        graph_db("todo-item"), entity("todo-item", "src/todo/item.rs", purpose="An item"),
        graph_db("src-lib-db"), index("src/lib/db.ts"), graph_db("idea", "", "todo-item"),
    )  # fmt: skip
    assert sorted(node.path for node in graph.nodes.values()) == ["idea", "src/lib/db.ts", "src/todo/item.rs"]
    assert graph.locate("todo-item").node.sources == ("graph.db", "entity")
    assert graph.locate("src-lib-db").node.sources == ("graph.db", "index")
    assert edges(graph) == {("idea", "src/todo/item.rs"): "graph.db"}


def test_two_files_of_one_slug_are_two_nodes():
    graph = merged(index("a.ts"), index("a.py"), index("a/ts.go"), index("a-ts.md"))
    assert {node.id: node.path for node in graph.nodes.values()} == {
        "a": "a.ts", "a-py": "a.py", "a-ts": "a-ts.md", "a-ts-go": "a/ts.go",
    }  # fmt: skip
    assert graph.locate("a.py").node.path == "a.py"


def test_ends_are_found_exactly_by_relative_path_beside_and_by_the_suffix_of_one_alone():
    graph = merged(
        graph_db(
            "x", "pkg/one/x.ts", "pkg-two-y", "./near", "../two/y.js", "beside", "only-z.js", "util", "nothing", "x"
        ),
        index("pkg/two/y.ts"), index("pkg/one/near.ts"), index("pkg/one/beside.ts"), index("pkg/two/beside.ts"),
        index("deep/only/z.ts"), index("p/util.ts"), index("q/util.ts"),
    )  # fmt: skip
    assert edges(graph) == {
        ("pkg/one/x.ts", "pkg/two/y.ts"): "graph.db",
        ("pkg/one/x.ts", "pkg/one/near.ts"): "graph.db",
        ("pkg/one/x.ts", "pkg/one/beside.ts"): "graph.db+suffix",
        ("pkg/one/x.ts", "deep/only/z.ts"): "graph.db+suffix",
    }
    assert (graph.edges, graph.dangling) == (4, 2)  # util fits two, nothing fits none; itself does not count


def test_what_a_file_imports_says_which_of_several_a_link_means():
    graph = merged(
        entity("x", "pkg/x.ts", "types", "constants", "logging", "late"),
        index("pkg/x.ts", "pkg/core/types.ts", "pkg/constants/index.ts", "pkg/logging", "pkg/late.js"),
        index("pkg/core/types.ts"), index("other/types.ts"), index("pkg/constants/index.ts"),
        index("other/constants.ts"), index("other/logging.ts"), index("pkg/late.ts"),
    )  # fmt: skip
    assert edges(graph) == {
        ("pkg/x.ts", "pkg/core/types.ts"): "entity+suffix, index",
        ("pkg/x.ts", "pkg/constants/index.ts"): "entity+suffix, index",
        ("pkg/x.ts", "pkg/late.ts"): "entity+suffix, index",
    }
    assert graph.dangling == 1  # pkg/logging, whoever says so: other/logging.ts is another file


def test_an_edge_of_several_sources_is_one_that_names_them_all():
    graph = merged(
        graph_db("a", "src/a.ts", "b"), entity("a2", "src/a.ts", "src-b"), index("src/a.ts", "src/b.ts", "src/c.ts"),
        index("src/b.ts"),
    )  # fmt: skip
    assert edges(graph) == {("src/a.ts", "src/b.ts"): "graph.db+suffix, entity, index"}
    assert graph.dangling == 1


def test_cycles_end_and_depths_are_the_least():
    graph = merged(index("a", "b"), index("b", "c"), index("c", "a"), index("d", "a", "b"), index("e", "d"))
    reached = [(each.node.path, each.depth, each.through) for each in graph.reach("a", 10)]
    assert reached == [("c", 1, ""), ("d", 1, ""), ("b", 2, "c"), ("e", 2, "d")]
    found = graph.affected("a", 10, 1)
    assert (found.direct, found.transitive, len(found.nearest), len(found.farther)) == (2, 2, 1, 1)
    assert [each.node.path for each in graph.reach("a", 1)] == ["c", "d"]
    with pytest.raises(KeyError):
        graph.reach("nobody", 3)


def test_wide_levels_are_reached_like_narrow_ones():
    names = [f"f{number:03}" for number in range(300)]
    said = [index("hub")]
    said += [index(name, "hub") for name in names[:150]]
    said += [index(name, names[at - 150]) for at, name in enumerate(names[150:], 150)]
    graph = merged(*said)
    reached = graph.reach("hub", 5)
    assert [(each.node.path, each.depth) for each in reached] == [
        (name, 1 + (at >= 150)) for at, name in enumerate(names)
    ]
    assert graph.reach("f000", 5)[0].node.path == "f150"


def brute_force(graph, words, types):
    """A3's score, file by file."""
    words = [fold(word) for word in words]
    own = {node.id: search.own_score(node, words) for node in graph.nodes.values()}
    found = []
    for node in graph.nodes.values():
        if not own[node.id] or (types and node.type not in types):
            continue
        near = any(own[end.id] > 10 for end, _ in graph.dependencies(node.id))
        dependents = sum(1 for _ in graph.dependents(node.id))
        score = own[node.id] + 3 * near + 2 * (dependents > 10) + 3 * (dependents > 20)
        found.append((-score, -dependents, node.path))
    return sorted(found)


def file(rng, number, paths):
    words = ["auth", "user", "db", "api", "cache", "view", "Test", "log"]
    return index(
        paths[number],
        *rng.sample(paths, rng.randint(0, 4)), *(["hub/db.ts"] if rng.random() < 0.5 else []),
        purpose=" ".join(rng.choices(words, k=rng.randint(0, 3))),
        type=rng.choice(["service", "api", "util"]),
        exports=tuple({f"{rng.choice(words)}{rng.choice(words).title()}" for _ in range(rng.randint(0, 3))}),
    )  # fmt: skip


def agree(changed, built):
    """Whether two graphs answer alike; ids of files that share a slug may differ."""
    assert {node.path: replace(node, id="") for node in changed.nodes.values()} == {
        node.path: replace(node, id="") for node in built.nodes.values()
    }
    assert edges(changed) == edges(built)
    assert (changed.edges, changed.dangling, changed.types) == (built.edges, built.dangling, built.types)
    assert len(changed.nodes) == len(list(changed.nodes))
    for graph in (changed, built):
        for node_id in graph.nodes:
            assert graph.nodes[node_id].id == node_id
            assert [node.path for node, _ in graph.dependents(node_id)] == sorted(
                node.path for node, _ in graph.dependents(node_id)
            )
    assert [(node.path, count) for node, count in changed.hotspots(7)] == [
        (node.path, count) for node, count in built.hotspots(7)
    ]
    for words, types in (
        (["auth"], ()),
        (["user", "db", "src"], ()),
        (["test"], ("api",)),
        (["db", "zz"], ("api", "util")),
    ):
        for graph in (changed, built):
            expected = brute_force(graph, words, types)
            hits, total = graph.search_all(words, frozenset(types), 6)
            assert [(-hit.score, -hit.dependents, hit.node.path) for hit in hits] == expected[:6]
            assert total == len(expected)
    for path in ("hub/db.ts", "src/f3.ts"):
        if (node := built.locate(path).node) is not None:
            other = changed.locate(path).node
            assert [(each.node.path, each.depth, each.via, each.through) for each in changed.reach(other.id, 4)] == [
                (each.node.path, each.depth, each.via, each.through) for each in built.reach(node.id, 4)
            ]
            first, second = changed.affected(other.id, 4, 5), built.affected(node.id, 4, 5)
            assert (first.direct, first.transitive, first.critical, first.tests) == (
                second.direct, second.transitive, second.critical, second.tests,
            )  # fmt: skip


@pytest.mark.parametrize("seed", range(5))
def test_a_graph_changed_bit_by_bit_is_the_graph_built_at_once(seed, monkeypatch):
    monkeypatch.setattr(codegraph, "_WIDE", 3)
    rng = random.Random(seed)
    paths = [f"src/f{number}{rng.choice(['.ts', '.test.ts', '.py'])}" for number in range(40)] + ["hub/db.ts"]
    paths += ["src/f3.go", "service/f1.ts"]
    live = Merging()
    live.replace("index", {path: file(rng, at, paths) for at, path in enumerate(paths) if rng.random() < 0.8})
    slugs = ["src-f1", "f2", "hub-db", "db", "nobody", "f3", "service-f1", "./f4", "f5.ts"]
    names = [f"e{number}" for number in range(8)]
    live.replace("entity", {
        name: entity(name, rng.choice(paths), *rng.sample(slugs, 3)) for name in names if rng.random() < 0.8
    })  # fmt: skip
    kept = live.graph
    before = edges(kept)
    drafts = 0
    for _ in range(25):
        base = live.graph.base
        if rng.random() < 0.7:
            at = rng.randrange(len(paths))
            live.change([("index", paths[at], file(rng, at, paths) if rng.random() < 0.7 else None)])
        else:
            name = rng.choice(names)
            place = rng.choice([*paths, "other/new.ts"])
            said = entity(name, place, *rng.sample(slugs, 3), purpose=rng.choice(["", "the auth db"]))
            live.change([("entity", name, said if rng.random() < 0.7 else None)])
        drafts += live.graph.base is base
        built = Merging()
        built._files = {source: dict(files) for source, files in live._files.items()}
        agree(live.graph, built._build())
    assert drafts > 5, "the way that is tested was hardly taken"
    assert edges(kept) == before, "a graph that was given out has changed"


def test_a_new_file_takes_the_edges_that_waited_for_it_and_gives_them_back():
    live = Merging()
    said = [index(f"src/x{number}.ts") for number in range(30)]
    live.replace("index", {each.path: each for each in [*said, index("src/a.ts", "src/new.ts")]})
    live.replace("entity", {"e": entity("e", "src/x1.ts", "new")})
    base = live.graph.base
    assert live.graph.dangling == 2
    live.change([("index", "src/new.ts", index("src/new.ts"))])
    assert edges(live.graph) == {
        ("src/a.ts", "src/new.ts"): "index", ("src/x1.ts", "src/new.ts"): "entity+suffix",
    }  # fmt: skip
    live.change([("index", "lib/deep/new.ts", index("lib/deep/new.ts"))])
    assert ("src/x1.ts", "src/new.ts") in edges(live.graph)  # beside it, so still not ambiguous
    live.change([("index", "src/new.ts", None)])
    assert edges(live.graph) == {("src/x1.ts", "lib/deep/new.ts"): "entity+suffix"}
    assert live.graph.dangling == 1
    assert live.graph.base is base


def test_locate_takes_ids_paths_of_any_machine_and_unique_ends():
    live = Merging()
    paths = [
        "src/lib/db.ts",
        "src/api/index.ts",
        "web/api/index.ts",
        "components/flowtoken/X.tsx",
        "py/mod.py",
        "Ä/ö.ts",
    ]
    live.replace("index", {path: index(path) for path in paths}, ["/here/p/", "/home/them/p/"])
    for text, path in (
        ("src-lib-db", "src/lib/db.ts"),
        ("src/lib/db.ts", "src/lib/db.ts"),
        ("./src/lib/db.ts", "src/lib/db.ts"),
        ("src\\lib\\db.ts", "src/lib/db.ts"),
        ("  `src/lib/db.ts` ", "src/lib/db.ts"),
        ("/here/p/src/lib/db.ts", "src/lib/db.ts"),
        ("/home/them/p/src/lib/db.ts", "src/lib/db.ts"),
        ("/Users/else/q/src/lib/db.ts", "src/lib/db.ts"),
        ("C:\\work\\p\\src\\lib\\db.ts", "src/lib/db.ts"),
        ("lib/db.ts", "src/lib/db.ts"),
        ("db.ts", "src/lib/db.ts"),
        ("DB.TS", "src/lib/db.ts"),
        ("lib/db", "src/lib/db.ts"),
        ("db", "src/lib/db.ts"),
        ("src/lib/db.js", "src/lib/db.ts"),
        ("components--flowtoken--X-tsx", "components/flowtoken/X.tsx"),
        ("web/api/index", "web/api/index.ts"),
        ("Ä/ö.ts", "Ä/ö.ts"),
    ):
        found = live.graph.locate(text)
        assert found.node is not None and found.node.path == path, text


def test_locate_never_means_something_else():
    live = Merging()
    live.replace("index", {path: index(path) for path in ("src/db.ts", "src/api/index.ts", "web/api/index.ts")})
    graph = live.graph
    assert graph.locate("index.ts") == graph.locate("api/index")
    assert graph.locate("index.ts").candidates == ("src/api/index.ts", "web/api/index.ts")
    assert graph.locate("src/db.py").node is None
    assert graph.locate("src/db.py").candidates == ("src/db.ts",)
    for text in ("", "   ", "\0", "x" * 5_000, "/", "..", "../src/db.ts", "/etc/passwd", "src/other.ts", "%", "b.ts"):
        assert graph.locate(text).node is None, text


def test_many_candidates_are_ten():
    live = Merging()
    live.replace("index", {f"p{number}/index.ts": index(f"p{number}/index.ts") for number in range(30)})
    assert len(live.graph.locate("index.ts").candidates) == 10


def test_the_score_is_a3s():
    said = [
        index("src/auth.ts", purpose="Auth for all", exports=("authOne", "authTwo", "other")),  # 10 + 15 + 5 + 5
        index("src/page.ts", "src/auth.ts", purpose="auth page"),  # 15 + 3
        index("src/authless.ts"),  # 10
        index("src/near.ts", "src/auth.ts"),  # no keyword: not found
    ]
    said += [index(f"u/f{number}.ts", "src/authless.ts") for number in range(11)]
    graph = merged(*said)
    hits = graph.search(["auth"])
    assert [(hit.node.path, hit.score) for hit in hits] == [
        ("src/auth.ts", 35), ("src/page.ts", 18), ("src/authless.ts", 12),
    ]  # fmt: skip
    assert hits[0].why == ("path: auth", "purpose: auth", "exports: authOne, authTwo (auth)")
    said += [index(f"v/f{number}.ts", "src/authless.ts") for number in range(10)]
    assert merged(*said).search(["auth"])[2].score == 15
    assert graph.search(["AUTH"], limit=1) == hits[:1]
    assert graph.search([]) == graph.search(["zz"]) == graph.search(["auth"], limit=0) == []


def test_an_empty_graph_answers():
    graph = Merging().graph
    assert (len(graph.nodes), graph.edges, graph.dangling, graph.types) == (0, 0, 0, {})
    assert graph.hotspots(10) == graph.search(["a"]) == []
    assert graph.locate("a").node is None
