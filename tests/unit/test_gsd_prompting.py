"""What the spawn prompts say of a real project."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from orchestrator.gsd import prompting
from orchestrator.gsd.intelligence import Intelligence
from tests.gsd_trees import unpack

if TYPE_CHECKING:
    from orchestrator.gsd.snapshot import Snapshot


@pytest.fixture(scope="module")
def mlx(tmp_path_factory: pytest.TempPathFactory) -> Snapshot:
    known = Intelligence()
    try:
        return known.snapshot(Path(unpack("mlx-manager", tmp_path_factory.mktemp("tree"))))
    finally:
        known.close()


def test_conventions_stand_there_once(mlx: Snapshot) -> None:
    text = prompting.prompt(mlx, who="planner", phase="12")["text"]
    assert text.count('"purpose": "Svelte state modules"') == 1
    assert '"errors": {}' not in text


def test_sentences_end_once(mlx: Snapshot) -> None:
    text = prompting.prompt(mlx, who="planner", phase="3")["text"]
    assert "- `backend/mlx_manager/routers/auth.py` (4 files depend on it): " in text
    assert ".. " not in text


def test_an_executor_is_told_that_a_plan_was_carried_out(mlx: Snapshot) -> None:
    text = prompting.prompt(mlx, who="executor", plan="03-02")["text"]
    assert "`.planning/phases/03-user-authentication/03-02-PLAN.md`, which has its summary already:" in text


def test_a_verifier_is_told_the_requirements_of_the_table(mlx: Snapshot) -> None:
    text = prompting.prompt(mlx, who="verifier", phase="v1.1 phase 3")["text"]
    assert "- AUTH-06: Pending approval badge count in nav (admin only) (completed)" in text
