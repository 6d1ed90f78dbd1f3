"""What a Python file says, and which files of the project its imports mean."""

import pytest

from orchestrator.gsd.index.python_resolving import PythonModules
from orchestrator.gsd.index.python_source import parse_python


def parsed(text, path="a/b.py"):
    return parse_python(path, text.encode() if isinstance(text, str) else text)


def test_every_form_of_import_is_found_as_it_is_written():
    found = parsed(
        '''"""Head."""
import os, a.b.c as d
from x import y, z as q
from . import e
from ..up import f
from p import *
if TYPE_CHECKING:
    from t import T
try:
    import fast
except ImportError:
    import slow
else:
    import other
finally:
    import last
def g():
    from inside import h
    async def i():
        with a:
            for b in c:
                import deep
class C:
    import of_class
match v:
    case 1:
        import of_case
m = importlib.import_module("by.name")
n = import_module(".rel", __package__)
o = __import__("dunder")
p = import_module(name)
q = import_module("no module")
'''
    )
    assert list(found.raw) == [
        "os", "a.b.c", "x:y", "x:z", ".:e", "..up:f", "p:*", "t:T", "fast", "slow", "other", "last", "inside:h",
        "deep", "of_class", "of_case", "by.name", ".rel", "dunder",
    ]  # fmt: skip


def test_public_names_are_exports_with_their_kinds():
    found = parsed(
        """
import os
LIMIT = 3
a, (b) = 1, 2
x: int = 1
_private = 1
logger = 1
class K: y = 1
def f(): inner = 1
async def g(): pass
if 1:
    def h(): pass
def f(): pass
"""
    )
    assert dict(zip(found.exports, found.kinds, strict=True)) == {
        "LIMIT": "v", "a": "v", "b": "v", "x": "v", "K": "c", "f": "f", "g": "f", "h": "f",
    }  # fmt: skip


def test_all_wins_whatever_it_is_made_of():
    found = parsed("__all__ = ['b', *x] + ['c']\n__all__ += ['d']\n__all__.extend(['_e'])\ndef b(): 1\nclass Z: 1\n")
    assert found.exports == ("b", "c", "d", "_e")
    assert found.kinds == "fooo"
    assert parsed("__all__: list[str] = ['b']").exports == ("b",)


def test_an_init_offers_what_it_takes_from_its_own():
    text = "from .x import y, z as _z, w as v\nfrom json import loads\nfrom .s import *\n"
    assert parsed(text, "a/__init__.py").exports == ("y", "v")
    assert parsed(text, "a/b.py").exports == ()


@pytest.mark.parametrize(
    ("text", "purpose"),
    [
        ('"""Does it. And more."""', "Does it."),
        ('"""\n    Does\n    it, e.g. well, in v1.2\n\n    More."""', "Does it, e.g. well, in v1.2"),
        ("# no docstring\nx = 1", ""),
        ('"""\n    a.b\n    ~~~\n\n    Does it.\n"""', "Does it."),
        ('"""\nHeading\n=======\n"""', "Heading"),
        ('"""' + "word " * 100 + '"""', ("word " * 39).strip() + "…"),
        ('"""Lone \\ud800 one."""', "Lone ? one."),
    ],
)
def test_the_purpose_is_the_first_sentence_of_the_docstring(text, purpose):
    assert parsed(text).purpose == purpose


@pytest.mark.parametrize(
    ("data", "line"),
    [
        (b"print 'two'\n", 1),
        (b"x = 1\n\ndef (:\n", 3),
        (b"x = '\xff'\n", 0),
        (b"# coding: no-such-codec\n", 0),
        (b"x = (" * 5000, 1),
        (b"-" * 100_000 + b"1", 0),
        (b"a" + b".b" * 100_000, 0),
        (b"1+" * 100_000 + b"1", 0),
        (b"elif" * 10, 0),
        (b"9" * 10_000, 1),
        (b"x\0y", 0),
    ],
)
def test_what_is_no_python_is_told_and_has_its_length(data, line):
    found = parsed(data)
    if data == b"elif" * 10:
        assert found.trouble is None  # one long name
        return
    assert found.trouble is not None
    assert found.trouble.kind == "unreadable"
    assert line in {found.trouble.line, 0}
    assert (found.exports, found.raw, found.lines) == ((), (), data.count(b"\n") or 1)


def test_another_encoding_that_the_file_names_is_read():
    assert parsed("# coding: latin-1\n'''Größe.'''\n".encode("latin-1")).purpose == "Größe."
    assert parsed("\ufeff'''Mit BOM.'''\r\nimport a\r\n").raw == ("a",)


# -- resolving -----------------------------------------------------------------------------------------------------


def resolved(paths, path, *raw, projects=()):
    return PythonModules(paths, projects).resolve(path, raw)


PLAIN = ["pkg/__init__.py", "pkg/a.py", "pkg/sub/__init__.py", "pkg/sub/b.py", "pkg/sub/c.pyi", "main.py"]


