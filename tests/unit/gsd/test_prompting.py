"""What the spawn prompts say of a real project."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from orchestrator.gsd import prompting
from orchestrator.gsd.intelligence import Intelligence
from tests.support.gsd_trees import unpack, write

if TYPE_CHECKING:
    from orchestrator.gsd.graph_snapshot import Snapshot


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


def test_an_executor_is_told_how_many_depend_on_a_file_only_where_some_are_known(tmp_path: Path) -> None:
    files = {
        ".planning/ROADMAP.md": "### Phase 1: A\n**Goal**: Change the db\n",
        ".planning/phases/01-a/01-01-PLAN.md": "---\nplan: 01\nfiles_modified: [src/db.ts, src/new.ts]\n---\n",
        ".planning/intel/entities/src-db.md": "---\npath: src/db.ts\n---\n",
        ".planning/intel/entities/src-api.md": "---\npath: src/api.ts\n---\n[[src-db]]\n",
    }
    known = Intelligence()
    try:
        text = prompting.prompt(known.snapshot(write(tmp_path, files)), who="executor", plan="01-01")["text"]
    finally:
        known.close()
    assert "- `src/db.ts`: 1 file depends on it, 1 with those behind them. " in text
    assert "- `src/new.ts`: Nothing is known of src/new.ts" in text
    assert "- `src/db.ts` (1 file depends on it): " in text


ROADMAP = """# Roadmap

- [ ] **Phase 1: Auth** - login

## Phase Details

### Phase 1: Auth
**Goal**: {}
"""


def told(root: Path, who: str, goal: str, plan: str = "", **asked: str) -> str:
    files = {".planning/ROADMAP.md": ROADMAP.format(goal)}
    if plan:
        files[".planning/phases/01-auth/01-01-PLAN.md"] = plan
    known = Intelligence()
    try:
        return str(prompting.prompt(known.snapshot(write(root, files)), who=who, **asked)["text"])
    finally:
        known.close()


@pytest.mark.parametrize("goal", ["Users log in " * 400, "2", "\u202e"])
@pytest.mark.parametrize("who", prompting.WHO)
def test_whatever_the_roadmap_or_the_caller_states_as_goal_there_is_a_prompt(
    tmp_path: Path, goal: str, who: str
) -> None:
    assert goal[:100].strip() in told(tmp_path, who, goal)
    assert goal[:100].strip() in told(tmp_path, who, "Another one", phase_goal=goal)


def test_of_a_plan_with_very_many_files_it_is_said_how_many_are_left_out(tmp_path: Path) -> None:
    files = "\n".join(f"  - src/f{n}.ts" for n in range(23))
    text = told(tmp_path, "executor", "Users log in", f"---\nphase: 01-auth\nfiles_modified:\n{files}\n---\n")
    assert "`src/f19.ts`" in text and "- and 3 more files" in text
