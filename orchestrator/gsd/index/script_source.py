"""One JavaScript or TypeScript file, or the scripts of a Svelte or Vue component, by its syntax tree. Pure.

An import is kept as its specifier: ``./db.js``, ``@/lib/auth``, ``react``. Which file that means is for
`script_resolving` to say. The parser goes on behind what it does not understand, so what it found counts even in a
file with an error; the error is told as the file's trouble, of kind ``odd``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from functools import cache

import tree_sitter_javascript
import tree_sitter_typescript
from tree_sitter import Language, Node, Parser, Query, QueryCursor

from orchestrator.gsd.index.source import Parsed, count_lines, first_sentence, is_prose
from orchestrator.gsd.model import Trouble

_IMPORTS = """
(import_statement source: (string) @spec)
(export_statement source: (string) @spec)
(call_expression function: (import) arguments: (arguments . [(string) (template_string)] @spec))
(call_expression function: (import) arguments: (arguments . (comment)+ . [(string) (template_string)] @spec))
(call_expression function: (identifier) @call
  arguments: (arguments . [(string) (template_string)] @spec) (#eq? @call "require"))
(call_expression function: (identifier) @call
  arguments: (arguments . (comment)+ . [(string) (template_string)] @spec) (#eq? @call "require"))
(new_expression constructor: (identifier) @class
  arguments: (arguments . (string) @spec . (member_expression) @base)
  (#eq? @class "URL") (#eq? @base "import.meta.url"))
"""
_REQUIRED = "(import_require_clause source: (string) @spec)"
_DIALECTS = {
    ".ts": ("typescript", "tsx"), ".mts": ("typescript",), ".cts": ("typescript",), ".tsx": ("tsx",),
}  # fmt: skip
"""By ending, in order of trial; JavaScript is tried as itself, then, for its Flow types, as TSX."""
_PLAIN = ("javascript", "tsx")
_SCRIPT = re.compile(
    rb"""<!--|<script\b((?:[^>"']{1,200}+|"[^"]{0,800}+"|'[^']{0,800}+'){0,20}+|[^>]{0,2000})>""", re.IGNORECASE
)
"""Also what opens a comment: a script in it is none. A ``>`` in quotes does not end the tag."""
_SCRIPT_END = re.compile(rb"</script\s*>", re.IGNORECASE)
_TYPED = re.compile(rb"""lang\s*=\s*["']?tsx?\b""", re.IGNORECASE)
_MODULE = re.compile(rb"""\bmodule\b""", re.IGNORECASE)
_SOURCE = re.compile(rb"""\bsrc\s*=\s*["']([^"'\r\n]{1,500})["']""")
_COMMENT = re.compile(r"^\s*(?:/\*+|\*+/|\*+|//+|#!.*)?\s?|\s*\*+/\s*$", re.MULTILINE)
_TAG = re.compile(r"^@(?:fileoverview|file|description|module|component|overview)\b[ \t]*-?")
_DECLARED = {
    "function_declaration": "f", "generator_function_declaration": "f", "function_signature": "f",
    "function_expression": "f", "generator_function": "f", "class_declaration": "c", "class": "c",
    "abstract_class_declaration": "c", "interface_declaration": "t", "type_alias_declaration": "t",
    "enum_declaration": "t", "internal_module": "v", "module": "v",
}  # fmt: skip


@cache
def _dialect(name: str) -> tuple[Parser, Query]:
    grammar = {
        "javascript": tree_sitter_javascript.language,
        "typescript": tree_sitter_typescript.language_typescript,
        "tsx": tree_sitter_typescript.language_tsx,
    }[name]
    language = Language(grammar())
    return Parser(language), Query(language, _IMPORTS + ("" if name == "javascript" else _REQUIRED))


def parse_script(path: str, data: bytes) -> Parsed:
    """What the file says; an error of its syntax is its trouble, and what was found beside it still counts."""
    dialects = _DIALECTS.get(path[path.rfind(".") :].lower(), _PLAIN)
    return _parsed(path, data, dialects)


def parse_component(path: str, data: bytes) -> Parsed:
    """What the scripts of a Svelte or Vue component say; the component itself is its export ``default``.

    Of what its scripts export only those of a module script count: what Svelte's other one exports are properties.
    """
    exports, raw = {"default": "d"}, list[str]()
    purpose, trouble = _leading(data), None
    at = line = counted = 0
    comments = data.rfind(b"-->")
    while found := _SCRIPT.search(data, at):
        attributes, start = found[1], found.end()
        if attributes is None:
            at = data.find(b"-->", start) if start <= comments else start  # that nothing closes may be text
            continue
        end = _SCRIPT_END.search(data, start)
        at = end.end() if end else len(data)
        line, counted = line + data.count(b"\n", counted, start), start
        if source := _SOURCE.search(attributes):
            raw.append(source[1].decode(errors="replace"))
        body = data[start : end.start() if end else len(data)]
        part = _parsed(path, body, ("typescript", "tsx") if _TYPED.search(attributes) else _PLAIN)
        if _MODULE.search(attributes):
            exports.update(zip(part.exports, part.kinds, strict=True))
        raw += part.raw
        purpose = purpose or part.purpose
        if trouble is None and part.trouble is not None:
            trouble = replace(part.trouble, line=part.trouble.line + line)
    return Parsed(
        tuple(exports), "".join(exports.values()), tuple(dict.fromkeys(raw)), purpose, count_lines(data), trouble
    )


def _parsed(path: str, data: bytes, dialects: tuple[str, ...]) -> Parsed:
    first = None
    for name in dialects:
        parser, query = _dialect(name)
        root = parser.parse(data).root_node
        first = first or (root, query)
        if not root.has_error:
            break
    else:
        assert first is not None
        root, query = first
    exports: dict[str, str] = {}
    for name, kind in _exports(root):
        exports.setdefault(name, kind)
    found = sorted(QueryCursor(query).captures(root).get("spec", []), key=lambda node: node.start_byte)
    raw = dict.fromkeys(spec for spec in map(_literal, found) if spec)
    trouble = None
    if root.has_error:
        trouble = Trouble(path, _first_error(root), "not all of its syntax is understood; what is counts", "odd")
    return Parsed(tuple(exports), "".join(exports.values()), tuple(raw), _purpose(root), count_lines(data), trouble)


def _text(node: Node | None) -> str:
    return "" if node is None or node.text is None else node.text.decode(errors="replace")


def _literal(node: Node) -> str:
    """The text of a string that is written there whole; ``""`` for a template with holes."""
    if any(child.type == "template_substitution" for child in node.children):
        return ""
    text = _text(node)[1:-1]
    return text if len(text) <= 1000 and "\n" not in text else ""


def _first_error(root: Node) -> int:
    """The line of the first thing that was not understood; follows the one branch that has it."""
    at = root
    while at.type != "ERROR" and not at.is_missing:
        inner = next((child for child in at.children if child.has_error or child.is_missing), None)
        if inner is None:
            break
        at = inner
    return at.start_point[0] + 1


# -- exports: the rules of seed-systems A2, by syntax --------------------------------------------------------------


def _exports(root: Node) -> Iterator[tuple[str, str]]:
    for one in root.children:
        if one.type == "export_statement":
            yield from _exported(one)
        elif one.type == "expression_statement" and one.children:
            yield from _assigned(one.children[0])


def _exported(one: Node) -> Iterator[tuple[str, str]]:
    words = {child.type for child in one.children if not child.is_named}
    declaration = one.child_by_field_name("declaration")
    if "default" in words:
        yield "default", "d"
        value = declaration or one.child_by_field_name("value")
        if value is not None:
            name = _text(value) if value.type == "identifier" else _text(value.child_by_field_name("name"))
            if name and value.type in {*_DECLARED, "identifier"}:
                yield name, _DECLARED.get(value.type, "v")
        return
    if declaration is not None:
        yield from _declared(declaration)
    for child in one.children:
        if child.type == "export_clause":
            for pair in child.children:
                if pair.type == "export_specifier":
                    yield _unquoted(pair.child_by_field_name("alias") or pair.child_by_field_name("name")), "o"
        elif child.type == "namespace_export":
            yield from ((_unquoted(name), "o") for name in child.named_children)
        elif child.type == "identifier" and "=" in words:  # export = x
            yield _text(child), "v"


def _unquoted(node: Node | None) -> str:
    return _text(node).strip("\"'")


def _declared(node: Node) -> Iterator[tuple[str, str]]:
    if node.type in {"lexical_declaration", "variable_declaration"}:
        for each in node.named_children:
            if each.type == "variable_declarator":
                value = each.child_by_field_name("value")
                called = value is not None and value.type in {"arrow_function", "function_expression"}
                for name in _bound(each.child_by_field_name("name")):
                    yield name, "f" if called else "v"
    elif node.type == "ambient_declaration":
        for each in node.named_children:
            yield from _declared(each)
    elif node.type in _DECLARED and (name := _unquoted(node.child_by_field_name("name"))):
        yield name, _DECLARED[node.type]


def _bound(pattern: Node | None) -> Iterator[str]:
    """The names a pattern binds: ``{a, b: c, ...d}`` are a, c and d."""
    todo = [pattern]
    while todo:
        each = todo.pop()
        if each is None:
            continue
        if each.type in {"identifier", "shorthand_property_identifier_pattern"}:
            yield _text(each)
        elif each.type == "pair_pattern":
            todo.append(each.child_by_field_name("value"))
        elif each.type in {"object_assignment_pattern", "assignment_pattern"}:
            todo.append(each.child_by_field_name("left"))
        elif each.type in {"object_pattern", "array_pattern", "rest_pattern"}:
            todo += reversed(each.named_children)


def _assigned(node: Node) -> Iterator[tuple[str, str]]:
    """CommonJS: ``module.exports = {a, b: c}``, ``module.exports = X``, ``exports.a = …``, also in a chain."""
    while node.type == "assignment_expression":
        left, right = node.child_by_field_name("left"), node.child_by_field_name("right")
        target = _text(left) if left is not None and left.end_byte - left.start_byte < 200 else ""
        if right is None:
            return
        value = right
        while value.type == "assignment_expression" and (inner := value.child_by_field_name("right")) is not None:
            value = inner
        if target == "module.exports":
            yield from _members(value)
        elif target.startswith(("exports.", "module.exports.")):
            name = target.rpartition(".")[2]
            if target in {f"exports.{name}", f"module.exports.{name}"} and name != "__esModule":
                yield name, _kind(value)
        node = right


def _members(value: Node) -> Iterator[tuple[str, str]]:
    if value.type == "identifier":
        yield _text(value), "v"
    elif value.type in _DECLARED:
        name = _text(value.child_by_field_name("name"))
        yield (name, _DECLARED[value.type]) if name else ("default", "d")
    elif value.type != "object":
        yield "default", "d"
    else:
        for each in value.named_children:
            if each.type == "shorthand_property_identifier":
                yield _text(each), "v"
            elif each.type == "pair":
                key, inner = each.child_by_field_name("key"), each.child_by_field_name("value")
                if key is not None and inner is not None and key.type != "computed_property_name":
                    yield _unquoted(key), _kind(inner)
            elif each.type == "method_definition":
                name_node = each.child_by_field_name("name")
                if name_node is not None and name_node.type != "computed_property_name":
                    yield _unquoted(name_node), "f"


def _kind(value: Node) -> str:
    return "f" if value.type == "arrow_function" else _DECLARED.get(value.type, "v")


# -- purpose -------------------------------------------------------------------------------------------------------


def _purpose(root: Node) -> str:
    """The first sentence of the comment at the file's head; line comments that follow each other are one."""
    block: list[str] = []
    last = -1
    for one in root.children:
        if one.type == "hash_bang_line" or (one.type == "expression_statement" and _text(one)[1:11] == "use strict"):
            continue
        if one.type != "comment":
            break
        text = _text(one)
        if block and not (text.startswith("//") and one.start_point[0] == last + 1):
            if found := _said("\n".join(block)):
                return found
            block = []
        block.append(text)
        last = one.end_point[0]
    return _said("\n".join(block))


def _said(comment: str) -> str:
    if not is_prose(comment):
        return ""
    lines = [_TAG.sub("", _COMMENT.sub("", line)).strip() for line in comment[:4000].split("\n")]
    kept: list[str] = []
    for line in lines:
        if line.startswith("@") or (not line and kept):
            break
        if any(char.isalnum() for char in line):
            kept.append(line)
    return first_sentence("\n".join(kept))


def _leading(data: bytes) -> str:
    """The first sentence of an HTML comment at a component's head."""
    head = data[:4000].removeprefix(b"\xef\xbb\xbf").lstrip()
    if not head.startswith(b"<!--"):
        return ""
    text = head[4:].partition(b"-->")[0].decode(errors="replace").strip()
    return first_sentence(_TAG.sub("", text).strip()) if is_prose(text) else ""