@pytest.mark.parametrize(
    ("path", "raw", "file"),
    [
        ("main.py", "pkg", "pkg/__init__.py"),
        ("main.py", "pkg.a", "pkg/a.py"),
        ("main.py", "pkg:a", "pkg/a.py"),
        ("main.py", "pkg:Name", "pkg/__init__.py"),
        ("main.py", "pkg:*", "pkg/__init__.py"),
        ("main.py", "pkg.a:Name", "pkg/a.py"),
        ("main.py", "pkg.sub.c", "pkg/sub/c.pyi"),
        ("main.py", "pkg.sub:b", "pkg/sub/b.py"),
        ("main.py", "pkg.made.later", "pkg/__init__.py"),
        ("pkg/a.py", ".:sub", "pkg/sub/__init__.py"),
        ("pkg/a.py", ".sub:b", "pkg/sub/b.py"),
        ("pkg/sub/b.py", "..a:f", "pkg/a.py"),
        ("pkg/sub/b.py", "..:a", "pkg/a.py"),
        ("pkg/sub/b.py", "..:Name", "pkg/__init__.py"),
        ("pkg/sub/__init__.py", ".:b", "pkg/sub/b.py"),
        ("pkg/sub/__init__.py", ".b:x", "pkg/sub/b.py"),
        ("pkg/a.py", "main", "main.py"),
    ],
)
def test_a_module_is_found(path, raw, file):
    assert resolved(PLAIN, path, raw) == ([file], [])


def test_what_leads_nowhere_or_out_of_the_project_is_no_edge():
    assert resolved(PLAIN, "pkg/a.py", "...:x", "....y:z", ".none:x", ".a:x", "..:x") == ([], [])
    assert resolved(PLAIN, "pkg/a.py", "requests.auth:x", "requests", "os.path", "__future__:annotations") == (
        [],
        ["requests", "os"],
    )
    assert resolved(PLAIN, "pkg/a.py", "pkg.a", ".a:x") == ([], [])


def test_a_src_layout_and_tests_beside_it():
    paths = [
        "src/lib/__init__.py",
        "src/lib/x.py",
        "tests/test_x.py",
        "tests/desk.py",
        "tests/conftest.py",
    ]
    assert resolved(paths, "tests/test_x.py", "lib.x:f", "desk:g") == (
        ["src/lib/x.py", "tests/desk.py"],
        [],
    )


def test_of_several_packages_of_one_name_the_one_on_the_way_up_wins_then_the_nearest():
    paths = [f"services/{s}/{p}" for s in ("one", "two") for p in ("app/__init__.py", "app/db.py", "tests/t.py")]
    paths.append("tool.py")
    assert resolved(paths, "services/two/tests/t.py", "app.db") == (["services/two/app/db.py"], [])
    assert resolved(paths, "tool.py", "app.db") == ([], ["app"])


def test_a_namespace_package_has_modules_but_no_file():
    paths = ["ns/one/__init__.py", "ns/two/x.py", "m.py"]
    assert resolved(paths, "m.py", "ns.one", "ns.two.x:f", "ns:one", "ns.two:x") == (
        ["ns/one/__init__.py", "ns/two/x.py"],
        [],
    )


def test_the_directory_of_a_project_file_is_a_place_of_modules():
    paths = ["backend/app/db.py", "backend/scripts/run.py", "web/x.py"]
    assert resolved(paths, "web/x.py", "app.db") == ([], ["app"])
    assert resolved(paths, "web/x.py", "app.db", projects=["backend"]) == (["backend/app/db.py"], [])


def test_the_standard_library_is_not_taken_for_a_file_of_its_name():
    paths = ["types.py", "queue/__init__.py", "platform/core.py", "m.py"]
    assert resolved(paths, "m.py", "types", "queue", "types:X", "platform.core:Y") == (
        ["platform/core.py"],
        ["types", "queue"],
    )


def test_a_package_goes_before_a_module_of_its_name_as_python_has_it():
    assert resolved(["foo.py", "foo/__init__.py", "m.py"], "m.py", "foo") == (["foo/__init__.py"], [])
    assert resolved(["foo.py", "foo.pyi", "m.py"], "m.py", "foo") == (["foo.py"], [])
    assert resolved(["foo.py", "foo/a.txt.py", "m.py"], "m.py", "foo") == (["foo.py"], [])


def test_a_part_of_a_module_that_two_equally_near_have_is_nobodys():
    files = ["s1/src/utils/x.py", "s2/src/utils/x.py", "t/m.py"]
    assert resolved(files, "t/m.py", "utils.x.made")[0] == []
    assert resolved(files[1:], "t/m.py", "utils.x.made")[0] == ["s2/src/utils/x.py"]
    assert resolved(files, "s2/tests/m.py", "utils.x.made")[0] == ["s2/src/utils/x.py"]
