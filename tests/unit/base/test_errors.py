"""Each code has one line in one of the tables."""

from orchestrator.base.error_codes import ERROR_CODES
from orchestrator.base.errors import CODES
from orchestrator.base.fleet_codes import FLEET_CODES


def test_no_code_is_in_both_tables():
    assert ERROR_CODES.keys() & FLEET_CODES.keys() == set()


def test_each_code_has_the_class_that_its_table_names():
    tables = ERROR_CODES | FLEET_CODES
    assert {code: entry[0].kind for code, entry in CODES.items()} == {
        code: entry[0] for code, entry in tables.items()
    }
