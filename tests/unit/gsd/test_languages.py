"""What a file is by its path, and how a project names and places its code (A2)."""

import json
from datetime import UTC, datetime

import pytest

from orchestrator.gsd.index import conventions as rules
from orchestrator.gsd.index.conventions import Named, case_of
from orchestrator.gsd.index.languages import TYPES, language_of, type_of
from orchestrator.gsd.model import FileFacts

AT = datetime(2026, 1, 2, tzinfo=UTC)


@pytest.mark.parametrize(
    ("path", "language"),
    [
        ("a.py", "python"), ("A.PY", "python"), ("a/b.d.ts", "typescript"), ("a.svelte", "svelte"), ("x.go", "go"),
        ("a.min.js", ""), ("vendor-min.js", ""), ("x_pb2.py", ""), ("README.md", ""), ("a.json", ""), ("py", ""),
        (".py", "python"), ("a.b.rs", "rust"), ("m.pmod", "pike"),
    ],
)  # fmt: skip
def test_the_language_is_told_by_the_ending(path, language):
    assert language_of(path) == language


@pytest.mark.parametrize(
    ("path", "type_"),
    [
        ("tests/test_a.py", "test"), ("src/a_test.go", "test"), ("src/db.spec.ts", "test"), ("conftest.py", "test"),
        ("src/__tests__/x.tsx", "test"), ("src/UserTest.java", "test"), ("src/contest.py", "module"),
        ("vite.config.ts", "config"), (".eslintrc.js", "config"), ("app/settings.py", "config"), ("setup.py", "config"),
        ("src/hooks/auth.ts", "hook"), ("src/useAuth.ts", "hook"), ("src/use-auth.ts", "hook"), ("src/user.ts", "module"),
        ("hooks/pre.py", "module"), ("src/user.service.ts", "service"), ("app/user_service.py", "service"),
        ("app/services/mail.py", "service"), ("src/api/client.ts", "api"), ("src/app/users/route.ts", "api"),
        ("src/routes/+page.svelte", "component"), ("src/routes/api/+server.ts", "api"), ("src/routes/+page.server.ts", "api"),
        ("src/components/index.ts", "component"), ("src/Button.tsx", "component"), ("src/main.tsx", "component"),
        ("app/models.py", "model"), ("src/types/user.ts", "model"), ("src/global.d.ts", "model"),
        ("src/utils/date.ts", "util"), ("src/date-utils.ts", "util"), ("src/lib/db.ts", "module"), ("main.rs", "module"),
        ("src/services/utils/x.ts", "util"), ("lib/user.rb", "module"),
    ],
)  # fmt: skip
def test_the_type_is_told_by_the_path(path, type_):
    assert type_of(path) == type_
    assert type_ in TYPES


@pytest.mark.parametrize(
    ("name", "case"),
    [
        ("getUser", "camelCase"), ("user", "camelCase"), ("User", "PascalCase"), ("UserList", "PascalCase"),
        ("get_user", "snake_case"), ("get-user", "kebab-case"), ("MAX_SIZE", "SCREAMING_SNAKE"),
        ("MAX", "SCREAMING_SNAKE"), ("_x", ""), ("", ""), ("HTTPServer", ""), ("get_User", ""), ("größe", ""),
    ],
)  # fmt: skip
def test_the_case_of_a_name(name, case):
    assert case_of(name) == case


def named(path, exports="", kinds="", language="typescript", imports=()):
    names = tuple(exports.split())
    return Named(FileFacts(path, exports=names, language=language, imports=imports), kinds or "v" * len(names))


def test_a_case_dominates_from_five_names_and_seventy_percent_on():
    four = [named("a.ts", "default aBc cDe eFg gHi")]
    assert rules.conventions(four, AT)["naming"] == {}
    five = [*four, named("b.ts", "iJk _odd")]
    assert rules.conventions(five, AT)["naming"] == {
        "exports": {"dominant": "camelCase", "count": 5, "percentage": 100}
    }
    mixed = [named("a.ts", "aBc cDe eFg gHi iJk kLm mNo Ab Cd Ef")]
    assert rules.conventions(mixed, AT)["naming"]["exports"] == {
        "dominant": "camelCase",
        "count": 7,
        "percentage": 70,
    }
    assert rules.conventions([*mixed, named("b.ts", "Gh")], AT)["naming"] == {}


def test_directories_and_suffixes_are_counted():
    files = [named(f"src/components/x/components/f{n}.test.ts") for n in range(5)]
    files += [named(f"src/f{n}.odd.js") for n in range(5)] + [named(f"src/f{n}.spec.ts") for n in range(4)]
    told = rules.conventions(files, AT)
    assert told["directories"] == {"components": {"purpose": "UI components", "files": 5}}
    assert told["suffixes"] == {
        ".odd.js": {"purpose": "Odd files", "count": 5},
        ".test.ts": {"purpose": "Test files", "count": 5},
    }
    assert (told["version"], told["updated"]) == (1, 1767312000000)


def test_each_language_and_kind_has_its_own_dominant_case():
    files = [named("a.py", "run get_a get_b get_c get_d User Item Cart Shop Till", "fffff" + "ccccc", "python")]
    told = rules.conventions(files, AT)
    assert told["naming"] == {}
    assert told["naming_by_language"] == {
        "python": {
            "classes": {"dominant": "PascalCase", "count": 5, "percentage": 100},
            "functions": {"dominant": "snake_case", "count": 5, "percentage": 100},
        }
    }


def test_a_new_time_alone_changes_nothing():
    later = datetime(2027, 1, 2, tzinfo=UTC)
    files = [named("a.ts", "aBc")]
    text = rules.dump(rules.conventions(files, AT), "")
    assert rules.dump(rules.conventions(files, later), text) == text
    assert json.loads(rules.dump(rules.conventions([named("hooks/a.ts")], later), text))["updated"] == 1798848000000
    facts = [each.facts for each in files]
    summary = rules.summary(facts, AT, "")
    assert rules.summary(facts, later, summary) == summary
    assert "2027-01-02" in rules.summary(facts * 2, later, summary)


def test_the_summary_is_short_and_a_path_in_it_cannot_break_a_line():
    odd = "src/`x`\n# head.ts"
    files = [FileFacts(f"src/f{n}.ts", imports=(odd, "src/f0.ts")) for n in range(5000)]
    text = rules.summary(files, AT, "")
    assert text == (
        "# Codebase Intelligence\n\n**Indexed entities:** 5000\n**Last updated:** 2026-01-02\n\n"
        "## Dependency Hotspots\n\nFiles with most dependents (change carefully):\n"
        "1. `src/?x??# head.ts` (5000 dependents) [module]\n1. `src/f0.ts` (5000 dependents) [module]\n\n"
        "## Module Types\n\n- **Module**: 5000 files\n\n**Relationships tracked:** 10000\n"
    )
