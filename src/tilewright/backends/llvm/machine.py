"""The target machine, and the use of LLVM to compile IR text to object code for it.

This is the only file that imports llvmlite, and it does so only when something is compiled. A process that runs kernels
from the cache calls `host_identity()` and does not pay for the import.

    target = host_target()                        # or host_target("x86-64-v3"), host_target("neoverse-v1")
    blob = compile_object("define i32 @f() {\\n  ret i32 7\\n}", target)     # ELF relocatable bytes

Objects are always ELF, position independent and in the small code model, also on macOS, because the runtime links them
itself.
"""

from __future__ import annotations

import os
import re
from _thread import RLock
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from tilewright.backends.llvm.host_cpu import X86_BITS, HostCpu, host_arm, host_x86
from tilewright.support.diagnostics import TilewrightError
from tilewright.support.locks import importing
from tilewright.support.named_tuple import NamedTuple
from tilewright.support.system import SYSTEM, architecture

if TYPE_CHECKING:
    from tilewright.backends.llvm.cpu_costs import CpuCosts

TRIPLES = {
    ("linux", "x86-64"): "x86_64-unknown-linux-gnu",
    ("linux", "aarch64"): "aarch64-unknown-linux-gnu",
    ("macos", "aarch64"): "aarch64-apple-macosx-elf",
    ("windows", "x86-64"): "x86_64-pc-windows-msvc-elf",
}
"""LLVM's names of systems and processors. They settle the calling convention, which registers are the system's own (x18
on Apple's), and whether large frames are probed page by page (on Windows); objects are ELF everywhere."""


def triple_for(system: str, architecture: str) -> str:
    """The triple; code for a processor that the system does not run on is Linux's, to look at."""
    return TRIPLES.get((system, architecture)) or TRIPLES["linux", architecture]


class LlvmError(Exception):
    """LLVM refused our IR. `line` is the offending line of the text, when LLVM named one."""

    def __init__(self, message: str, line: str | None = None) -> None:
        super().__init__(message if line is None else f"{message}\n  in: {line.strip()}")
        self.line = line


class UnknownCpuError(TilewrightError):
    """There is no code generation for the CPU that was asked for, or for this host."""


class Target(NamedTuple):
    """A machine to generate code for.

    Attributes:
        triple: LLVM's name of architecture and object format.
        cpu: LLVM's `-mcpu`, which implies features of its own.
        tune: the CPU whose scheduling model orders instructions; part of each function's attributes.
        features: what is there beyond `cpu`, by LLVM's names and without the leading `+`, sorted.
        vector_bits: width of the widest vector register worth using.
    """

    triple: str
    cpu: str
    tune: str
    features: tuple[str, ...]
    vector_bits: int
    has_fma: bool
    has_f16c: bool
    has_avx2: bool
    has_avx512f: bool
    has_avx512bf16: bool
    has_vnni: bool
    neon: bool

    @property
    def identity(self) -> str:
        """A string that differs whenever the generated code may differ."""
        return f"{self.triple}/{self.cpu}/{self.tune}/{','.join(self.features)}/{self.vector_bits}"

    @property
    def function_attributes(self) -> str:
        """LLVM attributes for every function compiled for this target."""
        length = self.vector_bits // 128
        scalable = f" vscale_range({length},{length})" if self.has_sve else ""
        return f'nounwind "tune-cpu"="{self.tune}"{scalable}'

    @property
    def has_half_arithmetic(self) -> bool:
        """The processor adds and multiplies f16 without converting it."""
        return "fullfp16" in self.features

    @property
    def orders_zeros(self) -> bool:
        """The instructions for minima and maxima take -0 for less than 0: x86's take the second operand."""
        return not self.triple.startswith("x86_64")

    @property
    def inverts_conditions(self) -> bool:
        """LLVM can let a jump depend on the opposite of its condition: then it puts the likely code behind the jump."""
        return not self.triple.startswith("nvptx")

    @property
    def has_sve(self) -> bool:
        """Code uses registers of AArch64's scalable vectors, and runs only where they have `vector_bits`."""
        return "sve" in self.features

    @property
    def masks_are_vectors(self) -> bool:
        """Masks have no registers of their own: comparisons write as many bits per lane as they read."""
        return self.has_avx2 and not self.has_avx512f

    @property
    def costs(self) -> CpuCosts:
        """The figures that choices are made by."""
        return _costs_of(self)

    def lanes(self, element_bits: int) -> int:
        """The number of elements of `element_bits` that fill one vector register."""
        return self.vector_bits // element_bits

    def runs_here(self) -> bool:
        """Whether this process can execute code for the target."""
        host = host_target()
        if self.has_sve and self.vector_bits != host.vector_bits:
            return False
        return self.triple == host.triple and _capabilities(self) <= _capabilities(host)


