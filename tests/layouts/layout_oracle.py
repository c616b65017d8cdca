"""Asks Triton's wheel about layouts, through `TRITON_PYTHON`, the interpreter of an environment with Triton 3.9."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

SCRIPT = Path(__file__).parent / "triton_oracle.py"


def asked(question: str, cases: Sequence[Any]) -> list[Any]:
    """Triton's answer to `question` of triton_oracle.py for every case. Its tests are marked `needs_triton_python`."""
    done = subprocess.run(
        [os.environ["TRITON_PYTHON"], str(SCRIPT), question],
        input=json.dumps(cases),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(answers) == len(cases), f"Triton died of {cases[len(answers)]}: {done.stderr[-500:]}"
    return answers
