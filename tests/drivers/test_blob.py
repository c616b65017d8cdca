"""ELF objects linked into blobs, for both machines, and mapped into memory."""

from __future__ import annotations

import ctypes
import struct
import subprocess
import time

import pytest

from tilewright.backends.llvm.machine import compile_object, host_target
from tilewright.runtime.drivers.cpu.blob import Blob, LinkError, apply, link, read_object
from tilewright.runtime.drivers.cpu.loader import LoadedCode, host_machine, machine_of
from tilewright.runtime.drivers.cpu.routines import ROUTINES
from tilewright.support.executable_memory import map_code
from tilewright.support.system import SYSTEM

BOTH = ("x86-64-v3", "neoverse-n1")
X86_ONLY = pytest.mark.skipif(host_machine() != "x86-64", reason="runs x86-64 code")

TABLE = """
@table = internal constant [4 x i64] [i64 10, i64 20, i64 30, i64 40]
define internal i64 @look(i64 %i) noinline {
  %p = getelementptr i64, ptr @table, i64 %i
  %v = load i64, ptr %p
  ret i64 %v
}
define i64 @entry(i64 %i) {
  %a = call i64 @look(i64 %i)
  %b = add i64 %a, 1
  ret i64 %b
}
define ptr @where() {
  ret ptr @look
}
"""


def linked(ir: str, cpu: str = "x86-64-v3") -> Blob:
    return link(compile_object(ir, host_target(cpu)))


def called(blob: Blob, name: str, *arguments: int, pointers: dict[int, int] | None = None) -> int:
    address = map_code(blob.image, pointers=pointers).address + blob.symbols[name]
    return int(ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_int64] * len(arguments))(address)(*arguments))


@pytest.mark.parametrize("cpu", BOTH)
def test_exported_symbols_have_offsets(cpu: str) -> None:
    blob = linked(TABLE, cpu)

    assert blob.machine == machine_of({"x86-64-v3": "x86-64", "neoverse-n1": "aarch64"}[cpu], SYSTEM.name)
    assert set(blob.symbols) == {"entry", "where"}
    assert struct.pack("<4q", 10, 20, 30, 40) in blob.image


@X86_ONLY
def test_constants_and_calls_reach_their_targets() -> None:
    blob = linked(TABLE)

    assert [called(blob, "entry", i) for i in range(4)] == [11, 21, 31, 41]


