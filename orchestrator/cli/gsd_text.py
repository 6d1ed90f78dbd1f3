"""Format gsd answers for humans: lines that fit 80 columns, with every path whole. Pure.

A path, an id or a name is never broken, so that it can be copied; sentences are, between words.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

WIDTH = 80
Answer = Mapping[str, Any]
Lines = list[str]

_MARKS = {True: "yes", False: "no", None: "not known"}


def answer_lines(question: str, answer: Answer) -> Lines:
    """The lines for the answer to a question (a tool's name)."""
    return [*_FORMATTERS[question](answer), *_unsure(answer)]


def columns(titles: Sequence[str], rows: Sequence[Sequence[object]]) -> Lines:
    """Rows under titles; the last column takes what room it needs, so it may hold what must stay whole."""
    cells = [[str(cell).replace("\n", " ") for cell in row] for row in (titles, *rows)]
    widths = [max(len(row[n]) for row in cells) for n in range(len(titles) - 1)] + [0]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in cells]


def sentence(text: object, indent: str = "", first: str | None = None) -> Lines:
    """A sentence as lines of at most 80 columns, no word broken; ``first`` begins the first one."""
    return textwrap.wrap(
        " ".join(str(text).split()),
        WIDTH,
        initial_indent=indent if first is None else first,
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
    )


# -- code -----------------------------------------------------------------------------------------------------------


def _query(answer: Answer) -> Lines:
    out: Lines = []
    for file in answer.get("files", ()):
        count = file.get("directDependents", file.get("dependents"))
        facts = [str(file.get("type") or ""), "" if count is None else _depend(count)]
        out += [str(file.get("path", file.get("id"))), *sentence(", ".join(filter(None, facts)), "    ")]
        out += sentence(file.get("purpose") or "", "    ")
        if file.get("exports"):
            out += sentence(f"exports {', '.join(map(str, file['exports']))}", "    ")
    return out or ["no file fits"]


def _blast(answer: Answer) -> Lines:
    direct, over = answer.get("directDependents", 0), answer.get("transitiveDependents", 0)
    out = [str(answer.get("file", ""))]
    if answer.get("known") is not False:
        total = _depend(answer.get("totalAffected", 0))
        out += sentence(f"{total}: {direct} directly, {over} over others" if direct or over else total, "  ")
    critical, tests = set(answer.get("criticalFiles", ())), set(answer.get("testFiles", ()))
    rows = []
    for dependent in _details(answer):
        path = dependent.get("path", dependent.get("id"))
        mark = "critical" if path in critical else "test" if path in tests else ""
        rows.append((dependent.get("depth", ""), mark, path))
    if rows:
        out += ["", *columns(("STEPS", "MARK", "FILE"), rows)]
    return [*out, *_advice(answer)]


def _details(answer: Answer) -> Iterable[Answer]:
    """The dependents in detail: in one list, or in one for each way they depend on it."""
    details = answer.get("details") or ()
    if isinstance(details, Mapping):
        return [
            dependent
            for rows in details.values()
            if isinstance(rows, list)
            for dependent in rows
            if isinstance(dependent, Mapping)
        ]
    return [dependent for dependent in details if isinstance(dependent, Mapping)]


def _files(answer: Answer) -> Lines:
    out: Lines = []
    for file in answer.get("relevant_files", ()):
        blast = file.get("blast_radius")
        facts = []
        if isinstance(blast, Mapping):
            total, direct = blast.get("total", 0), blast.get("direct", 0)
            facts.append(_depend(total) + (f", {direct} directly" if total else ""))
        if file.get("exists") is False and not file.get("recommendation"):
            facts.append("it is not there")
        out += [
            str(file.get("path")),
            *sentence("; ".join(facts), "    "),
            *sentence(file.get("purpose") or "", "    "),
        ]
        out += sentence(file.get("recommendation") or "", "    ")
    return [*(out or ["no file fits"]), *_advice(answer, "suggested_approach")]


def _depend(count: object) -> str:
    return "no dependents known" if not count else f"{count} depend{'s' * (count == 1)} on it"


def _patterns(answer: Answer) -> Lines:
    out: Lines = []
    for pattern in answer.get("patterns", ()):
        source = f" ({pattern['source']})" if pattern.get("source") else ""
        often = "once" if pattern.get("frequency") == 1 else f"{pattern.get('frequency')} times"
        out += sentence(f"{pattern.get('name')}: {often}{source}", "  ", "")
        example = pattern.get("example")
        if isinstance(example, Mapping):
            out.append(f"    {_place(example)}")
            out += [f"        {line}" for line in str(example.get("code", "")).splitlines()]
    return [*(out or ["no pattern fits"]), *_advice(answer)]


