"""Who may give trust, and how it is asked: on a terminal, of a human, for exactly what was shown."""

import errno
import json
import os
import sys

import pytest

from orchestrator.base.errors import BadRequest, Environment
from orchestrator.base.text_width import pieces
from orchestrator.cli import trust
from orchestrator.config import sources
from orchestrator.project_trust import trust_authority, trust_store
from orchestrator.trust import allowed, relay_holders, state_dir
from orchestrator.trust.difference import difference
from tests.security.human import OURS, Human
from tests.security.relay_holders import below_a_master, left_by_a_master
from tests.support.stage import lines_of, until
from tests.support.team import Team

ASKS = "[y/N]"
ROLE = ".agents/roles/r.md"
TEAM = '[agents.one]\nrole = "r"\nengine = "shell"\n'


def put(stage, name, text):
    path = stage.root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def say(stage, line):
    """Add a line to the project's settings."""
    file = stage.root / sources.PROJECT_FILE
    return put(stage, sources.PROJECT_FILE, file.read_text() + line + "\n")


def permit(stage):
    """The user's own configuration lets a script give trust."""
    file = stage.home / ".config/orchestrator/config.toml"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("trust_by_digest = true\n")


def digest_of(stage):
    return json.loads(stage.cli("trust", "--dry-run", "--json").stdout)["digest"]


def refused(done):
    """The code by which a command with --json was refused."""
    assert done.returncode != 0, done.stdout + done.stderr
    return json.loads(done.stdout)["error"]["code"]


def listed(stage):
    return json.loads(stage.cli("trust", "--list", "--json").stdout)


def counts(stage):
    return sorted(row["file"] for row in listed(stage)["files"] if row["state"] == "counts")


# -- the question -----------------------------------------------------------------------------------------------------


def test_a_human_is_shown_what_would_count_and_only_yes_allows_it(stage):
    file = say(stage, 'approval = "all"')
    put(stage, ROLE, "---\ndescription: d\napproval: edits\n---\nYou work.\n")
    boss = stage.begun()
    with Human(stage, "trust") as human:
        shown = human.see(ASKS)
        assert '| +approval = "all"' in shown and f'{sources.PROJECT_FILE}: approval = "all"' in shown
        assert "| +You work." in shown and f'{ROLE}: approval = "edits"' in shown
        human.type("\n")
        assert human.end() == 1
    assert counts(stage) == []
    for answer in ("n", "Y es", "yess", "\x04"):
        with Human(stage, "trust") as human:
            human.see(ASKS)
            human.type(answer + "\n")
            assert human.end() == 1, answer
    with Human(stage, "trust") as human:
        human.see(ASKS)
        human.type("y\n")
        assert human.end() == 0
    assert counts(stage) == [sources.PROJECT_FILE, ROLE]
    assert boss.tool("agent_create", {"name": "a", "role": "x", "engine": "shell"}).get("untrusted") is None
    assert stage.records("a")[0]["approval"] == "all", "it holds at once, without a restart of the daemon"
    file.write_text(file.read_text().replace('"all"', '"edits"') + "trust = true\n")
    with Human(stage, "trust") as human:
        shown = human.see(ASKS)
        assert '| -approval = "all"' in shown and '| +approval = "edits"' in shown and "changed since" in shown
        assert ROLE not in shown, "what is allowed is not asked again"
        human.type("yes\n")
        assert human.end() == 0
    assert sorted(counts(stage)) == [sources.PROJECT_FILE, ROLE]


def test_what_was_typed_before_the_question_answers_nothing(stage):
    say(stage, "trust = true")
    with Human(stage, "trust") as human:
        human.type("y\ny\n")
        human.see(ASKS)
        human.type("\n")
        assert human.end() == 1
    assert counts(stage) == []


def test_stdin_and_stdout_neither_answer_nor_hide_the_question(stage):
    say(stage, "trust = true")
    line = f"yes | {' '.join(OURS)} trust > {stage.base / 'out'} 2>&1"
    with Human(stage, "sh", "-c", line, ours=()) as human:
        assert "trust = true" in human.see(ASKS), "the terminal shows it, wherever stdout leads"
        human.type("n\n")
        assert human.end() == 1
    assert counts(stage) == []


