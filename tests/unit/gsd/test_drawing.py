"""The drawing of a code graph: well-formed whatever is in it, loading nothing, true about counts, names apart."""

import itertools
import math
import random
import re
import xml.etree.ElementTree as ET

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orchestrator.base.svg_page import escaped_end
from orchestrator.gsd.picture.drawing import GROUPS, LABEL_CELLS, MARK, directory, groups, hotspots_svg, rings_svg
from orchestrator.gsd.picture.page import html
from orchestrator.gsd.picture.rings import DRAWN, chosen, spots
from tests.support.drawn_pages import seen

SVG = "{http://www.w3.org/2000/svg}"
HOSTILE = "</script></title></style>-->\"'&<b onload=x>]]>\x00\x1b[2J\x9f\u202e\ud800\ufffe" + "\u05d0" * 300
CENTRE = {"id": "src-lib-db", "path": "src/lib/db.ts", "purpose": "Opens the database"}


def dependent(n, depth=1, through="src-lib-db", **more):
    path = f"src/part{n % 7}/file{n:05}.ts"
    row = {"id": f"f-{n}", "path": path, "purpose": f"purpose {n}", "type": "module", "depth": depth, "via": "index"}
    return row | {"through": through, "through_path": "src/lib/db.ts", "critical": False, "test": False} | more


def hotspot(n, count):
    return {"id": f"h-{n}", "path": f"src/dir{n}/hot{n}.ts", "purpose": "", "type": "util", "dependents": count}


def picture(*dependents, hotspots=(), centre=CENTRE, total=None, **more):
    by_depth = {}
    for one in dependents:
        by_depth[one["depth"]] = by_depth.get(one["depth"], 0) + 1
    direct = by_depth.get(1, 0)
    whole = len(dependents) if total is None else total
    counts = {"direct": direct, "transitive": whole - direct, "total": whole, "by_depth": by_depth}
    counts |= {
        "critical": sum(one["critical"] for one in dependents),
        "tests": sum(one["test"] for one in dependents),
    }
    known = {"project": "p", "files": 40, "edges": 90, "dangling": 3, "sources": {"graph.db": "2026-01-21"}}
    return known | {
        "hotspots": list(hotspots), "centre": centre, "dependents": list(dependents), "counts": counts,
    } | more  # fmt: skip


