"""The rules that a human made with `approve --always`: kept in the user's state directory, for one project each.

A rule is one private file, named after what it covers, so a request is looked up without reading the others. It has
the hash of what it covers and a masked text to list: a secret in a command is stored nowhere. Whoever makes the
identity of `.agents/` anew (a copy, a clone) has none of these rules.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from orchestrator.base.errors import BadRequest, Environment
from orchestrator.base.secret_masks import one_line
from orchestrator.engines.permission_requests import Asked
from orchestrator.engines.rule_patterns import RulePattern, rule_pattern
from orchestrator.journal.project_files import failure
from orchestrator.team.people.answer_words import Answerer
from orchestrator.trust import identity, state_dir
from orchestrator.trust.state_dir import StateDirUnsafe

RULES_MAX = 1000
"""Maximum number of rules of a project."""
TEXT_MAX = 300
_PLACE = "approval_rules"
_ID = re.compile(r"[0-9a-f]{12}")
_SHOWN = ("id", "kind", "tool", "text", "cwd", "at", "user", "face")


class ApprovalRules:
    """The rules of the project at ``root`` as they are stored now; nothing is kept in memory."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def can_cover(self, asked: Asked) -> bool:
        """Whether a rule can be made for exactly this."""
        return rule_pattern(asked) is not None

    def matching(self, asked: Asked) -> str | None:
        """The id of the rule that covers this; None without one."""
        pattern, place = rule_pattern(asked), self._place()
        if pattern is None or place is None:
            return None
        digest = self._digest(pattern)
        rule = _read(place / digest[:12])
        return digest[:12] if rule is not None and rule["digest"] == digest else None

    async def add(self, asked: Asked, by: Answerer, at: str) -> str:
        """Make a rule for exactly this; its id, which is that of an equal rule that is there already.

        BadRequest ``cannot_answer`` if no rule can be made of it or there are too many; Environment
        ``state_dir_unsafe``, ``disk_full`` or ``io_failed``.
        """
        pattern = rule_pattern(asked)
        if pattern is None:
            raise BadRequest("cannot_answer", f"no rule can be made for this use of {one_line(asked.tool, 100)}")
        return await asyncio.to_thread(self._add, pattern, asked, by, at)

    def _add(self, pattern: RulePattern, asked: Asked, by: Answerer, at: str) -> str:
        if len(self.listed()) >= RULES_MAX:
            next_step = "remove rules with orchestrator approvals remove"
            raise BadRequest("cannot_answer", f"the project has {RULES_MAX} rules", next_step)
        digest = self._digest(pattern)
        rule = {
            "v": 1,
            "id": digest[:12],
            "digest": digest,
            "kind": pattern.kind,
            "tool": one_line(asked.tool, 100),
            "text": one_line(pattern.text, TEXT_MAX),
            "cwd": one_line(asked.cwd, TEXT_MAX),
            "at": at,
            "user": by.user,
            "face": by.face,
        }
        with self._errors():
            known = identity.establish(self._root / ".agents")
            place = state_dir.private_dir(identity.PROJECTS, known.id, _PLACE)
            state_dir.write(place / digest[:12], json.dumps(rule).encode())
        return digest[:12]

    def listed(self) -> list[dict[str, Any]]:
        """Every rule ``{id, kind, tool, text, cwd, at, user, face}``, the oldest first."""
        place = self._place()
        names: list[str] = []
        if place is not None:
            with contextlib.suppress(OSError):
                names = [name for name in os.listdir(place) if _ID.fullmatch(name)]  # noqa: PTH208 - names alone
        rules = [_read(place / name) for name in names] if place is not None else []
        shown = [{name: rule[name] for name in _SHOWN} for rule in rules if rule is not None]
        return sorted(shown, key=lambda rule: (rule["at"], rule["id"]))

    def remove(self, rule: str) -> None:
        """Remove a rule: what it covered is asked again. BadRequest ``unknown_rule``; Environment as `add`."""
        place = self._place()
        if place is None or not _ID.fullmatch(rule) or _read(place / rule) is None:
            raise BadRequest("unknown_rule", f"this project has no rule {one_line(rule, 100)}")
        with self._errors():
            (place / rule).unlink(missing_ok=True)

    def _place(self) -> Path | None:
        known = identity.recognize(self._root / ".agents")
        if known is None:
            return None
        place = known.place / _PLACE
        try:
            state_dir.check(place, place.lstat())
        except (OSError, StateDirUnsafe):
            return None
        return place

    def _digest(self, pattern: RulePattern) -> str:
        """The hash of what the pattern covers here and now: where its paths lead is part of it."""
        places = [os.path.realpath(path) for path in (str(self._root), *pattern.paths)]
        covered = json.dumps([pattern.kind, pattern.exact, places]).encode("utf-8", "surrogatepass")
        return hashlib.sha256(covered).hexdigest()

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except StateDirUnsafe as error:
            raise Environment("state_dir_unsafe", str(error)) from error
        except OSError as error:
            raise failure(self._place() or self._root, error) from error


def _read(path: Path) -> dict[str, Any] | None:
    """A stored rule; None if there is none, or the file is not one."""
    with contextlib.suppress(ValueError, RecursionError):
        rule = json.loads(state_dir.read(path) or b"null")
        if isinstance(rule, dict) and all(isinstance(rule.get(name), str) for name in (*_SHOWN, "digest")):
            return rule if rule["id"] == path.name else None
    return None
