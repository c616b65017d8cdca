"""Hooks around compilations, loads and launches, with what Triton tells them."""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright as tw
import tilewright.language as tl
from tilewright import knobs


def work(grid: Any, metadata: Any, args: dict[str, Any]) -> dict[str, Any]:
    n = args["n"]
    return {"name": f"add_{n}", "flops": n, "bytes": 12 * n, "grid": grid, "warps": metadata.num_warps}


def add_source(x, out, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + offsets, tl.load(x + offsets, mask=offsets < n) + 1, mask=offsets < n)


@pytest.fixture
def add() -> Any:
    return tw.jit(add_source, launch_metadata=work)


@pytest.fixture(autouse=True)
def no_hooks() -> Iterator[None]:
    yield
    knobs.runtime.jit_cache_hook = knobs.runtime.jit_post_compile_hook = None
    for name in ("launch_enter", "launch_exit", "kernel_load_start", "kernel_load_end", "kernel_unload"):
        chain = getattr(knobs.runtime, f"{name}_hook")
        for call in tuple(chain.calls):
            chain.remove(call)


X, OUT = np.arange(64, dtype=np.float32), np.zeros(64, np.float32)


def test_a_function_is_assigned_as_hook(add: Any) -> None:
    before, seen = knobs.runtime.launch_enter_hook, []
    for _ in range(3):
        add[(2,)](X, OUT, 64, BLOCK=32)
    knobs.runtime.launch_enter_hook = lambda metadata: seen.append(metadata.get()["name"])
    try:
        add[(2,)](X, OUT, 64, BLOCK=32)
        knobs.runtime.launch_enter_hook = None
        add[(2,)](X, OUT, 64, BLOCK=32)
    finally:
        knobs.runtime.launch_enter_hook = before
    assert seen == ["add_64"]


def test_launch_hooks_surround_each_launch(add: Any) -> None:
    events: list[Any] = []
    bound = add[(2,)]
    for _ in range(3):  # native from the second on
        kernel = bound(X, OUT, 64, BLOCK=32)
    knobs.runtime.launch_enter_hook.add(lambda metadata: events.append(metadata.get()))
    knobs.runtime.launch_exit_hook.add(lambda metadata: events.append(("exit", OUT.copy(), metadata.get()["name"])))
    OUT[:] = 0
    bound(X, OUT, 64, BLOCK=32)
    enter, (_, result, name) = events
    assert enter == {
        "name": "add_64",
        "function": kernel.function,
        "stream": 0,
        "flops": 64,
        "bytes": 768,
        "grid": (2, 1, 1),
        "warps": 4,
    }
    assert name == "add_64"
    assert np.array_equal(result, X + 1)