def test_aarch64_calls_and_pages_are_patched() -> None:
    blob = linked(TABLE, "neoverse-n1")
    words = struct.unpack(f"<{len(blob.image) // 4}I", blob.image[: len(blob.image) // 4 * 4])
    calls = [(4 * i, word) for i, word in enumerate(words) if word >> 26 == 0b100101]

    assert len(calls) == 1
    place, word = calls[0]
    distance = (word & 0x3FFFFFF) - ((word & 0x2000000) << 1)
    assert place + 4 * distance == 0  # `look` is the first function
    table = blob.image.index(struct.pack("<q", 10))
    assert any(word & 0xFFC00000 == 0x91000000 and word >> 10 & 0xFFF == table for word in words)  # add :lo12:


def test_aarch64_loads_of_each_width_reach_their_constants() -> None:
    numbers = {"i8": "11", "i16": "22", "i32": "33", "i64": "44", "<2 x i64>": "<i64 55, i64 0>"}
    text, body = "", ""
    for place, (type, number) in enumerate(numbers.items()):
        text += f"@x{place} = internal constant {type} {number}, align 16\n"
        body += f" %v{place} = load volatile {type}, ptr @x{place}\n store volatile {type} %v{place}, ptr %to\n"
    image = linked(f"{text}define void @k(ptr %to) {{\n{body} ret void\n}}", "neoverse-n1").image
    code = struct.unpack(f"<{len(image) // 4}I", image[: len(image) // 4 * 4])
    found = []
    for word in code:
        if word >> 24 & 0x3B == 0x39 and word >> 10 & 0xFFF:  # ldr with an offset; all stores have none
            scale = 4 if word >> 26 & 1 else word >> 30
            place = (word >> 10 & 0xFFF) << scale
            found.append(int.from_bytes(image[place : place + (1 << scale)], "little"))
    assert found == [11, 22, 33, 44, 55]


@pytest.mark.parametrize("cpu", BOTH)
def test_undefined_symbols_are_refused_by_name(cpu: str) -> None:
    ir = "declare float @expf(float)\ndeclare void @puts()\n"
    ir += "define float @k(float %x) {\n call void @puts()\n %y = call float @expf(float %x)\n ret float %y\n}"

    with pytest.raises(LinkError, match="undefined symbols: expf, puts"):
        linked(ir, cpu)


@pytest.mark.parametrize("cpu", BOTH)
def test_variables_are_refused(cpu: str) -> None:
    ir = "@v = internal global i32 1\ndefine i32 @k() {\n store volatile i32 2, ptr @v\n ret i32 0\n}"

    with pytest.raises(LinkError, match=r"\.data.* is writable"):
        linked(ir, cpu)


def test_absolute_addresses_are_refused() -> None:
    with pytest.raises(LinkError, match="not position-independent"):
        apply("x86-64", 1, image=bytearray(8), place=0, target=0)


def test_out_of_reach_branches_are_refused() -> None:
    with pytest.raises(LinkError, match="out of reach"):
        apply("aarch64", 283, image=bytearray(8), place=0, target=1 << 28)


@pytest.mark.quick
@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"\xcf\xfa\xed\xfe" + bytes(60), "Mach-O"),
        (b"\x64\x86" + bytes(60), "COFF"),
        (b"nothing at all", "not a 64-bit"),
        (b"\x7fELF\x02\x01", "damaged"),
    ],
)
def test_other_files_are_refused(data: bytes, message: str) -> None:
    with pytest.raises(LinkError, match=message):
        link(data)


def test_objects_cut_short_are_refused_not_misread() -> None:
    data = compile_object(TABLE, host_target("x86-64-v3"))
    for size in range(0, len(data), 37):
        with pytest.raises(LinkError):
            link(data[:size])


COPIES = """
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)
define i64 @copy(ptr %to, ptr %from, i64 %n) {
  call void @llvm.memcpy.p0.p0.i64(ptr %to, ptr %from, i64 %n, i1 false)
  ret i64 0
}
define i64 @fill(ptr %to, i64 %value, i64 %n) {
  %b = trunc i64 %value to i8
  call void @llvm.memset.p0.i64(ptr %to, i8 %b, i64 %n, i1 false)
  ret i64 0
}
"""


@X86_ONLY
def test_memcpy_and_memset_are_provided() -> None:
    blob = linked(COPIES)
    source, target = ctypes.create_string_buffer(b"0123456789abcdef"), ctypes.create_string_buffer(32)

    called(blob, "copy", ctypes.addressof(target), ctypes.addressof(source), 11)
    called(blob, "fill", ctypes.addressof(target) + 4, ord("z"), 3)

    assert target.raw[:16] == b"0123zzz789a\0\0\0\0\0"


LATER = """
define i64 @kept(ptr %p, i64 %i) {
  %v = load bfloat, ptr %p
  %c = icmp eq i64 %i, 0
  br i1 %c, label %a, label %b
a:
  ret i64 1
b:
  %w = fpext bfloat %v to float
  %q = getelementptr i8, ptr %p, i64 4
  store float %w, ptr %q
  %r = getelementptr i8, ptr %p, i64 2
  store bfloat %v, ptr %r
  ret i64 0
}
"""


@X86_ONLY
def test_scalars_of_bfloat_may_wait_in_a_register() -> None:
    target = host_target("x86-64-v3")
    if not target.runs_here():
        pytest.skip("this host does not run x86-64-v3 code")
    data = compile_object(LATER, target)
    assert b"__truncsfbf2" in data
    memory = ctypes.create_string_buffer(struct.pack("<HHf", 0xC12F, 0, 0), 8)
    assert called(link(data), "kept", ctypes.addressof(memory), 1) == 0
    assert struct.unpack("<HHf", memory.raw) == (0xC12F, 0xC12F, -10.9375)


ROUNDED = """
define i64 @rounded(i64 %bits) {
  %word = trunc i64 %bits to i32
  %x = bitcast i32 %word to float
  %y = fptrunc float %x to bfloat
  %z = bitcast bfloat %y to i16
  %w = zext i16 %z to i64
  ret i64 %w
}
"""


@pytest.mark.quick
@X86_ONLY
@pytest.mark.parametrize(
    ("bits", "rounded"),
    [
        (0x3F807FFF, 0x3F80),
        (0x3F808000, 0x3F80),
        (0x3F808001, 0x3F81),
        (0x3F818000, 0x3F82),
        (0xBF818000, 0xBF82),
        (0x00000001, 0x0000),
        (0x00018000, 0x0002),
        (0x80010000, 0x8001),
        (0x7F7FFFFF, 0x7F80),
        (0xFF800000, 0xFF80),
        (0x7F800001, 0x7FC0),
        (0xFFFFFFFF, 0xFFFF),
        (0x7F810000, 0x7F81),
    ],
)
def test_the_routine_rounds_floats_to_bfloat(bits: int, rounded: int) -> None:
    target = host_target("x86-64-v2")
    data = compile_object(ROUNDED, target)
    assert b"__truncsfbf2" in data
    assert called(link(data), "rounded", bits) == rounded


X86_ROUND = """
movd %xmm0, %eax\ntest %ax, %ax\nje 2f\nucomiss %xmm0, %xmm0\njp 1f
mov %eax, %ecx\nshr $16, %ecx\nand $1, %ecx\nlea 0x7fff(%rax,%rcx), %eax\njmp 2f
1: or $0x400000, %eax\n2: shr $16, %eax\nmovd %eax, %xmm0\nret
"""
ARM_ROUND = """
fmov w0, s0\ntst w0, #0xffff\nb.eq 2f\nfcmp s0, s0\nb.vs 1f
ubfx w1, w0, #16, #1\nadd w0, w0, w1\nmov w1, #0x7fff\nadd w0, w0, w1\nb 2f
1: orr w0, w0, #0x400000\n2: lsr w0, w0, #16\nfmov s0, w0\nret
"""
ARM_ROUTINES = {
    "__truncsfbf2": ARM_ROUND,
    "memcpy": "mov x3, x0\ncbz x2, 2f\n1: ldrb w4, [x1], #1\nstrb w4, [x3], #1\nsubs x2, x2, #1\nb.ne 1b\n2: ret",
    "memset": "mov x3, x0\ncbz x2, 2f\n1: strb w1, [x3], #1\nsubs x2, x2, #1\nb.ne 1b\n2: ret",
}


@pytest.mark.needs_llvm_mc
@pytest.mark.parametrize("name", ARM_ROUTINES)
def test_aarch64_routines_are_what_the_assembler_makes(name: str) -> None:
    command = ["llvm-mc", "-triple=aarch64-linux-gnu", "-filetype=obj"]
    data = subprocess.run(command, input=ARM_ROUTINES[name].encode(), capture_output=True, check=True).stdout

    assert read_object(data).sections[0].content == ROUTINES["aarch64"][name]


@pytest.mark.needs_llvm_mc
def test_the_x86_routine_that_rounds_is_what_the_assembler_makes() -> None:
    command = ["llvm-mc", "-triple=x86_64-linux-gnu", "-filetype=obj"]
    data = subprocess.run(command, input=X86_ROUND.encode(), capture_output=True, check=True).stdout

    assert read_object(data).sections[0].content == ROUTINES["x86-64"]["__truncsfbf2"]


@X86_ONLY
def test_pointers_are_written_before_the_code_is_sealed() -> None:
    ir = "@runtime = externally_initialized constant i64 0\n"
    blob = linked(ir + "define i64 @k() {\n %v = load i64, ptr @runtime\n ret i64 %v\n}")

    assert called(blob, "k", pointers={blob.symbols["runtime"]: 0x1234567890}) == 0x1234567890


@X86_ONLY
def test_loading_takes_microseconds() -> None:
    blob = linked(TABLE)
    LoadedCode(blob.image, 0, "kernel")
    best = 1.0
    for _ in range(50):
        start = time.thread_time()
        LoadedCode(blob.image, blob.symbols["entry"], "kernel")
        best = min(best, time.thread_time() - start)

    assert best < 100e-6  # about 10 µs
