"""Windows on x86-64, tested under Wine.

Its libraries are opened on first use, so this file can be imported, and its decisions tested, anywhere.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import re
import stat
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import Any

from tilewright.support.system.interface import AnyPath, Done, System, architecture

_COMMIT_AND_RESERVE, _RELEASE = 0x3000, 0x8000
_READ_WRITE, _EXECUTE_READ = 0x04, 0x20
_LIBRARIES = ("kernel32", "api-ms-win-core-synch-l1-2-0", "ucrtbase")
_NO_MORE_KEYS = 0xFFFFFFFF
_QUERY_LIMITED, _STILL_ACTIVE, _NO_SUCH_PROCESS = 0x1000, 259, 87
_EXCLUSIVE, _AT_ONCE = 2, 1
_FIRST = 1
_JUNCTION = 0xA0000003
_LOCKED_BYTE = 1 << 62
"""Locks are for bytes, which others then cannot read: this one is behind the end of every file."""
_PATIENCE = 50
"""Tries to rename over a file that another process has open, a millisecond apart."""
_FILE_OBJECT, _OWNER_AND_RIGHTS, _QUERY_TOKEN, _TOKEN_USER, _SDDL = 1, 5, 8, 1, 1

WRITE_RIGHTS = 0x500D_0056
"""Rights with which others could change what is in a folder: to write, append, delete, change rights or the owner."""
_RIGHTS = {
    **{name: 1 << bit for bit, name in enumerate(("CC", "DC", "LC", "SW", "RP", "WP", "DT", "LO", "CR"))},
    "SD": 0x10000,
    "RC": 0x20000,
    "WD": 0x40000,
    "WO": 0x80000,
    "FA": 0x1F01FF,
    "FR": 0x120089,
    "FW": 0x120116,
    "FX": 0x1200A0,
    "GA": 0x10000000,
    "GX": 0x20000000,
    "GW": 0x40000000,
    "GR": 0x80000000,
}
_ANY_RIGHT = 0xFFFFFFFF
_SYSTEM_ITSELF = frozenset({"SY", "BA", "CO", "OW", "S-1-5-18", "S-1-5-32-544", "S-1-3-0", "S-1-3-4"})
"""The system, administrators (who may do everything anyhow), and stand-ins for the owner."""


class Windows(System):
    """Windows."""

    name = "windows"
    program_suffix = ".exe"
    open_flags = getattr(os, "O_BINARY", 0) | getattr(os, "O_NOINHERIT", 0)

    # Memory

    def _why_not_here(self) -> str:
        here = architecture()
        return "" if here == "x86-64" else f"on Windows it is made for x86-64, and this is {here}"

    def allocate(self, size: int) -> int:
        address = _kernel().VirtualAlloc(None, size, _COMMIT_AND_RESERVE, _READ_WRITE)
        if not address:
            raise _error("no memory for the runtime")
        return int(address)

    def map_code(self, image: bytes) -> int:
        kernel, address, before = _kernel(), self.allocate(len(image)), ctypes.c_uint32()
        ctypes.memmove(address, image, len(image))
        if not kernel.VirtualProtect(address, len(image), _EXECUTE_READ, ctypes.addressof(before)):
            error = _error("the system does not let this process make memory executable")
            self.unmap_code(address, len(image))
            raise error
        kernel.FlushInstructionCache(kernel.GetCurrentProcess(), address, len(image))
        return address

    def unmap_code(self, address: int, size: int) -> None:
        _kernel().VirtualFree(address, 0, _RELEASE)

    def read_memory(self, address: int, size: int) -> bytes | None:
        kernel, content, count = _kernel(), ctypes.create_string_buffer(size), ctypes.c_size_t()
        places = (ctypes.addressof(content), size, ctypes.addressof(count))
        is_read = kernel.ReadProcessMemory(kernel.GetCurrentProcess(), address, *places)
        return content.raw if is_read and count.value == size else None

    def reserve(self, size: int) -> Any:
        return mmap.mmap(-1, size)

    # Threads and processors

    def function(self, name: str) -> int:
        for library in _LIBRARIES:
            found = getattr(_library(library), name, None)
            if found is not None:
                return ctypes.cast(found, ctypes.c_void_p).value or 0
        raise ValueError(f"Windows has no function {name}")

    def new_thread_key(self, at_end: int = 0) -> int:
        key = int(_kernel().TlsAlloc())
        if key == _NO_MORE_KEYS:
            raise OSError("the system has no more keys for what belongs to a thread")
        return key

    def set_thread_word(self, key: int, word: int) -> None:
        _kernel().TlsSetValue(key, word)

    def main_thread(self) -> int:
        return threading.main_thread().native_id or 0

    def handle_faults(self, handler: int, room: Callable[[int], int]) -> None:
        """By a vectored handler, which comes before all others and leaves the access to them."""
        _kernel().AddVectoredExceptionHandler(_FIRST, handler)

    def usable_cpus(self) -> int:
        kernel, ours, all_of_them = _kernel(), ctypes.c_size_t(), ctypes.c_size_t()
        places = (ctypes.addressof(ours), ctypes.addressof(all_of_them))
        if kernel.GetProcessAffinityMask(kernel.GetCurrentProcess(), *places) and ours.value:
            return ours.value.bit_count()
        return os.cpu_count() or 1  # more than one group of 64 has no mask

    # Processes

    def when_forked(self, *, before: Done | None = None, parent: Done | None = None, child: Done | None = None) -> None:
        """Nothing is ever forked."""

    def is_running(self, process: int) -> bool:
        kernel, code = _kernel(), ctypes.c_uint32()
        handle = kernel.OpenProcess(_QUERY_LIMITED, 0, process)
        if not handle:
            return _last_error() != _NO_SUCH_PROCESS
        try:
            return not kernel.GetExitCodeProcess(handle, ctypes.addressof(code)) or code.value == _STILL_ACTIVE
        finally:
            kernel.CloseHandle(handle)

    # Files

    def problem_of(self, folder: AnyPath) -> str | None:
        try:
            found = os.lstat(folder)
            if stat.S_ISLNK(found.st_mode) or getattr(found, "st_reparse_tag", None) == _JUNCTION:
                return "it is a link"
            if not stat.S_ISDIR(found.st_mode):
                return "it is not a folder"
            return problem_of_rights(_rights_of(os.path.abspath(folder)), _user())
        except FileNotFoundError:
            raise
        except OSError as error:
            return str(error)

    def make_private(self, folder: AnyPath) -> None:
        """Nothing is left to do: `problem_of` names all other users that may write."""

    def facts_of_files(self, folder: str, suffix: str) -> Sequence[tuple[str, os.stat_result | None]]:
        with os.scandir(folder) as found:
            entries = sorted(found, key=lambda entry: entry.name)
        return [(entry.name, entry.stat() if entry.name.endswith(suffix) else None) for entry in entries]

    def read_at(self, file: int, size: int, offset: int) -> bytes:
        os.lseek(file, offset, os.SEEK_SET)
        return os.read(file, size)

    def write_at(self, file: int, content: bytes, offset: int) -> None:
        os.lseek(file, offset, os.SEEK_SET)
        os.write(file, content)

    def lock(self, file: int) -> None:
        if not _lock(file, _EXCLUSIVE):
            raise _error("the file cannot be locked")

    def try_lock(self, file: int) -> bool:
        return _lock(file, _EXCLUSIVE | _AT_ONCE)

    def replace(self, source: AnyPath, target: AnyPath) -> None:
        """A file that another process has open cannot be replaced: readers of our files finish soon."""
        for _ in range(_PATIENCE):
            try:
                os.replace(source, target)
                return
            except PermissionError:
                time.sleep(0.001)
        os.replace(source, target)


@cache
def _library(name: str) -> ctypes.CDLL:
    return ctypes.CDLL(name, use_last_error=True)


@cache
def _kernel() -> ctypes.CDLL:
    library = _library("kernel32")
    address, size, number = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_uint32
    results = {
        "AddVectoredExceptionHandler": address,
        "GetCurrentProcess": address,
        "OpenProcess": address,
        "TlsAlloc": number,
        "VirtualAlloc": address,
    }
    parameters: dict[str, list[Any]] = {
        "AddVectoredExceptionHandler": [number, address],
        "CloseHandle": [address],
        "FlushInstructionCache": [address, address, size],
        "GetExitCodeProcess": [address, address],
        "GetProcessAffinityMask": [address, address, address],
        "LocalFree": [address],
        "LockFileEx": [address, number, number, number, number, address],
        "OpenProcess": [number, ctypes.c_int, number],
        "ReadProcessMemory": [address, address, address, size, address],
        "TlsSetValue": [number, address],
        "VirtualAlloc": [address, size, number, number],
        "VirtualFree": [address, size, number],
        "VirtualProtect": [address, size, number, address],
    }
    for name, kind in results.items():
        getattr(library, name).restype = kind
    for name, kinds in parameters.items():
        getattr(library, name).argtypes = kinds
    return library


def _last_error() -> int:
    return int(getattr(ctypes, "get_last_error", lambda: 0)())  # where it is not, nothing of this is called


def _error(message: str) -> OSError:
    number = _last_error()
    return OSError(number, f"{message}: {getattr(ctypes, 'FormatError', str)(number)}")


class _Overlapped(ctypes.Structure):
    """OVERLAPPED: where the bytes lie."""

    _fields_ = (
        ("internal", ctypes.c_void_p * 2),
        ("offset", ctypes.c_uint64),
        ("event", ctypes.c_void_p),
    )


def _lock(file: int, flags: int) -> bool:
    handle_of = _library("ucrtbase")._get_osfhandle
    handle_of.restype, handle_of.argtypes = ctypes.c_void_p, [ctypes.c_int]
    where = _Overlapped(offset=_LOCKED_BYTE)
    return bool(_kernel().LockFileEx(handle_of(file), flags, 0, 1, 0, ctypes.addressof(where)))


def _rights_of(folder: str) -> str:
    """Owner and rights of a folder in Windows' own notation (SDDL)."""
    library, descriptor, text = _library("advapi32"), ctypes.c_void_p(), ctypes.c_wchar_p()
    place = ctypes.byref(descriptor)
    failed = library.GetNamedSecurityInfoW(
        ctypes.c_wchar_p(folder), _FILE_OBJECT, _OWNER_AND_RIGHTS, None, None, None, None, place
    )
    if failed:
        raise OSError(failed, "nobody says who may write to it")
    try:
        convert = library.ConvertSecurityDescriptorToStringSecurityDescriptorW
        if not convert(descriptor, _SDDL, _OWNER_AND_RIGHTS, ctypes.byref(text), None):
            raise _error("nobody says who may write to it")
        found = text.value or ""
        _kernel().LocalFree(text)
    finally:
        _kernel().LocalFree(descriptor)
    return found


