"""The processor's own words: what each bit of `cpuid` means, and that the system has to save what is used."""

from __future__ import annotations

import platform
import re
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tilewright.backends.llvm import host_cpu
from tilewright.backends.llvm.host_cpu import ARM_BITS, X86_BITS, HostCpu, Registers, host_arm, host_x86, x86_cpu
from tilewright.backends.llvm.machine import _tuning
from tilewright.support.system import SYSTEM, linux

pytestmark = pytest.mark.quick

NONE = Registers(0, 0, 0, 0)
INTEL, AMD = Registers(7, 0x756E6547, 0x6C65746E, 0x49656E69), Registers(7, 0x68747541, 0x444D4163, 0x69746E65)
EXTENDED = {(0x80000000, 0): Registers(0x80000008, 0, 0, 0), (0x80000001, 0): Registers(0, 0, 1 << 5, 0)}
SSE = 1 << 9 | 1 << 13 | 1 << 19 | 1 << 20 | 1 << 23
AVX = SSE | 1 << 12 | 1 << 22 | 1 << 27 | 1 << 28 | 1 << 29
MORE = 1 << 3 | 1 << 5 | 1 << 8
AVX512 = 1 << 16 | 1 << 17 | 1 << 28 | 1 << 30 | 1 << 31
NEHALEM = {(0, 0): Registers(5, *INTEL[1:]), (1, 0): Registers(0x106A5, 0, SSE, 0)}
HASWELL = {(0, 0): INTEL, (1, 0): Registers(0x306C3, 0, AVX, 0), (7, 0): Registers(0, MORE, 0, 0), **EXTENDED}
ZEN4 = {
    (0, 0): AMD,
    (1, 0): Registers(0xA60F12, 0, AVX, 0),
    (7, 0): Registers(1, MORE | AVX512, 1 << 1 | 1 << 6 | 1 << 11, 0),
    (7, 1): Registers(1 << 5, 0, 0, 0),
    **EXTENDED,
}
SAPPHIRE_RAPIDS = {
    (0, 0): INTEL,
    (1, 0): Registers(0x806F8, 0, AVX, 0),
    (7, 0): Registers(1, MORE | AVX512, 1 << 1 | 1 << 6 | 1 << 11, 1 << 22 | 1 << 24 | 1 << 25),
    (7, 1): Registers(1 << 5, 0, 0, 0),
    **EXTENDED,
}
V2 = {"cx16", "popcnt", "sse4.1", "sse4.2", "ssse3"}
V3 = {*V2, "avx", "avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe"}
ALL_AVX512 = {name for name in X86_BITS if name.startswith("avx512")}


def answers(registers: Mapping[tuple[int, int], Registers]) -> host_cpu.CpuId:
    """A processor; leaves that it does not have are never asked for, since Intel's give those of the highest."""
    return lambda leaf, subleaf: registers[leaf, subleaf] if leaf != 0x80000000 else registers.get((leaf, 0), NONE)


def refused() -> int:
    raise AssertionError("xgetbv is no instruction on this processor")


def test_a_processor_without_avx_is_not_asked_for_states_and_leaves_that_it_lacks() -> None:
    cpu = x86_cpu(answers(NEHALEM), refused)
    assert (cpu.vendor, cpu.family, cpu.features) == ("GenuineIntel", 6, V2)


def test_the_scheduling_model_is_that_of_the_processor() -> None:
    """Where LLVM has none of the very same one, that of one whose vectors are as wide."""
    wide, narrow = frozenset({"avx2", "avx512f"}), frozenset({"avx2"})
    assert _tuning(HostCpu("AuthenticAMD", 26, wide)) == "znver5"
    assert _tuning(HostCpu("AuthenticAMD", 25, wide)) == "znver4"
    assert _tuning(HostCpu("AuthenticAMD", 25, narrow)) == "znver3"
    assert _tuning(HostCpu("GenuineIntel", 6, wide | host_cpu.AMX)) == "sapphirerapids"
    assert _tuning(HostCpu("GenuineIntel", 6, wide)) == "icelake-server"
    assert _tuning(HostCpu("GenuineIntel", 6, narrow)) == "haswell"
    assert _tuning(HostCpu("GenuineIntel", 6, frozenset())) == "nehalem"


