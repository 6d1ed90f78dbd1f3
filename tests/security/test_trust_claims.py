"""docs/trust.md claims no more than tests show: each sentence under "What is guaranteed" is tied to a test, by its words."""

import ast
import re
from pathlib import Path

from tests.security.claims import CLAIMS

ROOT = Path(__file__).resolve().parents[2]
HELD, TABLE = "\n## What is guaranteed\n", "\n## Files that can cause something\n"


def sentences():
    """Each sentence of the section's lists, on one line."""
    text = (ROOT / "docs" / "trust.md").read_text(encoding="utf-8")
    section = text.split(HELD, 1)[1].split("\n## ", 1)[0]
    found = []
    for block in re.split(r"\n(?=- |\n|#)", section):
        item = " ".join(block.split())
        if item.startswith("- "):
            found += re.split(r"(?<=[.!?])\s+(?=[A-Z`])", item.removeprefix("- "))
    return found


def functions(path):
    """The tests of a file."""
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}


def test_every_sentence_of_what_is_guaranteed_names_its_tests_and_no_other_is_named():
    claimed = sentences()
    assert len(claimed) > 30, "the section was not found"
    assert len(set(claimed)) == len(claimed)
    assert set(claimed) - set(CLAIMS) == set(), "a sentence without a test"
    assert set(CLAIMS) - set(claimed) == set(), "a test for a sentence that is not there"


def test_every_test_that_a_claim_names_is_there():
    missing = [
        (sentence, name)
        for sentence, names in CLAIMS.items()
        for name in names
        if name.partition("::")[2] not in functions(name.partition("::")[0])
    ]
    assert missing == []
    assert all(CLAIMS.values()), "a claim without a test"


def test_every_row_of_the_table_of_files_names_a_test_that_is_there():
    text = (ROOT / "docs" / "trust.md").read_text(encoding="utf-8")
    rows = [row for row in text.split(TABLE, 1)[1].split("\n## ", 1)[0].splitlines() if row.startswith("| ")][2:]
    there = set().union(*(functions(path.relative_to(ROOT)) for path in (ROOT / "tests").rglob("test_*.py")))
    assert len(rows) > 20
    for row in rows:
        named = re.findall(r"`(test_\w+)`", row.split("|")[-2])
        assert named, row
        assert set(named) <= there, (row, set(named) - there)
