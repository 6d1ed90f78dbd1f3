"""Which indexed files have changed since they were indexed. Reads the index and these files; writes nothing."""

from __future__ import annotations

import os
from pathlib import Path

from orchestrator.gsd.index import store as index_store
from orchestrator.gsd.index.source_files import NotThere, read_file
from orchestrator.gsd.index.store import Stamp


def stale(root: Path, paths: list[str]) -> list[str]:
    """Those of these project-relative paths whose file is gone or has another content than when it was indexed.

    In the order given; paths that the index does not know are left out. A file is read only when its time or length
    differs. Raises like `store.read`.
    """
    known = index_store.stamps(root, paths)
    return [path for path in dict.fromkeys(paths) if path in known and changed(str(root), path, known[path])]


def changed(root: str, path: str, stamp: Stamp) -> bool:
    """Whether the file of the path is not there, cannot be read, or has another content than the stamp's."""
    try:
        found = os.lstat(f"{root}/{path}")
        if (found.st_mtime_ns, found.st_size) == (stamp.mtime_ns, stamp.size):
            return False
        return read_file(root, path).digest != stamp.digest
    except (NotThere, OSError):
        return True
