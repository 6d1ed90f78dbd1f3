"""Doctor's checks of the AI CLIs: installation, version, login, registration. Reads only.

A CLI is started for its version only if its package does not contain it, and then with an empty home directory: some
CLIs write into the user's home even then.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from orchestrator.base.errors import OrchestratorError
from orchestrator.base.toolsets import DEFAULT_TOOLSETS, GSD
from orchestrator.cli.doctor_finding import DoctorFinding, of_error
from orchestrator.edge.project_location import Project

if TYPE_CHECKING:
    from orchestrator.engines.user_setup import UserSetup


def engines(_: Project) -> Iterator[DoctorFinding]:
    """One finding for each engine."""
    from orchestrator.engines.table import ENGINES  # noqa: PLC0415

    for row in ENGINES.values():
        check = f"engine {row.name}"
        program = shutil.which(row.program) if row.program else None
        if not row.program:
            yield DoctorFinding(check, "ok", row.about)
        elif program is None:
            known = "" if row.tested else "; untested: no version has been tested"
            yield DoctorFinding(check, "note", f"{row.program} is not installed{known}")
        else:
            yield _version(check, program, row)


def registrations(_: Project) -> Iterator[DoctorFinding]:
    """Findings about login, entry and hooks of each installed CLI that setup supports."""
    from orchestrator.engines.table import ENGINES, SETUPS  # noqa: PLC0415

    for name, cli in SETUPS.items():
        program = ENGINES[name].program
        if shutil.which(program) is None:
            continue
        try:
            yield _login(name, program, cli)
            yield from _registered(name, cli)
        except OrchestratorError as error:
            yield of_error(f"{name} registration", error)


def _version(check: str, program: str, row: Any) -> DoctorFinding:
    version = packaged(program, row.package) or _version_in_private_home(program)
    untested = [] if row.tested else ["no version has been tested"]
    if row.tested_versions and version not in row.tested_versions:
        untested.append(f"tested with {', '.join(row.tested_versions)} only")
    where = f"{version or 'unknown version'} at {program}"
    if untested:
        return DoctorFinding(
            check, "note", f"{where}; {'; '.join(untested)}", f"orchestrator doctor --live {row.name}"
        )
    return DoctorFinding(check, "ok", f"{where}, a tested version" if row.tested_versions else where)


def packaged(program: str, package: str) -> str | None:
    """The version in the package file of the program's own npm package; None if it is not of that package."""
    for folder in list(Path(os.path.realpath(program)).parents)[:6] if package else ():
        try:
            manifest = json.loads((folder / "package.json").read_text("utf-8"))
        except (OSError, ValueError):
            continue
        if isinstance(manifest, dict) and manifest.get("name") == package:
            return str(manifest.get("version"))
    return None


def _version_in_private_home(program: str) -> str | None:
    from orchestrator.engines.table import SETUPS  # noqa: PLC0415
    from orchestrator.team.life.cli_versions import version_of  # noqa: PLC0415

    with tempfile.TemporaryDirectory(prefix="orchestrator-doctor-", ignore_cleanup_errors=True) as home:
        moved = {name for cli in SETUPS.values() for name in cli.variables}
        env = {name: value for name, value in os.environ.items() if name not in moved}
        return version_of(program, {**env, "HOME": home})


def _login(name: str, program: str, cli: UserSetup) -> DoctorFinding:
    from orchestrator.setup import config_locations  # noqa: PLC0415

    login = config_locations.login(cli, os.environ)
    if login:
        return DoctorFinding(f"{name} login", "ok", f"found: {login}")
    step = f"start {program} once and log in, or set its key in the environment"
    return DoctorFinding(f"{name} login", "note", "none found; a login in a keychain cannot be seen", step)


def _registered(name: str, cli: UserSetup) -> Iterator[DoctorFinding]:
    from orchestrator.setup import registration  # noqa: PLC0415
    from orchestrator.setup.entries import SETTINGS  # noqa: PLC0415

    entry, *others = registration.look(cli, os.environ)
    offers = f" ({', '.join(entry.toolsets)})" if entry.toolsets not in ((), DEFAULT_TOOLSETS) else ""
    yield _part(f"{name} registration", entry, f"as master{offers}", f"orchestrator setup {name}")
    hooks = [other for other in others if other.part.startswith("hook")]
    for other in others:
        if other.part == "entry":
            step = f"orchestrator setup {name} --toolsets {GSD}"
            yield _part(f"{name} {GSD}", other, f"as {GSD}", step)
        elif other.part == SETTINGS:
            yield _part(f"{name} {GSD} in its settings", other, f"as {GSD}", f"orchestrator setup {name} --settings")
    if not hooks:
        return
    step = f"orchestrator setup {name} --hooks"
    if all(hook.state == "absent" for hook in hooks):
        yield DoctorFinding(f"{name} hooks", "ok", f"not registered; optional: {step}")
        return
    worst = next((hook for hook in hooks if hook.state == "absent"), None) or next(
        (hook for hook in hooks if hook.state != "current"), hooks[0]
    )
    yield _part(f"{name} hooks", worst, worst.part.removeprefix("hook "), step)


def _part(check: str, seen: Any, what: str, step: str) -> DoctorFinding:
    file = str(seen.path)
    if seen.state == "absent":
        return DoctorFinding(check, "note", f"{what}: not in {file}", step, file)
    if seen.program and shutil.which(seen.program) is None:
        return DoctorFinding(
            check, "bad", f"{what}: starts {seen.program}, which does not exist", f"{step} --force", file
        )
    if seen.state == "current":
        return DoctorFinding(check, "ok", f"{what}: in {file}", file=file)
    if seen.same and seen.state == "other":
        return DoctorFinding(
            check, "note", f"{what}: {file} has the form of an older version", f"to renew it: {step}", file
        )
    if seen.same:
        return DoctorFinding(check, "ok", f"{what}: in {file}, changed by hand", file=file)
    if seen.state == "other":
        message = f"{what}: {file} starts another installation, {seen.program}"
        return DoctorFinding(check, "note", message, f"to use this one: {step}", file)
    message = f"{what}: the entry in {file} was not written by setup and does not start this installation"
    return DoctorFinding(check, "note", message, f"to use this one: {step} --force", file)
