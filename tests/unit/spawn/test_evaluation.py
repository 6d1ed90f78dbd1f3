"""Judging answers: the gate of a cascade, the evaluator's word, the dissent."""

import pytest

from orchestrator.spawn import evaluation

PASSED = evaluation.GateVerdict(passed=True, reasons=("all rules hold",))
GOOD = "It is so because of that. " * 25
TASK = "Explain why it is so, in all detail that one may want to know. " * 3


def test_a_long_answer_that_ended_by_itself_passes():
    assert evaluation.gate(TASK, GOOD, "stop", "") == PASSED


@pytest.mark.parametrize(
    ("task", "text", "finish", "form", "word"),
    [
        (TASK, " \n", "stop", "", "empty"),
        (TASK, GOOD, "length", "", "length"),
        (TASK, GOOD, "", "", "no reason"),
        (TASK, "too short", "stop", "", "fewer than 500"),
        ("What is 2 + 2?", "It is 4.", "stop", "", "fewer than 70"),
        (TASK, "I'm sorry, but I can't help with that. " + GOOD, "stop", "", "refuses"),
        (TASK, "I cannot provide such an explanation. " + GOOD, "stop", "", "refuses"),
        (TASK, "I\u2019m unable to assist. " + GOOD, "stop", "", "refuses"),
        (TASK, GOOD + "As an AI language model I hold no opinion.", "stop", "", "refuses"),
        (
            TASK + "Sections: Summary, Risks and Next steps",
            f"# Summary\n{GOOD}\n**Risks**\nx",
            "stop",
            "",
            "'Next steps'",
        ),
        (TASK, GOOD, "stop", "## Summary\ntext\n## Risks", "'Summary'"),
    ],
)
def test_an_answer_that_will_not_do_is_told_why(task, text, finish, form, word):
    verdict = evaluation.gate(task, text, finish, form)
    assert not verdict.passed
    assert any(word in reason for reason in verdict.reasons), verdict


@pytest.mark.parametrize(
    ("task", "text", "form"),
    [
        ("What is 2 + 2?", "It is 4, as anybody can count on the fingers of one hand: two and two.", ""),
        ("Write as an AI. " + TASK, "As an AI I know. " + GOOD, ""),
        (TASK, GOOD + "One cannot write to a closed file. I cannot stress this enough.", ""),
        (TASK + "sections: Summary, Risks", f"## 1. Summary\n{GOOD}\n**Risks:** none", ""),
        (TASK, f"Summary: {GOOD}\n- Risks\n", "sections: summary and risks"),
    ],
)
def test_an_answer_that_will_do_passes(task, text, form):
    assert evaluation.gate(task, text, "stop", form) == PASSED


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("PASS\nGood.", True),
        ("\n**FAIL**: it is wrong", False),
        ("Verdict: pass", True),
        ("PASS or FAIL?", None),
        ("It is good.\nPASS", None),
        ("", None),
        ("surpassed", None),
    ],
)
def test_the_evaluators_word_is_read_from_its_first_line(text, word):
    assert evaluation.evaluator_verdict(text) is word


def test_where_answers_disagree_is_read_from_the_last_section():
    text = "# Dissent\nold\n# Answer\nA\n## Dissent\na says 1\n### more\nb says 2\n## Sources\nx"
    assert evaluation.dissent(text) == (text, "a says 1\n### more\nb says 2")
    assert evaluation.dissent("A\n\n**Dissent:** b says no") == ("A\n\n**Dissent:** b says no", "b says no")


@pytest.mark.parametrize("none", ["None", "none.", "**None**", "No disagreements.", "", "---"])
def test_no_dissent_is_an_empty_text(none):
    text = f"A\n\n## Dissent\n\n{none}\n"
    assert evaluation.dissent(text) == (text, "")


def test_a_missing_section_is_told_where_there_were_answers_to_disagree():
    text, said = evaluation.dissent("A\n```\n## Dissent\nx\n```\n", 2)
    assert text.endswith("## Dissent\n\nThe model that merged the answers did not say where they disagree.\n")
    assert said == ""
    assert evaluation.dissent("A", 1) == ("A", "")
