"""The prompt of a squad member, word for word as the documents have it."""

from orchestrator.squad import member_prompt

FOOTER = (
    "---\n\n# Setup & Reporting Rules\n\n"
    "If you notice any setup or environment problems that prevent you from completing your task,\n"
    "you MUST clearly report them as SETUP / ENVIRONMENT ISSUES.\n\n"
    "Explain what you observed and suggest specific steps for the human to fix.\n"
    "Do not pretend the task succeeded if the environment blocks you."
)


def test_without_a_chat_it_is_role_task_and_footer():
    assert member_prompt.stateless("R\n\nr", "T") == f"# Role\n\nR\n\nr\n\n---\n\n# Task\n\nT\n\n{FOOTER}"


def test_a_new_chat_begins_with_role_initial_task_and_footer():
    assert member_prompt.new_chat("R", "T\n") == f"# Role\n\nR\n\n---\n\n# Initial Task\n\nT\n\n\n{FOOTER}"


def test_a_chat_that_goes_on_gets_task_and_footer():
    assert member_prompt.existing_chat("T") == f"# Task\n\nT\n\n{FOOTER}"
