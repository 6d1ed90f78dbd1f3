"""The pages that the snapshot alone fills: team, inbox, runs; and the line about the team on every page. Pure.

Values, order and words are those of the snapshot and of `status`. Times are left to the page, which counts on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from orchestrator.base.errors import OrchestratorError
from orchestrator.core.attention import needs_human
from orchestrator.core.inbox_items import is_instant
from orchestrator.faces.row_words import (
    cost_text,
    diff_text,
    outcome_texts,
    run_state,
    since_of,
    state_of,
    totals_parts,
)
from orchestrator.faces.shell_hints import in_the_shell
from orchestrator.faces.status_lines import reason_text, task_text
from orchestrator.faces.web.html_elements import NOTHING, Markup, element, joined, name_of, path_to, preformatted
from orchestrator.faces.web.page_content import PageContent
from orchestrator.team.roster.agent_names import shown_names

DECISIONS = {
    "approve": "Approve",
    "always": "Always allow exactly this",
    "deny": "Deny",
    "answer": "Answer",
    "release": "Ask in its pane",
    "dismiss": "Dismiss",
}


def page(frame: Markup, snapshot: dict[str, Any], **slots: Mapping[str, Markup]) -> PageContent:
    """A page with these slots, and with the line about the team that every page has."""
    return PageContent(frame, {**slots, "summary": {"summary": summary(snapshot)}, "news": {"news": news(snapshot)}})


def slot(tag: str, name: str, **attributes: Any) -> Markup:
    """An empty element into which the parts of a slot go."""
    return element(tag, data_slot=name, **attributes)


# -- every page -----------------------------------------------------------------------------------------------------


def summary(snapshot: dict[str, Any]) -> Markup:
    """The team in one line: ``shop · 12 agents · 2 need you · 7 busy · 3 idle · 41 ✓ 3 ✕ · $1.84``."""
    need, title = snapshot["totals"]["need_you"], str(snapshot["title"])
    off = element("strong", "no daemon answers: this is what the files say", class_="off")
    words = [
        element("strong", name_of(title)),
        *(
            element("strong", part, class_="needs") if part.endswith(" you") else part
            for part in totals_parts(snapshot)
        ),
        *(() if snapshot["live"] else (off,)),
    ]
    pieces = [element("span", piece) for piece in words]
    return element(
        "p", *pieces, class_="summary", data_key="summary", data_title=f"({need}) {title}" if need else title
    )


def news(snapshot: dict[str, Any]) -> Markup:
    """What a screen reader says when it changes."""
    holding = [item for item in snapshot["inbox"] if item["holds"]]
    text = f"{counted(len(holding), 'item')} in the inbox held up" if holding else "nobody needs you"
    return element("span", text, data_key="news", data_waiting=len(snapshot["inbox"]))


def failure_page(snapshot: dict[str, Any], error: OrchestratorError) -> PageContent:
    """A page that could not be made, and why."""
    return page(element("section", element("p", error.message, role="alert"), next_step(error)), snapshot)


def next_step(error: OrchestratorError) -> Markup | None:
    """The error's next step for a person; None if it has none."""
    step = in_the_shell(error.next_step, error.code)
    return element("p", step) if step else None


WAITING = PageContent(element("section", element("p", "Waiting for the first look at the team …")), {})


# -- the team -------------------------------------------------------------------------------------------------------

_COLUMNS = {
    "state": "State", "agent": "Agent", "task": "Task", "for": "For", "queue": "Queue", "done": "✓/✕",
    "changes": "Diff", "cost": "Cost",
}  # fmt: skip


def team_page(snapshot: dict[str, Any]) -> PageContent:
    """Every agent on one row, who needs a human first; below them spawn runs and squads."""
    heads = [element("th", title, scope="col", role="columnheader", class_=name) for name, title in _COLUMNS.items()]
    table = element(
        "table",
        element("caption", "Agents, those that need you first", class_="unseen"),
        element("thead", element("tr", *heads, role="row"), role="rowgroup"),
        slot("tbody", "agents", role="rowgroup"),
        class_="team",
        role="table",
    )
    frame = element("section", element("h1", "Team"), table, slot("div", "empty"), slot("div", "runs"))
    names = shown_names(snapshot["agents"])
    rows = {str(row["agent_id"]): team_row(row, names[row["agent_id"]]) for row in snapshot["agents"]}
    empty = {} if rows else {"empty": element("p", "This project has no agents.", data_key="empty")}
    return page(frame, snapshot, agents=rows, empty=empty, runs=run_parts(snapshot, heading=True))


