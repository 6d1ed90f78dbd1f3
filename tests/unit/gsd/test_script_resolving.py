"""Which file the specifier of an import means: relative, by tsconfig, by package.json, by convention."""

import json

import pytest

from orchestrator.gsd.index.project_settings import is_settings, parse_jsonc, settings_of
from orchestrator.gsd.index.script_resolving import ScriptModules, package_of


def resolved(files, path, *raw, **settings):
    read = {
        name.replace("__", "/"): (text if isinstance(text, str) else json.dumps(text)).encode()
        for name, text in settings.pop("read", {}).items()
    }
    return ScriptModules(files, settings_of(read)).resolve(path, raw)


FILES = [
    "src/a.ts", "src/b.tsx", "src/c/index.ts", "src/d.js", "src/e.svelte", "src/f.svelte.ts", "src/g.d.ts",
    "src/h.mts", "src/lib/db.ts", "src/lib/index.ts", "app.vue", "src/i.test.ts", "src/i.ts",
]  # fmt: skip


@pytest.mark.parametrize(
    ("spec", "file"),
    [
        ("./b", "src/b.tsx"),
        ("./b.js", "src/b.tsx"),
        ("./c", "src/c/index.ts"),
        ("./c/", "src/c/index.ts"),
        ("./d.js", "src/d.js"),
        ("./e.svelte", "src/e.svelte"),
        ("./f.svelte", "src/f.svelte.ts"),
        ("./f.svelte.js", "src/f.svelte.ts"),
        ("./g", "src/g.d.ts"),
        ("./h.mjs", "src/h.mts"),
        ("./i", "src/i.ts"),
        ("../app.vue?raw", "app.vue"),
        ("../src/lib/db", "src/lib/db.ts"),
        ("/src/lib/db.ts", "src/lib/db.ts"),
        ("$lib/db", "src/lib/db.ts"),
        ("$lib", "src/lib/index.ts"),
        ("@/lib/db", "src/lib/db.ts"),
        ("~/src/lib/db", "src/lib/db.ts"),
    ],
)
def test_a_file_is_found_without_any_settings(spec, file):
    assert resolved(FILES, "src/a.ts", spec) == ([file], [])


def test_what_leads_nowhere_or_out_of_the_project_is_no_edge():
    assert resolved(
        FILES, "src/a.ts", "./none", "../../out", "./a", "@/none", "$lib/none", "~/none", "#none", "https://x/y.js",
        "virtual:x", "data:text/javascript,1", "/none", "", "?x", "./b\0",
    ) == ([], [])  # fmt: skip


def test_packages_from_elsewhere_by_name():
    assert resolved(FILES, "src/a.ts", "react", "react/jsx-runtime", "@a/b/c", "node:fs/promises", "$app/stores")[1] == [
        "react", "@a/b", "node:fs/promises", "$app",
    ]  # fmt: skip
    assert [package_of(each) for each in ("@a", "@/a", "../x", "C:\\x", "a b")] == [""] * 5


def test_paths_of_a_tsconfig_with_comments_that_extends_another():
    read = {
        "tsconfig.json": '{ // own\n "extends": "./tsconfig.base.json", "files": [], "references": [{"path": "./web"},], }',
        "tsconfig.base.json": {
            "compilerOptions": {"baseUrl": "./src", "paths": {"@lib/*": ["none/*", "lib/*"], "exact": ["a.ts"]}}
        },
        "web__tsconfig.json": '\ufeff{"compilerOptions": {"paths": {"web/*": ["./code/*"]}}} /* end',
    }
    files = [*FILES, "web/code/x.ts"]
    assert resolved(files, "src/c/index.ts", "@lib/db", "exact", "lib/db", "web/x", read=read) == (
        ["src/lib/db.ts", "src/a.ts", "web/code/x.ts"],
        [],
    )


