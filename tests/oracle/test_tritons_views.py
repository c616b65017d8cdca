"""Layouts are drawn as Triton draws them, character by character."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import layout_views
import pytest


@pytest.mark.needs_triton_python
def test_drawings_are_tritons() -> None:
    command = [os.environ["TRITON_PYTHON"], str(Path(__file__).parent / "layout_views.py")]
    done = subprocess.run(command, text=True, capture_output=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    assert layout_views.views() == json.loads(done.stdout)
