"""The transcript of an agent's CLI is the newest file of its session, in the places of the CLI's own environment."""

import os

import orjson
import pytest

from orchestrator.journal.project_files import Paths, ensure_agents_dir
from orchestrator.team.roster.transcripts import transcript_of

SESSION = "8de1d051-3091-4ccf-b39b-186f5067b99a"
PLACES = {
    "claude": ("CLAUDE_CONFIG_DIR", f"projects/-a-project/{SESSION}.jsonl"),
    "codex": ("CODEX_HOME", f"sessions/2026/01/02/rollout-2026-01-02T03-04-05-{SESSION}.jsonl"),
    "gemini": ("GEMINI_CLI_HOME", f".gemini/tmp/abc/chats/session-2026-01-02T03-04-{SESSION[:8]}.jsonl"),
}


@pytest.fixture
def launched(tmp_path):
    """Write the launch file of an agent with that environment, sealed or not."""
    paths = Paths(tmp_path / "p")
    paths.root.mkdir()
    ensure_agents_dir(paths)
    paths.provenance.establish()

    def launch(env, sealed=True):
        file = {"epoch": 1, "env": env}
        content = paths.provenance.sealed(file, "agent", "a1", "launch") if sealed else file
        paths.engine_dir("a1").mkdir(parents=True, exist_ok=True)
        paths.launch("a1").write_bytes(orjson.dumps(content))
        return paths

    return launch


@pytest.mark.parametrize("engine", PLACES)
def test_a_transcript_is_in_the_clis_own_place_and_the_newest_counts(launched, tmp_path, engine):
    variable, name = PLACES[engine]
    paths = launched({variable: str(tmp_path / "cli"), "HOME": str(tmp_path)})
    assert transcript_of(paths, "a1", engine, SESSION) is None
    file = tmp_path / "cli" / name
    other = file.parent.with_name("other") / file.name
    for path, at in ((file, 2), (other, 1)):
        path.parent.mkdir(parents=True)
        path.write_text("{}\n")
        os.utime(path, (at, at))
    assert transcript_of(paths, "a1", engine, SESSION) == file


def test_nothing_leads_to_a_strangers_file(launched, tmp_path, monkeypatch):
    variable, name = PLACES["claude"]
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv(variable, raising=False)
    file = tmp_path / "cli" / name
    file.parent.mkdir(parents=True)
    file.write_text("{}\n")
    paths = launched({variable: str(tmp_path / "cli")}, sealed=False)
    assert transcript_of(paths, "a1", "claude", SESSION) is None, "a launch file that was not written here"
    paths = launched({variable: str(tmp_path / "cli")})
    for session in (None, "", "../" + SESSION, "*", "x"):
        assert transcript_of(paths, "a1", "claude", session) is None
    assert transcript_of(paths, "a1", "shell", SESSION) is None
    assert transcript_of(paths, "a1", "no-engine", SESSION) is None
