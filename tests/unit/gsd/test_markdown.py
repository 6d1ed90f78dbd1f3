"""Markdown and frontmatter taken apart: what users write, what breaks YAML, what is made to hurt."""

import pytest

from orchestrator.gsd.planning import frontmatter, markdown, roadmap, verification_file
from orchestrator.gsd.planning.frontmatter import DEPTH_MAX, FRONTMATTER_MAX


def head(text):
    return frontmatter.head(text.split("\n"))


def test_scalars_stay_texts():
    found = head("---\nphase: 02.1-x\nplan: 01\nwave: 08\nno: no\nempty:\nquoted: ''\n---\nbody")
    assert found.keys == {"phase": "02.1-x", "plan": "01", "wave": "08", "no": "no", "empty": None, "quoted": ""}
    assert (found.end, found.odd) == (8, ())


def test_no_frontmatter_and_one_without_an_end():
    assert head("# Title\n---\n")[:2] == ({}, 0)
    found = head("---\nphase: 1\n# Title")
    assert (found.keys, found.end, found.odd[0][0]) == ({}, 0, 1)


def test_a_broken_line_costs_that_line():
    text = """---
phase: 01-x
must_haves:
  truths:
    - "good"
    - `code` comes first
    - "quoted" and then: more
  artifacts:
    - path: "a.ts"
      contains: "one", "two"
      min_lines: 3
    - path: b.ts
depends_on: ["01-01"]
---"""
    found = head(text)
    assert found.keys["phase"] == "01-x"
    assert found.keys["must_haves"]["truths"] == ["good", "`code` comes first", '"quoted" and then: more']
    first, second = found.keys["must_haves"]["artifacts"]
    assert first == {"path": "a.ts", "contains": ["one", "two"], "min_lines": "3"}
    assert second == {"path": "b.ts"}
    assert found.keys["depends_on"] == ["01-01"]
    assert [line for line, _ in found.odd] == [6]


def test_anchors_aliases_and_depth_are_no_yaml():
    bomb = "a: &a [x,x]\n" + "".join(f"b{n}: &b{n} [*a,*a]\n" for n in range(20))
    found = head(f"---\n{bomb}---")
    assert "not read" in found.odd[0][1]
    assert len(str(found.keys)) < len(bomb) * 3
    deep = "a: " + "[" * 5000 + "]" * 5000
    found = head(f"---\n{deep}\n---")
    assert f"deeper than {DEPTH_MAX}" in found.odd[0][1]


def test_a_huge_head_is_left_out():
    found = head("---\na: " + "x" * FRONTMATTER_MAX + "y\n---")
    assert found.keys == {}
    assert "longer than" in found.odd[0][1]


def test_the_first_of_two_equal_keys_counts():
    found = head("---\na: 1\na: 2\n---")
    assert (found.keys, found.odd) == ({"a": "1"}, ((3, "the key 'a' stands there twice"),))


@pytest.mark.parametrize(
    "text", ["a: \x01", "a: \ud800", '"\\ud800": 1', "- a\n- b", "\t- x", "a: |\n  b", "? [a]\n: b"]
)
def test_no_head_raises(text):
    found = head(f"---\n{text}\n---")
    assert isinstance(found.keys, dict)
    str(found.keys).encode()


PAGE = """# Name

intro

## One
text
```
## not a heading
| no | table |
|---|---|
```
### Deep
| A | B |
|---|---|
| x \\| y | `z` |
| only |

## Two
- [x] **ID-1**: text
  goes on
- [ ] open
* plain
1. first
**Goal**: g
**Depends on:** d
Status: s
**Success Criteria** (what must be TRUE):
"""


def test_sections_tables_items_fields():
    page = markdown.read(PAGE)
    assert page.title == "Name"
    assert [(one.title, one.level, one.line) for one in page.sections[1:]] == [
        ("Name", 1, 1), ("One", 2, 5), ("Deep", 3, 12), ("Two", 2, 18),
    ]  # fmt: skip
    assert "not a heading" in page.section("one").text
    (table,) = markdown.tables(page.body, page.fenced)
    assert table.names == ("a", "b")
    assert table.rows == ((15, ("x | y", "`z`")), (16, ("only", "")))
    items = markdown.items(page.section("Two").lines)
    assert [(one.line, one.checked, one.text) for one in items] == [
        (19, True, "**ID-1**: text goes on"), (21, False, "open"), (22, None, "plain"), (23, None, "first"),
    ]  # fmt: skip
    assert markdown.fields(page.section("Two").lines) == {
        "goal": (24, "g"), "depends on": (25, "d"), "status": (26, "s"), "success criteria": (27, ""),
    }  # fmt: skip


def test_crlf_bom_and_lines_after_a_head():
    page = markdown.read("\ufeff---\r\na: b\r\n---\r\n# T\r\n\r\ntext\r\n")
    assert page.front == {"a": "b"}
    assert page.sections[1].line == 4
    assert page.sections[1].text == "text"


def test_a_text_without_end_is_cut():
    page = markdown.read("x\n" * (markdown.LINES_MAX + 5))
    assert len(page.body) == markdown.LINES_MAX
    assert page.odd[0][0] == markdown.LINES_MAX + 1
    assert markdown.read("x\n" * markdown.LINES_MAX).odd == ()


def test_lists_of_a_head_in_every_form():
    assert markdown.texts(["a", {"k": "v"}, None, ["x", "y"]]) == ("a", "k: v", "x, y")
    assert markdown.texts("a, b") == ("a", "b")
    assert markdown.texts("[]") == markdown.texts(None) == markdown.texts("none") == ()


@pytest.mark.parametrize(
    "text",
    [
        "#" * 200_000, "- " * 100_000, "|" * 200_000 + "\n|-|", "*" * 200_000, "**" + "a " * 100_000 + ":",
        "- [" * 60_000, "\n" * 100_000, "# a\n" * 30_000, "<task>" * 30_000, "a:" * 100_000,
    ],
)  # fmt: skip
def test_hostile_texts_take_linear_time(text):
    page = markdown.read(text)
    markdown.tables(page.body, page.fenced)
    markdown.items(page.body, page.fenced)
    markdown.fields(page.body, page.fenced)


def test_a_wide_head_does_not_multiply_a_tables_rows():
    page = markdown.read("|" + "a|" * 900 + "\n|-|\n" + "|x\n" * 9)
    (table,) = markdown.tables(page.body)
    assert len(table.names) == markdown.COLUMNS_MAX
    assert {len(cells) for _, cells in table.rows} == {markdown.COLUMNS_MAX}


BLANKS = "  x" + " " * 9_900 + "y\n"


def test_long_runs_of_blanks_are_read_in_no_time():
    """Each of these took a minute, or seconds for every line, while a run was looked at from each of its blanks."""
    (phase,) = roadmap.roadmap("- [ ] **Phase 1: A** - goal\n" + BLANKS * 50, "R").phases
    assert (phase.name, phase.box) == ("A", False)
    covered, _ = verification_file.verification("## Requirements Coverage\n- A-1: it SATISFIED\n" + BLANKS * 50, "V")
    assert [(one.what, one.status) for one in covered.requirements] == [("A-1: it", "SATISFIED")]
    assert markdown.fields(markdown.read(("a" + " " * 9_900 + "b:\n") * 200).body) == {}