V2 = ("cx16", "popcnt", "sse4.1", "sse4.2", "ssse3")
V3 = (*V2, "avx", "avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe")
V4 = (*V3, "avx512bw", "avx512cd", "avx512dq", "avx512f", "avx512vl")
ICELAKE = (*V4, "avx512vbmi", "avx512vbmi2", "avx512vnni")
ZEN4 = (*ICELAKE, "avx512bf16")
SAPPHIRE_RAPIDS = (*ZEN4, "amx-bf16", "amx-int8", "amx-tile", "avxvnni")
X86_LEVELS = (("x86-64-v4", V4), ("x86-64-v3", V3), ("x86-64-v2", V2))

# CPU name -> (scheduling model, features it has[, bits of scalable vectors])
X86_CPUS = {
    "alderlake": ("alderlake", (*V3, "avxvnni")),
    "haswell": ("haswell", V3),
    "icelake-server": ("icelake-server", ICELAKE),
    "sapphirerapids": ("sapphirerapids", SAPPHIRE_RAPIDS),
    "skylake": ("skylake", V3),
    "skylake-avx512": ("skylake-avx512", V4),
    "x86-64-v2": ("nehalem", V2),
    "x86-64-v3": ("haswell", V3),
    "x86-64-v4": ("skylake-avx512", V4),
    "znver2": ("znver2", V3),
    "znver3": ("znver3", V3),
    "znver4": ("znver4", ZEN4),
    "znver5": ("znver5", (*ZEN4, "avxvnni")),
}
ARM_CPUS: dict[str, tuple[str, tuple[str, ...], int]] = {
    "a64fx": ("a64fx", ("fullfp16", "sve"), 512),
    "aarch64": ("cortex-a76", (), 128),
    "apple-m1": ("apple-m1", ("dotprod", "fullfp16"), 128),
    "apple-m2": ("apple-m2", ("bf16", "dotprod", "fullfp16", "i8mm"), 128),
    "cortex-a72": ("cortex-a72", (), 128),
    "neoverse-n1": ("neoverse-n1", ("dotprod", "fullfp16"), 128),
    "neoverse-v1": ("neoverse-v1", ("bf16", "dotprod", "fullfp16", "i8mm", "sve"), 256),
    "neoverse-v2": ("neoverse-v2", ("bf16", "dotprod", "fullfp16", "i8mm"), 128),
}


SVE_BITS = (256, 512)
"""Lengths of scalable vectors that code is generated for. Those of 128 bits have nothing over NEON's here."""


@cache
def _costs_of(target: Target) -> CpuCosts:
    with importing:
        from tilewright.backends.llvm.cpu_costs import costs_of

    return costs_of(target)


def host_target(override: str | None = None) -> Target:
    """The target for this process, or for the CPU named `override`, which may be of another architecture.

    Args:
        override: a key of `X86_CPUS` or `ARM_CPUS`; None, "" and "native" mean the CPU we run on.

    Raises:
        UnknownCpuError: the name is not in the tables, or this host is below x86-64-v2.
    """
    if not override or override == "native":
        return _detected_host()
    return _named(override)


