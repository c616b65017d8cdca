"""The routines that LLVM's code calls implicitly, and a clock: a few instructions each, per machine.

`__truncsfbf2`: if the machine has no bfloat type, LLVM keeps a bfloat that several blocks use as a float. For such a
float the routine returns its upper half. Any other float is rounded to nearest even, and a NaN stays one.
"""

from __future__ import annotations

from collections.abc import Mapping

from tilewright.runtime.drivers.cpu.loader import machine_of

_LINUX_X86 = {
    "__truncsfbf2": "660f7ec0 6685c0 741b 0f2ec0 7a11 89c1 c1e910 83e101 8d8408ff7f0000 eb05 0d00004000"
    " c1e810 660f6ec0 c3",
    "clock_gettime": "b8e4000000 0f05 c3",  # system call 228
    "memcpy": "4889f8 4889d1 f3a4 c3",  # rep movsb
    "memset": "4989f8 89f0 4889d1 f3aa 4c89c0 c3",  # rep stosb
    # Of launchers that run without a C library: system calls 9 and 11; an error is a negative number.
    "mmap": "b809000000 4989ca 0f05 c3",
    "munmap": "b80b000000 0f05 c3",
}
_WINDOWS_X86 = {
    "__truncsfbf2": _LINUX_X86["__truncsfbf2"],
    # Touches one page after the other of a large frame of rax bytes, because the system makes the stack grow by a page
    # when the next one is touched. All registers stay as they are.
    "__chkstk": "5150488d4c2418 483d00100000 7211 4881e900100000 8509 482d00100000 ebe7 4829c1 8509 5859 c3",
    # The time since the system was started, in units of 100 ns: the word at 8 of the page that Windows shows all
    # programs at 0x7ffe0000. It changes every 0.5 to 16 ms.
    "clock_gettime": "4889d1 4c8b04250800fe7f 48babd427ae5d594bfd6 4c89c0 48f7e2 48c1ea17 4869c280969800 4929c0"
    " 496bc064 488911 48894108 31c0 c3",
    "memcpy": "4889c8 4989f9 4989f2 4889cf 4889d6 4c89c1 f3a4 4c89cf 4c89d6 c3",  # rep movsb, with rdi and rsi restored
    "memset": "4989f9 4989ca 4889cf 89d0 4c89c1 f3aa 4c89cf 4c89d0 c3",  # rep stosb
}
_ARM = {
    "__truncsfbf2": "0000261e 1f3c0072 20010054 0020201e c6000054 01401053 0000010b e1ff8f52 0000010b 02000014 00000a32"
    " 007c1053 0000271e c0035fd6",
    "memcpy": "e30300aa a20000b4 24144038 64140038 420400f1 a1ffff54 c0035fd6",  # byte by byte
    "memset": "e30300aa 820000b4 61140038 420400f1 c1ffff54 c0035fd6",
}
_LINUX_ARM = {
    **_ARM,
    "clock_gettime": "280e80d2 010000d4 c0035fd6",  # system call 113
    "mmap": "c81b80d2 010000d4 c0035fd6",  # 222
    "munmap": "e81a80d2 010000d4 c0035fd6",  # 215
}
_MACOS_ARM = {
    **_ARM,
    "clock_gettime": "48e03bd5 09e03bd5 0a09c99a 48a1099b 0b409952 4b73a772 087d0b9b 0809c99a 2a2000a9 00008052"
    " c0035fd6",  # the counter CNTVCT_EL0, of CNTFRQ_EL0 ticks a second
}

ROUTINES: Mapping[str, Mapping[str, bytes]] = {
    machine_of(architecture, system): {name: bytes.fromhex(code) for name, code in routines.items()}
    for architecture, system, routines in (
        ("x86-64", "linux", _LINUX_X86),
        ("x86-64", "windows", _WINDOWS_X86),
        ("aarch64", "linux", _LINUX_ARM),
        ("aarch64", "macos", _MACOS_ARM),
    )
}
"""The machine code, by machine and name."""