# -- planning -------------------------------------------------------------------------------------------------------


def _phase(answer: Answer) -> Lines:
    number = answer.get("phase", answer.get("current_phase"))
    status = str(answer.get("status") or "")
    if number is None:
        out = sentence(f"no phase is under way: {status.replace('_', ' ')}")
    else:
        head = f"phase {number}: {answer.get('phase_name') or 'without a name'}, {status}"
        current = answer.get("current_phase")
        under_way = f"phase {current} is under way" if current else "no phase is under way"
        out = sentence(head + ("" if current == number else f" ({under_way})"))
    if answer.get("milestone"):
        out += sentence(f"milestone {answer['milestone']}", "  ")
    out += sentence(answer.get("goal") or "", "  ")
    if answer.get("directory"):
        out.append(f"  {answer['directory']}")
    if answer.get("requirements"):
        out += sentence(f"requirements {', '.join(map(str, answer['requirements']))}", "  ")
    rows = [(plan.get("id"), plan.get("status"), _tasks(plan)) for plan in answer.get("plans", ())]
    if rows:
        out += ["", *columns(("PLAN", "STATUS", "TASKS"), rows)]
    verification = answer.get("verification_status")
    if verification:
        out += ["", f"verification: {verification}"]
    out += _tested(answer.get("uat"))
    out += _listed("blockers, as STATE.md has them", answer.get("blockers", ()))
    following = answer.get("next_phase")
    if isinstance(following, Mapping):
        needs = ", ".join(map(str, following.get("dependencies") or ()))
        out += [
            "",
            *sentence(
                f"next: phase {following.get('number')}, {following.get('name')}{needs and f' (after {needs})'}"
            ),
        ]
    for disagreement in answer.get("disagreements", ()):
        if number is not None and disagreement.get("phase") not in {None, number}:
            continue  # of another phase: `orchestrator gsd phase` and `check` tell
        out += ["", *sentence(disagreement.get("what"), "  ", "✕ ")]
        for statement in disagreement.get("said", ()):
            out += [f"    {_place(statement)}", *sentence(statement.get("says"), "        ")]
    return out


def _tested(uat: object) -> Lines:
    """How many tests by a human came out how, and which gaps are open."""
    if not isinstance(uat, Mapping):
        return []
    counts = ", ".join(f"{count} {result}" for result, count in (uat.get("tests") or {}).items())
    fixed = len(uat.get("fixed_gaps") or ())
    facts = "; ".join(
        filter(None, (uat.get("status"), counts, f"{fixed} gap{'s' * (fixed > 1)} fixed" if fixed else ""))
    )
    return ["", *sentence(f"tested by hand: {facts}"), *_listed("open gaps", uat.get("gaps") or (), gap=False)]


def _tasks(plan: Answer) -> str:
    current = plan.get("current_task")
    return f"{current} of {plan.get('tasks')}" if current else str(plan.get("tasks", ""))


def _requirement(answer: Answer) -> Lines:
    out = sentence(f"{answer.get('requirement')}: {answer.get('status')}")
    out += sentence(answer.get("text") or "", "  ")
    if answer.get("file"):
        out.append(f"  {_place(answer)}")
    if answer.get("conflict"):
        out += sentence(answer["conflict"], "  ", "✕ ")
    traced = answer.get("traced_to", ())
    out += [] if traced else ["no phase and no plan has it"]
    for trace in traced:
        plan = f", plan {trace['plan']}" if trace.get("plan") else ""
        by = f", by its {trace['by']}" if plan else f", by {trace.get('by')}"
        out += [f"phase {trace.get('phase')}{plan}{by if trace.get('by') else ''}"]
        out += [f"    {trace['file']}"] if trace.get("file") else []
    verification = answer.get("verification") or {}
    if verification.get("status"):
        out += ["", f"verification: {verification['status']}"]
    for must_have in verification.get("must_haves", ()):
        fact = must_have if isinstance(must_have, Mapping) else {"truth": must_have}
        out += sentence(f"{fact.get('truth')} ({fact.get('status') or 'nobody has verified it'})", "    ", "  - ")
    return out


