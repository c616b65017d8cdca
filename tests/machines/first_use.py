"""A user's first steps on a machine: the doctor, the rows of the demo on the CPU, and a small launch.

    python tests/machines/first_use.py

prints the doctor's page and the names of the rows, and after each step what was found:

    doctor: nothing wrong
    demo: 13 rows right
    launch: 0.11 µs

The demo compares with NumPy, but nothing is timed, since emulators are slow. The launch is an addition on 16 numbers
by a kernel that was launched before, from one thread: the best of 40 times 2000. The exit status is 1 if anything is
wrong.
"""

from __future__ import annotations

import subprocess
import sys
import timeit
from pathlib import Path

import numpy as np

sys.path.append(str(Path(__file__).parents[2] / "examples"))
ROUNDS, LAUNCHES = 40, 2000


def doctor() -> str:
    """The lines of the doctor that say what is wrong, in one; nothing where all is well."""
    command = [sys.executable, "-m", "tilewright", "doctor"]
    asked = subprocess.run(command, capture_output=True, text=True, encoding="utf-8", check=False)
    print(asked.stdout, end="")
    wrong = [line for line in asked.stdout.splitlines() if line.startswith("wrong")]
    if asked.returncode and not wrong:
        wrong = asked.stderr.splitlines()[-1:]
    return "; ".join(wrong)


def demo() -> int:
    """The number of rows, each of which has to be right."""
    import demo as tour  # chooses one thread

    tour.best_seconds = lambda ours, numpy: [1.0, 2.0]
    cases = tour.cases()
    for case in cases:
        tour.compare(case)
        print(f"right  {case.name}", flush=True)
    return len(cases)


def launch() -> float:
    """Seconds that an addition on 16 numbers takes."""
    from vector_add import add_kernel

    x, out = np.ones(16, np.float32), np.empty(16, np.float32)

    def launches() -> None:
        for _ in range(LAUNCHES):
            add_kernel[(1,)](x, x, out, 16, BLOCK=16)

    seconds = min(timeit.repeat(launches, repeat=ROUNDS, number=1)) / LAUNCHES
    assert (out == 2).all()
    return seconds


def main() -> int:
    wrong = doctor()
    print(f"doctor: {wrong or 'nothing wrong'}", flush=True)
    print(f"demo: {demo()} rows right", flush=True)
    print(f"launch: {launch() * 1e6:.2f} µs", flush=True)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