@cache
def _user() -> str:
    """The number of the user of this process: "S-1-5-21-…"."""
    library, token, size = _library("advapi32"), ctypes.c_void_p(), ctypes.c_uint32()
    process = ctypes.c_void_p(_kernel().GetCurrentProcess())
    if not library.OpenProcessToken(process, _QUERY_TOKEN, ctypes.byref(token)):
        raise _error("nobody says whose process this is")
    try:
        content, text = ctypes.create_string_buffer(256), ctypes.c_wchar_p()
        if not library.GetTokenInformation(token, _TOKEN_USER, content, len(content), ctypes.byref(size)):
            raise _error("nobody says whose process this is")
        identifier = ctypes.c_void_p.from_buffer(content)
        if not library.ConvertSidToStringSidW(identifier, ctypes.byref(text)):
            raise _error("nobody says whose process this is")
        found = text.value or ""
        _kernel().LocalFree(text)
        return found
    finally:
        _kernel().CloseHandle(token)


def problem_of_rights(rights: str, user: str) -> str | None:
    """The reason why others than a user can have written into a folder; None if they cannot.

    Args:
        rights: the folder's owner and rights, as in "O:S-1-5-21-7D:PAI(A;OICI;FA;;;SY)(A;OICI;FA;;;S-1-5-21-7)".
        user: the number of the user.

    Microsoft, Security Descriptor String Format:
    https://learn.microsoft.com/windows/win32/secauthz/security-descriptor-string-format
    """
    owner = re.match(r"O:(S-[\d-]+|[A-Z]{2})", rights)
    if owner is None or not _is_ours(owner.group(1), user):
        return f"it belongs to {owner.group(1) if owner else 'nobody'}, not to {user}"
    _, found, entries = rights.partition("D:")
    if not found or "NO_ACCESS_CONTROL" in entries:
        return "everybody may write to it"
    others = [whose for whose, allowed in _allowed(entries) if allowed & WRITE_RIGHTS and not _is_ours(whose, user)]
    return f"{others[0]} may write to it" if others else None


def _allowed(entries: str) -> Iterator[tuple[str, int]]:
    """The rights of users, as Windows lists them."""
    for entry in re.findall(r"\(([^)]*)\)", entries):
        kind, _, rights, _, _, whose, *_ = entry.split(";")
        if kind in ("A", "OA", "XA", "ZA"):
            yield whose, _bits(rights)


def _bits(rights: str) -> int:
    if rights.startswith("0"):
        return int(rights, 0) if rights.startswith("0x") else int(rights, 8)
    if rights.isdigit():
        return int(rights)
    bits = 0
    for place in range(0, len(rights), 2):
        bits |= _RIGHTS.get(rights[place : place + 2], _ANY_RIGHT)
    return bits


def _is_ours(whose: str, user: str) -> bool:
    """Whether that is the user or the system; LA stands for an administrator whose number ends in 500."""
    return whose == user or whose in _SYSTEM_ITSELF or (whose == "LA" and user.endswith("-500"))