def team_row(row: dict[str, Any], name: str) -> Markup:
    """One agent; ``name`` is what people call it."""
    agent_id = str(row["agent_id"])
    host = element("span", f" on {row['host']}", class_="host") if row.get("host") else None
    cells = {
        "state": state_sign(row),
        "agent": joined((element("a", name_of(name), href=path_to("agents", agent_id)), host)),
        "task": joined((element("span", name_of(task_text(row)), class_="task-title"), _second_line(row))),
        "for": age(since_of(row)),
        "queue": str(row["queue_depth"] or ""),
        "done": outcome_texts(row.get("finished") or {}),
        "changes": diff_text(row.get("diff")),
        "cost": cost(row.get("usage")),
    }
    shown = [
        element("td", content, class_=name, role="cell", data_label=label)
        for (name, content), label in zip(cells.items(), _COLUMNS.values(), strict=True)
    ]
    return element("tr", *shown, role="row", data_key=agent_id, class_="needs" if needs_human(row) else None)


def _second_line(row: dict[str, Any]) -> Markup | None:
    """What the agent waits for, else why it has its status, else the last line of its screen while it works."""
    waits, reason = row.get("waits_for"), reason_text(row)
    if waits:
        return element("span", name_of(waits["text"]), class_="waits")
    if reason:
        return element("span", name_of(reason), class_="reason")
    if row.get("screen_line") and row["status"] == "busy":
        return element("span", name_of(row["screen_line"]), class_="screen-line")
    return None


def state_sign(row: dict[str, Any]) -> Markup:
    """Sign and word of an agent's state, in its colour; the word alone says it all."""
    state = state_of(row)
    sign = element("span", state.sign, aria_hidden="true", class_="sign")
    return element("span", sign, f" {state.word}", class_=f"state {state.color}")


# -- the inbox ------------------------------------------------------------------------------------------------------


def inbox_page(snapshot: dict[str, Any]) -> PageContent:
    """Everything that waits for a human, with the whole text and the answers that work now."""
    frame = element(
        "section",
        element("h1", "Inbox"),
        slot("div", "items", class_="items"),
        slot("div", "empty"),
    )
    items = {str(item["id"]): inbox_item(item) for item in snapshot["inbox"]}
    empty = {} if items else {"empty": element("p", "Nothing waits for you.", data_key="empty")}
    return page(frame, snapshot, items=items, empty=empty)


def inbox_item(item: dict[str, Any]) -> Markup:
    """One item: what is asked, by whom, since when, and its answers."""
    item_id = str(item["id"])
    agent = element("a", name_of(item["name"] or item["agent_id"]), href=path_to("agents", str(item["agent_id"])))
    heading = element("h2", agent, ": ", name_of(item["text"]), id=f"item-{item_id}")
    facts = [
        ("Kind", str(item["kind"])),
        ("Waits", age(item["since"])),
        ("Until", moment(item["until"]) if item.get("until") else None),
        ("Task", name_of(item["task_title"]) if item.get("task_title") else None),
        ("Tool", name_of(item["tool"]) if item.get("tool") else None),
        ("Directory", name_of(item["cwd"]) if item.get("cwd") else None),
    ]
    asked = preformatted(str(item["asked"]), class_="asked", aria_label="the whole text") if item["asked"] else None
    cut = (
        element("p", "This is not the whole text. Decide in the agent's pane.", class_="off") if item["cut"] else None
    )
    return element(
        "article",
        heading,
        fact_list(facts),
        asked,
        cut,
        question_form(item_id, item["questions"] or ()),
        answer_buttons(item_id, item["answers"]),
        data_key=item_id,
        data_item=item_id,
        aria_labelledby=f"item-{item_id}",
        class_="item holds" if item["holds"] else "item",
    )


