"""What is said to be verified dies with its evidence: the sample trees' own tables over made-up sources, in all states."""

import json
import random
import re
import shutil
from dataclasses import replace

import pytest

from orchestrator.gsd.evidence.verify_answers import verify_artifact, verify_behavior
from orchestrator.gsd.model import MustHaves
from orchestrator.gsd.planning.tree import PlanningStore
from orchestrator.gsd.ranked.ranking import terms
from tests.support.gsd_code import EXPRESS, planning, snapshot, write
from tests.support.gsd_trees import unpack

WITH_TABLES = ("mlx-manager", "pike-lsp", "to-tui")
_CODE = {"py": ("def {0}(a):", "    return a + 1", "#"), "rs": ("pub fn {0}(a: u8) -> u8 {{", "    a + 1\n}}", "//")}
_SCRIPT = ("export function {0}(a) {{", "  return a + 1;\n}}", "//")


def program(artifact, words, *, dead=False):
    """A file of the artifact's language that exports, contains and is as long as the plan demands; words in its names.

    ``dead``: all of it as comments.
    """
    head, body, mark = _CODE.get(artifact.path.rpartition(".")[2], _SCRIPT)
    names = [re.match(r"\w+", name)[0] for name in artifact.exports if re.match(r"\w+", name)]
    names += ["_".join(words)] if words else []
    lines = [line for name in names for line in f"{head.format(name)}\n{body.format()}".split("\n")]
    lines += [demanded for demanded in (artifact.contains, *artifact.also) if demanded]
    number = 0
    while len(lines) < max(artifact.min_lines, 16):
        number += 1
        lines += f"{head.format(f'part{number}')}\n{body.format()}".split("\n")
    return "".join(f"{mark} {line}\n" if dead else f"{line}\n" for line in lines)


def subjects(name, where):
    """Truths of a sample tree that its own report says have passed, each with the plan that demands it, alone.

    Of the plan its artifacts that are programs are kept, and no links: those need sources nobody has.
    """
    root = unpack(name, where)
    plans = PlanningStore(root).read()
    found = []
    for phase in [*plans.past, *plans.phases]:
        rows = phase.verification.truths if phase.verification else ()
        passed = {row.what for row in rows if "VERIFIED" in row.status}
        for plan in phase.plans:
            must = plan.must_haves
            code = tuple(one for one in must.artifacts if one.path.endswith((".py", ".rs", ".ts", ".pike")))
            for truth in must.truths:
                if truth in passed and code:
                    alone = replace(plan, must_haves=replace(must, artifacts=code, key_links=(), truths=(truth,)))
                    found.append((truth, replace(plans, past=(), phases=(replace(phase, plans=(alone,)),)), alone))
    return root, found


def sources(plan, truth):
    """What the plan demands, with the truth's words in the names of its first file, and a file that uses it all."""
    words = [word for word in terms(truth) if word.isalpha()]
    files, users = dict(OTHER), {}
    for number, one in enumerate(plan.must_haves.artifacts):
        files[one.path] = program(one, words if not number else [])
        module, _, end = one.path.rpartition(".")
        name = re.search(r"(?:fn|def|function) (\w+)", files[one.path])
        if name is None or end == "pike":
            continue
        dotted = module.removesuffix("/mod").removesuffix("/__init__")
        line = {
            "rs": f"use crate::{dotted.removeprefix('src/').replace('/', '::')}::{name[1]};\nfn main{number}() {{ {name[1]}(1); }}\n",
            "py": f"from {dotted.replace('/', '.')} import {name[1]}\n{name[1]}(1)\n",
            "ts": f"import {{ {name[1]} }} from './{module}';\n{name[1]}(1);\n",
        }[end]  # fmt: skip
        user = {"rs": "src/main.rs", "py": "use_all.py", "ts": "main.ts"}[end]
        users[user] = users.get(user, "") + line
    return users | files


def laid(root, files):
    """The tree with its planning and these files, and nothing else."""
    for path in root.iterdir():
        if path.name != ".planning":
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    return write(root, files)


OTHER = {"src/other.py": "def something_else(a):\n    return a\n"}
STATES = {
    "a stub": lambda one: {one.path: "raise NotImplementedError\n" if one.path.endswith(".py") else "todo!(\n"},
    "an empty file": lambda one: {one.path: ""},
    "nothing": lambda one: {},
    "another path": lambda one: {f"elsewhere/{one.path.rpartition('/')[2]}": program(one, [])},
    "comments": lambda one: {one.path: program(one, [], dead=True)},
    "strings": lambda one: {one.path: "".join(f"const x = {json.dumps(line)}\n" for line in program(one, []).split("\n"))},
    "a test": lambda one: {f"tests/{one.path}": program(one, [])},
    "a document": lambda one: {f"docs/{one.path}.md": program(one, [])},
    "a vendored copy": lambda one: {f"node_modules/x/{one.path}": program(one, [])},
    "another package": lambda one: {f"packages/other/{one.path}": program(one, [])},
}  # fmt: skip