def host_identity() -> str:
    """The host target's identity, without loading LLVM."""
    return _detected_host().identity


@cache
def _named(name: str) -> Target:
    if name in X86_CPUS:
        tune, features = X86_CPUS[name]
        if SYSTEM.name != "linux" or architecture() != "x86-64":  # kernels could not ask for tile registers
            features = tuple(feature for feature in features if not feature.startswith("amx"))
        return _x86(_level(features), tune, features)
    if name in ARM_CPUS:
        return _arm(*ARM_CPUS[name])
    known = ", ".join((*X86_CPUS, *ARM_CPUS))
    raise UnknownCpuError(f"there is no CPU {name!r}; known are: native, {known}")


@cache
def _detected_host() -> Target:
    machine = architecture()
    if machine == "aarch64":
        if SYSTEM.name == "macos":
            return _named("apple-m1")
        return _arm_host(host_arm())
    if machine != "x86-64":
        raise UnknownCpuError(f"no code generation for the architecture {machine!r}")
    try:
        cpu = host_x86()
    except OSError:  # no machine code can be mapped here, so what is compiled is for others
        cpu = HostCpu("", 0, _features_by_llvm())
    features = tuple(cpu.features)
    return _x86(_level(features), _tuning(cpu), features)


def _level(features: tuple[str, ...]) -> str:
    """The highest x86-64 level whose features are all there."""
    for level, needed in X86_LEVELS:
        if set(needed) <= set(features):
            return level
    raise UnknownCpuError("this CPU lacks SSE 4.2 (x86-64-v2), which all generated code uses")


def _tuning(cpu: HostCpu) -> str:
    """The scheduling model: AMD's family 26 is Zen 5, the first with 512-bit data paths."""
    amd = cpu.vendor == "AuthenticAMD"
    if amd and "avx512f" in cpu.features:
        return "znver5" if cpu.family == 26 else "znver4"
    if "avx512f" in cpu.features:
        return "sapphirerapids" if "amx-tile" in cpu.features else "icelake-server"
    if "avx2" not in cpu.features:
        return "nehalem"
    return "znver3" if amd else "haswell"


def _x86(cpu: str, tune: str, features: tuple[str, ...]) -> Target:
    return Target(
        triple=triple_for(SYSTEM.name, "x86-64"),
        cpu=cpu,
        tune=tune,
        features=tuple(sorted(features)),
        vector_bits=512 if cpu == "x86-64-v4" else 256 if cpu == "x86-64-v3" else 128,
        has_fma="fma" in features,
        has_f16c="f16c" in features,
        has_avx2="avx2" in features,
        has_avx512f=cpu == "x86-64-v4",
        has_avx512bf16="avx512bf16" in features and cpu == "x86-64-v4",
        has_vnni="avx512vnni" in features and cpu == "x86-64-v4",
        neon=False,
    )


def _arm_host(cpu: HostCpu) -> Target:
    """NEON unless scalable vectors are longer, and of a length that loops are written for."""
    if cpu.scalable_bits not in SVE_BITS:
        neon = tuple(cpu.features - {"sve"})
        return _arm("neoverse-v1" if "bf16" in neon else "neoverse-n1", neon, 128)
    return _arm("neoverse-v1" if "bf16" in cpu.features else "a64fx", tuple(cpu.features), cpu.scalable_bits)


def _arm(tune: str, features: tuple[str, ...], vector_bits: int) -> Target:
    # Apple reserves x18; not using it costs nothing elsewhere.
    return Target(
        triple=triple_for(SYSTEM.name, "aarch64"),
        cpu="generic",
        tune=tune,
        features=tuple(sorted((*features, "reserve-x18"))),
        vector_bits=vector_bits,
        has_fma=True,
        has_f16c=True,
        has_avx2=False,
        has_avx512f=False,
        has_avx512bf16=False,
        has_vnni=False,
        neon=True,
    )


