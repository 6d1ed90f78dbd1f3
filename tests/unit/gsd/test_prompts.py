"""A spawn prompt that a client asks for as a template is one: its marks stand in it, and nothing else that it would act on."""

import re

import pytest

from orchestrator.gsd import spawn_prompts
from orchestrator.gsd.spawn_prompts import as_template

PLACES = {"phase": "$1", "phase_goal": "$2", "plan": "$3"}
# As opencode 1.18.33 has them.
RUNS = re.compile(r"!`([^`]+)`")
FILLS = re.compile(r"\$(\d+)")
ATTACHES = re.compile(r"(?<![\w`])@(\.?[^\s`,.]*(?:\.[^\s`,.]+)*)")
TAIL = as_template("", PLACES)


@pytest.fixture
def anyio_backend():
    return "asyncio"


class Asked:
    def __init__(self):
        self.questions = []

    async def ask(self, question, arguments, session):
        self.questions.append((question, arguments, session))
        return {"text": "Pay $1 to @boss.\n"}


async def text_of(asked, **arguments):
    found = await spawn_prompts.SpawnPrompts(asked).get("spawn_planner", arguments, None)
    return found.messages[0].content.text


@pytest.mark.anyio
async def test_marks_are_no_arguments_and_stand_in_the_text_for_the_client_to_fill():
    asked = Asked()
    text = await text_of(asked, **PLACES)
    assert asked.questions == [("prompt", {"who": "planner"}, None)]
    assert text.startswith("Pay ${1} to @ boss.\n\n## ")
    assert FILLS.findall(text) == ["1", "2", "3"]
    assert "- phase: $1\n- phase_goal: $2\n- plan: $3\n" in text


@pytest.mark.anyio
async def test_what_is_given_is_asked_and_the_text_left_as_it_is():
    asked = Asked()
    assert await text_of(asked, phase="2", phase_goal="Pay $1") == "Pay $1 to @boss.\n"
    assert asked.questions == [("prompt", {"who": "planner", "phase": "2", "phase_goal": "Pay $1"}, None)]
    mixed = await text_of(asked, phase="2", plan="$1")
    assert asked.questions[-1][1] == {"who": "planner", "phase": "2"}
    assert "- plan: $1\n" in mixed and "- phase:" not in mixed


@pytest.mark.parametrize(
    "words",
    ["!`touch x`", "!!`touch x`", "!$9`touch x`", "!$ARGUMENTS`touch x`", "$10 and $1$2", "${1} $$1", "$ARGUMENTSX",
     "@~/.ssh/id_rsa", "(@../x)", "@@/etc/passwd", '"@/lib/db"', "@.env", "@app.route", "!@`touch x`", "@!`touch x`"],
)  # fmt: skip
def test_nothing_of_a_projects_words_is_run_filled_or_attached(words):
    made = as_template(words, PLACES)
    own = made.removesuffix(TAIL)
    assert own != made, "the tail is the same whatever stands before it"
    filled = FILLS.sub("", own).replace("$ARGUMENTS", "")
    assert filled == own
    assert RUNS.findall(made) == []
    assert [name for name in ATTACHES.findall(made) if name] == []


def test_words_that_mean_nothing_to_such_a_client_stay():
    plain = "a@b.org, `@x`, $x, $ 1, ${HOME}, ! `x`, #!/bin/sh, a != b, $ARGUMENT"
    assert as_template(plain, PLACES) == plain + TAIL