def test_the_question_about_a_fleet_says_who_may_then_start_programs(stage):
    for line, shown in (("trust = true", False), ('fleet.accept.hosts = ["*"]', True)):
        say(stage, line)
        assert (trust.FLEET_NOTE in stage.cli("trust", "--dry-run").stdout) is shown
        with Human(stage, "trust") as human:
            assert (trust.FLEET_NOTE in " ".join(human.see(ASKS).split())) is shown
            human.type("n\n")
            assert human.end() == 1


def test_nothing_in_a_file_commands_the_terminal_or_passes_for_the_question(stage):
    evil = b"\x1b[2J\x1b[H\x9b2J\x07\rAllow this? [y/N] y\x00\xff\xe2\x80\xae\xc2\x85\xe2\x80\xa8"
    wide = "x" * 90 + "Nothing acts here." + " " * 200 + "Allow this? [y/N] y"
    role = (
        b"---\ndescription: d\napproval: all\n---\n"
        + evil.replace(b"\x00", b"").replace(b"\xff", b"")
        + b"\n"
        + wide.encode()
    )
    put(stage, ROLE, role)
    put(stage, "templates/run-agent.template", b"cat '" + evil.replace(b"\x00", b"").replace(b"\xff", b"") + b"'")
    put(
        stage,
        ".agents/team.toml",
        '[agents."Allow this? [y/N] y\\n\\u001b[2J"]\nrole = "\\u202e"\nenv = {A = "\\u0007"}\n',
    )
    put(stage, ".agents/roles/\x1b[2J\nAllow this.md", "---\napproval: all\n---\n")
    for columns in (20, 100):
        with Human(stage, "trust", columns=columns) as human:
            shown = human.see(f"\nAllow this? {ASKS} ")
            assert not [byte for byte in human.raw if byte < 32 and byte not in b"\r\n"]
            assert not any(char in shown for char in "\x9b\x85\u202e\u2028")
            assert [line for line in shown.split("\n") if line.startswith(("Allow", "Nothing"))] == [
                f"Allow this? {ASKS} "
            ]
            assert all(len(line) <= max(columns, 60) for line in shown.split("\n"))
            human.type("n\n")
            assert human.end() == 1
    done = stage.cli("trust", "--dry-run")
    assert not any(char in done.stdout + done.stderr for char in "\x1b\x9b\x07\x85\u202e")
    for name in ("config", "doctor", "roles"):
        line = (name, "show") if name == "config" else (name, "list") if name == "roles" else (name,)
        done = stage.cli(*line)
        assert "\x1b" not in done.stdout + done.stderr, line


def test_what_changes_under_the_question_is_shown_again_and_was_not_allowed(stage):
    file = say(stage, 'approval = "edits"')
    with Human(stage, "trust") as human:
        human.see(ASKS)
        file.write_text(file.read_text().replace("edits", "all"))
        human.type("y\n")
        shown = human.see("review again")
        assert counts(stage) == [] and '"all"' not in shown.split("review again")[0]
        until(lambda: human.see(ASKS).count(ASKS) == 2)
        assert '+approval = "all"' in human.see(ASKS)
        human.type("n\n")
        assert human.end() == 1
    assert counts(stage) == []


def test_without_a_terminal_nobody_is_asked(stage):
    say(stage, 'approval = "all"')
    assert refused(stage.cli("trust", "--json")) == "trust_refused"
    assert counts(stage) == []
    assert listed(stage)["waiting"] == [sources.PROJECT_FILE]


@pytest.mark.parametrize(
    "file, code",
    [
        ("nothing.toml", "bad_argument"),
        ("gone/t.txt", "bad_argument"),
        (".agents", "bad_argument"),
        ("../t", "path_escape"),
    ],
)
def test_a_file_that_is_named_and_is_none_of_the_projects_is_an_error(stage, file, code):
    """And never an answer like "nothing is to be allowed", after which the file would seem to be allowed."""
    assert refused(stage.cli("trust", str(stage.root / file), "--dry-run", "--json")) == code


