"""How much code the kernels become that tests compile for GPUs: a line for each, of all tests of some folders.

    matmul sm_90 4x1: 49152 bytes, 83 ops, 9 layouts, 1204 instructions, 5f0c11d2

A choice that changes shows here, where results stay what they are: the last word tells other ops, other layouts and
another text of LLVM's, but for where its lines come from. Which test compiles a kernel first, and whether any does, is
left open. `pytest --update-goldens` adds lines; without the file it writes those of the tests that it runs.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from time import sleep
from typing import Any
from zlib import crc32

import pytest

from code_counts import shown
from gpu_code import instructions
from tilewright.backends.nvidia.backend import NvidiaBackend

GOLDEN = Path(__file__).parent / "goldens" / "nvidia" / "compiled.txt"
PLACES = re.compile(r",? !dbg !\d+|^!.*\n", re.MULTILINE)
"""Lines of the source that LLVM IR names: they move when a file of tests does."""
LEFT_OUT = ("slow", "spared", "long")
"""Marks of tests whose kernels are not compared: those that `make check` leaves out."""


@pytest.fixture(autouse=True)
def compiled_as_before(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Compares the kernels that a test compiles; `conftest.py` of a folder imports it."""
    if any(map(request.node.get_closest_marker, LEFT_OUT)):
        yield
        return
    lines = watched(monkeypatch)
    yield
    compare(lines, GOLDEN, update=request.config.getoption("--update-goldens"))


def watched(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The lines of kernels that are compiled from now on."""
    lines: list[str] = []
    make_llir: Callable[..., str] = NvidiaBackend.make_llir

    def noted(backend: NvidiaBackend, module: Any, metadata: dict[str, Any], options: Any) -> str:
        ops = Counter(op.name for op in module.walk())
        types = {value.type for op in module.walk() for value in op.results}
        layouts = sorted({encoding for type in types if (encoding := getattr(type, "encoding", None))})
        text = make_llir(backend, module, metadata, options)
        found = instructions(text)
        mix = crc32(" ".join([shown(ops), *layouts, without_places(text)]).encode())
        where = f"{metadata['name']} sm_{backend.device.capability} {options.num_warps}x{options.num_ctas}"
        sizes = f"{metadata['shared']} bytes, {ops.total()} ops, {len(layouts)} layouts, {found.total()} instructions"
        lines.append(f"{where}: {sizes}, {mix:08x}")
        return text

    monkeypatch.setattr(NvidiaBackend, "make_llir", noted)
    return lines


def without_places(text: str) -> str:
    """LLVM IR without debug information."""
    return PLACES.sub("", text)


def compare(lines: list[str], table: Path, *, update: bool) -> None:
    """Fail where a kernel becomes other code than its lines in the table say; with `update`, note it."""
    if update:
        with _alone(table):
            table.write_text("".join(f"{line}\n" for line in sorted({*_known(table), *lines})))
        return
    for line in set(lines) - _known(table):
        kernel = line.partition(":")[0]
        before = "\n".join(other for other in sorted(_known(table)) if other.startswith(f"{kernel}:"))
        pytest.fail(f"compiled to\n{line}\nwhere the golden has\n{before}", pytrace=False)


def _known(table: Path) -> set[str]:
    return set(table.read_text().splitlines()) if table.exists() else set()


@contextmanager
def _alone(table: Path) -> Iterator[None]:
    """Worker processes write one after the other."""
    lock = table.with_suffix(".lock")
    while True:
        try:
            lock.mkdir()
        except FileExistsError:
            sleep(0.01)
        else:
            break
    try:
        yield
    finally:
        lock.rmdir()
