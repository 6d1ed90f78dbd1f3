"""The world of docs/tutorial.md: a user's empty home with Claude Code, and what the scripted model does with its tasks."""

from __future__ import annotations

import json

from tests.e2e.world import World

COMMIT = "git add -A && git commit -q -m 'Give 10 percent from 100 on'"
CART = '''\
def total(prices):
    """The sum of the prices, less 10 percent from 100 on."""
    amount = sum(prices)
    return amount * 0.9 if amount >= 100 else amount
'''
LAST_TEST = "        self.assertEqual(total([10, 20]), 30)\n"
NEW_TEST = """
    def test_from_100_on_there_is_a_discount(self):
        self.assertEqual(total([60, 40]), 90)
"""


def prepare(world: World) -> None:
    """Nobody has trusted the folder yet; git knows who commits; the model can do the tutorial's tasks."""
    (world.home / ".claude.json").write_text(json.dumps({"hasCompletedOnboarding": True}))
    (world.home / ".gitconfig").write_text(
        "[user]\nname = Kim\nemail = kim@example.com\n[init]\ndefaultBranch = main\n"
    )
    tree = world.home / "shop" / ".agents" / "worktrees" / "coder"
    cart, tests = str(tree / "cart.py"), str(tree / "test_cart.py")
    edits = [
        {"name": "Read", "arguments": {"file_path": cart}},
        {"name": "Write", "arguments": {"file_path": cart, "content": CART}},
        {"name": "Read", "arguments": {"file_path": tests}},
        {
            "name": "Edit",
            "arguments": {"file_path": tests, "old_string": LAST_TEST, "new_string": LAST_TEST + NEW_TEST},
        },
        {"name": "Bash", "arguments": {"command": COMMIT, "description": "Commit the discount"}},
    ]
    said = "total() gives 10 percent from 100 on. A new test covers it."
    world.models.brain.play("discount of 10 percent", calls=edits, result={"said": said})
    read = {"name": "Bash", "arguments": {"command": "git diff main...orchestrator/coder"}}
    world.models.brain.play("Review the branch", calls=[read], result={"said": "Ready to merge."})
