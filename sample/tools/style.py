"""Style check: python tools/style.py [FILE...]: line length, blanks at line ends, tabs, missing docstrings."""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

LONGEST = 120


def complaints(path: Path) -> Iterator[str]:
    """What is wrong with a file, line by line, then definition by definition."""
    text = path.read_text(encoding="utf-8")
    for number, line in enumerate(text.splitlines(), 1):
        if len(line) > LONGEST:
            yield f"{path}:{number}: {len(line)} characters"
        if line != line.rstrip() or "\t" in line:
            yield f"{path}:{number}: a tab, or blanks at the end"
    if "tests" in path.parts:
        return
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Module | ast.FunctionDef | ast.ClassDef) and not ast.get_docstring(node):
            yield f"{path}:{getattr(node, 'lineno', 1)}: no docstring"


def main(names: list[str]) -> int:
    """Check the files, or all Python files below this directory; 1 if something is wrong."""
    paths = [Path(name) for name in names] or sorted(Path().rglob("*.py"))
    found = [line for path in paths for line in complaints(path)]
    print("\n".join(found or [f"{len(paths)} files, nothing to complain about"]))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
