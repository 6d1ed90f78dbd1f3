"""How a squad looks to its caller, row by row."""

from datetime import UTC, datetime

import pytest

from orchestrator.core.file_models import MemberFile, SquadFile
from orchestrator.squad import results

AT = "2026-01-01T00:00:00.000Z"
NOW = datetime(2026, 1, 1, 0, 1, 1, tzinfo=UTC)


def squad(*members, stateful=False):
    rows = [
        MemberFile(**{"member_id": f"s-m{at}", "role_id": "coder", "cwd": None, "chat_id": None, **one})
        for at, one in enumerate(members)
    ]
    return SquadFile(v=1, squad_id="s", req="r", created_at=AT, stateful=stateful, members=rows)


@pytest.fixture
def shown(tmp_path):
    def made(*members, outputs=("out\n", "err\n"), stateful=False):
        for at in range(len(members)):
            (tmp_path / f"m{at}").mkdir(exist_ok=True)
            for name, text in zip(("stdout", "stderr"), outputs, strict=True):
                (tmp_path / f"m{at}" / name).write_text(text)
        return results.shown(squad(*members, stateful=stateful), tmp_path, 1024, NOW)

    return made


def test_a_member_that_completed_has_the_contracts_keys_and_no_other(shown):
    answer = shown({"state": "completed", "exit_code": 0})
    assert answer == {
        "squadId": "s",
        "members": [
            {"memberId": "s-m0", "roleId": "coder", "status": "completed", "rawStdout": "out\n", "rawStderr": "err\n"}
        ],
    }


def test_a_chats_id_is_there_in_stateful_mode_also_when_it_is_empty(shown):
    first, second = shown({"state": "completed", "chat_id": "c"}, {"state": "error"}, stateful=True)["members"]
    assert list(first) == ["memberId", "roleId", "chatId", "status", "rawStdout", "rawStderr"]
    assert (first["chatId"], second["chatId"]) == ("c", "")


def test_why_a_member_failed_stands_behind_its_stderr(shown):
    row = shown({"state": "error", "reason": "canceled", "signal": "SIGTERM"})["members"][0]
    assert row["rawStderr"] == "err\ncanceled"
    assert (row["reason"], row["signal"]) == ("canceled", "SIGTERM")
    assert "exitCode" not in row
    assert shown({"state": "error", "reason": "why"}, outputs=("", ""))["members"][0]["rawStderr"] == "why"
    row = shown({"state": "error", "exit_code": 3})["members"][0]
    assert (row["rawStderr"], row["exitCode"]) == ("err\n", 3)
    assert "reason" not in row


def test_a_member_whose_time_was_over_keeps_its_outputs_as_they_are(shown):
    row = shown({"state": "timeout", "reason": "it had 2 s", "signal": "SIGKILL"})["members"][0]
    assert (row["rawStdout"], row["rawStderr"], row["reason"]) == ("out\n", "err\n", "it had 2 s")


def test_what_runs_shows_no_output_yet_and_how_to_wait_on(shown):
    answer = shown({"state": "running", "started_at": AT}, {"state": "planned"}, {"state": "completed"})
    running, planned, done = answer["members"]
    assert (running["status"], running["rawStdout"], running["rawStderr"]) == ("running", "", "")
    assert running["reason"] == "for 61 s, 8 bytes of output so far"
    assert (planned["status"], planned["reason"]) == ("running", "waits for its turn")
    assert done["rawStdout"] == "out\n"
    assert answer["note"].startswith('2 of 3 members still run; to wait, call start_squad_members({"squadId": "s"')


def test_a_long_output_names_its_file(shown, tmp_path):
    row = shown({"state": "completed"}, outputs=("x" * 2000, "e"))["members"][0]
    assert row["rawStdoutFile"] == str(tmp_path / "m0" / "stdout")
    assert "rawStderrFile" not in row
    assert len(row["rawStdout"]) < 1024 + 200


def test_a_chat_that_could_not_be_made_shows_what_its_command_wrote(shown, tmp_path):
    (tmp_path / "m0").mkdir()
    (tmp_path / "m0" / "create.stderr").write_text("no login")
    row = shown({"state": "error", "step": "create", "exit_code": 3})["members"][0]
    assert (row["rawStdout"], row["rawStderr"]) == ("", "no login")


def test_progress_names_who_works():
    file = squad({"state": "running"}, {"state": "timeout"}, {"state": "planned"})
    assert results.progress(file) == "1 of 3 members have ended; running: coder"
    assert results.progress(squad({"state": "error"})) == "1 of 1 members have ended"


@pytest.mark.parametrize(("members", "answered"), [(1, 65_536), (8, 65_536), (16, 32_768), (64, 8192)])
def test_many_members_share_what_one_answer_can_hold(members, answered):
    assert results.share(65_536, members) == answered
    assert results.share(1024, members) == 1024


def test_people_see_a_squad_as_one_row_with_what_has_ended():
    file = squad({"state": "completed"}, {"state": "timeout"}, {"state": "running"}, {"state": "planned"})
    row = results.people_row(file)
    assert (row["kind"], row["id"], row["title"], row["status"]) == ("squad", "s", "coder", "running")
    assert (row["done"], row["failed"], row["total"]) == (1, 1, 4)
    assert results.people_row(file.model_copy(update={"ended_at": AT, "canceled": True}))["status"] == "canceled"