def _capabilities(target: Target) -> set[str]:
    return set(target.features)


def compile_object(ir_text: str, target: Target, *, opt: int = 1, optimize: bool = False) -> bytes:
    """Machine code for a module, as an ELF relocatable file.

    No IR passes run unless asked for: the text is expected to be near-final. `SETTINGS` has LLVM's options.

    Args:
        ir_text: an LLVM module without triple or data layout.
        target: the machine.
        opt: LLVM's code generation level, 0 to 3.
        optimize: run LLVM's O2 pipeline first (tens of milliseconds).

    Raises:
        LlvmError: the text is not valid LLVM IR.
    """
    with _using_llvm():
        return _object_code(ir_text, target, opt, optimize=optimize)


def emit_assembly(ir_text: str, target: Target, *, opt: int = 1) -> str:
    """Assembly text of what `compile_object` would emit; raises LlvmError as it does."""
    with _using_llvm():
        return _assembly(ir_text, target, opt)


# Functions of their own, so that LLVM's objects are gone when the lock is free.


def _object_code(ir_text: str, target: Target, opt: int, *, optimize: bool) -> bytes:
    module = _parsed(ir_text)
    machine = _prepared_for(module, ir_text, target, opt)
    if optimize:
        _run_pipeline(module, machine)
    code: bytes = _with_settings(ir_text, lambda: machine.emit_object(module))
    return code


def _assembly(ir_text: str, target: Target, opt: int) -> str:
    module = _parsed(ir_text)
    machine = _prepared_for(module, ir_text, target, opt)
    text: str = _with_settings(ir_text, lambda: machine.emit_assembly(module))
    return text


_LOCK = RLock()
"""LLVM's command line options and its global context are process-wide."""

# A fork waits until LLVM is idle, because a child could not go on there.
SYSTEM.when_forked(before=_LOCK.acquire, parent=_LOCK.release, child=_LOCK.release)


@contextmanager
def _using_llvm() -> Iterator[None]:
    """LLVM for one thread at a time. A thread that waits for it can be interrupted; while one uses it, signals wait."""
    with importing:
        from tilewright.support.deferred_signals import deferred_signals
    with _LOCK, deferred_signals():
        yield


@cache
def _llvm() -> Any:
    """llvmlite.binding, with the back end of this machine ready. Imported here and nowhere else.

    LLVM queries the passes of all initialised back ends for the analyses that each pass preserves: with all back ends,
    compilation takes 3 % longer.

    Raises:
        ImportError: it is not installed, or too old.
    """
    with importing:
        import llvmlite.binding

        from tilewright.support.tested_versions import require, warn_of_python

        warn_of_python()
        require("llvmlite", llvmlite.__version__)
        require("numpy", np.__version__)  # here, where it costs nothing in a process that compiles nothing
        llvmlite.binding.initialize_native_target()
        llvmlite.binding.initialize_native_asmprinter()
        llvmlite.binding.initialize_native_asmparser()  # for the system call of kernels with tile registers
    return llvmlite.binding


@cache
def _all_back_ends() -> None:
    """Make the back ends of other machines ready, too."""
    _llvm().initialize_all_targets()
    _llvm().initialize_all_asmprinters()


def _features_by_llvm() -> frozenset[str]:
    with _using_llvm():
        present = _llvm().get_host_cpu_features()
    return frozenset(name for name in X86_BITS if present.get(name))


BF16 = "avx512bf16"
"""The feature with which LLVM passes a bfloat from block to block by an instruction that takes subnormals for 0."""


