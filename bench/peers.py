"""The libraries that we are compared with, each optional; importing this module imports those that are there.

    if torch: …            # None where it is not installed

Environment variables that limit their threads are set by `run.py` before this process starts.
"""

from __future__ import annotations

import importlib
import importlib.util
from typing import Any


def _optional(name: str) -> Any:
    return importlib.import_module(name) if importlib.util.find_spec(name) else None


torch = _optional("torch")
jax = _optional("jax")
numba = _optional("numba")
ml_dtypes = _optional("ml_dtypes")


def limit_threads(threads: int) -> None:
    """Let torch use so many threads; the others have read the environment."""
    if torch:
        torch.set_num_threads(threads)


def versions() -> dict[str, str]:
    """The versions of the peers that are installed."""
    found = {"numpy": importlib.import_module("numpy"), "torch": torch, "jax": jax, "numba": numba}
    return {name: module.__version__ for name, module in found.items() if module}