def fact_list(facts: Sequence[tuple[str, Markup | str | None]]) -> Markup:
    """Names with values; those without a value are left out."""
    pairs = [element("div", element("dt", name), element("dd", value)) for name, value in facts if value]
    return element("dl", *pairs, class_="facts")


def answer_buttons(item_id: str, answers: Sequence[str]) -> Markup:
    """A button for each decision that works now; the page shows them only if its token allows answers."""
    buttons = [
        element("button", DECISIONS[each], type="button", data_decision=each, aria_describedby=f"item-{item_id}")
        for each in answers
        if each in DECISIONS
    ]
    return element("p", *buttons, class_="answers") if buttons else NOTHING


def question_form(item_id: str, questions: Sequence[dict[str, Any]]) -> Markup:
    """The options of a CLI's questions."""
    return joined(_question(f"{item_id}-{at}", question) for at, question in enumerate(questions))


def _question(name: str, question: dict[str, Any]) -> Markup:
    kind = "checkbox" if question.get("multi") else "radio"
    options = [
        element(
            "label",
            element("input", type=kind, name=name, value=_word_for(str(option["label"]), at)),
            element("span", name_of(option["label"])),
            element("small", name_of(option.get("description") or "")),
        )
        for at, option in enumerate(question.get("options") or (), 1)
    ]
    return element("fieldset", element("legend", name_of(question["question"])), *options, class_="question")


def _word_for(label: str, at: int) -> str:
    """How an answer names an option: by its label, or by its number if the label could not come back as it is."""
    plain = label.isprintable() and label == label.strip() and not set(label) & set(",:")
    return label if plain and label else str(at)


# -- runs -----------------------------------------------------------------------------------------------------------


def run_parts(snapshot: dict[str, Any], *, heading: bool) -> dict[str, Markup]:
    """Spawn runs and squads, one part each."""
    runs = snapshot["runs"]
    parts = {"heading": element("h2", "Spawn runs and squads", data_key="heading")} if heading and runs else {}
    return parts | {str(run["id"]): _run(run) for run in runs}


def _run(run: dict[str, Any]) -> Markup:
    waves = f"{run['wave']} of {run['waves']}" if run.get("waves") else None
    state = run_state(run)
    facts = [
        ("Status", element("span", f"{state.sign} {state.word}", class_=f"state {state.color}")),
        ("For", age(run.get("since"))),
        ("Done", f"{run['done']} of {run['total']}" + (f", {run['failed']} failed" if run.get("failed") else "")),
        ("Wave", waves),
        ("Cost", cost_text(run) if run.get("cost_usd") is not None else None),
    ]
    title = element("h3", f"{run['kind']}: ", name_of(run["title"] or run["id"]))
    marked = "item holds" if run.get("needs_human") else "item"
    return element("article", title, fact_list(facts), data_key=str(run["id"]), class_=marked)


# -- values ---------------------------------------------------------------------------------------------------------


def counted(count: int, noun: str) -> str:
    """A number with its noun: ``1 agent``, ``2 agents``."""
    return f"{count} {noun}{'s' * (count != 1)}"


def cost(usage: Mapping[str, Any] | None) -> Markup | str:
    """What it cost as far as that is known; the tokens, and what is not known, are in its title."""
    if not usage or not cost_text(usage):
        return ""
    tokens = f"{usage['input']:,} tokens in, {usage['cached']:,} cached, {usage['output']:,} out"
    return element("span", cost_text(usage), title="; ".join(filter(None, (tokens, str(usage.get("unknown") or "")))))


def age(at: str | None) -> Markup | str:
    """How long ago that was; the page counts on."""
    return element("time", datetime=at, data_age=True) if at else ""


def moment(at: str | None) -> Markup | str:
    """A time of day, in the visitor's time zone. A CLI's own words ("3pm") are not changed."""
    if not at:
        return ""
    return element("time", at, datetime=at, data_moment=True) if is_instant(at) else name_of(at)