GONE = {"nothing", "a document", "a vendored copy"}
ELSEWHERE = {"another path", "a test", "another package"}


@pytest.mark.parametrize("name", WITH_TABLES)
def test_a_passed_truth_of_a_real_tree_is_true_only_while_its_files_hold_it(tmp_path, name):
    root, found = subjects(name, tmp_path)
    assert found
    true = 0
    for truth, plans, plan in found[:6]:

        def verified(files, plans=plans, truth=truth):
            return verify_behavior(snapshot(laid(root, files), plans), must_have=truth)["verified"]

        whole = verified(sources(plan, truth))
        assert whole is not False
        true += whole is True
        for state, change in STATES.items():
            files = dict(OTHER)
            for one in plan.must_haves.artifacts:
                files |= change(one)
            assert verified(files) is (
                False if state in GONE else None if state in ELSEWHERE else whole and None
            ) or (state not in GONE | ELSEWHERE and verified(files) is False), (state, truth)
    assert true


def without_file(files, file):
    return {path: text for path, text in files.items() if path != file}


ALL = {
    "POST /api/auth/reset-password": "endpoint", "GET /health": "endpoint", "DELETE /api/auth/me": "endpoint",
    "GET /api/orders/:orderId/items": "endpoint", "src/services/mail.ts": "file", "`sendResetMail`": "export",
    "requireAuth": "export", "MailError": "component", "sends users an email with a link": "test",
}  # fmt: skip


@pytest.mark.parametrize("asked", ALL)
def test_what_exists_does_no_longer_when_the_file_that_shows_it_goes(tmp_path, asked):
    whole = verify_artifact(snapshot(write(tmp_path / "a", EXPRESS)), must_exist=asked, check_type=ALL[asked])
    assert whole["exists"] is True
    shown = whole["location"].rpartition(":")[0]
    less = verify_artifact(
        snapshot(write(tmp_path / "b", without_file(EXPRESS, shown))), must_exist=asked, check_type=ALL[asked]
    )
    assert less["exists"] is not True, less
    file, line = whole["location"].rpartition(":")[::2]
    lines = EXPRESS[file].split("\n")
    lines[int(line) - 1] = ""
    if ALL[asked] != "file":
        cut = verify_artifact(
            snapshot(write(tmp_path / "c", {**EXPRESS, file: "\n".join(lines)})),
            must_exist=asked,
            check_type=ALL[asked],
        )
        assert cut["exists"] is not True, cut


TRUTH = "Users can reset their password via email"
PROVEN = {
    "a passed row": lambda: planning(rows=[(TRUTH, "✓ VERIFIED")]),
    "structure": planning,
    "a passed row alone": lambda: planning(rows=[(TRUTH, "✓ VERIFIED")], must=MustHaves()),
}


@pytest.mark.parametrize("how", PROVEN)
@pytest.mark.parametrize("seed", range(6))
def test_whatever_evidence_goes_the_claim_goes_with_it(tmp_path, how, seed):
    """Each file that the evidence names, one alone or several, deleted, emptied, made a comment or moved."""
    plans = PROVEN[how]()
    whole = verify_behavior(snapshot(write(tmp_path / "whole", EXPRESS), plans), must_have=TRUTH)
    assert whole["verified"] is True
    shown = sorted({one["file"] for one in whole["evidence"] if not one["file"].startswith(".planning/")})
    dice = random.Random(seed)
    for number in range(4):
        gone = shown if how == "a passed row alone" else dice.sample(shown, dice.randint(1, len(shown)))
        files = dict(EXPRESS)
        for path in gone:
            text = files.pop(path)
            edit = dice.choice(("delete", "empty", "comment", "move"))
            if edit == "empty":
                files[path] = ""
            elif edit == "comment":
                files[path] = "".join(f"// {line}\n" for line in text.split("\n"))
            elif edit == "move" and how != "a passed row alone":
                files[f"old/{path}"] = text
        if how != "a passed row alone" and not set(gone) & {"src/routes/auth.ts", "src/services/mail.ts"}:
            continue
        answer = verify_behavior(snapshot(write(tmp_path / str(number), files), plans), must_have=TRUTH)
        assert (answer["verified"], answer["confidence"]) != (True, "high"), (gone, answer["reason"])
        if how != "a passed row alone":
            assert answer["verified"] is not True, (gone, answer["reason"])
