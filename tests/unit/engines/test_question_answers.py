"""The text of a human, and which options of a model's questions it names."""

import pytest

from orchestrator.base.errors import BadRequest
from orchestrator.engines.question_answers import answers_of, questions_of, shown, text_of


def question(*labels, multi=False, text="Which?"):
    options = [{"label": label, "description": ""} for label in labels]
    return {"question": text, "header": "", "multi": multi, "options": options}


ONE = [question("Red", "Dark blue", "3")]
MANY = [question("Red", "Dark blue", "a, b", multi=True)]


@pytest.mark.parametrize(
    ("text", "chosen"),
    [
        ("Red", "Red"),
        (" dark BLUE \n", "Dark blue"),
        ("2", "Dark blue"),
        ("3", "3"),  # a label goes before a number
        ("4", "4"),
        ("0", "0"),
        ("²", "²"),
        ("Red, 2", "Red, 2"),  # takes one only: these are words of the human's own
        ("none of these:\nuse green", "none of these:\nuse green"),
    ],
)
def test_an_option_is_named_by_label_or_number_and_all_else_is_said_as_it_is(text, chosen):
    assert answers_of(ONE, text) == [[chosen]]


@pytest.mark.parametrize(
    ("text", "chosen"),
    [
        ("2, red", ["Red", "Dark blue"]),
        ("a, b", ["a, b"]),
        ("1,1,", ["Red"]),
        ("Red, green", ["Red, green"]),
        (",", [","]),
    ],
)
def test_several_options_are_named_by_commas(text, chosen):
    assert answers_of(MANY, text) == [chosen]


@pytest.mark.parametrize("text", ["Red\n2", "1: Red\n2: 2", "2. dark blue\n\n1) Red", "2: Dark blue\n1: red"])
def test_several_questions_are_answered_by_a_line_each(text):
    asked = [question("Red", text="a"), question("Light blue", "Dark blue", text="b")]
    assert answers_of(asked, text) == [["Red"], ["Dark blue"]]


@pytest.mark.parametrize("text", ["Red", "Red\nRed\nRed", "1: Red\n1: Red", "1: Red\n3: Red", "", " \n "])
def test_a_question_without_one_answer_is_refused(text):
    with pytest.raises(BadRequest) as error:
        answers_of([question("Red"), question("Red")], text)
    assert error.value.code == "cannot_answer"


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"questions": []},
        {"questions": "Which?"},
        {"questions": [{"header": "x"}]},
        {"questions": [{"question": "Which?", "options": ["A"]}]},
    ],
)
def test_what_is_no_known_question_is_none(given):
    assert questions_of(given) is None


def test_a_question_without_options_takes_any_text():
    assert answers_of(questions_of({"questions": [{"question": "Name?"}]}), "ada") == [["ada"]]


def test_questions_are_read_in_the_words_of_each_cli():
    options = [{"label": "Red", "description": "warm"}, {"label": "3"}]
    claude = {"question": "Which?", "header": "Colour", "multiSelect": True, "options": options}
    opencode = {"question": "Which?", "header": "Colour", "multiple": True, "options": options}
    read = question("Red", "3", multi=True) | {"header": "Colour"}
    read["options"][0]["description"] = "warm"
    assert questions_of({"questions": [claude]}) == questions_of({"questions": [opencode]}) == (read,)
    assert questions_of({"questions": [{"question": "Name?"}]}) == (question(text="Name?"),)


def test_a_human_reads_each_question_with_its_numbered_options():
    first = question("Red", "Blue", multi=True, text="Which?")
    first["options"][1]["description"] = "cold"
    assert text_of([first]) == "Which? (several)\n  1 Red\n  2 Blue: cold"
    assert text_of([first, question(text="Name?")]).split("\n") == [
        "1: Which? (several)", "  1 Red", "  2 Blue: cold", "2: Name?",
    ]  # fmt: skip


def test_hidden_letters_of_a_question_are_shown_everywhere():
    hidden = question("R\u202eed", text="Wh\u202eich?") | {"header": "C\u202eolour"}
    hidden["options"][0]["description"] = "w\u202earm"
    (read,) = shown([hidden])
    assert "\u202e" not in repr(read["question"] + read["header"])
    assert r"\u202e" in read["question"] and r"\u202e" in read["header"]
    assert all(r"\u202e" in text for text in read["options"][0].values())
