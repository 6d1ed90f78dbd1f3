"""The command: python -m texttally FILE..."""

import sys
from pathlib import Path

from texttally.report import report


def main(names: list[str]) -> int:
    """Print the report on each file; 2 without a file."""
    if not names:
        print("usage: python -m texttally FILE...", file=sys.stderr)
        return 2
    for name in names:
        print(report(name, Path(name).read_text(encoding="utf-8")))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
