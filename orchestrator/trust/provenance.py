"""Where a project's team data was made: its identity as one process knows it, and the seals of its files.

Reads the directory and the state directory; writes both only in ``establish`` and ``renew``. Standard library only.
"""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

from orchestrator.trust import accepted_logs, identity
from orchestrator.trust.identity import DirectoryIdentity
from orchestrator.trust.seals import KEY, Seal


class Provenance:
    """The provenance of one directory of team data (``.agents/``). Safe in threads."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._lock = threading.Lock()
        self._looked = False
        self._identity: DirectoryIdentity | None = None

    @property
    def identity(self) -> DirectoryIdentity | None:
        """The identity that the directory was given here; None when it came from elsewhere, or has none yet."""
        with self._lock:
            if not self._looked:
                self._identity, self._looked = identity.recognize(self.directory), True
            return self._identity

    def establish(self) -> DirectoryIdentity:
        """Give the directory an identity unless it has one from this machine; its files without a seal stay foreign.

        Raises ``StateDirUnsafe`` and ``OSError``.
        """
        with self._lock:
            # Looked at again: the directory may have been removed and made anew while this process lived.
            self._identity, self._looked = identity.establish(self.directory), True
            return self._identity

    def seal(self, *scope: str) -> Seal | None:
        """The seal of that scope; None while the directory has no identity from here: then nothing in it is ours."""
        directory_identity = self.identity
        if directory_identity is None:
            return None
        return Seal(directory_identity, *scope, accepted=accepted_logs.stored(directory_identity, scope))

    def owns(self, content: Any, *scope: str) -> bool:
        """Whether the content of a JSON file carries the seal of that scope."""
        seal = self.seal(*scope)
        return seal is not None and seal.holds(content)

    def sealed(self, content: dict[str, Any], *scope: str) -> dict[str, Any]:
        """The content of a JSON file with the seal of that scope; without one while there is no identity."""
        seal = self.seal(*scope)
        return {key: value for key, value in content.items() if key != KEY} if seal is None else seal.sealed(content)
