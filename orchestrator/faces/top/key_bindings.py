"""The actions of top with their keys, and the keys that a user's settings give them. Pure."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import NamedTuple

from orchestrator.base.errors import BadRequest


class KeyAction(NamedTuple):
    """One thing that a key does: its ``name`` in settings, its keys as Textual writes them, and what it does."""

    name: str
    keys: tuple[str, ...]
    says: str
    needs_agent: bool = False


ACTIONS = (
    KeyAction("down", ("j", "down"), "next row"),
    KeyAction("up", ("k", "up"), "previous row"),
    KeyAction("first", ("g", "home"), "first row"),
    KeyAction("last", ("G", "end"), "last row"),
    KeyAction("page_down", ("pagedown",), "one page down"),
    KeyAction("page_up", ("pageup",), "one page up"),
    KeyAction("pane", ("enter",), "go to the agent's pane and zoom it", needs_agent=True),
    KeyAction("approve", ("a",), "approve what the agent asks, once", needs_agent=True),
    KeyAction("always", ("A",), "approve, and add a rule for this project", needs_agent=True),
    KeyAction("deny", ("d",), "deny what the agent asks, with a reason", needs_agent=True),
    KeyAction("answer", ("n",), "answer the agent's question", needs_agent=True),
    KeyAction("release", ("r",), "let the agent's CLI show its own dialog", needs_agent=True),
    KeyAction("dismiss", ("i",), "dismiss an error, conflict or budget", needs_agent=True),
    KeyAction("task", ("t",), "new task for the agent", needs_agent=True),
    KeyAction("cancel", ("x",), "cancel the agent's task", needs_agent=True),
    KeyAction("restart", ("R",), "restart the agent's CLI", needs_agent=True),
    KeyAction("filter", ("/",), "show only rows that contain a text"),
    KeyAction("needs_me", ("!",), "show only what needs you, and all again"),
    KeyAction("next_tab", ("tab", "l", "right"), "next tab"),
    KeyAction("previous_tab", ("shift+tab", "h", "left"), "previous tab"),
    KeyAction("screen", ("1",), "tab: the agent's screen"),
    KeyAction("task_text", ("2",), "tab: its task in full"),
    KeyAction("result", ("3",), "tab: the result of its last task in full"),
    KeyAction("log", ("4",), "tab: what it has put out"),
    KeyAction("diff", ("5",), "tab: what it has changed"),
    KeyAction("records", ("6",), "tab: the records that prove its state"),
    KeyAction("enlarge", ("v",), "enlarge the tab, and back"),
    KeyAction("scroll_down", ("J", "ctrl+d"), "scroll the tab down"),
    KeyAction("scroll_up", ("K", "ctrl+u"), "scroll the tab up"),
    KeyAction("search", ("s",), "search in the tab"),
    KeyAction("next_match", (">",), "next match"),
    KeyAction("previous_match", ("<",), "previous match"),
    KeyAction("timeline", ("T",), "timeline of a team run"),
    KeyAction("palette", (":",), "every command, by its name"),
    KeyAction("help", ("?",), "all keys; type to filter"),
    KeyAction("back", ("escape",), "back: end a filter, leave a view"),
    KeyAction("quit", ("q", "ctrl+c"), "quit; changes nothing"),
)
BY_NAME = {action.name: action for action in ACTIONS}
SIGNS = {
    "!": "exclamation_mark",
    "?": "question_mark",
    "/": "slash",
    ":": "colon",
    ">": "greater_than_sign",
    "<": "less_than_sign",
    ";": "semicolon",
    ",": "comma",
    ".": "full_stop",
    "-": "minus",
    "+": "plus",
    "=": "equals_sign",
    "*": "asterisk",
    "@": "at",
    "#": "number_sign",
    " ": "space",
    "$": "dollar_sign",
    "%": "percent_sign",
    "&": "ampersand",
    "(": "left_parenthesis",
    ")": "right_parenthesis",
    "[": "left_square_bracket",
    "]": "right_square_bracket",
    "_": "underscore",
    "|": "vertical_line",
    "~": "tilde",
    "^": "circumflex_accent",
    "`": "grave_accent",
    "'": "apostrophe",
    '"': "quotation_mark",
    "\\": "backslash",
    "{": "left_curly_bracket",
    "}": "right_curly_bracket",
}
"""Textual's names of keys that are signs."""
_NAMED = {
    "enter", "tab", "escape", "space", "home", "end", "pageup", "pagedown", "up", "down", "left", "right",
    "backspace", "delete", "insert", *(f"f{number}" for number in range(1, 13)),
}  # fmt: skip
_SHORT = {
    "escape": "Esc", "enter": "⏎", "pagedown": "PgDn", "pageup": "PgUp", "down": "↓", "up": "↑", "left": "←",
    "right": "→",
}  # fmt: skip


def bindings_for(changed: Mapping[str, str]) -> dict[str, KeyAction]:
    """What each key does, by Textual's name of the key; ``changed`` gives actions keys of their own.

    BadRequest ``bad_config`` for an unknown action, an unknown key, or a key that two actions would share.
    """
    chosen = {name: action.keys for name, action in BY_NAME.items()}
    for name, key in changed.items():
        if name not in BY_NAME:
            near = difflib.get_close_matches(name, BY_NAME, 1)
            hint = f"did you mean {near[0]!r}?" if near else f"actions: {', '.join(BY_NAME)}"
            raise BadRequest("bad_config", f"top.keys: there is no action {name!r}; {hint}")
        chosen[name] = tuple(_checked(name, word) for word in str(key).split())
        if not chosen[name]:
            raise BadRequest("bad_config", f"top.keys.{name} names no key", "give a key such as x, ctrl+x or f2")
    keys: dict[str, KeyAction] = {}
    for name, words in chosen.items():
        for word in words:
            key = SIGNS.get(word, word)
            if key not in keys:
                keys[key] = BY_NAME[name]
            elif name in changed and keys[key].name in changed:
                message = f"top.keys gives {word!r} to {keys[key].name} and to {name}"
                raise BadRequest("bad_config", message, "give each action a key of its own")
            elif name in changed:  # a key that the user gives away leaves its action of before
                keys[key] = BY_NAME[name]
    lost = [name for name in chosen if name not in {action.name for action in keys.values()}]
    if lost:
        raise BadRequest(
            "bad_config", f"top.keys leaves no key for {', '.join(lost)}", f"add a key: top.keys.{lost[0]}"
        )
    return keys


def key_label(key: str) -> str:
    """A key as people read it, from Textual's name of it."""
    back = {name: sign for sign, name in SIGNS.items()}
    word = "Space" if key == "space" else back.get(key) or _SHORT.get(key, key)
    return "Ctrl-" + word[5:].upper() if word.startswith("ctrl+") else "Shift-Tab" if word == "shift+tab" else word


def keys_of(name: str, bindings: Mapping[str, KeyAction]) -> list[str]:
    """The keys of an action, as people read them."""
    return [key_label(key) for key, action in bindings.items() if action.name == name]


def _checked(name: str, word: str) -> str:
    base = word.rpartition("+")[2] if len(word) > 1 else word
    mods = word[: -len(base)].rstrip("+").split("+") if len(base) < len(word) else []
    known = (len(base) == 1 and base.isprintable()) or base in _NAMED
    if not known or not set(mods) <= {"ctrl", "shift", "alt"}:
        message = f"top.keys.{name}: {word!r} is no key"
        raise BadRequest("bad_config", message, "give a letter, a sign, or a name such as ctrl+x, f2, space")
    return word
