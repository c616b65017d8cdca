"""The common part of Linux and macOS."""

from __future__ import annotations

import ctypes
import fcntl
import os
import stat
import struct
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, ClassVar

from tilewright.support.system.interface import AnyPath, Done, System, importing

READ, WRITE, EXECUTE = 1, 2, 4
_FAILED = ctypes.c_void_p(-1).value


@cache
def c_library() -> ctypes.CDLL:
    """The C library, opened on first use; each opening of its own costs 20 µs."""
    library = ctypes.CDLL(None, use_errno=True)
    address, size, integer = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int
    library.mmap.restype = address
    library.mmap.argtypes = [address, size, integer, integer, integer, ctypes.c_long]
    library.mprotect.argtypes = [address, size, integer]
    library.munmap.argtypes = [address, size]
    library.write.restype, library.write.argtypes = ctypes.c_ssize_t, [integer, address, size]
    library.pthread_key_create.argtypes = [address, address]
    return library


class Posix(System):
    """A system with a C library of POSIX.

    Attributes:
        page: bytes of a page.
        thread_key: how the C library spells `pthread_key_t`.
        fault_signals: SIGSEGV and SIGBUS, in the order that machine code knows.
        action: struct sigaction: the handler and, behind the mask, the flags.
        action_flags: SA_SIGINFO and SA_ONSTACK.
        reserve_flags: for `mmap`: private pages without a file, which take memory when they are written.
    """

    can_fork = True
    open_flags = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
    thread_key: type[ctypes.c_uint32] | type[ctypes.c_ulong] = ctypes.c_uint32

    fault_signals: ClassVar[tuple[int, int]]
    action: ClassVar[str]
    action_flags: ClassVar[int]
    reserve_flags: ClassVar[int]

    def __init__(self) -> None:
        super().__init__()
        self.page = os.sysconf("SC_PAGESIZE")

    # Memory

    def _anonymous(self, size: int, protection: int, flags: int) -> int:
        """Memory of whole pages; the flags are the system's own."""
        address = c_library().mmap(None, self._whole_pages(size), protection, flags, -1, 0)
        if address == _FAILED:
            raise system_error("no memory for the runtime")
        return int(address)

    def _whole_pages(self, size: int) -> int:
        return -(-size // self.page) * self.page

    def unmap_code(self, address: int, size: int) -> None:
        c_library().munmap(address, self._whole_pages(size))

    def reserve(self, size: int) -> Any:
        with importing:
            import mmap

        return mmap.mmap(-1, size, flags=self.reserve_flags)

    def read_memory(self, address: int, size: int) -> bytes | None:
        """Through a pipe, which always has room for a page: the system refuses an address that leads nowhere."""
        reader, writer = os.pipe()
        try:
            return os.read(reader, size) if c_library().write(writer, address, size) == size else None
        finally:
            os.close(reader)
            os.close(writer)

    # Threads

    def function(self, name: str) -> int:
        return ctypes.addressof(ctypes.c_char.in_dll(c_library(), name))

    def new_thread_key(self, at_end: int = 0) -> int:
        key = self.thread_key()
        if c_library().pthread_key_create(ctypes.byref(key), at_end or None):
            raise OSError("the system has no more keys for what belongs to a thread")
        return key.value

    def set_thread_word(self, key: int, word: int) -> None:
        c_library().pthread_setspecific(self.thread_key(key), ctypes.c_void_p(word))

    def main_thread(self) -> int:
        return 0

    def handle_faults(self, handler: int, room: Callable[[int], int]) -> None:
        library, size = c_library(), struct.calcsize(self.action)
        actions = room(len(self.fault_signals) * size)
        own = struct.pack(self.action, handler, self.action_flags)
        for index, number in enumerate(self.fault_signals):
            library.sigaction(number, None, ctypes.c_void_p(actions + index * size))
            library.sigaction(number, own, None)

    def usable_cpus(self) -> int:
        return os.cpu_count() or 1

    # Processes

    def when_forked(self, *, before: Done | None = None, parent: Done | None = None, child: Done | None = None) -> None:
        given = {"before": before, "after_in_parent": parent, "after_in_child": child}
        os.register_at_fork(**{name: call for name, call in given.items() if call is not None})

    def is_running(self, process: int) -> bool:
        try:
            os.kill(process, 0)
        except ProcessLookupError:
            return False
        except OSError:
            pass  # it is there, and belongs to somebody else
        return True

    # Files

    def problem_of(self, folder: AnyPath) -> str | None:
        try:
            link = os.lstat(folder)
            found = os.stat(folder) if stat.S_ISLNK(link.st_mode) else link
        except FileNotFoundError:
            raise
        except OSError as error:
            return str(error)
        return _problem(link, found)

    def make_private(self, folder: AnyPath) -> None:
        mode = os.stat(folder).st_mode
        if mode & stat.S_IWGRP:
            os.chmod(folder, stat.S_IMODE(mode) & ~stat.S_IWGRP)

    def facts_of_files(self, folder: str, suffix: str) -> Sequence[tuple[str, os.stat_result | None]]:
        """By names inside the open folder, which is fast: every process asks for those of this package."""
        opened = os.open(folder, os.O_RDONLY)
        try:
            return [
                (name, os.stat(name, dir_fd=opened) if name.endswith(suffix) else None)
                for name in sorted(os.listdir(opened))
            ]
        finally:
            os.close(opened)

    def read_at(self, file: int, size: int, offset: int) -> bytes:
        return os.pread(file, size, offset)

    def write_at(self, file: int, content: bytes, offset: int) -> None:
        os.pwrite(file, content, offset)

    def lock(self, file: int) -> None:
        fcntl.flock(file, fcntl.LOCK_EX)

    def try_lock(self, file: int) -> bool:
        try:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except (BlockingIOError, PermissionError):  # both mean that somebody has it
            return False
        return True

    def replace(self, source: AnyPath, target: AnyPath) -> None:
        os.replace(source, target)


def system_error(message: str) -> OSError:
    """The error that the C library noted last."""
    number = ctypes.get_errno()
    return OSError(number, f"{message}: {os.strerror(number)}")


def _problem(link: os.stat_result, found: os.stat_result) -> str | None:
    user = os.geteuid()
    if not stat.S_ISDIR(found.st_mode):
        return "it is not a folder"
    if found.st_uid != user:
        return f"it belongs to user {found.st_uid}, not to {user}"
    if link.st_uid not in (user, 0):
        return f"it is a link that belongs to user {link.st_uid}, not to {user}"
    if found.st_mode & stat.S_IWOTH:
        return "everybody may write to it"
    if found.st_mode & stat.S_IWGRP and not is_own_group(found.st_gid):
        return f"group {found.st_gid} may write to it"
    return None


def is_own_group(number: int) -> bool:
    """Whether a group is ours alone: it has our name, it is our first one, and it has no other members.

    Many systems give each user such a group, which may write to their folders: that gives no other user access.
    """
    with importing:
        import grp
        import pwd

    try:
        user, group = pwd.getpwuid(os.geteuid()), grp.getgrgid(number)
    except KeyError:
        return False
    return user.pw_gid == number and group.gr_name == user.pw_name and set(group.gr_mem) <= {user.pw_name}
