"""The runtime and kernels as code for every machine that there is one for, whichever this one is."""

from __future__ import annotations

import inspect
import re

import pytest

from tilewright.backends.llvm.machine import TRIPLES, Target, compile_object, emit_assembly, host_target
from tilewright.runtime.drivers.cpu.blob import LinkError, link
from tilewright.runtime.drivers.cpu.loader import BASE_CPUS, machine_of
from tilewright.runtime.drivers.cpu.native import arguments, device, execute, faults, foreign, interrupts, launch, pool
from tilewright.runtime.drivers.cpu.native.functions import (
    C_FUNCTIONS,
    FREE_THREADED_FUNCTIONS,
    NEW_FUNCTIONS,
    SYSTEM_FUNCTIONS,
)
from tilewright.runtime.drivers.cpu.native.systems import MACHINES
from tilewright.runtime.drivers.cpu.native.text import runtime_text
from tilewright.runtime.drivers.cpu.routines import ROUTINES
from tilewright.vectorizing.native import structs as vectorizing_structs
from tilewright.vectorizing.native.calls import calls_text

SYSTEMS = {machine_of(architecture, system): (system, triple) for (system, architecture), triple in TRIPLES.items()}
EXPORTED = {"execute", "subscript_kernel", "subscript_owner", "destroy_bound", "runtime", "fault"}
LARGE_FRAME = """
define i64 @large(ptr %p, i64 %n) {
  %a = alloca [20000 x i8], align 64
  call void @llvm.memcpy.p0.p0.i64(ptr %a, ptr %p, i64 %n, i1 false)
  %at = getelementptr i8, ptr %a, i64 %n
  %v = load volatile i64, ptr %at
  ret i64 %v
}
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
"""


def target(machine: str) -> Target:
    return host_target(BASE_CPUS[machine])._replace(triple=SYSTEMS[machine][1])


def test_every_list_has_every_machine() -> None:
    assert SYSTEMS.keys() == MACHINES.keys() == BASE_CPUS.keys() == ROUTINES.keys()
    assert SYSTEM_FUNCTIONS.keys() == vectorizing_structs.SYSTEM_FUNCTIONS.keys() == {"linux", "macos", "windows"}


@pytest.mark.parametrize("machine", SYSTEMS)
def test_the_runtime_links(machine: str) -> None:
    blob = link(compile_object(runtime_text(machine), target(machine), opt=2, optimize=True), SYSTEMS[machine][0])
    assert blob.machine == machine
    assert blob.symbols.keys() >= EXPORTED


@pytest.mark.parametrize("machine", SYSTEMS)
def test_the_side_of_vectorized_functions_links(machine: str) -> None:
    blob = link(compile_object(calls_text(machine), target(machine), opt=2, optimize=True), SYSTEMS[machine][0])
    assert blob.symbols.keys() >= {"call_vectorized", "rows", "allocate", "release", "resize"}


@pytest.mark.quick
@pytest.mark.parametrize("machine", SYSTEMS)
def test_native_code_calls_only_what_its_system_lists(machine: str) -> None:
    """Fields of the TABLE that another system fills would be null."""
    system = SYSTEMS[machine][0]
    native = MACHINES[machine].system
    own = [inspect.getmodule(kind) for kind in type(native).__mro__ if kind.__module__.startswith("tilewright")]
    files = [native.faults, *own, pool, interrupts, faults, execute, arguments, foreign, launch, device]
    text = "".join(inspect.getsource(file) for file in files if file is not None)
    asked = set(re.findall(r'(?:f\.outside\(|system\(f, )"(\w+)"\)', text))
    assert len(asked) > 30
    known = {*C_FUNCTIONS, *FREE_THREADED_FUNCTIONS, *SYSTEM_FUNCTIONS[system], *NEW_FUNCTIONS.get(system, ())}
    assert asked - known - {*vectorizing_structs.SYSTEM_FUNCTIONS[system]} == set()


@pytest.mark.quick
@pytest.mark.parametrize("machine", SYSTEMS)
def test_large_frames_are_probed_on_windows_alone(machine: str) -> None:
    text = emit_assembly(LARGE_FRAME, target(machine))
    assert ("__chkstk" in text) == (SYSTEMS[machine][0] == "windows")
    assert link(compile_object(LARGE_FRAME, target(machine)), SYSTEMS[machine][0]).symbols.keys() == {"large"}


def test_probes_are_refused_where_there_are_none() -> None:
    with pytest.raises(LinkError, match="undefined symbols: __chkstk"):
        link(compile_object(LARGE_FRAME, target("x86-64-windows")), "linux")


def test_windows_wants_vector_registers_back() -> None:
    """xmm6 to xmm15 belong to the caller there; arguments come in rcx and rdx."""
    lines = [f"  %v{i} = load volatile <4 x float>, ptr %p" for i in range(12)]
    lines += [f"  store volatile <4 x float> %v{i}, ptr %p" for i in range(12)]
    text = "define void @f(ptr %p) {\n" + "\n".join(lines) + "\n  ret void\n}\n"
    saved = re.compile(r"movaps\s+%xmm6, \d*\(%rsp\)")
    assert saved.search(emit_assembly(text, target("x86-64-windows")))
    assert not saved.search(emit_assembly(text, target("x86-64")))


def test_apples_code_leaves_the_systems_register_alone() -> None:
    assert re.search(r"\b[xw]18\b", emit_assembly(runtime_text("aarch64-macos"), target("aarch64-macos"))) is None


def test_apples_runtime_makes_no_variadic_and_no_system_calls() -> None:
    text = runtime_text("aarch64-macos")
    assert "..." not in text
    assert "svc" not in emit_assembly(text, target("aarch64-macos"))
    assert ", ...)" in runtime_text("aarch64")


@pytest.mark.parametrize("text", [pytest.param("runtime", marks=pytest.mark.spared), "calls"])
def test_apples_own_object_format_wants_nothing_more(text: str) -> None:
    """The same IR as Mach-O, for `arm64-apple-macosx`: no symbols of the C library but what `routines.py` has."""
    ir = {"runtime": runtime_text, "calls": calls_text}[text]("aarch64-macos")
    apple = target("aarch64-macos")._replace(triple="arm64-apple-macosx")
    data = compile_object(ir, apple, opt=2, optimize=True)
    assert data[:4] == b"\xcf\xfa\xed\xfe"
    with pytest.raises(LinkError, match="a Mach-O object"):
        link(data, "macos")
    assembly = emit_assembly(ir, apple, opt=2)
    called = set(re.findall(r"\bbl\s+_(\w+)", assembly))
    defined = set(re.findall(r"^_(\w+):", assembly, re.MULTILINE))
    assert called - defined <= ROUTINES["aarch64-macos"].keys()