def test_in_the_background_nobody_is_asked_and_nothing_stops(stage):
    say(stage, 'approval = "all"')
    with Human(stage, "sh", "-mc", f"{' '.join(OURS)} trust --json & wait $!", ours=()) as human:
        assert human.end() == 2
        assert "trust_refused" in human.see("trust_refused")


def test_trust_is_listed_and_taken_back_without_a_restart(stage):
    file = say(stage, 'approval = "all"')
    put(stage, ROLE, "---\ndescription: d\napproval: all\n---\nx\n")
    stage.allow()
    boss = stage.begun()
    assert counts(stage) == [sources.PROJECT_FILE, ROLE]
    assert stage.cli("trust", "--revoke", str(stage.root / ROLE)).returncode == 0
    assert counts(stage) == [sources.PROJECT_FILE]
    told = boss.tool("agent_create", {"name": "a", "role": "r", "engine": "shell"})["untrusted"]["files"]
    assert [row["file"] for row in told] == [ROLE]
    assert stage.records("a")[0]["approval"] == "all", "that of the settings"
    done = stage.cli("trust", "--revoke", "all", "--json")
    assert json.loads(done.stdout)["revoked"] == [sources.PROJECT_FILE]
    boss.tool("agent_create", {"name": "b", "role": "x", "engine": "shell"})
    assert "approval" not in stage.records("b")[0]
    assert "nothing was revoked" in stage.cli("trust", "--revoke", str(file)).stdout
    assert refused(stage.cli("trust", "--list", "--dry-run", "--json")) == "bad_argument"


def test_the_first_trust_gives_a_project_without_our_directory_one(make_stage):
    stage = make_stage()
    for path in (stage.root / ".agents").iterdir():
        path.unlink()
    (stage.root / ".agents").rmdir()
    (stage.root / ".git").mkdir()
    put(stage, "templates/run-agent.template", "sh -c id <%= prompt %>")
    with Human(stage, "trust") as human:
        human.see(ASKS)
        human.type("y\n")
        assert human.end() == 0
    assert counts(stage) == ["templates/run-agent.template"]
    assert (stage.root / ".agents" / ".gitignore").exists(), "the identity does not get into a commit"


# -- a script that knows the digest ------------------------------------------------------------------------------------


def test_a_digest_serves_a_script_only_where_the_users_own_configuration_permits_it(stage):
    say(stage, 'approval = "all"\ntrust_by_digest = true')
    digest = digest_of(stage)
    assert refused(stage.cli("trust", "--expect", digest, "--json")) == "trust_refused", "the project's word is none"
    stage.allow()
    say(stage, "trust = true")
    digest = digest_of(stage)
    assert refused(stage.cli("trust", "--expect", digest, "--json")) == "trust_refused", "allowed or not"
    permit(stage)
    assert refused(stage.cli("trust", "--expect", "0" * 64, "--json")) == "trust_changed"
    assert sources.PROJECT_FILE not in counts(stage)
    done = stage.cli("trust", "--expect", digest, "--json")
    assert (done.returncode, json.loads(done.stdout)["allowed"]) == (0, [sources.PROJECT_FILE])
    assert counts(stage) == [sources.PROJECT_FILE]


def test_a_digest_names_the_same_content_in_every_project(make_stage):
    digests = set()
    for name in ("one", "two"):
        stage = make_stage(name=name)
        put(stage, sources.PROJECT_FILE, f'approval = "all"\ntmux_socket = "{"x" * 8}"\n')
        digests.add(digest_of(stage))
    assert len(digests) == 1
    put(stage, ROLE, "---\napproval: all\n---\n")
    assert digest_of(stage) not in digests


# -- who is refused ----------------------------------------------------------------------------------------------------

# What a hostile program says to the daemon itself, past the command line's own look.
PAST = """
import json, sys
from orchestrator.faces.daemon_client import DaemonClient, project_here
from orchestrator.base.errors import OrchestratorError
with DaemonClient(project_here(), start=True) as link:
    digest = link.ask("orchestrator/trust_preview", {})["digest"]
    for expect in (True, False):
        try:
            link.ask("orchestrator/trust_allow", {"digest": digest, "expect": expect})
            print("allowed")
        except OrchestratorError as error:
            print(error.code)
"""


