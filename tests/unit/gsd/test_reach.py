"""How far a change reaches, against following every edge: with circles, over changes, with and without a core."""

from __future__ import annotations

import random

import pytest

from orchestrator.gsd.graph import codegraph, reach
from orchestrator.gsd.graph.kinds import is_critical, is_test
from orchestrator.gsd.graph.merging import Merging
from orchestrator.gsd.graph.said import Said

KINDS = ("src/f{}.ts", "src/service/f{}.ts", "tests/f{}.ts", "lib/api{}.test.ts")


def file(path, ends):
    return Said("index", "", path, targets=tuple(end for end in ends if end != path), by_path=True)


def plain(graph, start, max_depth):
    """Each path reached after its depth, edge by edge."""
    paths = {node.path: [end.path for end, _ in graph.dependencies(node.id)] for node in graph.nodes.values()}
    depths = {start: 0}
    for depth in range(1, max_depth + 1):
        for path, ends in paths.items():
            if path not in depths and any(depths.get(end) == depth - 1 for end in ends):
                depths[path] = depth
    del depths[start]
    return sorted((depth, path) for path, depth in depths.items())


def agrees(graph, node, max_depth, limit):
    expected = plain(graph, node.path, max_depth)
    reached = graph.reach(node.id, max_depth)
    assert [(each.depth, each.node.path) for each in reached] == expected
    found = graph.affected(node.id, max_depth, limit)
    direct = [each for each in reached if each.depth == 1]
    assert found.nearest == tuple(direct[:limit])
    assert found.farther == tuple(reached[len(direct) :][:limit])
    assert (found.direct, found.transitive) == (len(direct), len(reached) - len(direct))
    for is_one, paths, count in (
        (is_critical, found.critical, found.critical_count), (is_test, found.tests, found.tests_count),
    ):  # fmt: skip
        every = sorted(path for _, path in expected if is_one(path))
        assert (paths, count) == (tuple(every[:limit]), len(every))


def made(rng, count, edges, hubs, *, circles):
    """Files that depend on some hubs, and on any others or, without circles, on earlier ones only."""
    paths = [rng.choice(KINDS).format(f"{number:03}") for number in range(count)]
    ends = {}
    for at, path in enumerate(paths):
        others = paths if circles or not at else paths[:at]
        ends[path] = {rng.choice(others) for _ in range(rng.randint(0, edges))}
        if hubs and rng.random() < 0.7 and (circles or at > hubs):
            ends[path].add(paths[rng.randrange(hubs)])
    live = Merging()
    live.replace("index", {path: file(path, found) for path, found in ends.items()})
    return live, paths


SHAPES = ((60, 2, 3, True), (60, 3, 0, True), (80, 1, 2, True), (60, 2, 2, False), (40, 1, 1, True), (12, 3, 1, True))


@pytest.mark.parametrize("seed", range(len(SHAPES)))
def test_what_is_reached_is_what_following_every_edge_finds(seed, monkeypatch):
    count, edges, hubs, circles = SHAPES[seed]
    rng = random.Random(seed)
    live, paths = made(rng, count, edges, hubs, circles=circles)
    through = []
    whole = reach._through
    monkeypatch.setattr(reach, "_through", lambda *given: through.append(given) or whole(*given))
    for change in range(4):
        graph = live.graph
        nodes = list(graph.nodes.values())
        core = reach._core(graph)
        for ask in range(60):
            if ask == 20:
                graph._reaching._core = core  # as the second who reaches far would have it; some have it before
            node = rng.choice([*nodes, graph.hotspots(1)[0][0]])
            agrees(graph, node, 1 + ask % 10, rng.choice([0, 1, 3, 100]))
        path = rng.choice(paths) if change % 2 else f"src/service/new{change}.test.ts"
        gone = change == 1
        live.change([("index", path, None if gone else file(path, rng.sample(paths, 4)))])
        other = rng.choice(paths)
        live.change([("index", other, file(other, [path, *rng.sample(paths, 2)]))])
    assert through or not circles, "no answer came from a core"


def test_the_core_is_learned_by_the_second_who_reaches_far_and_never_kept_over_a_change(monkeypatch):
    live, paths = made(random.Random(3), 60, 2, 3, circles=True)
    learned = []
    core = reach._core
    monkeypatch.setattr(reach, "_core", lambda graph: learned.append(graph) or core(graph))
    hub = live.graph.hotspots(1)[0][0]
    for depth in (3, 4, 5, 6):
        agrees(live.graph, hub, depth, 2)
        assert learned == [live.graph] * (depth > 3)
    first = live.graph
    live.change([("index", paths[9], file(paths[9], paths[20:24]))])
    assert live.graph.base is first.base
    agrees(live.graph, hub, 6, 2)
    assert learned == [first]
    agrees(live.graph, hub, 5, 2)
    assert learned == [first, live.graph]


def test_a_chain_longer_than_questions_go_has_no_core():
    live = Merging()
    paths = [f"f{number:02}" for number in range(30)]
    live.replace("index", {path: file(path, paths[at - 1 : at]) for at, path in enumerate(paths)})
    graph = live.graph
    assert not reach._core(graph).nearby
    for depth in (3, 10, 10, 29, 40):
        agrees(graph, graph.locate("f00").node, depth, 4)


def test_dear_answers_are_kept_when_others_have_to_go(monkeypatch):
    monkeypatch.setattr(codegraph, "_KEPT", 4)
    live = Merging()
    paths = [f"f{number:02}" for number in range(40)]
    live.replace("index", {path: file(path, paths[:1]) for path in paths})
    graph = live.graph
    hub, *rest = [graph.locate(path).node for path in paths]
    dear = graph.affected(hub.id, 3, 5)
    for node in rest:
        graph.affected(node.id, 1, 5)
        assert len(graph._asked) <= codegraph._KEPT
    assert graph.affected(hub.id, 3, 5) is dear


def test_a_new_file_is_listed_in_its_place_where_a_wide_level_is_not_found_whole():
    live = Merging()
    near = [f"near{number:02}" for number in range(40)]
    said = {"hub": file("hub", []), **{path: file(path, ["hub"]) for path in near}}
    far = {f"m{number:02}": file(f"m{number:02}", [near[number]]) for number in range(20)}
    live.replace("index", said | far)
    base = live.graph.base
    live.change([("index", "m00a", file("m00a", ["near01"]))])
    graph = live.graph
    assert graph.base is base
    graph._reaching._core = reach._core(graph)
    for limit in (1, 2, 3, 30):
        agrees(graph, graph.locate("hub").node, 5, limit)
    assert len(graph._reaching.reach(graph, 0, 5, 3).levels[2]) == 4  # three of the base and the new one
