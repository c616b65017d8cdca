"""A kernel as two shared objects that run without Python: the code, and its launcher.

    kernel = kernel_object(obj, entry="add_programs", name="add")
    launcher = launcher_object(("*fp32", "constexpr", "i32"), scratch_bytes=0, target=machine)

The launcher exports what torch's AOTInductor calls:

    int64_t run_from_nativert(uint32_t x, uint32_t y, uint32_t z, int threads, void **arguments, void *kernel)

`arguments` has one entry for each type: a pointer itself, the address of a number, anything for a constant. The launch
runs on the calling thread, whatever `threads` says, and has its own record and scratch memory, so several threads may
launch one kernel at a time. The launcher contains the scratch size and the types of one kernel.

If an assertion fails, the launch returns 1 to callers that check it, which they declare by passing LOOKS_AT_FAILURES as
`threads`. torch's own code does not check it; for such callers the process ends.
"""

from __future__ import annotations

from collections.abc import Sequence
from string import Template

from tilewright.backends.cpu.backend import CpuBackend
from tilewright.backends.llvm.machine import Target, compile_object
from tilewright.compiler.artifact import Metadata
from tilewright.compiler.signature import CONSTEXPR, ArgumentSpec
from tilewright.runtime.drivers.cpu.blob import MACHINES, link
from tilewright.runtime.drivers.cpu.loader import Blob
from tilewright.runtime.drivers.cpu.native.structs import CONTROL, LAUNCH_CONTROL
from tilewright.runtime.drivers.cpu.shared_object import shared_object
from tilewright.support.diagnostics import TilewrightError

LOOKS_AT_FAILURES = -1
"""The number of threads by which a caller declares that it checks the return value."""
_LAUNCHER = "run_from_nativert"
_HEADER_BYTES = 24  # of a launch record, before its slots
_MAX_ON_STACK = 1 << 16  # bytes of scratch memory

_TEXT = Template("""\
define i64 @ignored(i32 %site, i32 %x, i32 %y, i32 %z, i64 %value) {
  ret i64 0
}
define i64 @$launcher(i32 %x, i32 %y, i32 %z, i32 %threads, ptr %arguments, ptr %kernel) {
  %record = alloca [$record_bytes x i8], align 8
  %control = alloca [$control_bytes x i8], align 8
$stack  %wide_x = zext i32 %x to i64
  %wide_y = zext i32 %y to i64
  %wide_z = zext i32 %z to i64
  %plane = mul i64 %wide_x, %wide_y
  %programs = mul i64 %plane, %wide_z
  %is_empty = icmp eq i64 %programs, 0
  br i1 %is_empty, label %end, label %fill
fill:
  call void @llvm.memset.inline.p0.i64(ptr %record, i8 0, i64 $record_bytes, i1 false)
  store i32 %x, ptr %record
  %at_y = getelementptr i8, ptr %record, i64 4
  store i32 %y, ptr %at_y
  %at_z = getelementptr i8, ptr %record, i64 8
  store i32 %z, ptr %at_z
  call void @llvm.memset.inline.p0.i64(ptr %control, i8 0, i64 $control_bytes, i1 false)
  store ptr @ignored, ptr %control
  %at_control = getelementptr i8, ptr %record, i64 $control_at
  store ptr %control, ptr %at_control
$slots$scratch
run:
  %reached = call i64 %kernel(ptr %record, i64 0, i64 %programs, ptr $memory)
$release  %at_stop = getelementptr i8, ptr %control, i64 $stop_at
  %stop = load volatile i64, ptr %at_stop
  %is_right = icmp eq i64 %stop, 0
  br i1 %is_right, label %end, label %failed
failed:
  %looks = icmp eq i32 %threads, $looks
  br i1 %looks, label %end, label %ignorant
end:
  %result = phi i64 [ 0, %0 ], [ 0, %run ], [ 1, %failed ]
  ret i64 %result
ignorant:
  call void @llvm.trap()
  unreachable
no_memory:
  call void @llvm.trap()
  unreachable
}
declare void @llvm.memset.inline.p0.i64(ptr, i8, i64, i1)
declare void @llvm.trap()
declare i64 @mmap(i64, i64, i32, i32, i32, i64)
declare i64 @munmap(i64, i64)
""")


class StandaloneError(TilewrightError):
    """A kernel that cannot run without Python; the message says why."""


def kernel_stage(object_file: bytes, metadata: Metadata) -> bytes:
    """`asm["so"]` of a kernel, which exports its code as `metadata.name`.

    Errors: StandaloneError for kernels that print or check their accesses, which would have no listener, and for those
        whose programs wait for one another, which one thread cannot run.
    """
    _refuse_what_needs_python(metadata)
    return kernel_object(object_file, entry=metadata.entry, name=metadata.name)


def launcher_stage(metadata: Metadata, specs: Sequence[ArgumentSpec]) -> bytes:
    """`asm["launcher.so"]` of a kernel with these parameters.

    Errors: StandaloneError as in `kernel_stage` and `launcher_object`.
    """
    _refuse_what_needs_python(metadata)
    machine = CpuBackend(metadata.target).machine
    types = [spec.type for spec in specs]
    return launcher_object(types, scratch_bytes=metadata.scratch_bytes, target=machine)


