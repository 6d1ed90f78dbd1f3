"""Roles: Markdown files whose body is the system prompt of an agent or a member. Reads only.

A role without a file is a plain label.
"""

from __future__ import annotations

import re
from pathlib import Path

from orchestrator.errors import BadRequest

FOLDERS = (".agents/roles",)
ROLE_MAX = 64 * 1024
"""Bytes of a role's file: it is a part of every conversation with its model, and of one CLI's command line."""
_ID = re.compile(r"[^/\0]{1,128}")
_FRONTMATTER = re.compile(r"\A---\r?\n.*?^---\s*$\r?\n?", re.DOTALL | re.MULTILINE)


def body(root: Path, role: str) -> str:
    """The text of the role's file without its frontmatter; empty when the role has no file.

    BadRequest ``bad_role`` when it has one that is too large, cannot be read, or leads out of the project: an agent
    without its rules would be worse than none.
    """
    if not _ID.fullmatch(role) or role.startswith("."):
        return ""
    for folder in FOLDERS:
        path = root / folder / f"{role}.md"
        if path.is_symlink() or path.exists():
            return _FRONTMATTER.sub("", _text(root, path), count=1).strip()
    return ""


def _text(root: Path, path: Path) -> str:
    name = path.relative_to(root)
    try:
        if not path.resolve(strict=True).is_relative_to(root.resolve()):
            raise BadRequest("bad_role", f"{name} leads out of the project")
        size = path.stat().st_size
        if size > ROLE_MAX:
            raise BadRequest("bad_role", f"{name} has {size} bytes; a role has at most {ROLE_MAX}")
        return path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise BadRequest("bad_role", f"{name} is not UTF-8") from error
    except OSError as error:
        raise BadRequest("bad_role", f"{name} cannot be read: {error.strerror}") from error
