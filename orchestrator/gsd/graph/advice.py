"""What to do about the dependents of a file before it is changed (B3.30). Pure: sentences out of counts and paths."""

from __future__ import annotations

from collections.abc import Sequence

MANY = 10
"""More dependents than this ask for a change that breaks none of them."""
CHANGES = ("any", "signature_change", "behavior_change", "deletion", "export")
_SHOWN_TESTS = 5

_FEW_DEPENDENTS = {
    "signature_change": "Change the {n} that use{s} it in the same step",
    "behavior_change": "Read the {n} that depend{s} on it for what {they} take{s} for granted",
    "deletion": "Remove its use from the {n} that depend{s} on it before it goes",
    "export": "Change the {n} that may import what you rename or remove in the same step",
    "any": "Check the {n} that depend{s} on it after the change",
}
_MANY_DEPENDENTS = {
    "signature_change": (
        "Keep the change backward compatible: add the new form beside the old one, mark the old one deprecated, and "
        "document the migration path"
    ),
    "behavior_change": (
        "Keep the behaviour that others rely on: put the new one behind an option or a new name, deprecate the old, "
        "and document the migration path"
    ),
    "deletion": "Deprecate it first, move its dependents over by a documented migration path, and delete it last",
    "export": "Keep the old export as an alias, deprecate it, and document the migration path",
    "any": "Keep the change backward compatible, or deprecate first and document a migration path",
}


def recommend(change_type: str, direct: int, transitive: int, tests: Sequence[str], tests_count: int) -> str:
    """What to do, with the tests to run; by the kind of change and how many depend on the file."""
    total = direct + transitive
    if not total:
        return (
            "No file that is known depends on it. That is not proof: entry points, dynamic imports and files that "
            "have not been indexed are not seen. Run the tests that cover it."
        )
    if total > MANY:
        advice = f"{_MANY_DEPENDENTS[change_type]}: {total} files are affected ({direct} directly)."
    else:
        one = direct == 1
        files = "one file" if one else f"{direct} files"
        words = _FEW_DEPENDENTS[change_type].format(n=files, s="s" if one else "", they="it" if one else "they")
        advice = f"{words}." + (f" {transitive} more {_are(transitive)} affected through them." if transitive else "")
    return f"{advice} {_run(tests, tests_count)}"


def unknown(file: str, candidates: Sequence[str]) -> str:
    """What to say of a file nobody has told of: nothing that could be taken for safety."""
    meant = f" Did you mean one of: {', '.join(candidates)}?" if candidates else ""
    return (
        f"Nothing is known of {file}: that no dependents are listed does not mean that there are none.{meant} "
        "Search its importers by hand, or run: orchestrator gsd index"
    )


def unfollowed(file: str, edges: int, nodes: int) -> str:
    """What to say of a file in a graph that knows next to no import: nothing that could be taken for safety."""
    return (
        f"The graph knows {edges} import{'s' * (edges != 1)} between {nodes} files: that none of {file} is "
        "among them does not mean that nothing depends on it. Search its importers by hand."
    )


def unread(file: str, language: str) -> str:
    """What to say of a file in a language whose imports our index does not read."""
    what = f"{language} files" if language else "such files"
    return (
        f"Imports of {what} are not read: who needs {file} is not known. Search it by hand, by its name and by the "
        "names in it."
    )


def unparsed(files: Sequence[str]) -> str:
    """What to say where some source files could not be parsed: any of them may import the file."""
    more = f" and {len(files) - 5} more" if len(files) > 5 else ""
    return f"What {', '.join(files[:5])}{more} import{'s' * (len(files) == 1)} could not be read: look there by hand."


def unclear(file: str) -> str:
    """What to say of a file that a link may mean, by a name that others have as well."""
    return f"Who depends on {file} is not clear: links name it and other files alike. Search its importers by hand."


def _run(tests: Sequence[str], count: int) -> str:
    if not count:
        return "No test is among them: look for the tests that cover it."
    shown = ", ".join(tests[:_SHOWN_TESTS])
    return f"Run {shown}{f' and {count - _SHOWN_TESTS} more tests' if count > _SHOWN_TESTS else ''}."


def _are(count: int) -> str:
    return "is" if count == 1 else "are"
