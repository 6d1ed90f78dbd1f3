"""Outline: python tools/outline.py FOLDER: every module with its functions and classes, and their lines."""

import ast
import sys
from pathlib import Path


def main(folder: str) -> int:
    """Print the outline of a folder."""
    for path in sorted(Path(folder).rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        print(f"{path} ({len(text.splitlines())} lines)")
        for node in ast.parse(text).body:
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                print(f"  {node.name}: {(node.end_lineno or node.lineno) - node.lineno + 1} lines")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
