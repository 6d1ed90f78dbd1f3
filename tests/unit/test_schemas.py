"""The JSON Schemas in the repository are those of the models, and describe what is written."""

import importlib.util
import json
from pathlib import Path

import jsonschema
import pytest

from orchestrator.base import package_data
from orchestrator.config.keys import Config
from orchestrator.core.schemas import SCHEMAS

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def tool():
    spec = importlib.util.spec_from_file_location("schemas_tool", ROOT / "tools" / "schemas.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_schemas_in_the_repository_are_current(tool):
    assert tool.stale() == [], "run: python tools/schemas.py"


def test_a_schema_that_is_missing_or_old_or_of_no_model_is_found(tool, tmp_path):
    assert len(tool.stale(tmp_path)) == len(tool.schemas()) > 8
    tool.write(tmp_path)
    assert tool.stale(tmp_path) == []
    (tmp_path / "meta.json").write_text("{}")
    (tmp_path / "extra.json").write_text("{}")
    (tmp_path / "run.json").unlink()
    assert tool.stale(tmp_path) == ["extra.json", "meta.json", "run.json"]
    tool.write(tmp_path)
    assert tool.stale(tmp_path) == []


def test_every_schema_is_one_and_is_what_the_command_line_shows():
    assert package_data.schema_names() == sorted([*SCHEMAS, "config", "team"])
    for name in package_data.schema_names():
        schema = package_data.schema(name)
        jsonschema.Draft202012Validator.check_schema(schema)
        assert schema["$schema"].endswith("2020-12/schema")
        assert schema["description"]


def test_the_schemas_refuse_what_the_models_refuse():
    task = {"v": 1, "seq": 1, "at": "2026-01-01T00:00:00.000Z", "type": "task", "epoch": 1, "task_id": "t", "payload": None, "position": 1, "crc": "00000000"}  # fmt: skip
    inbox = jsonschema.Draft202012Validator(package_data.schema("inbox"))
    assert inbox.is_valid(task)
    SCHEMAS["inbox"].validate_python(task)
    for wrong in (
        {"seq": 0},
        {"v": 2},
        {"type": "tsk"},
        {"at": "yesterday"},
        {"extra": 1},
        {"crc": "x"},
        {"task_id": ".."},
    ):
        assert not inbox.is_valid(task | wrong), wrong
        with pytest.raises(ValueError, match="validation error"):
            SCHEMAS["inbox"].validate_python(task | wrong)
    config = jsonschema.Draft202012Validator(package_data.schema("config"))
    assert config.is_valid(json.loads(Config().model_dump_json()))
    assert not config.is_valid({"enginee": "shell"})
