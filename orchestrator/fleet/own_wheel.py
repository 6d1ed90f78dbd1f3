"""Makes a wheel of this installation, so that another machine gets the very version that runs here."""

from __future__ import annotations

import base64
import hashlib
import zipfile
from importlib import metadata
from pathlib import Path

import orchestrator
from orchestrator.base import package_data
from orchestrator.base.errors import Environment

_META = ("METADATA", "WHEEL", "entry_points.txt")


def build(directory: Path) -> Path:
    """Write the wheel into a directory; its path. Environment ``io_failed`` if this installation has no metadata."""
    try:
        here = metadata.distribution("orchestrator")
    except metadata.PackageNotFoundError:
        raise Environment(
            "io_failed", "this installation of orchestrator has no metadata", "install it with pip"
        ) from None
    info = f"orchestrator-{here.version}.dist-info"
    package = Path(orchestrator.__file__).parent
    files = {
        f"orchestrator/{path.relative_to(package).as_posix()}": path.read_bytes()
        for path in sorted(package.rglob("*"))
        if path.is_file() and "__pycache__" not in path.parts
    }
    for name, folder in package_data.outside_the_package().items():
        files |= {
            f"orchestrator/_data/{name}/{path.relative_to(folder).as_posix()}": path.read_bytes()
            for path in sorted(folder.rglob("*"))
            if path.is_file() and "__pycache__" not in path.parts
        }
    files |= {f"{info}/{name}": text.encode() for name in _META if (text := here.read_text(name))}
    record = "".join(f"{name},{_hash(data)},{len(data)}\n" for name, data in files.items())
    files[f"{info}/RECORD"] = f"{record}{info}/RECORD,,\n".encode()
    wheel = directory / f"orchestrator-{here.version}-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            archive.writestr(zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0)), data, zipfile.ZIP_DEFLATED)
    return wheel


def _hash(data: bytes) -> str:
    return "sha256=" + base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
