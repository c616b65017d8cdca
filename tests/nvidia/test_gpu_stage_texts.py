"""The pipeline to a GPU: options, stages, texts as sources, metadata, errors. No GPU is needed."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import tilewright
import tilewright.language as tl
from tilewright.backends.base import GPUTarget
from tilewright.backends.llvm.machine import LlvmError
from tilewright.backends.nvidia import tools
from tilewright.backends.nvidia.backend import NvidiaBackend
from tilewright.backends.nvidia.options import CudaOptions
from tilewright.backends.nvidia.targets import DEVICES, UnknownDeviceError
from tilewright.backends.nvidia.tools import FIRST_OF_CUDA_13, MissingToolError, find_ptxas
from tilewright.backends.registry import make_backend
from tilewright.runtime.compile import ASTSource, IRSource, compile
from tilewright.runtime.kernel import CompiledKernel
from tilewright.support import knobs
from tilewright.support.diagnostics import OutOfResources, PTXASError

pytestmark = pytest.mark.quick

HOPPER = GPUTarget("cuda", 90, 32)


@tilewright.jit
def add(x, y, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    total = tl.load(x + i, mask=i < n) + tl.load(y + i, mask=i < n)
    tl.store(out + i, total, mask=i < n)


SIGNATURE = {"x": "*fp32", "y": "*fp32", "out": "*fp32", "n": "i32", "BLOCK": "constexpr"}


def compiled(target: GPUTarget = HOPPER, **options: Any) -> CompiledKernel:
    return compile(ASTSource(add, SIGNATURE, {"BLOCK": 256}), target=target, options=options)


def options(capability: int = 90, **given: Any) -> CudaOptions:
    return NvidiaBackend(GPUTarget("cuda", capability, 32)).parse_options(given)


@pytest.fixture
def no_ptxas(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name in ("TRITON_PTXAS_PATH", "TRITON_PTXAS_BLACKWELL_PATH"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr("tilewright.support.nvidia_tools._folders", lambda inner: iter(()))
    make_backend.cache_clear()
    yield
    make_backend.cache_clear()


def test_stages_and_metadata(no_ptxas: None) -> None:
    kernel = compiled(num_warps=8)
    assert list(kernel.asm) == ["source", "ttir", "ttgir", "llir", "ptx"]
    assert '"ttg.num-warps" = 8 : i32' in kernel.asm["ttgir"]
    assert ".reqntid 256" in kernel.asm["ptx"]
    metadata = kernel.metadata
    assert (metadata.name, metadata.shared, metadata.num_warps, metadata.num_ctas) == ("add", 0, 8, 1)
    assert metadata.target == HOPPER
    assert metadata.stored == [2]


@pytest.mark.needs_ptxas
def test_cubin_and_what_it_uses() -> None:
    kernel = compiled()
    assert kernel.kernel.startswith(b"\x7fELF")
    assert 8 <= kernel.n_regs <= 40
    assert kernel.n_spills == 0


def test_shared_memory_of_every_device() -> None:
    """In KiB, as NVIDIA's guide says of the compute capabilities."""
    limits = {70: 96, 72: 96, 75: 64, **dict.fromkeys((80, 87), 163), **dict.fromkeys((86, 89, 120, 121), 99)}
    limits |= dict.fromkeys((90, 100, 103, 110), 227)
    assert {capability: device.shared_limit / 1024 for capability, device in DEVICES.items()} == limits


def test_versions_of_ptx_know_their_device() -> None:
    """The first version of PTX that has the device by its release notes, but 8.4 at least, and 8.7 from sm_100 on."""
    since = {70: 60, 72: 61, 75: 63, 80: 70, 86: 71, 87: 74, 89: 78, 90: 80}
    since |= {100: 86, 103: 88, 110: 90, 120: 87, 121: 88}
    wanted = {capability: max(version, 87 if capability >= 100 else 84) for capability, version in since.items()}
    assert {capability: device.ptx for capability, device in DEVICES.items()} == wanted


@pytest.mark.needs_ptxas
@pytest.mark.slow
@pytest.mark.parametrize("capability", DEVICES)
def test_every_device_is_assembled(capability: int) -> None:
    if find_ptxas(capability) is None:
        assert capability < FIRST_OF_CUDA_13
        pytest.skip("CUDA 13 has no assembler for it")
    kernel = compiled(GPUTarget("cuda", capability, 32))
    assert kernel.kernel.startswith(b"\x7fELF")
    assert f".target sm_{capability}" in kernel.asm["ptx"]