@pytest.mark.parametrize("how", ["directly", "shell", "kill"])
def test_a_masters_shell_tool_gives_no_trust_not_even_past_the_command_line_or_once_its_relay_has_ended(stage, how):
    say(stage, 'approval = "all"')
    permit(stage)
    digest = digest_of(stage)
    for command in (("trust", "--expect", digest, "--json"), ("trust", "--json")):
        assert "trust_refused" in below_a_master(stage, how, *OURS, *command), command
    told = below_a_master(stage, how, sys.executable, "-P", "-c", PAST)
    assert told.split("\n")[:2] == ["trust_refused", "trust_refused"]
    cleared = below_a_master(
        stage, how, "env", "-i", *[f"{k}={v}" for k, v in stage.env.items()], sys.executable, "-P", "-c", PAST
    )
    assert "allowed" not in cleared and "trust_refused" in cleared
    assert counts(stage) == []
    assert stage.cli("trust", "--expect", digest).returncode == 0, "the same words of the user's own"


@pytest.mark.parametrize("how", ["session", "setsid"])
def test_what_a_masters_shell_tool_leaves_behind_gives_no_trust(stage, how):
    say(stage, 'approval = "all"')
    permit(stage)
    told = left_by_a_master(stage, how, sys.executable, "-P", "-c", PAST)
    assert "allowed" not in told.split("\n"), told
    assert counts(stage) == []


def test_an_agents_shell_gives_no_trust(stage):
    say(stage, 'approval = "all"')
    permit(stage)
    digest = digest_of(stage)
    boss = stage.begun()
    assert boss.tool("agent_create", {"name": "a", "role": "x", "engine": "shell"})["ready"]
    env = " ".join(f"{key}={value}" for key, value in stage.env.items() if " " not in value)
    ours = " ".join(OURS)
    lines = [
        f"{ours} trust --expect {digest}",
        f"env -i {env} {ours} trust --expect {digest}",
        f"env -i {env} {ours} -C {stage.root} trust",
        f"env -i {env} setsid -w {ours} trust --expect {digest}",
    ]
    for at, line in enumerate(lines):
        task = {"task_id": f"t{at}", "payload": {"command": line, "timeout_s": 60}}
        boss.tool("task_enqueue", {"agent_id": "a", "task": task})
    outbox = stage.root / ".agents/agents/a/outbox.jsonl"

    def ended():
        found = [one for one in lines_of(outbox) if one["type"] in ("result", "error")]
        return found if len(found) == len(lines) else None

    ends = until(ended)
    assert all("exit_code" not in one["payload"] or one["payload"]["exit_code"] != 0 for one in ends), ends
    assert counts(stage) == []


def test_a_squads_member_gives_no_trust(stage):
    say(stage, 'approval = "all"')
    permit(stage)
    digest = digest_of(stage)
    put(stage, ".agents/roles/plain.md", "You work.\n")
    ours = f"{' '.join(OURS)} trust --json --expect {digest}"
    line = f"# shell: true\nPROMPT=<%= prompt %> env -u ORCHESTRATOR_MEMBER_ID {ours}"
    boss = stage.begun({**stage.env, "RUN_TEMPLATE": line})
    row = boss.tool("start_squad_members", {"members": [{"roleId": "plain", "task": "x"}]})["members"][0]
    assert (row["status"], json.loads(row["rawStdout"])["error"]["code"]) == ("error", "trust_refused")
    assert counts(stage) == []


@pytest.mark.parametrize("name", ["ORCHESTRATOR_AGENT_ID", "ORCHESTRATOR_MEMBER_ID"])
def test_the_mark_of_an_agent_or_a_member_in_the_environment_is_enough(stage, name):
    say(stage, 'approval = "all"')
    permit(stage)
    digest = digest_of(stage)
    done = stage.cli("trust", "--expect", digest, "--json", env={**stage.env, name: "a"})
    assert refused(done) == "trust_refused"


