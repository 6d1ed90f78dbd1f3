"""What is shipped: wheel and sdist carry prompts and schemas, and the installed package works without the checkout."""

import json
import os
import subprocess
import sys
import tarfile
import zipfile
from collections import Counter
from pathlib import Path

import pytest

from orchestrator.cli.demo_project import DemoProject, living

ROOT = Path(__file__).resolve().parents[2]
SCHEMAS = {
    "broadcast", "collected", "config", "inbox", "identity", "launch", "mirror", "meta", "outbox", "process", "run", "squad", "team",
}  # fmt: skip
ROLES = {
    "architect", "backend-developer", "devops-engineer", "frontend-developer", "qa-engineer", "researcher",
    "reviewer", "technical-writer", "gsd-executor", "gsd-planner", "gsd-verifier",
}  # fmt: skip

SAMPLE = {
    path.relative_to(ROOT / "sample").as_posix() for path in (ROOT / "sample").rglob("*.*") if path.suffix != ".pyc"
}  # fmt: skip


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """The directory of a wheel and an sdist built from this checkout."""
    place = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(place), str(ROOT)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return place


def test_wheel_and_sdist_carry_prompts_and_schemas_and_no_run_data(built):
    (wheel,) = built.glob("*.whl")
    names = set(zipfile.ZipFile(wheel).namelist())
    assert {f"orchestrator/_data/schemas/{name}.json" for name in SCHEMAS} <= names
    assert {
        f"orchestrator/_data/prompts/{name}.md"
        for name in ("lead_team", "agent", "roles/reviewer", "roles/gsd-verifier", "gsd_verifier")
    } <= names
    assert {f"orchestrator/_data/sample/{name}" for name in SAMPLE} <= names
    assert {"orchestrator/engines/plugins/opencode.js", "orchestrator/hook.py", "orchestrator/py.typed"} <= names
    assert all(name.startswith(("orchestrator/", "orchestrator-")) for name in names)
    (sdist,) = built.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        inside = {name.split("/", 1)[1] for name in archive.getnames() if "/" in name}
    assert {f".agents-schema/{name}.json" for name in SCHEMAS} <= inside
    assert {
        "prompts/lead_team.md",
        "prompts/roles/architect.md",
        *(f"sample/{name}" for name in SAMPLE),
        "Makefile",
        "README.md",
        "tools/setup.sh",
        "requirements.lock",
    } <= inside
    for name in names | inside:
        assert not {".agents", "__pycache__", ".venv", ".demo"} & set(name.split("/")), name


@pytest.fixture(scope="module")
def site(built, tmp_path_factory):
    """The directory that the wheel is installed to, without the checkout."""
    (wheel,) = built.glob("*.whl")
    place = tmp_path_factory.mktemp("site")
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--target", str(place)]
    subprocess.run([*install, str(wheel)], check=True, timeout=120)
    return place


@pytest.mark.tmux
def test_the_demo_of_the_installed_wheel_runs_in_an_empty_directory_and_leaves_nothing_running(site, tmp_path):
    empty = tmp_path / "empty"
    empty.mkdir()
    env = {**os.environ, "PYTHONPATH": str(site), "PYTHONDONTWRITEBYTECODE": "1"}
    played = subprocess.run([sys.executable, "-P", "-m", "orchestrator", "demo", "--json"], cwd=empty, env=env, capture_output=True, text=True, timeout=300)  # fmt: skip
    assert played.returncode == 0, played.stdout[-3000:] + played.stderr[-3000:]
    told = json.loads(played.stdout)
    assert told["ok"]
    assert sorted(Counter(task["outcome"] for task in told["tasks"]).items()) == [("canceled", 1), ("error", 1), ("result", 28)]  # fmt: skip
    (demo,) = (path for path in (empty / ".demo").iterdir() if path.is_dir())
    assert [path.name for path in empty.iterdir()] == [".demo"]
    assert told["files"]["project"] == str(demo / "project")
    assert living(DemoProject(demo, "")) == []


def test_the_installed_wheel_works_without_the_checkout(site, tmp_path):
    env = {**os.environ, "PYTHONPATH": str(site), "PYTHONDONTWRITEBYTECODE": "1"}
    python = [sys.executable, "-P"]
    look = "import orchestrator, orchestrator.base.package_data as d; print(orchestrator.__file__); print(d.schema_names()); d.prompt('lead_team')"
    told = subprocess.run([*python, "-c", look], cwd=tmp_path, env=env, capture_output=True, text=True, check=True)
    where, names = told.stdout.splitlines()
    assert where.startswith(str(site))
    assert set(json.loads(names.replace("'", '"'))) == SCHEMAS
    shown = subprocess.run([*python, "-m", "orchestrator", "schema", "outbox"], cwd=tmp_path, env=env, capture_output=True, text=True)  # fmt: skip
    assert shown.returncode == 0, shown.stderr
    assert json.loads(shown.stdout)["title"] == "outbox"
    listed = subprocess.run([*python, "-m", "orchestrator", "roles", "list", "--json"], cwd=tmp_path, env=env, capture_output=True, text=True)  # fmt: skip
    found = json.loads(listed.stdout)["roles"]
    assert {role["id"] for role in found} == ROLES
    assert all(role["file"].startswith(str(site)) for role in found)
    seen = tmp_path / "seen"
    seen.mkdir()
    (seen / "clock.py").write_text("def now():\n    return 0\n")
    for words in (["index"], ["query", "clock", "--json"]):
        asked = subprocess.run([*python, "-m", "orchestrator", "gsd", *words], cwd=seen, env=env, capture_output=True, text=True)  # fmt: skip
        assert asked.returncode == 0, asked.stdout + asked.stderr
    assert [found["path"] for found in json.loads(asked.stdout)["files"]] == ["clock.py"]
    assert (site / "bin" / "orchestrator").exists(), "the console script is installed"