@pytest.mark.parametrize(
    "stage",
    ["ttgir", "ptx", pytest.param("ttir", marks=pytest.mark.slow), pytest.param("llir", marks=pytest.mark.slow)],
)
def test_text_of_a_stage_as_source(stage: str, tmp_path: Path) -> None:
    kernel = compiled()
    path = tmp_path / f"add.{stage}"
    path.write_text(str(kernel.asm[stage]))
    again = compile(path, target=HOPPER)
    assert again.name == "add"
    assert again.metadata.shared == kernel.metadata.shared
    assert instructions(again) == instructions(kernel)


def instructions(kernel: CompiledKernel) -> list[str]:
    """The PTX without what tells of lines of the program, which text does not have."""
    lines = [line.strip() for line in str(kernel.asm["ptx"]).partition("\n}\n")[0].splitlines()]
    return [line for line in lines if line and not line.startswith(("//", ".loc", "$", ".file", "{"))]


@pytest.mark.needs_ptxas
def test_foreign_ptx_that_is_assembled_says_its_arguments(tmp_path: Path) -> None:
    check_foreign_ptx(tmp_path)


def test_foreign_ptx_says_its_arguments(no_ptxas: None, tmp_path: Path) -> None:
    check_foreign_ptx(tmp_path)


def check_foreign_ptx(tmp_path: Path) -> None:
    text = str(compiled(num_warps=8).asm["ptx"]).partition("\n")[2]
    (tmp_path / "add.ptx").write_text(text)
    again = compile(tmp_path / "add.ptx", target=HOPPER, options={"min_shared_mem": 64})
    assert [spec.type for spec in again.signature] == ["*i8", "*i8", "*i8", "i32"]
    assert (again.metadata.num_warps, again.metadata.shared) == (8, 64)


def test_second_time_from_the_disk_cache() -> None:
    first, second = compiled(num_stages=2), compiled(num_stages=2)
    assert dict(first.asm) == dict(second.asm)
    assert first.metadata == second.metadata


