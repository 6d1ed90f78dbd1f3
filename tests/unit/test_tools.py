"""What the tools of the repository decide: their examples are true, and the package's description has no dead link."""

import doctest
import importlib.util
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def tool(name):
    spec = importlib.util.spec_from_file_location(name, ROOT / "tools" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", ["mutants", "release_check", "package_readme"])
def test_the_examples_of_a_tool_are_true(name):
    told = doctest.testmod(tool(name))
    assert told.attempted > 0
    assert told.failed == 0


def test_the_readme_of_the_package_has_no_link_that_works_in_the_repository_only():
    text = (ROOT / "README.md").read_text("utf-8")
    dead = tool("release_check").dead_links
    assert len(dead(text)) > 5
    assert dead(tool("package_readme").without_relative_links(text)) == []
