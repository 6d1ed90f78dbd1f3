"""The JSON Schemas of a tool's arguments and answers, in the form that every CLI accepts. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema


class _Plain(GenerateJsonSchema):
    """JSON Schema without null branches and titles: some clients drop or reject ``anyOf`` (Gemini CLI)."""

    def nullable_schema(self, schema: Any) -> dict[str, Any]:
        inner: dict[str, Any] = self.generate_inner(schema["schema"])
        return inner

    def field_title_should_be_set(self, schema: Any) -> bool:  # noqa: ARG002  (the signature is pydantic's)
        return False

    def default_schema(self, schema: Any) -> dict[str, Any]:
        made = super().default_schema(schema)
        if made.get("default", 0) is None:
            del made["default"]
        return made


BOUNDS = frozenset({"minLength", "maxLength", "minimum", "maximum"})


def input_schema(arguments: type[BaseModel], *, brief: bool = False) -> dict[str, Any]:
    """The input schema of a tool, with definitions inlined and without titles; ``brief``: also without limits.

    A value that breaks an omitted limit is refused all the same, and the error names the limit.
    """
    schema = arguments.model_json_schema(schema_generator=_Plain)
    schema.pop("title", None)
    schema.pop("description", None)
    inline_schema: dict[str, Any] = _inlined(schema, schema.pop("$defs", {}))
    if brief:
        for parameter in inline_schema["properties"].values():
            for key in BOUNDS & parameter.keys():
                del parameter[key]
    return inline_schema


def output_schema(answer: type[BaseModel]) -> dict[str, Any]:
    """The output schema of a tool; nothing in it is required, for an error must fit it too.

    Gemini CLI checks also the answers that say `isError` against it, and shows its model a complaint in their place.
    """
    schema = answer.model_json_schema(schema_generator=_Plain)
    schema.pop("required", None)
    schema["properties"]["error"] = {"type": "object"}
    return schema


def filled_in(node: Any, limits: Iterable[tuple[str, int]]) -> Any:
    """A schema whose descriptions have the limits in place of their names in braces."""
    if isinstance(node, dict):
        filled = {key: filled_in(value, limits) for key, value in node.items()}
        if isinstance(text := filled.get("description"), str):
            for name, value in limits:
                text = text.replace(f"{{{name}}}", str(value))
            filled["description"] = text
        return filled
    return [filled_in(item, limits) for item in node] if isinstance(node, list) else node


def _inlined(node: Any, defs: dict[str, Any]) -> Any:
    if isinstance(node, dict):
        if "$ref" in node:
            target = dict(defs[node["$ref"].rsplit("/", 1)[1]])
            target.pop("title", None)
            return _inlined({**target, **{k: v for k, v in node.items() if k != "$ref"}}, defs)
        return {key: _inlined(value, defs) for key, value in node.items()}
    if isinstance(node, list):
        return [_inlined(item, defs) for item in node]
    return node
