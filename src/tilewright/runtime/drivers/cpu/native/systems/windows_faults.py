"""The handler of access violations: a vectored exception handler, which only reports."""

from __future__ import annotations

from tilewright.runtime.drivers.cpu.native.code import RARE, Function, Ptr, native

_RECORD_AT, _CONTEXT_AT = 0, 8  # in EXCEPTION_POINTERS
_ADDRESS_AT = 40  # of ExceptionInformation[1] in EXCEPTION_RECORD: what was accessed
_COUNTER_AT = 248  # of Rip in CONTEXT
_ACCESS_VIOLATION, _IN_PAGE_ERROR = 0xC0000005 - (1 << 32), 0xC0000006 - (1 << 32)
_CONTINUE_SEARCH = 0


@native("i32", exported=True, inlining=RARE)
def _fault(f: Function, pointers: Ptr) -> None:
    """The vectored exception handler."""
    record, context = f.load("ptr", pointers, _RECORD_AT), f.load("ptr", pointers, _CONTEXT_AT)
    code = f.load("i32", record)
    with f.when(code.equals(_ACCESS_VIOLATION) | code.equals(_IN_PAGE_ERROR)):
        counter, address = f.load("i64", context, _COUNTER_AT), f.load("i64", record, _ADDRESS_AT)
        f.call("explain", "void", counter, address, f.constant("i64", 0))
    f.give(_CONTINUE_SEARCH)
