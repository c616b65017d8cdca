"""Kernels in pickles: by reference where they can be imported, else by source, and never as something else."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright as tw
import tilewright.language as tl
from tilewright.runtime import pickling

FACTOR = tl.constexpr(3)


@tw.jit
def by_name(out):
    tl.store(out, 1)


def helper(n: int) -> int:
    return n + 1


def made(number: int) -> Any:
    """A kernel that nobody can import, with everything that a kernel may use."""
    offset = tl.constexpr(number)

    @tw.constexpr_function
    def twice(n: int) -> int:
        return 2 * helper(n)

    @tw.jit
    def plus(x):
        return x + FACTOR

    @tw.jit(do_not_specialize=["n"])
    def kernel(x, out, n, BLOCK: tl.constexpr = 8):
        at = tl.arange(0, BLOCK)
        tl.store(out + at, plus(tl.load(x + at)) * offset + twice(n - n + 1 if False else 1), mask=at < n)

    return kernel


def forgotten(value: bytes) -> Any:
    """The function as a process gets it that has never seen it."""
    pickling._arrived.clear()
    return pickle.loads(value)


def test_what_can_be_imported_goes_by_name() -> None:
    text = pickle.dumps(by_name)
    assert pickle.loads(text) is by_name
    assert len(text) < 100


def test_others_go_by_source_and_stay_the_same_function() -> None:
    kernel = made(5)
    there = forgotten(pickle.dumps(kernel))
    assert there is not kernel
    assert there.cache_key == kernel.cache_key
    assert there.src == kernel.src
    assert (there.file_name, there.starting_line_number) == (kernel.file_name, kernel.starting_line_number)
    assert there.do_not_specialize == ["n"]
    x, here, elsewhere = np.arange(8.0), np.zeros(8), np.zeros(8)
    compiled = kernel[(1,)](x, here, 7)
    assert there[(1,)](x, elsewhere, 7).hash == compiled.hash, "the entry of the disk cache is the same"
    np.testing.assert_array_equal(here, np.where(np.arange(8) < 7, (x + 3) * 5 + 4, 0))
    np.testing.assert_array_equal(elsewhere, here)


def test_the_same_message_gives_the_same_object() -> None:
    text = pickle.dumps(made(5))
    assert forgotten(text) is pickle.loads(text)
    assert pickle.loads(pickle.dumps(made(6))) is not pickle.loads(text)


def test_copies_are_the_function_itself() -> None:
    kernel = made(5)
    assert copy.copy(kernel) is copy.deepcopy(kernel) is kernel


@pytest.mark.parametrize("frontend", ["ast", "bytecode", "auto"])
def test_vectorized_functions(frontend: str) -> None:
    scale = 2.5

    @tw.vectorize(frontend=frontend)
    def scaled(a):
        return a * scale + sum([a for _ in (1, 2)])

    there = forgotten(pickle.dumps(scaled))
    x = np.arange(4.0)
    np.testing.assert_array_equal(there(x), scaled(x))
    assert there.frontend == frontend


def test_another_function_is_refused() -> None:
    kernel = made(5)
    make, (message,) = kernel.__reduce__()
    lines = tuple(line.replace("offset", "offset * 1") for line in message.function.lines)
    other = message._replace(function=message.function._replace(lines=lines))
    with pytest.raises(pickle.UnpicklingError, match=r"made.<locals>.kernel of .* means something else"):
        make(other)


def test_a_function_without_source_is_refused() -> None:
    scope: dict[str, Any] = {"tw": tw}
    exec("f = tw.vectorize(lambda a: a + 1)", scope)
    with pytest.raises(pickle.PicklingError, match="cannot be sent to another process"):
        pickle.dumps(scope["f"])


PROGRAM = """
import pickle, sys
import numpy as np
import tilewright as tw
import tilewright.language as tl

LIMIT = tl.constexpr(4)

def bound(n):
    return n + LIMIT.value

@tw.jit
def fill(out, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(out + at, at + LIMIT)

@tw.vectorize
def square(a):
    return a * a + bound(1)

print("this runs once")
with open(sys.argv[1], "wb") as file:
    pickle.dump((fill, square), file)
"""

READER = """
import pickle, sys
import numpy as np
fill, square = pickle.load(open(sys.argv[1], "rb"))
out = np.zeros(8, np.int32)
fill[(1,)](out, BLOCK=8)
print(out.tolist(), square(np.arange(3)).tolist(), fill.src.count("tl.store"))
"""


@pytest.mark.parametrize("keeps_file", [pytest.param(True, marks=pytest.mark.spared), False])
def test_functions_of_a_script_reach_a_process_that_does_not_have_it(tmp_path: Path, keeps_file: bool) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    (tmp_path / "reader.py").write_text(READER)
    message = tmp_path / "message"
    subprocess.run([sys.executable, tmp_path / "program.py", message], check=True, cwd=tmp_path)
    if not keeps_file:
        (tmp_path / "program.py").unlink()
    command = [sys.executable, tmp_path / "reader.py", message]
    done = subprocess.run(command, check=True, capture_output=True, text=True, cwd=tmp_path)
    assert done.stdout == "[4, 5, 6, 7, 8, 9, 10, 11] [5, 6, 9] 1\n"