def test_defaults_of_options() -> None:
    assert options(80).supported_fp8_dtypes == ("fp8e4b15", "fp8e5")
    assert options(90).supported_fp8_dtypes == ("fp8e4b15", "fp8e4nv", "fp8e5")
    assert (options(90).arch, options(90).max_num_imprecise_acc_default) == ("sm90", 2**30)
    assert options(90, num_threads=4) == options(90)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"num_warps": 3}, "num_warps must be a power of 2"),
        ({"num_ctas": 2, "capability": 80}, r"num_ctas > 1 requires NVIDIA SM90\+ \(Hopper\).*for sm_80"),
        ({"clc": True}, "sm_100"),
        ({"default_dot_input_precision": "fp4"}, "default_dot_input_precision is one of tf32"),
        ({"ptx_version": 60}, "from 84 to 90"),
        ({"maxnreg": -1}, "maxnreg"),
        ({"warp_size": 64}, "a warp has 32 threads"),
        ({"extern_libs": {"mine": "/nowhere.bc"}}, "nowhere.bc cannot be read"),
    ],
)
def test_options_that_cannot_be(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        assert options(**given).identity


def test_unknown_option() -> None:
    with pytest.raises(KeyError, match="num_warp was specified but unrecognised"):
        options(num_warp=4)


@pytest.mark.parametrize("arch", [60, "volta", 91])
def test_unknown_device(arch: Any) -> None:
    with pytest.raises(UnknownDeviceError, match=r"no code generation for cuda:|compute capability such as 90"):
        make_backend(GPUTarget("cuda", arch, 32))


def test_device_names() -> None:
    assert {NvidiaBackend(GPUTarget("cuda", arch, 32)).device.capability for arch in (90, "90", "sm_90a")} == {90}


@pytest.mark.parametrize("arch", ["sm80", "sm_100a"])
def test_an_option_names_another_device(arch: str) -> None:
    """Its own options, stages and assembler."""
    backend, stages = NvidiaBackend(HOPPER), dict[str, Any]()
    chosen = backend.parse_options({"arch": arch})
    other = NvidiaBackend(GPUTarget("cuda", arch, 32))
    assert chosen == other.parse_options({})
    backend.add_stages(stages, chosen)
    assert {stage.func.__self__.device for name, stage in stages.items() if name != "ttir"} == {other.device}
    assert stages["ttir"].__self__.device == other.device
    assert backend.device.capability == 90
    with pytest.raises(UnknownDeviceError, match="compute capability such as 90"):
        backend.parse_options({"arch": "volta"})


def test_a_knob_names_another_device_also_when_back_ends_are_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """`arch` of a launch says more; options that the other device has not are refused."""
    assert '"cuda:90"' in compiled().asm["ttgir"]
    monkeypatch.setattr(knobs.runtime, "override_arch", "sm80")
    assert '"cuda:80"' in compiled().asm["ttgir"]
    assert '"cuda:100"' in compiled(arch="sm100").asm["ttgir"]
    with pytest.raises(ValueError, match="num_ctas > 1 requires"):
        compiled(num_ctas=2)


def test_too_much_shared_memory() -> None:
    with pytest.raises(OutOfResources, match="shared memory, Required: 300000, Hardware limit: 232448"):
        compiled(min_shared_mem=300000)


@pytest.mark.needs_ptxas
def test_assembler_refuses(tmp_path: Path) -> None:
    path = tmp_path / "add.ptx"
    path.write_text(str(compiled().asm["ptx"]).replace("add.f32", "add.f31"))
    with pytest.raises(PTXASError, match=r"(?s)ptxas failed.*line \d+.*add\.f31"):
        compile(path, target=HOPPER)


def test_missing_assembler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRITON_PTXAS_PATH", "/nowhere/ptxas")
    with pytest.raises(MissingToolError, match="TRITON_PTXAS_PATH is '/nowhere/ptxas'"):
        NvidiaBackend(GPUTarget("cuda", 80, 32))


def test_assembler_beside_the_older_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ptxas", "ptxas-blackwell"):
        (tmp_path / name).touch(0o755)
    monkeypatch.setenv("TRITON_PTXAS_PATH", os.fspath(tmp_path / "ptxas"))
    assert [Path(find_ptxas(capability) or "").name for capability in (80, 90)] == ["ptxas", "ptxas-blackwell"]


def test_assembler_of_its_own_for_newer_devices(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ptxas", "newer"):
        (tmp_path / name).touch(0o755)
    monkeypatch.setenv("TRITON_PTXAS_PATH", os.fspath(tmp_path / "ptxas"))
    monkeypatch.setenv("TRITON_PTXAS_BLACKWELL_PATH", os.fspath(tmp_path / "newer"))
    assert [Path(find_ptxas(capability) or "").name for capability in (80, 90)] == ["ptxas", "newer"]


@pytest.mark.skipif(os.name != "posix", reason="a program is a script")
def test_the_oldest_devices_have_assemblers_of_older_toolkits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """CUDA 13 has none for sm_70: without another one, the last stage is PTX."""
    monkeypatch.delenv("TRITON_PTXAS_PATH", raising=False)
    folders = {version: tmp_path / version for version in ("13.0", "12.8")}
    for version, folder in folders.items():
        folder.mkdir()
        (folder / "ptxas").write_text(f'#!/bin/sh\necho "Cuda compilation tools, release {version}, V{version}.1"\n')
        (folder / "ptxas").chmod(0o755)
    monkeypatch.setattr(tools, "programs", lambda binary: (os.fspath(folder / binary) for folder in folders.values()))
    assert find_ptxas(70) == os.fspath(folders["12.8"] / "ptxas")
    del folders["12.8"]
    assert find_ptxas(70) is None
    make_backend.cache_clear()
    kernel = compiled(GPUTarget("cuda", 70, 32))
    assert ".target sm_70" in kernel.asm["ptx"]
    assert "cubin" not in kernel.asm


@pytest.mark.slow
@pytest.mark.needs_nvdisasm
def test_machine_code_as_text(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRITON_NVDISASM_PATH", str(Path(find_ptxas(80) or "").with_name("nvdisasm")))
    kernel = compiled()
    assert "sass" in kernel.asm
    assert "FADD" in str(kernel.asm["sass"])
    assert list(kernel.asm)[-1] == "cubin"


@pytest.mark.needs_ptxas
def test_machine_code_without_disassembler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRITON_NVDISASM_PATH", "/nowhere/nvdisasm")
    with pytest.raises(MissingToolError, match="TRITON_NVDISASM_PATH is '/nowhere/nvdisasm'"):
        assert compiled().asm["sass"]


LIBRARY_CALL = """
define ptx_kernel void @exponential(ptr addrspace(1) %x, ptr addrspace(1) %0, ptr addrspace(1) %1) {
  %value = load float, ptr addrspace(1) %x
  %found = call float @__nv_expf(float %value)
  store float %found, ptr addrspace(1) %x
  ret void
}
declare float @__nv_expf(float)
"""


def llir_of(tmp_path: Path, text: str) -> Path:
    facts = '; launch: {"entry": "exponential", "arguments": ["*fp32"], "shared": 0}'
    path = tmp_path / "exponential.llir"
    path.write_text(f"{facts}\n{text}")
    return path


@pytest.mark.needs_libdevice
@pytest.mark.slow
def test_libdevice_is_linked_where_it_is_called(tmp_path: Path) -> None:
    path = llir_of(tmp_path, LIBRARY_CALL)
    flushing, exact = (str(compile(path, HOPPER, {"enable_reflect_ftz": f}).asm["ptx"]) for f in (True, False))
    assert ("ex2.approx.ftz" in flushing, "call.uni" in flushing) == (True, False)
    assert ("fma.rn.ftz" in flushing, "fma.rn.ftz" in exact) == (True, False)


def test_missing_libdevice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRITON_LIBDEVICE_PATH", "/nowhere/libdevice.10.bc")
    with pytest.raises(MissingToolError, match="TRITON_LIBDEVICE_PATH is '/nowhere/libdevice"):
        compile(llir_of(tmp_path, LIBRARY_CALL.replace("expf", "sinf")), target=HOPPER)


@pytest.mark.spared
def test_code_that_llvm_cannot_compile_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(LlvmError, match="no libcall available for flog2"):
        compile(llir_of(tmp_path, LIBRARY_CALL.replace("__nv_expf", "llvm.log2.f32")), target=HOPPER)


@pytest.mark.parametrize(
    "stage", ["ttgir", pytest.param("llir", marks=pytest.mark.slow), pytest.param("ptx", marks=pytest.mark.slow)]
)
def test_text_says_how_many_warps(stage: str, tmp_path: Path) -> None:
    path = tmp_path / f"add.{stage}"
    path.write_text(str(compiled(num_warps=8).asm[stage]))
    again = compile(path, target=HOPPER)
    assert again.metadata.num_warps == 8
    assert ".reqntid 256" in str(again.asm["ptx"])


def test_text_for_another_device(tmp_path: Path) -> None:
    path = tmp_path / "add.ttgir"
    path.write_text(str(compiled().asm["ttgir"]))
    with pytest.raises(ValueError, match="the module is for cuda:90, and the target is cuda:80"):
        compile(path, target=GPUTarget("cuda", 80, 32))


def test_text_that_names_no_device(tmp_path: Path) -> None:
    path = tmp_path / "kernel.ttgir"
    path.write_text('module attributes {"ttg.num-warps" = 4 : i32} {\ntt.func public @kernel() {\ntt.return\n}\n}\n')
    for capability in (80, 100):
        kernel = compile(str(path), target=GPUTarget("cuda", capability, 32))
        assert f".target sm_{capability}" in kernel.asm["ptx"]
        assert (kernel.metadata.num_warps, kernel.metadata.num_ctas) == (4, 1)


def test_text_in_the_place_of_a_stage(tmp_path: Path) -> None:
    path = tmp_path / "add.ptx"
    path.write_text(str(compiled().asm["ptx"]).replace("add.f32", "sub.f32"))
    kernel = compiled(ir_override=os.fspath(path))
    assert "sub.f32" in str(kernel.asm["ptx"])
    assert "fadd" in str(kernel.asm["llir"])


@pytest.mark.needs_ptxas
def test_knobs_of_the_assembler(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    before = compiled()
    monkeypatch.setenv("DISABLE_PTXAS_OPT", "1")
    monkeypatch.setenv("TRITON_DUMP_PTXAS_LOG", "1")
    monkeypatch.setenv("NVPTX_ENABLE_DUMP", "1")
    after = compiled()
    assert len(after.kernel) > len(before.kernel)
    printed = capsys.readouterr().out
    assert "NVPTX Dump" in printed
    assert "registers" in printed


def test_passes_are_printed_on_request(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("MLIR_ENABLE_DUMP", "add")
    monkeypatch.setenv("TRITON_ALWAYS_COMPILE", "1")
    compiled()
    printed = capfd.readouterr().err
    for name in ("combine", "coalesce", "membar"):
        assert f"IR Dump After {name} //" in printed


def test_text_says_which_arguments_are_tensor_maps(tmp_path: Path) -> None:
    path = tmp_path / "copied.ttgir"
    marked = "%desc: !tt.ptr<i8> {tt.nv_tma_desc = 1 : i32}, %n: i32 {tt.divisibility = 16 : i32}"
    path.write_text(
        'module attributes {"ttg.num-warps" = 8 : i32} {\n'
        f"  tt.func public @copied({marked}) {{\n    tt.return\n  }}\n}}\n"
    )
    source = IRSource(str(path), None, make_backend(HOPPER))
    assert source.signature == {0: "nvTmaDesc", 1: "i32"}
    assert source.parse_options() == {"num_warps": 8}
