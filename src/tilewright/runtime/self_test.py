"""The self-test: whether compiled kernels work on systems on which they were never tested.

    failure()           # "" on Linux and Windows; on macOS the result of a process that runs one kernel

`python -m tilewright.tools.prove` is that process: it launches a kernel over ragged data on all threads and compares
with NumPy. It is a separate process because it may crash. A success is recorded in the cache folder, for one version of
this package on one version of the system. A failure is not: each process tries again, gives the reason, and runs
kernels in Python.
"""

from __future__ import annotations

import subprocess
import sys
import warnings
from contextlib import suppress
from functools import cache
from pathlib import Path

from tilewright.compiler.cache_key import compiler_sources
from tilewright.runtime.cache.folders import is_trusted, make_private, write_whole
from tilewright.support import knobs
from tilewright.support.hashing import hash_of
from tilewright.support.system import SYSTEM, is_raised_by_handler

COMMAND = (sys.executable, "-m", "tilewright.tools.prove")
PASSED = "the kernel is right"
_SECONDS = 120


@cache
def failure() -> str:
    """The reason why compiled kernels cannot be trusted here, which a RuntimeWarning gives; "" if they can."""
    if not SYSTEM.wants_proof or _is_proven():
        return ""
    reason = _reason()
    if reason:
        SYSTEM.distrust(reason)
        warnings.warn(f"kernels run in Python, slowly: {reason}", RuntimeWarning, stacklevel=2)
    else:
        place = _place()
        with suppress(OSError):
            make_private(place.parent)
            write_whole(place, PASSED.encode())
    return reason


def _reason() -> str:
    try:
        done = subprocess.run(COMMAND, capture_output=True, text=True, timeout=_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        if is_raised_by_handler(error):
            raise
        return f"the self-test of compiled kernels did not end: {error}"
    if done.returncode == 0 and PASSED in done.stdout:
        return ""
    last = (done.stderr.strip() or done.stdout.strip() or "it said nothing").splitlines()[-1]
    return f"the self-test of compiled kernels ended with {done.returncode}: {last}"


def _place() -> Path:
    facts = f"{compiler_sources()} {SYSTEM.version()} {sys.version}"
    return Path(knobs.cache.dir).expanduser() / f"self-test-{hash_of(facts.encode()).hexdigest()[:32]}"


def _is_proven() -> bool:
    place = _place()
    return is_trusted(place.parent) and place.exists()
