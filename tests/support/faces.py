"""A face of the project as a test holds it open: it sees the inbox and answers, as a human's process would."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

from orchestrator.edge import project_location
from orchestrator.faces.daemon_client import DaemonClient
from orchestrator.faces.snapshot_client import SnapshotClient
from tests.support.stage import BOUND_S, Stage, until


class OpenFace:
    """The inbox of a stage's project, and answers to it."""

    def __init__(self, stage: Stage, client: SnapshotClient) -> None:
        self.stage = stage
        self.client = client

    def inbox(self) -> list[dict[str, Any]]:
        """The items now."""
        return list((self.client.latest() or {}).get("inbox", ()))

    def item(self, text: str, bound_s: float = BOUND_S) -> dict[str, Any]:
        """Wait for the item whose whole text contains ``text``."""

        def found() -> dict[str, Any] | None:
            return next((one for one in self.inbox() if text in one["asked"] or text in one["text"]), None)

        try:
            return until(found, bound_s)
        except AssertionError as error:
            raise AssertionError(f"{error}; wanted {text!r} in {self.inbox()}") from None

    def answer(self, item: dict[str, Any], decision: str, text: str = "") -> dict[str, Any]:
        """Answer an item; raises what the daemon answers."""
        with DaemonClient(project_location.named_project(self.stage.root), start=False, return_s=BOUND_S) as link:
            asked = {"item": item["id"], "decision": decision, "text": text, "face": "test"}
            return link.ask("orchestrator/answer", asked)


@contextmanager
def open_face(stage: Stage, *, answers: bool = True) -> Iterator[OpenFace]:
    """A face that is open, and that can answer unless the test says otherwise."""
    variables = {name: value for name, value in stage.env.items() if name.startswith("ORCHESTRATOR_")}
    with mock.patch.dict(os.environ, variables):
        place = project_location.named_project(stage.root)
        with SnapshotClient(place, face="test", answers=answers) as client:
            until(lambda: (client.latest() or {}).get("live"))
            yield OpenFace(stage, client)
