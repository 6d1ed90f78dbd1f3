"""Real `.planning/` trees and made-up ones, unpacked or written where a test may change them."""

import tarfile
from pathlib import Path
from typing import Any

ARCHIVES = Path(__file__).parents[1] / "fixtures" / "gsd"
FILTER: Any = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}  # since Python 3.11.4
TREES = ("gsd-v1.9.1", "mlx-manager", "pike-lsp", "to-tui")


def unpack(name: str, into: Path) -> Path:
    """The root of a real tree (the directory that holds its `.planning/`), fresh below ``into``."""
    with tarfile.open(ARCHIVES / f"{name}.tar.xz") as archive:
        archive.extractall(into, **FILTER)
    return into / name


def write(root: Path, files: dict[str, str | bytes]) -> Path:
    """Write files below ``root``, with their directories; ``root``."""
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
    return root
