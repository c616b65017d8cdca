"""Caches without kernels for processes that tests start.

The native side of launches is there: compiling it would take each process as long as a kernel or two. Tests of how it
gets into a cache take an empty folder.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

OF_THIS_RUN = Path(os.environ["TRITON_CACHE_DIR"])
"""The cache of this worker, before any test takes another."""


def cache_without_kernels(folder: Path) -> Path:
    """Make `folder` a cache that has the native runtime of this process, if this process has one, and no kernels."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    for blob in OF_THIS_RUN.glob("*.blob"):
        shutil.copyfile(blob, folder / blob.name)
    return folder
