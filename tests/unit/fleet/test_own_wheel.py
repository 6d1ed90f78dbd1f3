"""The wheel of this installation has everything that an installation needs."""

import csv
import io
import zipfile
from pathlib import Path

from orchestrator.fleet import own_wheel


def test_the_wheel_has_code_data_metadata_and_a_record_of_each_file(tmp_path):
    wheel = own_wheel.build(tmp_path)
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        (record,) = (name for name in names if name.endswith(".dist-info/RECORD"))
        listed = {row[0] for row in csv.reader(io.StringIO(archive.read(record).decode()))}
    assert listed == names
    package = Path(own_wheel.__file__).parents[1]
    assert {f"orchestrator/{path.relative_to(package).as_posix()}" for path in package.rglob("*.py")} <= names
    for name in ("_data/prompts/agent.md", "_data/schemas", "_data/sample", "fleet/schema"):
        assert any(found.startswith(f"orchestrator/{name}") for found in names), name
    folder = record.removesuffix("RECORD")
    assert {folder + "METADATA", folder + "WHEEL", folder + "entry_points.txt"} <= names
