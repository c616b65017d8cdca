"""The stages that a kernel for a CPU would have on a GPU, on demand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright as tw
import tilewright.language as tl
from tilewright.backends.base import GPUTarget
from tilewright.compiler.artifact import Artifact
from tilewright.runtime import lazy_imports
from tilewright.runtime.compile import ASTSource, compile, make_backend
from tilewright.runtime.gpu_stages import NoGpuStageError


@pytest.fixture(autouse=True)
def own_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    monkeypatch.delenv("TILEWRIGHT_GPU_ARCH", raising=False)
    negate.device_caches.clear()
    return tmp_path


@tw.jit
def negate(x_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x_ptr + at, -tl.load(x_ptr + at, at < n), at < n)


def launched(**options: int) -> tw.CompiledKernel:
    return negate[(2,)](np.ones(100, np.float32), 100, BLOCK=64, **options)


def test_texts_of_a_gpu_are_those_of_compiling_for_it() -> None:
    kernel = launched(num_warps=2)
    signature = {"x_ptr": "*fp32", "n": "i32", "BLOCK": "constexpr"}
    source = ASTSource(negate, signature, {"BLOCK": 64}, {(0,): [["tt.divisibility", 16]]})
    direct = compile(source, target=GPUTarget("cuda", 90, 32), options={"num_warps": 2})
    assert kernel.asm["ttgir"] == direct.asm["ttgir"]
    assert kernel.asm["ptx"] == direct.asm["ptx"]


def test_own_stages_stay_what_they_are(own_cache: Path) -> None:
    kernel = launched()
    own, files = list(kernel.asm), sorted(own_cache.rglob("*"))
    assert "ptx" not in kernel.asm
    assert kernel.asm["ptx"]
    assert "ptx" not in kernel.asm
    assert list(kernel.asm) == own == ["source", "ttir", "ttcir", "llir", "asm", "obj"]
    assert "define" in str(kernel.asm["llir"])
    assert sorted(own_cache.rglob("*")) == files


def test_a_kernel_from_disk_has_them(own_cache: Path) -> None:
    launched()
    negate.device_caches.clear()
    assert '"ttg.num-warps" = 4' in str(launched().asm["ttgir"])


def test_another_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = launched()
    assert "cuda:90" in str(kernel.asm["ttgir"])
    monkeypatch.setenv("TILEWRIGHT_GPU_ARCH", "80")
    assert "cuda:80" in str(kernel.asm["ttgir"])


def test_nothing_is_compiled_unless_asked_and_then_once(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled: list[str] = []
    compile_kernel = lazy_imports.compile_kernel

    def noted(*args: Any, **request: Any) -> Artifact:
        compiled.append(request["backend"].target.backend)
        return compile_kernel(*args, **request)

    monkeypatch.setattr(lazy_imports, "compile_kernel", noted)
    kernel = launched()
    repr(kernel.asm), dict(kernel.asm), "ttgir" in kernel.asm
    assert compiled == ["cpu"]
    assert kernel.asm["ttgir"] is kernel.asm["ttgir"]
    assert compiled == ["cpu", "cuda"]


def test_no_more_is_compiled_than_the_stage_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = launched()
    backend = type(make_backend(GPUTarget("cuda", 90, 32)))

    def fails(*args: object, **kwargs: object) -> None:
        raise RuntimeError("too far")

    monkeypatch.setattr(backend, "make_llir", fails)
    assert "ttg.blocked" in str(kernel.asm["ttgir"])
    with pytest.raises(NoGpuStageError, match=r"negate was compiled for a CPU.*asm\['ptx'\].*sm_90.*too far"):
        kernel.asm["ptx"]


def test_options_of_other_machines_say_nothing() -> None:
    kernel = launched(num_threads=2, waves_per_eu=2, num_warps=8)
    assert '"ttg.num-warps" = 8' in str(kernel.asm["ttgir"])


def test_failure_says_for_which_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEWRIGHT_GPU_ARCH", "sm_12")
    with pytest.raises(NoGpuStageError, match="sm_12"):
        launched().asm["ttgir"]


def test_names_that_are_no_stage() -> None:
    with pytest.raises(KeyError, match="amdgcn"):
        launched().asm["amdgcn"]


def test_text_has_them_too(tmp_path: Path) -> None:
    path = tmp_path / "negate.ttir"
    path.write_text(str(launched().asm["ttir"]))
    assert ".entry negate" in str(compile(path).asm["ptx"])


def test_text_of_a_later_stage_has_none(tmp_path: Path) -> None:
    path = tmp_path / "negate.ttcir"
    path.write_text(str(launched().asm["ttcir"]))
    with pytest.raises(NoGpuStageError, match="was compiled from ttcir"):
        compile(path).asm["ptx"]
