"""The build backend: setuptools', whose archives depend on nothing but what is in them.

Files stand in the order of their names, belong to nobody, have one mode and one time: SOURCE_DATE_EPOCH, in seconds, or
the first one that archives can have. So two builds of one tree are equal to the byte.
"""

from __future__ import annotations

import gzip
import io
import os
import tarfile
import time
import zipfile
from pathlib import Path
from typing import Any

from setuptools import build_meta
from setuptools.build_meta import *  # noqa: F403 - all that installers may ask for; two of them are defined here

_FIRST_TIME = 315_532_800  # 1980-01-01, before which ZIP has no dates
_MODE = 0o644


def build_wheel(wheel_directory: str, *options: Any, **named: Any) -> str:
    """Build a wheel; returns its name."""
    name: str = build_meta.build_wheel(wheel_directory, *options, **named)
    path = Path(wheel_directory, name)
    with zipfile.ZipFile(path) as built:
        content = {entry.filename: built.read(entry) for entry in built.infolist() if not entry.is_dir()}
    path.unlink()
    with zipfile.ZipFile(path, "w") as made:
        for file in sorted(content, key=lambda file: (".dist-info/" in file, file)):  # installers want them last
            entry = zipfile.ZipInfo(file, time.gmtime(_time())[:6])
            entry.compress_type, entry.external_attr, entry.create_system = zipfile.ZIP_DEFLATED, _MODE << 16, 3
            made.writestr(entry, content[file])
    return name


def build_sdist(sdist_directory: str, *options: Any, **named: Any) -> str:
    """Build an archive of the sources; returns its name."""
    name: str = build_meta.build_sdist(sdist_directory, *options, **named)
    path = Path(sdist_directory, name)
    made = io.BytesIO()
    with tarfile.open(path) as built, tarfile.open(fileobj=made, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for member in sorted(filter(tarfile.TarInfo.isfile, built.getmembers()), key=lambda member: member.name):
            entry = tarfile.TarInfo(member.name)
            entry.size, entry.mtime, entry.mode = member.size, _time(), _MODE
            archive.addfile(entry, built.extractfile(member))
    with path.open("wb") as file, gzip.GzipFile("", "wb", fileobj=file, mtime=_time()) as packed:
        packed.write(made.getvalue())
    return name


def _time() -> int:
    return max(_FIRST_TIME, int(os.environ.get("SOURCE_DATE_EPOCH", _FIRST_TIME)))
