"""Tests of the NVIDIA back end share the modules of this folder; what they compile is compared."""

from __future__ import annotations

import sys
from pathlib import Path

from compiled_code import compiled_as_before

__all__ = ["compiled_as_before"]

sys.path.insert(0, str(Path(__file__).parent))