def test_the_nearest_tsconfig_wins_and_the_longest_pattern():
    read = {
        "tsconfig.json": {"compilerOptions": {"paths": {"@/*": ["src/*"], "@/lib/*": ["src/c/*"]}}},
        "web__tsconfig.json": {"compilerOptions": {"paths": {"@/*": ["./*"]}}},
    }
    files = ["src/x.ts", "src/c/x.ts", "src/lib/x.ts", "web/x.ts", "web/y.ts"]
    assert resolved(files, "web/y.ts", "@/x", read=read)[0] == ["web/x.ts"]
    assert resolved(files, "src/x.ts", "@/lib/x", read=read)[0] == ["src/c/x.ts"]


def test_configurations_that_extend_each_other_end():
    read = {
        "tsconfig.json": {"extends": ["./tsconfig.a.json", "./none.json"]},
        "tsconfig.a.json": {"extends": "./tsconfig.json", "compilerOptions": {"paths": {"x": ["src/a.ts"]}}},
    }
    assert resolved(FILES, "src/b.tsx", "x", read=read)[0] == ["src/a.ts"]


WORKSPACE = {
    "package.json": {"name": "root", "workspaces": ["packages/*", "!packages/old"]},
    "packages__core__package.json": {
        "name": "@w/core",
        "main": "dist/index.js",
        "exports": {".": {"import": "./dist/index.mjs"}, "./util/*": "./dist/util/*.js", "./deep": ["./src/deep.ts"]},
        "imports": {"#own": "./dist/own.js"},
    },
    "packages__plain__package.json": {"name": "plain", "main": "./lib/main.js"},
    "packages__old__package.json": {"name": "twice"},
    "packages__new__package.json": {"name": "twice"},
}
PACKAGES = [
    "packages/core/src/index.ts", "packages/core/src/util/a.ts", "packages/core/src/deep.ts", "app/x.ts",
    "packages/core/src/own.ts", "packages/plain/lib/main.js", "packages/plain/extra.js", "packages/old/index.js",
    "packages/new/index.js",
]  # fmt: skip


@pytest.mark.parametrize("pnpm", [False, True])
def test_packages_of_the_workspace_lead_to_their_source(pnpm):
    read = dict(WORKSPACE)
    if pnpm:
        read["package.json"] = {"name": "root"}
        read["pnpm-workspace.yaml"] = "packages:\n  - 'packages/**'\n  - '!packages/old'\n"
    found = resolved(
        PACKAGES, "app/x.ts", "@w/core", "@w/core/util/a", "@w/core/deep", "plain", "plain/extra", "twice", "#own",
        read=read,
    )  # fmt: skip
    assert found == (
        [
            "packages/core/src/index.ts", "packages/core/src/util/a.ts", "packages/core/src/deep.ts",
            "packages/plain/lib/main.js", "packages/plain/extra.js", "packages/new/index.js",
        ],
        [],
    )  # fmt: skip
    assert resolved(PACKAGES, "packages/core/src/index.ts", "#own", read=read)[0] == ["packages/core/src/own.ts"]


def test_the_directory_of_a_package_means_its_main_file():
    read = {"package.json": {"main": "lib/main.js"}, "in__package.json": {"main": "./x.js"}}
    files = ["lib/main.js", "bin/cli.js", "in/x.js"]
    assert resolved(files, "bin/cli.js", "../", "..", "../in", read=read)[0] == ["lib/main.js", "in/x.js"]


def test_two_packages_of_one_name_are_nobody():
    read = {"a__package.json": {"name": "x"}, "b__package.json": {"name": "x"}}
    assert resolved(["a/index.js", "b/index.js", "m.js"], "m.js", "x", read=read) == ([], ["x"])