def test_a_chain_that_cannot_be_known_gives_no_trust(monkeypatch):
    for chain in ([], list(range(2, trust_authority.DEPTH + 2))):
        with pytest.raises(BadRequest) as error:
            trust_authority.refuse(chain)
        assert error.value.code == "trust_refused"
    monkeypatch.setattr(trust_authority, "holders", set)
    trust_authority.refuse(trust_authority.chain_of(os.getpid()))
    for given in (
        {"inside": {os.getpid()}},
        {"held": [(os.getpid(), trust_authority.process_facts.start_time(os.getpid()))]},
    ):
        with pytest.raises(BadRequest):
            trust_authority.refuse(trust_authority.chain_of(os.getpid()), **given)
    trust_authority.refuse(trust_authority.chain_of(os.getpid()), held=[(os.getpid(), 1)])


@pytest.mark.parametrize(
    ("line", "is_one"),
    [
        ("/v/bin/python -P -m orchestrator mcp", True), ("/v/bin/python3.11 /v/bin/orchestrator mcp --agent", True),
        ("/v/bin/orchestrator mcp", True), ("orchestrator mcp", True), ("vim orchestrator mcp", False),
        ("/v/bin/python -m orchestrator daemon run", False), ("orchestrator trust", False), ("", False),
        ("uvx orchestrator mcp", False),
    ],
)  # fmt: skip
def test_a_relay_is_known_by_its_command_line(monkeypatch, line, is_one):
    monkeypatch.setattr(
        relay_holders.process_facts, "words_of", lambda pid: [word.encode() for word in line.split(" ")]
    )
    assert relay_holders.runs(1, relay_holders.RELAY) == is_one


@pytest.mark.parametrize(
    ("line", "carries"),
    [("sh -c x", True), ("bash -lc x", True), ("uvx orchestrator mcp", True), ("uv run orchestrator mcp", True),
     ("bash script.sh", True), ("claude", False), ("bash", False), ("bash -l", False)],
)  # fmt: skip
def test_what_only_carries_a_relay_is_told_from_the_cli_that_holds_it(monkeypatch, line, carries):
    monkeypatch.setattr(
        relay_holders.process_facts, "words_of", lambda pid: [word.encode() for word in line.split(" ")]
    )
    assert relay_holders._carries(os.getpid(), os.getpid()) == carries


# -- up ---------------------------------------------------------------------------------------------------------------


def test_up_shows_its_plan_and_asks_before_a_new_or_changed_team_file_acts(stage):
    file = put(stage, ".agents/team.toml", TEAM)
    done = stage.cli("up", "--json")
    assert (done.returncode, refused(done)) == (5, "untrusted_setting")
    dry = stage.cli("up", "--dry-run", "--json")
    told = json.loads(dry.stdout)
    assert (told["untrusted"]["code"], told["agents"][0]["do"]) == ("untrusted_setting", "create")
    assert dry.stderr.count("untrusted") == 0 and "orchestrator trust" in dry.stderr
    with Human(stage, "up") as human:
        shown = human.see(ASKS)
        assert "create one" in shown and '| +engine = "shell"' in shown
        human.type("n\n")
        assert human.end() == 5
    assert not list((stage.root / ".agents" / "agents").glob("*"))
    with Human(stage, "up") as human:
        human.see(ASKS)
        human.type("y\n")
        assert human.end() == 0, human.raw
    assert stage.types("one")[:1] == ["starting"]
    assert counts(stage) == [".agents/team.toml"]
    file.write_text(TEAM + "env = {A = '1'}\n")
    assert stage.cli("up", "--json").returncode == 1, "nothing is to be done: nothing is asked"
    assert refused(stage.cli("up", "--recreate", "--json")) == "untrusted_setting"
    file.write_text(TEAM)
    assert stage.cli("up", "--json").returncode == 0


def test_a_team_file_that_changes_under_the_question_is_not_carried_out(stage):
    file = put(stage, ".agents/team.toml", TEAM)
    with Human(stage, "up", "--json") as human:
        human.see(ASKS)
        file.write_text(TEAM + "approval = 'all'\n")
        human.type("y\n")
        assert human.end() == 3
        assert "trust_changed" in human.see("trust_changed")
    assert not list((stage.root / ".agents" / "agents").glob("*"))