def _refuse_what_needs_python(metadata: Metadata) -> None:
    if any("message" not in site for site in metadata.reports):
        raise StandaloneError(f"{metadata.name} prints, which needs Python: compile it without prints")
    if getattr(metadata, "sanitizer", ""):
        raise StandaloneError(f"{metadata.name} checks its accesses, which needs Python: compile it without sanitize")
    if metadata.waits:
        raise StandaloneError(
            f"programs of {metadata.name} wait for one another, which needs Python: launch it from there"
        )


def kernel_object(object_file: bytes, *, entry: str, name: str) -> bytes:
    """The shared object of a kernel; it exports its entry point under `name`."""
    blob = _linked(object_file)
    return shared_object(Blob(blob.machine, blob.image, {name: blob.symbols[entry]}), [name])


def launcher_object(types: Sequence[str], *, scratch_bytes: int, target: Target) -> bytes:
    """The shared object that launches a kernel of these types.

    Args: types: of all parameters, constants too.
    Errors: StandaloneError for types that C has no number for.
    """
    text = _text(types, scratch_bytes)
    return shared_object(_linked(compile_object(text, target)), [_LAUNCHER])


def _linked(object_file: bytes) -> Blob:
    blob = link(object_file)
    if blob.machine not in MACHINES.values():
        raise StandaloneError(
            f"files that run without Python are made for Linux, not for {blob.machine}: launch the kernel from Python"
        )
    return blob


def _text(types: Sequence[str], scratch_bytes: int) -> str:
    passed = [(index, kind) for index, kind in enumerate(types) if kind != CONSTEXPR]
    stack, scratch, release, memory = _scratch(scratch_bytes)
    return _TEXT.substitute(
        launcher=_LAUNCHER,
        looks=LOOKS_AT_FAILURES,
        control_at=LAUNCH_CONTROL,
        control_bytes=CONTROL.size,
        stop_at=CONTROL.fields["stop"].offset,
        record_bytes=_HEADER_BYTES + 8 * max(1, len(passed)),
        slots="".join(_slot(slot, index, kind) for slot, (index, kind) in enumerate(passed)),
        stack=stack,
        scratch=scratch,
        release=release,
        memory=memory,
    )


def _slot(slot: int, index: int, kind: str) -> str:
    """Fills one slot of the record from the argument at `index`."""
    lines = [
        f"%from{slot} = getelementptr ptr, ptr %arguments, i64 {index}",
        f"%argument{slot} = load ptr, ptr %from{slot}",
        f"%to{slot} = getelementptr i8, ptr %record, i64 {_HEADER_BYTES + 8 * slot}",
    ]
    lines += _stored(slot, kind)
    return "".join(f"  {line}\n" for line in lines)


def _stored(slot: int, kind: str) -> list[str]:
    if kind.startswith("*"):
        return [f"store ptr %argument{slot}, ptr %to{slot}"]
    if kind in ("fp32", "fp64"):
        word = "i32" if kind == "fp32" else "i64"
        return [f"%v{slot} = load {word}, ptr %argument{slot}", f"store {word} %v{slot}, ptr %to{slot}"]
    bits = kind[1:]
    if kind[0] not in "iu" or bits not in ("1", "8", "16", "32", "64"):
        raise StandaloneError(f"an argument of type {kind} cannot be passed without Python: pass fp32, or a pointer")
    if bits == "1":
        return [
            f"%b{slot} = load i8, ptr %argument{slot}",
            f"%t{slot} = icmp ne i8 %b{slot}, 0",
            f"%v{slot} = zext i1 %t{slot} to i64",
            f"store i64 %v{slot}, ptr %to{slot}",
        ]
    if bits == "64":
        return [f"%v{slot} = load i64, ptr %argument{slot}", f"store i64 %v{slot}, ptr %to{slot}"]
    extension = "sext" if kind[0] == "i" else "zext"
    return [
        f"%n{slot} = load i{bits}, ptr %argument{slot}",
        f"%v{slot} = {extension} i{bits} %n{slot} to i64",
        f"store i64 %v{slot}, ptr %to{slot}",
    ]


def _scratch(size: int) -> tuple[str, str, str, str]:
    """Text before anything else, before the call and after it, and the scratch memory's name."""
    if size <= _MAX_ON_STACK:
        return f"  %scratch = alloca [{max(1, size)} x i8], align 64\n", "  br label %run", "", "%scratch"
    taken = (
        f"  %address = call i64 @mmap(i64 0, i64 {size}, i32 3, i32 34, i32 -1, i64 0)\n"
        "  %has_failed = icmp ugt i64 %address, -4096\n"
        "  %scratch = inttoptr i64 %address to ptr\n"
        "  br i1 %has_failed, label %no_memory, label %run"
    )
    given = f"  %given = call i64 @munmap(i64 %address, i64 {size})\n"
    return "", taken, given, "%scratch"
