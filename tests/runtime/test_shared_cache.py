"""One cache folder of machines of several kinds, as on NFS: entries of others are neither loaded nor touched."""

from __future__ import annotations

import os
import shutil
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright as tw
import tilewright.language as tl
from tilewright.backends.base import GPUTarget
from tilewright.backends.llvm import machine
from tilewright.backends.llvm.host_cpu import HostCpu
from tilewright.backends.registry import make_backend
from tilewright.runtime.cache import store
from tilewright.runtime.cache.managers import base32
from tilewright.runtime.cache.upkeep import entries, evict
from tilewright.runtime.compile import ASTSource, compile
from tilewright.runtime.kernel import CompiledKernel

OTHERS = ("x86-64-v2", "x86-64-v4", "neoverse-n1", "neoverse-v1", "a64fx", "apple-m2")
SIGNATURE = {"x_ptr": "*fp32", "out_ptr": "*fp32", "BLOCK": "constexpr"}


@tw.jit
def double(x_ptr, out_ptr, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    tl.store(out_ptr + offsets, 2 * tl.load(x_ptr + offsets))


@pytest.fixture(autouse=True)
def root(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(store, "_told", [])
    return tmp_path / "cache"


def kept(cpu: str = "0") -> tuple[CompiledKernel, str]:
    """The kernel for a machine, from the cache if it is there, and its folder's name."""
    kernel = compile(ASTSource(double, SIGNATURE, {"BLOCK": 64}), target=GPUTarget("cpu", cpu, 0))
    return kernel, base32(kernel.hash)


def runs(kernel: CompiledKernel) -> None:
    x = np.arange(64, dtype=np.float32)
    out = np.zeros_like(x)
    kernel[(1,)](x, out, 64)
    np.testing.assert_array_equal(out, 2 * x)


def contents(folder: Path) -> dict[str, tuple[bytes, int]]:
    """Each file with what is in it and when it was written."""
    return {path.name: (path.read_bytes(), path.stat().st_mtime_ns) for path in folder.iterdir()}


@pytest.fixture
def foreign(root: Path) -> dict[str, Path]:
    """Folders of what other machines compiled."""
    here = machine.host_target().identity
    names = [cpu for cpu in OTHERS if machine.host_target(cpu).identity != here]
    return {cpu: root / kept(cpu)[1] for cpu in names}


def test_entries_of_others_are_neither_loaded_nor_touched(foreign: dict[str, Path], root: Path) -> None:
    before = {cpu: contents(folder) for cpu, folder in foreign.items()}
    kernel, own = kept()
    runs(kernel)
    runs(kept()[0])
    assert len({*foreign.values(), root / own}) == len(foreign) + 1 == len(list(entries(root)))
    assert {cpu: contents(folder) for cpu, folder in foreign.items()} == before


def test_damage_of_others_is_not_noticed(foreign: dict[str, Path]) -> None:
    for folder in foreign.values():
        for path in folder.iterdir():
            path.write_bytes(path.read_bytes()[:7])
    before = {cpu: contents(folder) for cpu, folder in foreign.items()}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        runs(kept()[0])
        runs(kept()[0])
    assert {cpu: contents(folder) for cpu, folder in foreign.items()} == before


def test_a_damaged_entry_is_mended_beside_those_of_others(foreign: dict[str, Path], root: Path) -> None:
    own = root / kept()[1]
    before = {cpu: contents(folder) for cpu, folder in foreign.items()}
    (own / "double.image").write_bytes(b"\x7fELF of another machine")
    with pytest.warns(RuntimeWarning, match="damaged"):
        runs(kept()[0])
    assert not list(store.damages(own))
    assert {cpu: contents(folder) for cpu, folder in foreign.items()} == before


@pytest.mark.parametrize("cpu", OTHERS)
def test_an_entry_under_the_name_of_another_is_not_loaded(cpu: str, root: Path) -> None:
    """Somebody renamed a folder: its code is of another machine, though each file is what was written."""
    (_, own), (_, other) = kept(), kept(cpu)
    if own == other:
        return
    shutil.rmtree(root / own)
    shutil.copytree(root / other, root / own)
    with pytest.warns(RuntimeWarning, match="of another key"):
        runs(kept()[0])
    runs(kept()[0])


def test_what_others_use_outlives_what_nobody_does(foreign: dict[str, Path], root: Path) -> None:
    """Eviction goes by the time of use, whoever used it."""
    old, *used = foreign.values()
    for path in old.iterdir():
        then = path.stat().st_mtime - 100_000
        os.utime(path, (then, then))
    kept()
    sizes = {entry.folder: entry.size for entry in entries(root)}
    assert evict(root, sum(sizes.values()) - 1) == 1
    assert not old.exists()
    assert all(folder.exists() for folder in used)
    runs(kept()[0])


@pytest.fixture
def on_arm(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Makes this machine one with scalable vectors of so many bits, as far as targets go."""

    def become(bits: int) -> machine.Target:
        features = frozenset({"bf16", "dotprod", "fullfp16", "i8mm"} | ({"sve"} if bits else set()))
        target = machine._arm_host(HostCpu("", 0, features, bits))
        monkeypatch.setattr(machine, "_detected_host", lambda: target)
        make_backend.cache_clear()
        return target

    yield become
    make_backend.cache_clear()


def test_the_length_of_scalable_vectors_is_part_of_the_key(on_arm: Any, root: Path) -> None:
    names = {}
    for bits in (0, 128, 256, 512, 1024):
        target = on_arm(bits)
        names[bits] = kept()[1]
        assert target.vector_bits == (bits if bits in machine.SVE_BITS else 128)
        assert target.has_sve == (bits in machine.SVE_BITS)
        assert target.runs_here()
    assert names[0] == names[128] == names[1024], "NEON"
    assert len(set(names.values())) == 3 == len(list(entries(root)))


def test_code_of_another_length_does_not_run(on_arm: Any) -> None:
    targets = {bits: on_arm(bits) for bits in (0, 256, 512)}
    for bits in targets:
        on_arm(bits)
        assert {other for other, target in targets.items() if target.runs_here()} == {0, bits}