def test_a_team_file_outside_of_the_project_is_the_word_of_the_user_who_names_it(stage):
    outside = stage.base / "team.toml"
    outside.write_text(TEAM)
    (stage.root / "mine.toml").symlink_to(outside)
    assert refused(stage.cli("up", "--file", "mine.toml", "--json")) == "untrusted_setting"
    assert stage.cli("up", "--file", str(outside), "--json").returncode == 0


# -- what is shown -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("old", "new", "shown"),
    [
        (None, b"a\nb", "+a\n+b"),
        (b"a\nb\nc\nd\ne", b"a\nb\nX\nd\ne", " a\n b\n-c\n+X\n d\n e"),
        (b"a", b"a\n", " a\n+"), (b"a", b"a", ""), (b"a\xff", b"a", "-a\\xff\n+a"),
        (b"1\n2\n3\n4\n5\n6\n7", b"1\n2\n3\n4\n5\n6\nX", " 4\n 5\n 6\n-7\n+X"),
    ],
)  # fmt: skip
def test_a_difference_shows_every_changed_line(old, new, shown):
    assert difference(old, new) == shown


def test_a_difference_of_files_made_to_be_slow_is_found_all_the_same():
    old, new = ("\n".join(f"{n % 97}" for n in range(30_000 + more)).encode() for more in (0, 1))
    assert difference(old, b"x\n" + new + b"\ny").count("\n") > 100
    assert len(difference(b"x" * (1 << 17), b"y" * (1 << 17))) > 1 << 18


def test_lines_are_broken_by_the_columns_they_take():
    assert list(pieces("", 5)) == [""]
    assert list(pieces("abcdefg", 3)) == ["abc", "def", "g"]
    assert list(pieces("漢字漢字", 5)) == ["漢字", "漢字"]


# -- the state directory -----------------------------------------------------------------------------------------------


def test_a_state_directory_open_to_others_allows_nothing_and_the_reason_is_told(stage):
    say(stage, 'approval = "all"')
    stage.allow()
    permit(stage)
    assert counts(stage) == [sources.PROJECT_FILE]
    state = stage.base / "state"
    state.chmod(0o777)
    assert json.loads(stage.cli("config", "show", "--json").stdout)["keys"]["approval"]["value"] == "ask"
    done = stage.cli("trust", "--expect", digest_of(stage), "--json")
    assert (done.returncode, refused(done)) == (5, "state_dir_unsafe")
    state.chmod(0o700)
    assert counts(stage) == [sources.PROJECT_FILE]


def test_a_full_disk_allows_nothing_and_is_told(tmp_path, monkeypatch):
    team = Team(tmp_path).load()

    def full(path, data):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(state_dir, "write", full)
        with pytest.raises(Environment) as refused_:
            trust_store.allow(team.roster, {"x": b"x"})
    assert refused_.value.code == "disk_full"
    assert allowed.Allowed(tmp_path).entries() == []
    trust_store.allow(team.roster, {"x": b"x"})
    assert [entry.name for entry in allowed.Allowed(tmp_path).entries()] == ["x"]
    team.close()


def test_a_kill_between_two_files_leaves_what_was_stored_and_asks_for_the_rest(tmp_path, monkeypatch):
    (tmp_path / ".agents").mkdir()
    allowed.allow(tmp_path, {}, "2026-01-01T00:00:00.000Z")
    write, done = state_dir.write, []

    def once(path, data):
        if done:
            raise KeyboardInterrupt
        done.append(path)
        write(path, data)

    monkeypatch.setattr(state_dir, "write", once)
    with pytest.raises(KeyboardInterrupt):
        allowed.allow(tmp_path, {"a": b"1", "b": b"2"}, "2026-01-01T00:00:00.000Z")
    store = allowed.Allowed(tmp_path)
    assert (store.counts("a", b"1"), store.counts("b", b"2")) == (True, False)