def many(count):
    """``count`` dependents on three rings, each of the outer two behind one of the ring before."""
    first = [dependent(n) for n in range(count // 4)]
    second = [dependent(n, 2, f"f-{n % max(1, len(first))}") for n in range(count // 4, count // 2)]
    third = [dependent(n, 3, f"f-{count // 4 + n % max(1, len(second))}") for n in range(count // 2, count)]
    return first + second + third


def texts(drawn):
    return [element.text for element in ET.fromstring(drawn).iter(f"{SVG}text")]


def labels(drawn):
    """The rectangles that the names of the dependents fill: four corners each."""
    found = []
    for element in ET.fromstring(drawn).iter(f"{SVG}text"):
        place = re.fullmatch(
            r"translate\((-?[\d.]+),(-?[\d.]+)\) rotate\((-?[\d.]+)\)", element.get("transform") or ""
        )
        if place:
            x, y, turn = float(place[1]), float(place[2]), math.radians(float(place[3]))
            wide = 7.3 * min(len(element.text), LABEL_CELLS)
            left = -10 - wide if "late" in element.get("class") else 10
            corners = [(left, -5), (left + wide, -5), (left + wide, 7), (left, 7)]
            found.append(
                [
                    (x + a * math.cos(turn) - b * math.sin(turn), y + a * math.sin(turn) + b * math.cos(turn))
                    for a, b in corners
                ]
            )
    return found


def meet(one, other):
    """Whether two rectangles overlap: no line along one of their sides parts them."""
    for shape in (one, other):
        for (ax, ay), (bx, by) in itertools.pairwise([*shape, shape[0]]):
            nx, ny = by - ay, ax - bx
            first, second = ([x * nx + y * ny for x, y in corners] for corners in (one, other))
            if max(first) <= min(second) or max(second) <= min(first):
                return False
    return True


@pytest.mark.parametrize("count", [1, 2, 3, 8, 36, 120, 2000])
def test_no_two_names_meet_and_all_stand_on_the_sheet(count):
    drawn = rings_svg(picture(*many(count) if count > 3 else [dependent(n) for n in range(count)]))
    found = labels(drawn)
    assert len(found) == min(count, DRAWN)
    assert [pair for pair in itertools.combinations(found, 2) if meet(*pair)] == []
    sheet = ET.fromstring(drawn)
    (ax, ay), (bx, by) = re.findall(r"translate\(([\d.]+),([\d.]+)\)", drawn)[:2]
    x0, y0 = float(ax) + float(bx), float(ay) + float(by)
    assert all(0 <= x + x0 <= float(sheet.get("width")) for shape in found for x, _ in shape)
    assert all(0 <= y + y0 <= float(sheet.get("height")) for shape in found for _, y in shape)


def test_two_names_that_meet_would_be_noticed():
    square = [(0, 0), (2, 0), (2, 2), (0, 2)]
    assert meet(square, [(1, 1), (3, 1), (3, 3), (1, 3)])
    assert not meet(square, [(3, 0), (5, 0), (5, 2), (3, 2)])


def test_a_file_that_nobody_depends_on_is_drawn_alone_and_that_is_said():
    drawn = rings_svg(picture())
    assert labels(drawn) == []
    assert {"src/lib/db.ts", "No file that is known depends on it"} <= set(texts(drawn))


def test_a_project_without_files_has_a_page_that_says_so():
    page = html(picture(centre=None, files=0, edges=0))
    assert "No file is known" in page
    assert "<svg" not in page
    assert hotspots_svg(picture()) == rings_svg(picture(centre=None)) == ""


def test_of_20000_dependents_some_of_each_ring_are_drawn_and_the_rest_is_counted():
    drawn = rings_svg(picture(*many(20_000)))
    words = texts(drawn)
    assert len(labels(drawn)) == DRAWN
    for ring, whole in ((1, 5000), (2, 5000), (3, 10_000)):
        assert f"ring {ring}: 40 of {whole} are drawn" in words
    assert any("20000 depend on it: 5000 directly, 15000 over others" in word for word in words)
    assert len(drawn) < 200_000


def test_the_room_of_a_small_ring_goes_to_the_large_ones():
    rows = [dependent(n) for n in range(5)] + [dependent(n, 2) for n in range(5, 400)]
    taken = chosen(rows)
    assert [sum(one["depth"] == depth for one in taken) for depth in (1, 2)] == [5, DRAWN - 5]
    assert len(chosen(rows[:100])) == 100


def test_critical_files_and_those_whose_way_is_drawn_go_first():
    first = [dependent(n, critical=n == 399) for n in range(400)]
    second = [dependent(n, 2, "f-399" if n == 799 else "f-200") for n in range(400, 800)]
    taken = {one["id"] for one in chosen(first + second)}
    assert {"f-399", "f-799"} <= taken


def test_a_file_stands_on_the_ring_of_its_depth_and_its_edge_leads_to_what_it_came_through():
    placed = spots([dependent(0), dependent(1), dependent(2, 2, "f-1"), dependent(3, 3, "f-2")])
    assert [spot.parent for spot in placed] == [None, None, 1, 2]
    radii = [spot.radius for spot in placed]
    assert radii[0] == radii[1] < radii[2] < radii[3]
    assert len({spot.angle for spot in placed}) == 4
    assert not any(spot.loose for spot in placed)
    [lonely] = spots([dependent(9, 2, "nobody")])
    assert lonely.loose


def test_ways_that_run_in_a_circle_end():
    rows = [dependent(0, 1, "f-1"), dependent(1, 1, "f-0"), dependent(2, 2, "f-2")]
    assert [spot.parent for spot in spots(rows)] == [None, None, None]


def test_marks_and_provenance_are_seen_and_said():
    rows = [
        dependent(0, critical=True, via="graph.db"),
        dependent(1, test=True, via="entity+suffix"),
        dependent(2, via="graph.db+suffix, index.json"),
        dependent(3, critical=True, test=True),
    ]
    drawn = rings_svg(picture(*rows))
    sheet = ET.fromstring(drawn)
    edges = {
        element.find(f"{SVG}title").text: element.get("class")
        for element in sheet.iter(f"{SVG}path")
        if element.find(f"{SVG}title") is not None
    }
    [(hint, kind)] = [item for item in edges.items() if "learned from entity" in item[0]]
    assert "suffix" in kind.split() and "src/lib/db.ts" in hint
    assert sum("suffix" in one for one in edges.values()) == 1
    marks = {"critical: a service or an API", "a test of a service or an API", "a test", "any other file"}
    assert marks <= set(texts(drawn))
    assert drawn.count('class="critical"') == drawn.count('circle class="test"') == 2, "one drawn, one explained"
    assert drawn.count('path class="test"') == 2
    page = html(picture(*rows))
    assert "entity by the end of a name" in page
    assert "graph.db by the end of a name, index.json" in page
    assert "critical" in seen(page).words


def test_hotspots_are_ranked_bars_whose_lengths_are_their_counts():
    rows = [hotspot(n, 100 // (n + 1)) for n in range(20)]
    sheet = ET.fromstring(hotspots_svg(picture(hotspots=rows)))
    bars = [float(rect.get("width")) for rect in sheet.iter(f"{SVG}rect") if rect.get("height") == "12"][:20]
    assert bars == sorted(bars, reverse=True)
    assert bars[1] / bars[0] == pytest.approx(0.5, abs=0.01)
    words = texts(hotspots_svg(picture(hotspots=rows)))
    assert {"src/dir0/hot0.ts", "100", "src/dir0", f"other directories ({20 - GROUPS})"} <= set(words)
    assert set(groups(rows).values()) == set(range(GROUPS + 1))


@pytest.mark.parametrize(
    ("path", "name"),
    [("main.py", "."), ("src/a.ts", "src"), ("src/lib/db/x.ts", "src/lib"), ("/abs/of/x.ts", "abs/of"), ("", ".")],
)
def test_a_directory_gives_its_files_their_colour(path, name):
    assert directory(path) == name


def hostile():
    row = dependent(0, id=HOSTILE, path=HOSTILE, purpose=HOSTILE, type=HOSTILE, via=HOSTILE, through_path=HOSTILE)
    other = dependent(1, 2, HOSTILE, critical=True)
    top = hotspot(0, 3) | {"path": HOSTILE, "purpose": HOSTILE, "type": HOSTILE, "id": HOSTILE}
    centre = {"id": HOSTILE, "path": HOSTILE, "purpose": HOSTILE}
    return picture(
        row, other, hotspots=[top], centre=centre, project=HOSTILE, sources={HOSTILE: HOSTILE, "x": ""}
    )  # fmt: skip


def test_hostile_names_stay_names_in_the_drawings():
    for drawn in (rings_svg(hostile()), hotspots_svg(hostile())):
        drawn.encode()
        sheet = ET.fromstring(drawn)
        assert {element.tag.removeprefix(SVG) for element in sheet.iter()} <= {
            "svg", "title", "desc", "rect", "g", "text", "path", "circle",
        }  # fmt: skip
        assert not any(name.startswith("on") for element in sheet.iter() for name in element.attrib)
        assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e\ufffe]", drawn)
        assert all(len(text or "") <= 60 for text in texts(drawn) if "depend" not in text)


def test_hostile_names_stay_names_in_the_page():
    page = html(hostile())
    page.encode()
    found = seen(page)
    assert not {"script", "b", "link", "img"} & found.tags
    assert not {name for name in found.attributes if name.startswith("on") or name in ("src", "href", "style")}
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e\ufffe]", page)


@settings(max_examples=40, deadline=None)
@given(st.text(), st.text(), st.integers(1, 5))
def test_whatever_the_names_the_drawings_are_sound(path, other, depth):
    rows = [dependent(0, path=path, through_path=other), dependent(1, depth, path=other, purpose=path)]
    told = picture(*rows, hotspots=[hotspot(0, 1) | {"path": path}], centre={"id": "x", "path": other})
    ET.fromstring(rings_svg(told))
    ET.fromstring(hotspots_svg(told))
    html(told).encode()


def test_a_path_is_cut_at_its_beginning():
    assert escaped_end("src/lib/auth/session.ts", 12) == "…/session.ts"
    assert escaped_end("a<b", 28) == "a&lt;b"
    assert escaped_end("한국어문서", 6) == "…문서"


@pytest.mark.parametrize("count", [1, 36, 20_000])
def test_the_page_loads_nothing_and_can_be_known_as_ours(count):
    page = html(picture(*many(count)[:500], hotspots=[hotspot(0, 3)]))
    assert MARK in page[:400]
    page = page.replace("http://www.w3.org/2000/svg", "")
    assert not re.search(r"https?:|//|url\(|@import|@font-face|<script|<link|<img|<iframe", page)
    assert "prefers-color-scheme:dark" in page


def test_the_tables_say_all_that_is_drawn():
    rows = many(500)
    told = picture(*rows, hotspots=[hotspot(n, 9) for n in range(10)], total=700)
    words = set(seen(html(told)).words)
    drawn = {one["path"] for one in chosen(rows)}
    assert drawn <= words
    assert {one["path"] for one in told["hotspots"]} <= words
    assert {"purpose 0", "src/dir0"} <= words
    assert any("200 of them are not listed" in word for word in words)


def test_a_screen_reader_is_told_what_is_seen():
    sheet = ET.fromstring(rings_svg(picture(dependent(0, critical=True))))
    assert sheet.get("role") == "img"
    named = {element.get("id"): element.text for element in sheet if element.get("id")}
    assert list(named) == sheet.get("aria-labelledby").split()
    assert named["rings-title"] == "What depends on src/lib/db.ts"
    assert "src/part0/file00000.ts (1, critical)" in named["rings-about"]


def test_the_same_graph_gives_the_same_bytes_in_whatever_order_it_comes():
    rows = many(300)
    shuffled = [*rows]
    random.Random(7).shuffle(shuffled)
    shuffled.sort(key=lambda one: one["depth"])
    assert rings_svg(picture(*shuffled)) == rings_svg(picture(*rows))
    assert html(picture(*rows)) == html(picture(*rows))