def _requirements(answer: Answer) -> Lines:
    rows = [
        (requirement.get("id"), requirement.get("status"), _place(requirement))
        for requirement in answer.get("pending", ())
    ]
    out = columns(("PENDING", "STATUS", "WHERE"), rows) if rows else ["no requirement is pending"]
    cut = answer.get("untraceable") or {}
    for name, title in _CUT.items():
        rows_of = [
            (
                entry.get("id", entry.get("plan")),
                entry.get("reason", ", ".join(map(str, entry.get("phases", ())))),
                _place(entry),
            )
            for entry in cut.get(name, ())
        ]
        if rows_of:
            out += ["", f"{title}:"]
            for label, why, where in rows_of:
                out += [f"  {label}  {where}", *sentence(why, "      ")]
    return [*out, *_unsure({"notes": cut.get("notes")})]


_CUT = {
    "untraceable": "no phase has them",
    "unknown": "named by a phase or a plan, but REQUIREMENTS.md has them not",
    "ambiguous": "more than one phase has them",
    "unproven": "they count as completed, and nothing shows it",
    "unfinished": "their phases are complete, they are not",
    "plans": "plans that name none of their phase's requirements",
}


def _past(answer: Answer) -> Lines:
    out: Lines = []
    for phase in answer.get("similar_phases", ()):
        number = str(phase.get("phase"))
        place = f"quick task {number[6:]}" if number.startswith("quick/") else f"phase {number}"
        out += sentence(f"{place} {phase.get('name') or ''}: {phase.get('goal') or ''}", "  ", "")
        for key in ("approach", "lessons"):
            out += _listed(key, phase.get(key, ()), gap=False)
        created = [f"    {path}" for path in phase.get("files_created", ())]
        out += ["files it made:", *created] if created else []
    return [*(out or ["no phase like it is known"]), *_advice(answer)]


# -- evidence -------------------------------------------------------------------------------------------------------


def _behavior(answer: Answer) -> Lines:
    return _evidence("verified", answer.get("verified"), answer)


def _artifact(answer: Answer) -> Lines:
    out = _evidence("there", answer.get("exists"), answer)
    if answer.get("location"):
        out.insert(1, f"  {answer['location']}")
    return out


def _evidence(word: str, value: bool | None, answer: Answer) -> Lines:
    out = sentence(f"{word}: {_MARKS.get(value, value)}, confidence {answer.get('confidence')}")
    out += sentence(answer.get("reason") or "", "  ")
    for proof in answer.get("evidence", ()):
        out.append(f"  {_place(proof)}")
        out += [f"      {line}" for line in str(proof.get("code") or "").splitlines()[:5]]
        out += sentence(proof.get("test") or proof.get("description") or "", "      ")
    return out


# -- what many answers have -----------------------------------------------------------------------------------------


def _unsure(answer: Answer) -> Lines:
    """What an answer says of what it does not know."""
    out: Lines = []
    if answer.get("known") is False:
        out += sentence(answer.get("reason") or "the code graph does not have this file", "  ", "· ")
    stale = [str(path) for path in answer.get("stale") or ()] if isinstance(answer.get("stale"), list) else []
    if stale:
        more = f" and {len(stale) - 3} more" if len(stale) > 3 else ""
        out += sentence(f"changed since the index was made: {', '.join(stale[:3])}{more}", "  ", "· ")
    for key in ("note", "hint"):
        if isinstance(answer.get(key), str):
            out += sentence(answer[key], "  ", "· ")
    notes = answer.get("notes")
    for note in notes if isinstance(notes, list) else []:
        out += sentence(note, "  ", "· ")
    return ["", *out] if out else []


def _advice(answer: Answer, key: str = "recommendation") -> Lines:
    return ["", *sentence(answer[key])] if answer.get(key) else []


def _listed(title: str, items: Iterable[object], *, gap: bool = True) -> Lines:
    lines = [line for item in items for line in sentence(item, "    ", "  - ")]
    return [*([""] if gap else []), f"{title}:", *lines] if lines else []


def _place(reference: Answer) -> str:
    file = str(reference.get("file") or "")
    return f"{file}:{reference['line']}" if file and reference.get("line") else file


_FORMATTERS: dict[str, Callable[[Answer], Lines]] = {
    "gsd_query_intel": _query,
    "gsd_blast_radius": _blast,
    "gsd_phase_relevant_files": _files,
    "gsd_codebase_patterns": _patterns,
    "gsd_phase_status": _phase,
    "gsd_requirement_status": _requirement,
    "requirements": _requirements,
    "gsd_similar_past_work": _past,
    "gsd_verify_behavior": _behavior,
    "gsd_verify_artifact": _artifact,
}
