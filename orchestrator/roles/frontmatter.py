"""A role's frontmatter as YAML: plain values, and nothing that makes a short text long. Pure."""

from __future__ import annotations

from typing import Any

import yaml

DEPTH_MAX = 16
_NULLS = frozenset({"", "~", "null", "Null", "NULL"})


class NotYaml(Exception):
    """The frontmatter is no YAML; the message says why."""


class TooMuch(Exception):
    """It is YAML that is not read; the message continues after the file's name."""


class _Loader(yaml.BaseLoader):
    """Composes nodes, and refuses what makes a short text long."""

    depth = 0

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        event = self.peek_event()  # type: ignore[no-untyped-call]
        if isinstance(event, yaml.AliasEvent) or event.anchor is not None:
            raise TooMuch("has YAML anchors or aliases (& and *) in its frontmatter; put such a text in quotes")
        self.depth += 1
        if self.depth > DEPTH_MAX:
            raise TooMuch(f"has a frontmatter nested deeper than {DEPTH_MAX}")
        node = super().compose_node(parent, index)
        self.depth -= 1
        return node


def mapping(head: str) -> dict[str, Any]:
    """Its keys and plain values; NotYaml for anything else, TooMuch."""
    try:
        loader = _Loader(head)
        node = loader.get_single_node()
    except yaml.MarkedYAMLError as error:
        # + 2: counted from 0, and behind the first ---
        line = f"line {error.problem_mark.line + 2}: " if error.problem_mark else ""
        raise NotYaml(f"{line}{error.problem or error.context or 'no YAML'}") from error
    except (yaml.YAMLError, ValueError, OverflowError) as error:  # characters and escapes that do not exist
        raise NotYaml(str(error).partition("\n")[0]) from error
    if node is None:
        return {}
    value = _value(node)
    if not isinstance(value, dict):
        if value is None:
            return {}
        raise NotYaml("it is no mapping of keys to values")
    return value


def _value(node: yaml.Node) -> Any:
    if isinstance(node, yaml.MappingNode):
        out: dict[str, Any] = {}
        for key, value in node.value:
            if not isinstance(key, yaml.ScalarNode):
                raise NotYaml(f"line {key.start_mark.line + 2}: a key is no text")
            name = _encodable(str(key.value))
            if name in out:
                raise NotYaml(f"line {key.start_mark.line + 2}: the key {name[:80]!r} occurs twice")
            out[name] = _value(value)
        return out
    if isinstance(node, yaml.SequenceNode):
        return [_value(item) for item in node.value]
    plain = node.style is None  # type: ignore[attr-defined]  # a scalar
    return None if plain and node.value in _NULLS else _encodable(str(node.value))


def _encodable(text: str) -> str:
    """The text, unless an escape made half a character of it: no file and no argument could hold that."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise NotYaml("an escape is half a character") from error
    return text
