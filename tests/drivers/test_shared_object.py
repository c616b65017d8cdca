"""Blobs as ELF shared objects, which dlopen loads without a linker or a C compiler."""

from __future__ import annotations

import ctypes
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import tilewright as tw
import tilewright.language as tl
from tilewright.backends.llvm.machine import compile_object, host_target
from tilewright.runtime.drivers.cpu.blob import LinkError, link
from tilewright.runtime.drivers.cpu.launcher import run_grid
from tilewright.runtime.drivers.cpu.loader import host_machine
from tilewright.runtime.drivers.cpu.records import launch_record
from tilewright.runtime.drivers.cpu.shared_object import shared_object

HOST_CPU = {"x86-64": "x86-64-v2", "aarch64": "neoverse-n1"}[host_machine()]

TABLE = """
@table = internal constant [4 x i64] [i64 10, i64 20, i64 30, i64 40]
define i64 @entry(i64 %i) {
  %p = getelementptr i64, ptr @table, i64 %i
  %v = load i64, ptr %p
  ret i64 %v
}
define i64 @second(i64 %i) {
  %a = call i64 @entry(i64 %i)
  %b = add i64 %a, 1
  ret i64 %b
}
define i64 @third(i64 %i) {
  ret i64 %i
}
"""
SCRIPT = """
import ctypes, sys
library = ctypes.CDLL(sys.argv[1])
print(library.entry(2), library.second(3), library.third(9), hasattr(library, "fourth"))
"""
PROGRAM = """
#include <dlfcn.h>
#include <stdio.h>
int main(int count, char **words) {
  void *library = dlopen(words[1], RTLD_NOW | RTLD_LOCAL);
  if (library == NULL) { puts(dlerror()); return 1; }
  long (*second)(long) = (long (*)(long))dlsym(library, "second");
  printf("%ld %d\\n", second(1), dlsym(library, "fourth") == NULL);
  return dlclose(library);
}
"""


def written(folder: Path, names: tuple[str, ...] = ("entry", "second", "third"), cpu: str = HOST_CPU) -> Path:
    file = folder / "table.so"
    file.write_bytes(shared_object(link(compile_object(TABLE, host_target(cpu))), names))
    return file


def test_another_process_calls_its_functions(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", SCRIPT, written(tmp_path)], capture_output=True, text=True, check=True)

    assert done.stdout.split() == ["30", "41", "9", "False"]


@pytest.mark.quick
@pytest.mark.parametrize("names", [(), ("third",), ("third", "entry")])
def test_only_the_named_symbols_are_found(tmp_path: Path, names: tuple[str, ...]) -> None:
    library = ctypes.CDLL(str(written(tmp_path, names)))

    assert {name for name in ("entry", "second", "third") if hasattr(library, name)} == set(names)


@pytest.mark.needs_cc
def test_a_c_program_loads_it(tmp_path: Path) -> None:
    (tmp_path / "main.c").write_text(PROGRAM)
    subprocess.run(["cc", tmp_path / "main.c", "-o", tmp_path / "main", "-ldl"], check=True)

    done = subprocess.run([tmp_path / "main", written(tmp_path)], capture_output=True, text=True, check=True)

    assert done.stdout.split() == ["21", "1"]


@pytest.mark.needs_binutils
@pytest.mark.parametrize("cpu", ["x86-64-v2", "neoverse-n1"])
def test_binutils_read_it_without_a_complaint(tmp_path: Path, cpu: str) -> None:
    file = written(tmp_path, cpu=cpu)
    rows = subprocess.run(["readelf", "-aW", file], capture_output=True, text=True, check=True)
    names = subprocess.run(["nm", "-D", file], capture_output=True, text=True, check=True)

    assert rows.stderr == ""
    assert "Warning" not in rows.stdout
    assert [line.split()[1:] for line in names.stdout.splitlines()] == [["T", "entry"], ["T", "second"], ["T", "third"]]
    assert "RWE" not in rows.stdout  # nothing is both writable and executable, the stack neither


def test_a_missing_symbol_is_named(tmp_path: Path) -> None:
    with pytest.raises(LinkError, match="does not define fourth"):
        written(tmp_path, ("entry", "fourth"))


@tw.jit
def row_products(x_ptr, y_ptr, out_ptr, N: tl.constexpr):
    rows, columns = tl.arange(0, N)[:, None] * N, tl.arange(0, N)[None, :]
    start = tl.program_id(0) * N * N
    x, y = tl.load(x_ptr + start + rows + columns), tl.load(y_ptr + start + rows + columns)
    tl.store(out_ptr + start + rows + columns, tl.dot(x, tl.trans(y)))


def test_a_kernel_with_scratch_memory_runs_from_it(tmp_path: Path) -> None:
    x, y = (np.random.default_rng(seed).random((3, 64, 64), dtype=np.float32) for seed in (1, 2))
    out = np.zeros_like(x)
    compiled = row_products.warmup(x, y, out, N=64, grid=(1,))
    entry = compiled.metadata.entry
    file = tmp_path / "kernel.so"
    file.write_bytes(shared_object(link(compiled.asm["obj"]), [entry]))
    address = ctypes.cast(ctypes.CDLL(str(file))[entry], ctypes.c_void_p).value
    assert address is not None
    assert compiled.scratch_bytes > 0

    record = launch_record((3, 1, 1), [x.ctypes.data, y.ctypes.data, out.ctypes.data], compiled.types)
    run_grid(address, record, 3, scratch_bytes=compiled.scratch_bytes)

    np.testing.assert_allclose(out, x @ y.transpose(0, 2, 1), rtol=1e-5)
