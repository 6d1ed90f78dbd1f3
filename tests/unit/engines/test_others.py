"""The row of Cursor's agent CLI: its headless run, from the flags it publishes."""

from orchestrator.engines.definition import HeadlessRun
from orchestrator.engines.others import CURSOR


def once(**wishes):
    return CURSOR.headless.run(HeadlessRun("words", "/home/ada/p", **wishes)).argv


def test_a_headless_run_prints_text_and_goes_on_with_a_chat_made_beforehand():
    start = ("cursor-agent", "--print", "--output-format", "text")
    assert once() == once(session="7d0f9ed5-6d5c-4c1e-9d6b-3f2f8f9b5a10") == (*start, "--", "words")
    assert once(chat="chat-1") == (*start, "--resume", "chat-1", "--", "words")
    assert CURSOR.headless.create == ("cursor-agent", "create-chat")


def test_its_members_run_one_after_the_other_and_approve_what_was_approved():
    assert CURSOR.headless.sequential
    assert {"--force", "--approve-mcps"} <= set(once(approval="all"))
    assert "--trust" in once(trust=True)
