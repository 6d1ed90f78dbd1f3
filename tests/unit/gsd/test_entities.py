"""Entity files in every form that real trees have, and in some that nobody wants."""

import pytest

from orchestrator.gsd.intel.entities import parse
from tests.support.gsd_trees import unpack

WHOLE = """---
path: /home/x/src/a.ts
type: Service
updated: 2026-01-20
status: active
---

# a.ts

## Purpose

First line
and second.

## Exports

- **PikeBridge** - Main class
- `fn(a): R` - what it does
- `export const limit` - a number
| `row` | of a table |
- All exports from `./types.js`
- async
None

## Dependencies

- [[src-lib-db]] - why
- [[Core/Types|the types]], [[./near#part]] and [[src-lib-db]]
- jose - not ours
"""


def test_a_whole_entity():
    found = parse(WHOLE.encode())
    assert (found.path, found.type, found.status) == ("/home/x/src/a.ts", "service", "active")
    assert found.purpose == "First line and second."
    assert found.exports == ("PikeBridge", "fn", "limit", "row")
    assert found.links == ("src-lib-db", "core/types", "./near")


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("---\nsource: src/b.ts\nindexed: now\n---\n", "src/b.ts"),
        ("# X\n\n**File**: `src/x.rs`\n", "src/x.rs"),
        ("# X\n\n**Directory**: `src/mcp/`\n", "src/mcp/"),
        ("# X\n- **Path:** src/y.py\n", "src/y.py"),
        ("\ufeff---\npath: 'src/q.ts'\n---\n", "src/q.ts"),
        ("---\npath: a:b.ts\n---\n", "a:b.ts"),
        ("---\npath: unclosed.ts\n", ""),
        ("# X\nnothing\n", ""),
        ("", ""),
    ],
)
def test_where_the_path_stands(text, path):
    assert parse(text.encode()).path == path


def test_line_ends_and_bytes_of_any_kind():
    assert parse(WHOLE.replace("\n", "\r\n").encode()) == parse(WHOLE.encode())
    found = parse(b"---\npath: a\xff.ts\n---\n## Purpose\n\xfe\xff and \x00 [[b\xff]]\n")
    assert found.path == "a\ufffd.ts"
    assert found.links == ("b\ufffd",)


@pytest.mark.parametrize(
    "text",
    [
        "## " + "a# " * 80_000,
        "[[" * 100_000,
        "---\n" * 60_000,
        "**File**:" + " " * 200_000 + "\n",
        "- **" + "a " * 100_000,
        "## Exports\n- `" + "export " * 30_000,
        " " * 250_000 + "**",
        ("## Purpose\n" * 20_000),
        "[[" + "x" * 250_000 + "]]",
    ],
)
def test_hostile_text_ends(text):
    assert parse(text.encode()).status == ""


def test_real_ones(tmp_path):
    entities = unpack("mlx-manager", tmp_path) / ".planning/intel/entities"
    found = {path.stem: parse(path.read_bytes()) for path in entities.glob("*.md")}
    assert len(found) == 50
    assert all(each.path and each.purpose and each.type for each in found.values())
    main = found["backend-mlx_manager-main"]
    assert main.path.endswith("backend/mlx_manager/main.py")
    assert main.exports[:2] == ("app", "cleanup_stale_instances")
    assert len(main.links) == 6