@pytest.mark.parametrize(
    ("registers", "states", "features"),
    [
        (HASWELL, 0b111, V3),
        (HASWELL, 0b011, V3 - host_cpu.AVX),
        (ZEN4, 0b11100111, V3 | ALL_AVX512),
        (ZEN4, 0b111, V3),
        (ZEN4, 0b1100111, V3),
        (ZEN4, 0, V3 - host_cpu.AVX),
        (SAPPHIRE_RAPIDS, 0b1100000000011100111, V3 | ALL_AVX512 | host_cpu.AMX),
        (SAPPHIRE_RAPIDS, 0b0100000000011100111, V3 | ALL_AVX512),
        (SAPPHIRE_RAPIDS, 0b11100111, V3 | ALL_AVX512),
    ],
)
def test_vectors_and_tiles_count_where_the_system_saves_them(
    registers: Mapping[tuple[int, int], Registers], states: int, features: set[str]
) -> None:
    assert x86_cpu(answers(registers), lambda: states).features == features


def test_the_family_counts_on_from_fifteen() -> None:
    cpu = x86_cpu(answers(ZEN4), lambda: 0b111)
    assert (cpu.vendor, cpu.family) == ("AuthenticAMD", 25)


def test_tiles_that_the_system_keeps_to_itself_are_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    found = HostCpu("GenuineIntel", 6, frozenset(V3) | host_cpu.AMX)
    monkeypatch.setattr(host_cpu, "x86_cpu", lambda *_: found)
    for given, features in ((True, found.features), (False, V3)):
        monkeypatch.setattr(type(SYSTEM), "may_use_tiles", lambda _, given=given: given)
        assert host_x86().features == features


@pytest.mark.skipif(platform.machine() != "x86_64", reason="asks an x86 processor")
def test_the_processor_says_what_the_system_says() -> None:
    """Flags by the names that Linux has for them; an emulator's answer may differ, so only the real one is compared."""
    text = Path("/proc/cpuinfo").read_text().partition("\n\n")[0]
    flags = set(re.search(r"^flags\s*:(.*)$", text, re.MULTILINE)[1].split())
    names = {"abm": "lzcnt", "bmi1": "bmi", **{f"amx_{name}": f"amx-{name}" for name in ("bf16", "int8", "tile")}}
    of_the_system = {names.get(flag, flag.replace("_", "")).replace("sse4", "sse4.") for flag in flags}
    cpu = host_x86()
    if cpu.vendor in text:
        if not SYSTEM.may_use_tiles():
            of_the_system -= host_cpu.AMX
        assert cpu.features == of_the_system & X86_BITS.keys()
        assert re.search(rf"^cpu family\s*: {cpu.family}$", text, re.MULTILINE)


@pytest.mark.skipif(platform.machine() != "aarch64", reason="asks an AArch64 processor")
def test_an_arm_processor_says_what_the_system_says() -> None:
    text = Path("/proc/cpuinfo").read_text()
    names = {"dotprod": "asimddp", "fullfp16": "asimdhp"}
    found = host_arm().features
    assert found <= ARM_BITS.keys()
    if "Features" in text:
        assert all((names.get(name, name) in text) == (name in found) for name in ARM_BITS)


@pytest.mark.parametrize(
    ("answer", "bits"), [(16, 128), (32, 256), (64, 512), (64 | 1 << 17, 512), (256, 2048), (-1, 0)]
)
def test_the_length_of_scalable_vectors_is_asked_of_linux(answer: int, bits: int, monkeypatch: Any) -> None:
    """PR_SVE_GET_VL answers bytes and flags, or an error where there are none."""
    asked: list[tuple[int, ...]] = []

    def prctl(*words: int) -> int:
        asked.append(words)
        return answer

    monkeypatch.setattr(linux, "c_library", lambda: SimpleNamespace(prctl=prctl))
    assert linux.Linux.scalable_vector_bits(SimpleNamespace()) == bits
    assert asked == [(51, 0, 0, 0, 0)]


@pytest.mark.parametrize(("length", "features"), [(256, {"dotprod", "sve"}), (0, {"dotprod"})])
def test_scalable_vectors_count_where_they_have_a_length(length: int, features: set[str], monkeypatch: Any) -> None:
    system = SimpleNamespace(
        hardware_capabilities=lambda entry: {16: 1 << 20 | 1 << 22, 26: 0}[entry], scalable_vector_bits=lambda: length
    )
    monkeypatch.setattr(host_cpu, "SYSTEM", system)
    assert host_arm() == HostCpu("", 0, frozenset(features), length)
