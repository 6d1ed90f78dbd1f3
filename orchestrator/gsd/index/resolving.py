"""Which files of the project a file's imports mean, whatever its language. Pure.

A file's imports are kept as written, so that they can be resolved again when another file has come or gone.
"""

from __future__ import annotations

from collections.abc import Collection

from orchestrator.gsd.index.languages import SCRIPTS, language_of
from orchestrator.gsd.index.project_settings import Settings
from orchestrator.gsd.index.python_resolving import PythonModules
from orchestrator.gsd.index.script_resolving import ScriptModules


class Resolver:
    """All files of a project, as its imports may mean them."""

    def __init__(self, paths: Collection[str], settings: Settings) -> None:
        """Take the paths of all source files, and what the project's settings say."""
        languages = {path: language_of(path) for path in paths}
        self._python = PythonModules(
            (path for path, language in languages.items() if language == "python"), settings.python
        )
        self._scripts = ScriptModules((path for path, language in languages.items() if language in SCRIPTS), settings)

    def resolve(self, path: str, raw: tuple[str, ...]) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The project-relative paths that the imports mean, without itself, and the packages from elsewhere."""
        if not raw:
            return (), ()
        language = language_of(path)
        if language != "python" and language not in SCRIPTS:
            return (), ()
        modules = self._python if language == "python" else self._scripts
        files, packages = modules.resolve(path, raw)
        return tuple(files), tuple(packages)
