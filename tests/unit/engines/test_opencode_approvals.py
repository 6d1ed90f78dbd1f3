"""What opencode asks its user, of the data of our plugin, and the words in which the plugin gets the answer."""

import pytest

from orchestrator.base.errors import BadRequest
from orchestrator.engines.opencode_approvals import request

BASH = {
    "request": "per_1",
    "tool_name": "bash",
    "metadata": {"command": "touch a && echo one"},
    "args": {"command": "touch a && echo one", "description": "Makes a", "workdir": "/srv"},
    "patterns": ["touch a", "echo one"],
    "cwd": "/home/ada/p",
}
QUESTION = {
    "request": "que_1",
    "message": "asks a question: Which?",
    "questions": [
        {"question": "Which?", "header": "H", "custom": False, "options": [{"label": "A", "description": "x"}]},
        {"question": "Why?", "header": "", "multiple": True, "options": [{"label": "B", "description": ""}]},
    ],
}


def asked(event="permission.asked", **data):
    found = request(event, data)
    assert found is not None
    assert found.dialog_meanwhile and found.asked.by == "plugin"
    return found


def test_a_command_is_asked_whole_with_all_its_arguments_and_by_its_own_id():
    found = asked(**BASH)
    assert found.key == "per_1" and found.asked.kind == "permission" and not found.asked.cut
    assert found.asked.text.splitlines() == ["touch a && echo one", "description: Makes a", "workdir: /srv"]
    assert (found.asked.tool, found.asked.cwd) == ("bash", "/home/ada/p")
    assert found.asked.line == "asks to use bash: touch a && echo one"


def test_an_edit_is_its_path_and_its_patch():
    found = asked(
        request="p", tool_name="edit", metadata={"filepath": "/x", "diff": "-a\n+b"}, args={"oldString": "a"}
    )
    assert found.asked.text == "/x\n-a\n+b"
    assert found.asked.tool_input == {"filepath": "/x", "diff": "-a\n+b"}
    assert found.asked.line == "asks to use edit: /x"
    # A patch of several files names them all, so that no rule takes it for a change of one.
    several = {"filepath": "a, b", "diff": "-a", "files": [{"path": "a"}, {"path": "b"}]}
    assert asked(request="p", tool_name="edit", metadata=several).asked.tool_input == several


def test_a_tool_without_metadata_is_its_arguments_or_else_its_patterns():
    found = asked(request="p", tool_name="db_drop", metadata={}, args={"table": "users"}, patterns=["*"])
    assert found.asked.text == "table: users"
    assert asked(request="p", tool_name="x", patterns=["a", "b"]).asked.text == "a, b"


def test_an_approval_is_for_once_and_a_denial_has_a_message_always():
    output = asked(**BASH).output
    assert output("approve", "") == output("always", "") == {"request": "per_1", "reply": "once"}
    assert output("deny", " no ") == {"request": "per_1", "reply": "reject", "message": "no"}
    assert output("deny", " ")["message"]
    assert not output("release", "")["reply"]


def test_what_is_cut_is_known_to_be():
    assert asked(**BASH, cut=True).asked.cut


def test_questions_are_answered_in_order_and_their_own_words_only_where_they_are_taken():
    found = asked("question.asked", **QUESTION)
    assert found.asked.kind == "question" and len(found.asked.questions) == 2
    assert found.output("answer", "A\nbecause") == {"request": "que_1", "answers": [["A"], ["because"]]}
    assert found.output("deny", "") == {"request": "que_1", "reply": "reject"}
    with pytest.raises(BadRequest) as refused:
        found.output("answer", "1: other\n2: B")
    assert refused.value.code == "cannot_answer"


@pytest.mark.parametrize(
    ("event", "data"),
    [
        ("session.idle", {}),
        ("permission.asked", {"tool_name": "bash"}),  # of an older plugin
        ("permission.asked", {"request": 7}),
        ("question.asked", {"request": "q", "questions": "none"}),
        ("question.asked", {"request": "q", "questions": [{"question": 1}]}),
    ],
)
def test_anything_else_asks_nothing(event, data):
    assert request(event, data) is None
