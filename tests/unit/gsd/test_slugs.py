"""Slugs in every dialect that real trees have."""

import pytest

from orchestrator.gsd.graph.slugs import clean, extension, readings, slug, tails


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("src/lib/db.ts", "src-lib-db"),
        ("/home/x/App/src/Page.tsx", "home-x-app-src-page"),
        ("backend/mlx_manager/__init__.py", "backend-mlx-manager-init"),
        ("a\\b\\c.js", "a-b-c"),
        (".vscode-test.mjs", "vscode-test"),
        ("src/routes/(public)/+page.svelte", "src-routes-public-page"),
        (".env", "env"),
        ("größe.ts", "gr-e"),
        ("...", ""),
    ],
)
def test_slug_is_gsds_rule(path, expected):
    assert slug(path) == expected


def test_a_text_may_be_an_id_a_path_or_the_dialect_with_its_ending():
    assert list(readings("components--flowtoken--FlowTokenRenderer-tsx")) == [
        "components-flowtoken-flowtokenrenderer-tsx",
        "components-flowtoken-flowtokenrenderer",
    ]
    assert "workspace-index" in list(readings("workspace-index.js"))
    assert "document-cache" in list(readings("document-cache.md"))
    assert list(readings("core/types")) == ["core-types"]


def test_tails_are_at_dashes_longest_first():
    assert list(tails("a-bc-d")) == ["bc-d", "d"]
    assert list(tails("a")) == []


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("./src/a.ts", "src/a.ts"),
        ("src//a.ts", "src/a.ts"),
        ("src\\a.ts", "src/a.ts"),
        ("src/", "src"),
        ("a/../../b", ""),
        ("../b", ""),
        ("..", ""),
        ("/etc/passwd", ""),
        ("C:\\x\\a.ts", ""),
        ("a\0b", ""),
        ("", ""),
        ("..a/b.ts", "..a/b.ts"),
        ("a./b.ts", "a./b.ts"),
    ],
)
def test_clean_keeps_inside_the_project(path, expected):
    assert clean(path) == expected


def test_extension_is_of_the_last_name_and_no_dotfile():
    assert [extension(path) for path in ("a/b.test.ts", ".env", "a.b/c", "a.1", "x.d.ts")] == [
        ".ts",
        "",
        "",
        "",
        ".ts",
    ]