@pytest.mark.parametrize(
    "text",
    [
        "", "[]", "null", "{", '{"compilerOptions": 3}', '{"compilerOptions": {"paths": {"a": 1, "*/*": ["x"]}}}',
        '{"compilerOptions": {"paths": {"x": ["../../../out"]}, "baseUrl": 7}}', '{"extends": 1, "references": 2}',
        '{"references": [1, {"path": 3}, {"path": "/abs"}]}', "[" * 100_000, '"' * 100_001, "/*" * 100_000,
        '{"a": "' + "\\" * 99_999, "," * 100_000, '{"name": 3, "exports": 4, "workspaces": {"packages": 5}}',
        '{"name": "z", "exports": {".": {"import": {"import": {"import": null}}}}, "workspaces": ["*" , "**/**"]}',
    ],
)  # fmt: skip
@pytest.mark.parametrize("name", ["tsconfig.json", "package.json", "pnpm-workspace.yaml"])
def test_odd_settings_are_survived(name, text):
    assert resolved(FILES, "src/a.ts", "./b", "x", "#y", read={name: text})[0] == ["src/b.tsx"]


def test_strings_of_a_jsonc_file_are_left_alone():
    text = '{"a": "// no /* comment */ ,]", "b": [1, /* , */ 2, ], // }\n "c": "\\"//", }'
    assert parse_jsonc(text) == {"a": "// no /* comment */ ,]", "b": [1, 2], "c": '"//'}


def test_settings_files_are_known_by_name_and_told_apart_by_content():
    names = ("tsconfig.json", "a/tsconfig.app.json", "jsconfig.json", "p/package.json", "pyproject.toml", "setup.py")
    assert all(is_settings(name) for name in names)
    assert not any(is_settings(name) for name in ("package-lock.json", "xtsconfig.json", "tsconfig.json.bak"))
    digests = {
        settings_of(read).digest
        for read in ({}, {"package.json": b"{}"}, {"package.json": b"{ }"}, {"a/package.json": b"{}"})
    }
    assert len(digests) == 4


def test_the_paths_of_one_tsconfig_begin_at_the_base_of_another_as_the_compiler_has_it():
    files = ["app/m.ts", "app/x/a.ts", "src/x/a.ts", "x/a.ts"]
    star = {"@x/*": ["x/*"]}

    def led(below, above):
        read = {"app/tsconfig.json": {"extends": "../tsconfig.base.json", **below}, "tsconfig.base.json": above}
        return resolved(files, "app/m.ts", "@x/a", read=read)[0]

    assert led({"compilerOptions": {"paths": star}}, {"compilerOptions": {"baseUrl": "src"}}) == ["src/x/a.ts"]
    assert led({"compilerOptions": {"baseUrl": "."}}, {"compilerOptions": {"paths": star}}) == ["app/x/a.ts"]
    assert led({}, {"compilerOptions": {"paths": star}}) == ["x/a.ts"]
    assert led({"compilerOptions": {"baseUrl": "../..", "paths": star}}, {}) == []  # out of the project


def test_of_several_that_a_tsconfig_extends_the_last_wins_with_what_it_extends_itself():
    read = {
        "tsconfig.json": {"extends": ["./tsconfig.b.json", "./tsconfig.c.json"]},
        "tsconfig.b.json": {"compilerOptions": {"paths": {"@x": ["./b.ts"]}}},
        "tsconfig.c.json": {"extends": "./tsconfig.d.json"},
        "tsconfig.d.json": {"compilerOptions": {"paths": {"@x": ["./d.ts"]}}},
    }
    assert resolved(["b.ts", "d.ts", "m.ts"], "m.ts", "@x", read=read)[0] == ["d.ts"]


def test_a_whole_name_in_exports_goes_before_a_pattern_and_the_longer_beginning_before_the_longer_end():
    exports = {
        "./f/*.js": "./src/star/*.js", "./f/x.js": "./src/whole.js",
        "./*/a-long-ending.js": "./src/end/*.js", "./g/*": "./src/begin/*",
    }  # fmt: skip
    files = ["m.js", "p/src/star/x.js", "p/src/whole.js", "p/src/end/g.js", "p/src/begin/a-long-ending.js"]
    found = resolved(
        files, "m.js", "p/f/x.js", "p/g/a-long-ending.js", read={"p/package.json": {"name": "p", "exports": exports}}
    )
    assert found[0] == ["p/src/whole.js", "p/src/begin/a-long-ending.js"]
