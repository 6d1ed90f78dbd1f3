"""The manifest of promises is complete, and every test it names exists."""

import ast
from pathlib import Path

import pytest

from tests.manifest import fleet, gsd, people, spawn, team
from tests.manifest.team import Promise

PROMISES = team.PROMISES | spawn.PROMISES | gsd.PROMISES | people.PROMISES | fleet.PROMISES

TESTS = Path(__file__).resolve().parents[1]
WHY = ("deferred: ", "out of scope: ", "measured: ")


def functions(file):
    """The names of the test functions of a file."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    return {node.name for node in ast.walk(tree) if isinstance(node, kinds) and node.name.startswith("test_")}


def complaints(promises):
    """What is wrong with a manifest, in sentences."""
    found, known = [], {}
    for name, promise in promises.items():
        if not promise.behaviour.endswith("."):
            found.append(f"{name} has no sentence")
        if promise.reason and not promise.reason.startswith(WHY):
            found.append(f"{name} has a reason of no kind")
        if not promise.tests and not promise.reason:
            found.append(f"{name} has no test and no reason")
        for node in promise.tests:
            path, _, test = node.partition("::")
            if path not in known:
                known[path] = functions(TESTS / path) if (TESTS / path).is_file() else set()
            if test not in known[path]:
                found.append(f"{name} names {node}, which does not exist")
    return found


def test_every_promise_has_a_test_that_exists_or_a_reason():
    assert complaints(PROMISES) == []


def test_the_manifest_knows_every_promise():
    listed = [*(f"B1.{n}" for n in range(1, 63)), *(f"B2.{n}" for n in range(1, 40))]
    core = [*listed, *(f"AC{n}" for n in range(1, 6))]
    later = [*(f"ENGINES{n}" for n in range(1, 10)), *(f"SUPERVISION{n}" for n in range(1, 13))]
    later += [*(f"SQUADS{n}" for n in range(1, 4)), "INPUT1", "INPUT2", "IDENTITY1", "FILES1", "INSTALL1"]
    later += [*(f"SYSTEMS{n}" for n in range(1, 4)), "NAMES1"]
    later += ["READING1", "READING2", "READING3", *(f"NOTIFY{n}" for n in range(1, 5))]
    later += ["WAYIN1", "WAYIN2", "WAYIN3", "WORDS1"]
    later += [f"TOP{n}" for n in range(1, 7)]
    later += [f"REPORT{n}" for n in range(1, 4)]
    later += [*(f"B4.{n}" for n in range(1, 46)), *(f"SPAWN{n}" for n in range(1, 7))]
    later += [*(f"B3.{n}" for n in range(1, 34)), *(f"GSD{n}" for n in range(1, 7))]
    later += [f"ANSWERS{n}" for n in range(1, 8)]
    later += [f"FIGURES{n}" for n in range(1, 5)]
    later += ["SNAPSHOT1", "START1", *(f"WEB{n}" for n in range(1, 6))]
    later += [f"FLEET{n}" for n in range(1, 17)]
    assert list(PROMISES) == [*core, *later]


@pytest.mark.parametrize(
    ("promise", "wrong"),
    [
        (Promise("It works."), "X has no test and no reason"),
        (Promise("It works", ("unit/test_manifest.py::test_the_manifest_knows_every_promise",)), "X has no sentence"),
        (Promise("It works.", (), "some day"), "X has a reason of no kind"),
        (Promise("It works.", ("unit/test_manifest.py::test_gone",)), "X names unit/test_manifest.py::test_gone, which does not exist"),
        (Promise("It works.", ("unit/gone.py::test_x",)), "X names unit/gone.py::test_x, which does not exist"),
    ],
)  # fmt: skip
def test_a_promise_without_a_test_is_found(promise, wrong):
    assert complaints({"X": promise}) == [wrong]


def unnamed(promises, files):
    """The acceptance tests, as node ids, that no promise names."""
    named = {node for promise in promises.values() for node in promise.tests}
    written = {f"acceptance/{path.name}::{name}" for path in files for name in functions(path)}
    return written - named


def test_every_acceptance_test_is_named_by_a_promise():
    assert unnamed(PROMISES, (TESTS / "acceptance").glob("test_*.py")) == set()


def test_an_acceptance_test_without_a_promise_is_found(tmp_path):
    path = tmp_path / "test_new.py"
    path.write_text("def test_kept(): ...\nasync def test_forgotten(): ...\n")
    promises = {"X": Promise("It works.", ("acceptance/test_new.py::test_kept",))}
    assert unnamed(promises, [path]) == {"acceptance/test_new.py::test_forgotten"}


def test_the_trust_policy_names_what_guards_the_user():
    page = (TESTS.parent / "docs" / "trust.md").read_text(encoding="utf-8")
    for word in ("agent_delete", "force", "confirm", "trust", "0600", "approve"):
        assert word in page, word
