"""The features of this process's processor by LLVM's names, as the processor itself reports them.

    host_cpu()          # HostCpu(vendor='AuthenticAMD', family=25, features=frozenset({'avx', 'avx2', …}))

On x86 a few bytes of mapped code run the instruction `cpuid`. Under an emulator it describes the emulated processor,
where /proc/cpuinfo would describe the host. Vector features count only if the operating system saves their registers
(`xgetbv`). On AArch64 user programs cannot read the feature registers, so the features come from the auxiliary vector
and the length of scalable vectors from a system call; that length may differ between processes.

Intel 64 and IA-32 Architectures Software Developer's Manual, volume 2A, CPUID; AMD64 Architecture Programmer's Manual,
volume 3, appendix E; Linux, Documentation/arch/arm64/elf_hwcaps.rst and sve.rst.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping

from tilewright.support.executable_memory import map_code
from tilewright.support.named_tuple import NamedTuple
from tilewright.support.system import SYSTEM


class Registers(NamedTuple):
    """The registers as `cpuid` leaves them."""

    eax: int
    ebx: int
    ecx: int
    edx: int


class HostCpu(NamedTuple):
    """A processor.

    Attributes:
        vendor: the maker's word of twelve letters; empty on AArch64.
        family: the maker's number of the generation; 0 on AArch64.
        features: LLVM's names of what the processor has and the system lets programs use.
        scalable_bits: bits of a register of scalable vectors, where `features` has "sve"; 0 elsewhere.
    """

    vendor: str
    family: int
    features: frozenset[str]
    scalable_bits: int = 0


CpuId = Callable[[int, int], Registers]
"""Gives the registers for a leaf and a subleaf."""

_TAKE = {"windows": "89c8 89d1"}
_CPUID = bytes.fromhex(f"53 {_TAKE.get(SYSTEM.name, '89f8 89f1 4989d0')} 0fa2 418900 41895804 41894808 4189500c 5b c3")
"""Code: `void (uint32_t leaf, uint32_t subleaf, uint32_t registers[4])`, called as on Windows or as elsewhere."""
_XGETBV = bytes.fromhex("31c9 0f01d0 c3")
"""Code: `uint32_t ()`, the states of registers that the system saves."""

_FEATURES, _MORE_FEATURES, _STILL_MORE_FEATURES, _EXTENDED_FEATURES = (1, 0), (7, 0), (7, 1), (0x80000001, 0)
"""Leaves of `cpuid`, with their subleaves."""
X86_BITS: Mapping[str, tuple[tuple[int, int], str, int]] = {
    "amx-bf16": (_MORE_FEATURES, "edx", 22),
    "amx-int8": (_MORE_FEATURES, "edx", 25),
    "amx-tile": (_MORE_FEATURES, "edx", 24),
    "avx": (_FEATURES, "ecx", 28),
    "avx2": (_MORE_FEATURES, "ebx", 5),
    "avx512bf16": (_STILL_MORE_FEATURES, "eax", 5),
    "avx512bw": (_MORE_FEATURES, "ebx", 30),
    "avx512cd": (_MORE_FEATURES, "ebx", 28),
    "avx512dq": (_MORE_FEATURES, "ebx", 17),
    "avx512f": (_MORE_FEATURES, "ebx", 16),
    "avx512vbmi": (_MORE_FEATURES, "ecx", 1),
    "avx512vbmi2": (_MORE_FEATURES, "ecx", 6),
    "avx512vl": (_MORE_FEATURES, "ebx", 31),
    "avx512vnni": (_MORE_FEATURES, "ecx", 11),
    "avxvnni": (_STILL_MORE_FEATURES, "eax", 4),
    "bmi": (_MORE_FEATURES, "ebx", 3),
    "bmi2": (_MORE_FEATURES, "ebx", 8),
    "cx16": (_FEATURES, "ecx", 13),
    "f16c": (_FEATURES, "ecx", 29),
    "fma": (_FEATURES, "ecx", 12),
    "lzcnt": (_EXTENDED_FEATURES, "ecx", 5),
    "movbe": (_FEATURES, "ecx", 22),
    "popcnt": (_FEATURES, "ecx", 23),
    "sse4.1": (_FEATURES, "ecx", 19),
    "sse4.2": (_FEATURES, "ecx", 20),
    "ssse3": (_FEATURES, "ecx", 9),
}
"""The leaf, the register and the bit of every feature that we generate code for or that LLVM may pick up by itself."""
_SAVES_BY_XSAVE = 1 << 27
"""The bit of leaf 1, `ecx`, without which `xgetbv` is no instruction."""
_AVX_STATES, _AVX512_STATES, _TILE_STATES = 0b110, 0b11100110, 0b11 << 17
"""The states of registers that AVX, AVX-512 and AMX use."""
AVX = frozenset({"avx", "avx2", "avxvnni", "f16c", "fma"})
"""The features that use registers of AVX and are not of AVX-512."""
AMX = frozenset({"amx-bf16", "amx-int8", "amx-tile"})
"""The features that use tile registers."""

ARM_BITS: Mapping[str, tuple[int, int]] = {
    "bf16": (26, 14),
    "dotprod": (16, 20),
    "fullfp16": (16, 10),
    "i8mm": (26, 13),
    "sve": (16, 22),
}
"""The entry of the auxiliary vector (AT_HWCAP or AT_HWCAP2) and the bit of every feature."""


def host_x86() -> HostCpu:
    """The x86 processor of this process.

    Raises:
        OSError, PlatformError: the system gives no memory for the code that reads the features.
    """
    code = map_code(_CPUID + _XGETBV)
    try:
        ask = ctypes.CFUNCTYPE(None, ctypes.c_uint32, ctypes.c_uint32, ctypes.c_void_p)(code.address)
        states = ctypes.CFUNCTYPE(ctypes.c_uint32)(code.address + len(_CPUID))

        def cpuid(leaf: int, subleaf: int) -> Registers:
            registers = (ctypes.c_uint32 * 4)()
            ask(leaf, subleaf, ctypes.addressof(registers))
            return Registers(*registers)

        cpu = x86_cpu(cpuid, states)
        may_use_tiles = cpu.features >= AMX and SYSTEM.may_use_tiles()
        return cpu if may_use_tiles else cpu._replace(features=cpu.features - AMX)
    finally:
        code.unmap()


def x86_cpu(cpuid: CpuId, saved_states: Callable[[], int]) -> HostCpu:
    """The processor that answers.

    Args:
        cpuid: calls the instruction.
        saved_states: gives the states of registers that the system saves; is called only where that can be asked.
    """
    highest, *letters = cpuid(0, 0)
    vendor = b"".join(word.to_bytes(4, "little") for word in (letters[0], letters[2], letters[1])).decode("latin-1")
    leaves = {_FEATURES: cpuid(*_FEATURES)}
    if highest >= _MORE_FEATURES[0]:
        leaves[_MORE_FEATURES] = cpuid(*_MORE_FEATURES)
        if leaves[_MORE_FEATURES].eax >= _STILL_MORE_FEATURES[1]:
            leaves[_STILL_MORE_FEATURES] = cpuid(*_STILL_MORE_FEATURES)
    if cpuid(0x80000000, 0).eax >= _EXTENDED_FEATURES[0]:
        leaves[_EXTENDED_FEATURES] = cpuid(*_EXTENDED_FEATURES)
    found = {
        name
        for name, (leaf, register, bit) in X86_BITS.items()
        if leaf in leaves and getattr(leaves[leaf], register) >> bit & 1
    }
    states = saved_states() if leaves[_FEATURES].ecx & _SAVES_BY_XSAVE else 0
    if states & _AVX_STATES != _AVX_STATES:
        found -= AVX
    if states & _AVX512_STATES != _AVX512_STATES:
        found = {name for name in found if not name.startswith("avx512")}
    if states & _TILE_STATES != _TILE_STATES:
        found -= AMX
    return HostCpu(vendor, _family(leaves[_FEATURES].eax), frozenset(found))


def _family(signature: int) -> int:
    """The generation: the extended family counts on from 15, where the field of four bits ends."""
    family = signature >> 8 & 0xF
    return family + (signature >> 20 & 0xFF) if family == 0xF else family


def host_arm() -> HostCpu:
    """The AArch64 processor of this process; without features if the system does not report them."""
    words = {entry: SYSTEM.hardware_capabilities(entry) for entry, _ in ARM_BITS.values()}
    found = {name for name, (entry, bit) in ARM_BITS.items() if words[entry] >> bit & 1}
    length = SYSTEM.scalable_vector_bits() if "sve" in found else 0
    return HostCpu("", 0, frozenset(found if length else found - {"sve"}), length)