def test_hooks_may_be_added_and_removed_at_any_time(add: Any) -> None:
    seen: list[str] = []

    def hook(metadata: Any) -> None:
        seen.append(metadata.get()["name"])

    bound = add[(2,)]
    for step in range(6):
        if step % 2:
            knobs.runtime.launch_enter_hook.add(hook)
        bound(X, OUT, 64, BLOCK=32)
        add[lambda meta: (64 // meta["BLOCK"],)](X, OUT, 64, BLOCK=32)
        add[(2,)](X, OUT, 64, 32)
        knobs.runtime.launch_enter_hook.remove(hook)
    assert seen == ["add_64"] * 9


def test_compiled_kernels_tell_too(add: Any) -> None:
    seen: list[Any] = []
    compiled = add[(2,)](X, OUT, 64, BLOCK=32)
    knobs.runtime.launch_enter_hook.add(lambda metadata: seen.append(metadata.get()["flops"]))
    compiled[(2, 1, 1)](X, OUT, 64, 32)
    metadata = compiled.launch_metadata((2, 1, 1), 0, X, OUT, 64, 32)
    chains = knobs.runtime.launch_enter_hook, knobs.runtime.launch_exit_hook
    compiled.run(2, 1, 1, 0, compiled.function, compiled.packed_metadata, metadata, *chains, X, OUT, 64, 32)
    assert seen == [64, 64]


def test_metadata_is_computed_only_when_asked_for() -> None:
    calls: list[Any] = []
    kernel = tw.jit(add_source, launch_metadata=lambda *args: calls.append(args) or {})
    knobs.runtime.launch_enter_hook.add(lambda metadata: None)
    kernel[(2,)](X, OUT, 64, BLOCK=32)
    assert calls == []


@pytest.mark.parametrize("chain", ["launch_enter_hook", "launch_exit_hook"])
def test_an_exception_in_a_hook_is_the_launchs(add: Any, chain: str) -> None:
    def broken(metadata: Any) -> None:
        raise ArithmeticError("broken hook")

    OUT[:] = 0
    getattr(knobs.runtime, chain).add(broken)
    with pytest.raises(ArithmeticError, match="broken hook"):
        add[(2,)](X, OUT, 64, BLOCK=32)
    assert np.any(OUT) == (chain == "launch_exit_hook")
    getattr(knobs.runtime, chain).remove(broken)
    add[(2,)](X, OUT, 64, BLOCK=32)
    assert np.array_equal(OUT, X + 1)


def test_load_hooks(add: Any) -> None:
    events: list[Any] = []
    knobs.runtime.kernel_load_start_hook.add(lambda *args: events.append(args))
    knobs.runtime.kernel_load_end_hook.add(lambda *args: events.append(args))
    compiled = add.warmup(X, OUT, 64, BLOCK=32, grid=(1,))
    assert events == []
    assert compiled.module is None
    add[(2,)](X, OUT, 64, BLOCK=32)
    group = compiled.metadata_group
    assert events == [
        (None, None, "add_source", group, compiled.hash),
        (compiled.module, compiled.function, "add_source", group, compiled.hash),
    ]


@pytest.mark.usefixtures("small_heap")
def test_unload_hook(add: Any) -> None:
    gc.collect()  # kernels of other tests go first
    events: list[Any] = []
    knobs.runtime.kernel_unload_hook.add(lambda *args: events.append(args[2]))
    compiled = add.warmup(X, OUT, 64, BLOCK=32, grid=(1,))
    compiled._init_handles()
    assert compiled.module is not None
    compiled.__del__()
    compiled.__del__()
    assert events == ["add_source"]
    assert compiled.module is None
    compiled[(2,)](X, OUT, 64, 32)  # its code is still there


def test_compile_hooks_get_everything(add: Any) -> None:
    told: list[dict[str, Any]] = []
    knobs.runtime.jit_cache_hook = lambda **facts: told.append(facts)
    knobs.runtime.jit_post_compile_hook = lambda **facts: told.append(facts)
    for _ in range(3):
        add[(2,)](X, OUT, 64, BLOCK=32, num_warps=8)
    before, after = told
    assert before == after
    assert set(before) == {"key", "repr", "fn", "compile", "is_manual_warmup", "already_compiled"}
    assert before["fn"] == (__name__, "add_source", add)
    assert not before["is_manual_warmup"]
    assert not before["already_compiled"]
    facts = before["compile"]
    assert facts["key"] == before["key"] == next(iter(add.device_caches[0][0]))
    assert facts["signature"] == {"x": "*fp32", "out": "*fp32", "n": "i32", "BLOCK": "constexpr"}
    assert facts["constants"] == {(3,): 32}
    assert (facts["num_warps"], facts["num_ctas"], facts["num_stages"], facts["device"]) == (8, 1, 3, 0)
    assert facts["enable_fp_fusion"]
    assert not facts["launch_cooperative_grid"]
    assert facts["extern_libs"] == ()
    assert facts["configs"][0][2,] == [["tt.divisibility", 16]]
    assert not facts["is_warmup"]
    assert "num_warps=8" in before["repr"]
    assert "n: i32" in before["repr"]


def test_libraries_are_told_as_pairs(add: Any) -> None:
    told: list[Any] = []
    knobs.runtime.jit_post_compile_hook = lambda **facts: told.append(facts["compile"]["extern_libs"])
    for libraries in ({}, {"libdevice": "path"}, {"libdevice": "path"}):
        add[(2,)](X, OUT, 64, BLOCK=32, extern_libs=libraries)
    assert told == [(), (("libdevice", "path"),)]


def test_a_cache_hook_may_forbid(add: Any) -> None:
    knobs.runtime.jit_cache_hook = lambda **facts: True
    OUT[:] = 0
    assert add[(2,)](X, OUT, 64, BLOCK=32) is None
    assert add.warmup(X, OUT, 64, BLOCK=32, grid=(1,)) is None
    assert not np.any(OUT)
    knobs.runtime.jit_cache_hook = None
    assert add[(2,)](X, OUT, 64, BLOCK=32) is not None


@tw.jit
def plus(a, b):
    return a + b


@tw.jit
def general(x, out, pair, FUNCTION: tl.constexpr, kind: tl.constexpr, shape: tl.constexpr):
    offsets = tl.arange(0, shape[0][1])
    tl.store(out + offsets, FUNCTION(tl.load(x + offsets), pair[0]).to(kind))


def test_preload() -> None:
    told: list[str] = []
    knobs.runtime.jit_cache_hook = lambda **facts: told.append(facts["compile"]["specialization_data"])
    arguments = X, OUT, (3, 1), plus, tl.float32, ((1, 64), (2,))
    first = general[(1,)](*arguments)
    (data,) = told
    assert json.loads(data)["target"]["backend"] == "cpu"
    general.device_caches[0][0].clear()
    again = general.preload(data)
    assert again is not first
    assert again.hash == first.hash
    assert general[(1,)](*arguments) is again
    assert len(told) == 2  # the second time by `preload` itself
    assert np.array_equal(OUT, X + 3)
    with pytest.raises(RuntimeError, match=r"Specialization data is for .*general"):
        plus.preload(data)
    with pytest.raises(RuntimeError, match=r"Specialization data is for \{'backend': 'other'"):
        general.preload(data.replace('"backend": "cpu"', '"backend": "other"'))
    with pytest.raises(RuntimeError, match=r"resolve JITFunction .*:minus"):
        general.preload(data.replace(":plus", ":minus"))


PRELOADER = """
import sys
import numpy as np
from test_hooks import X, OUT, add_source
import tilewright as tw
add = tw.jit(add_source)
kernel = add.preload(sys.argv[1])
assert add[(2,)](X, OUT, 64, BLOCK=32, num_warps=8) is kernel
print(kernel.hash)
"""


@pytest.mark.spared
def test_preload_in_another_process() -> None:
    told: list[str] = []
    knobs.runtime.jit_cache_hook = lambda **facts: told.append(facts["compile"]["specialization_data"])
    kernel = tw.jit(add_source)[(2,)](X, OUT, 64, BLOCK=32, num_warps=8)
    run = subprocess.run(
        [sys.executable, "-c", PRELOADER, told[0]],
        cwd=Path(__file__).parent,
        env=dict(os.environ),
        check=True,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert run.stdout.strip() == kernel.hash


def test_debug_knob_counts_from_the_next_launch_on(add: Any) -> None:
    bound = add[(2,)]
    plain = [bound(X, OUT, 64, BLOCK=32) for _ in range(3)][-1]
    with knobs.runtime.scope():
        knobs.runtime.debug = True
        checked = bound(X, OUT, 64, BLOCK=32)
    assert (plain.metadata.debug, checked.metadata.debug) == (False, True)
    assert bound(X, OUT, 64, BLOCK=32) is plain