SETTINGS = (
    ("--disable-lsr", "--disable-lsr=false"),
    ("--cgp-max-address-users-to-scan=8", "--cgp-max-address-users-to-scan=100"),
    ("--disable-constant-hoisting", "--disable-constant-hoisting=false"),
    ("--disable-mergeicmps", "--disable-mergeicmps=false"),
    ("--disable-partial-libcall-inlining", "--disable-partial-libcall-inlining=false"),
    ("--disable-postra-machine-licm", "--disable-postra-machine-licm=false"),
    ("--disable-select-optimize", "--disable-select-optimize=false"),
    ("--cgpp-huge-func=0", "--cgpp-huge-func=10000"),
)
"""LLVM's options, each with the one that puts back what others in this process have.

Loop strength reduction is a third of code generation and gains nothing here. Whether an address had better be
computed again by each of its users is asked for all pairs of them: beyond eight, it stays in a register. Constants are
hoisted by later passes, too, which leave nothing for the one behind the allotment of registers. The others look for
strings that are compared, for calls of libraries, and for choices that a profile calls lopsided. CodeGenPrepare treats
every function as a huge one: it goes on with the blocks that changed, and does not start over with the first block.
"""

LONG_TEXT = 20_000
"""Min number of characters of a text for which `LONG_TEXT_SETTINGS` save more than a loop's copy costs."""

LONG_TEXT_SETTINGS = (("--disable-copyprop", "--disable-copyprop=false"),)
"""Options for a long text: hardly a copy is left behind the passes that look for copies before."""

FILES_OF_SETTINGS = tuple(f"{__file__.removesuffix('machine.py')}options_{name}.txt" for name in ("set", "back"))
"""`SETTINGS` as LLVM reads them from files: in one call of 20 µs, while setting an option takes 10 each time."""


@cache
def _target_machine(target: Target, opt: int, left_out: str) -> Any:
    features = ",".join(f"+{name}" for name in target.features if name != left_out)
    if target.neon != (architecture() == "aarch64"):
        _all_back_ends()
    return (
        _llvm()
        .Target.from_triple(target.triple)
        .create_target_machine(cpu=target.cpu, features=features, opt=opt, reloc="pic", codemodel="small")
    )


def _parsed(ir_text: str) -> Any:
    try:
        module = _llvm().parse_assembly(ir_text)
        module.verify()
    except RuntimeError as error:
        raise LlvmError(str(error).strip(), named_line(str(error), ir_text)) from None
    return module


def named_line(message: str, ir_text: str) -> str | None:
    """The line of a module's text that a message is about."""
    place = re.search(r"<string>:(\d+):", message)
    lines = ir_text.splitlines()
    return lines[int(place.group(1)) - 1] if place and int(place.group(1)) <= len(lines) else None


def _prepared_for(module: Any, ir_text: str, target: Target, opt: int) -> Any:
    machine = _target_machine(target, opt, "" if BF16 in ir_text else BF16)
    module.triple = machine.triple
    module.data_layout = str(machine.target_data)
    return machine


def _run_pipeline(module: Any, machine: Any) -> None:
    options = _llvm().create_pipeline_tuning_options(speed_level=2)
    passes = _llvm().create_pass_builder(machine, options)
    passes.getModulePassManager().run(module, passes)


def _with_settings(ir_text: str, emit: Callable[[], Any]) -> Any:
    """The result of `emit`, which runs while LLVM has the options for a text."""
    ours, others = (_options(ir_text, side) for side in (0, 1))
    _set_options(ours)
    try:
        return emit()
    finally:
        _set_options(others)


def _options(ir_text: str, side: int) -> list[str]:
    """The options for a text on one side of the tables; LLVM ends the process over a file that it cannot read."""
    file = FILES_OF_SETTINGS[side]
    found = [f"@{file}"] if os.access(file, os.R_OK) else [pair[side] for pair in SETTINGS]
    return found + [pair[side] for pair in LONG_TEXT_SETTINGS] if len(ir_text) >= LONG_TEXT else found


def _set_options(options: Sequence[str]) -> None:
    for option in options:
        _llvm().set_option("tilewright", option)
