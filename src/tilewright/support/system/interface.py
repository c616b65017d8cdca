"""The interface to an operating system, one method per function.

Nothing here imports more than `os`, since most processes use little of it.
"""

from __future__ import annotations

import os
import platform
from _thread import RLock
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, TypeAlias

AnyPath: TypeAlias = "str | os.PathLike[str]"
Done: TypeAlias = "Callable[[], object]"

_ARCHITECTURES = {"x86_64": "x86-64", "amd64": "x86-64", "aarch64": "aarch64", "arm64": "aarch64"}

importing = RLock()
"""The lock of lazy imports, which a fork waits for: see `support/locks.py`, which all others take it from."""


def is_raised_by_handler(error: BaseException) -> bool:
    """Whether a signal handler raised the error, for instance that of an alarm: the system's own have a number.

    A TimeoutError is an OSError. Code that waits and catches the system's errors has to let it pass, or whoever set the
    alarm waits on.
    """
    return isinstance(error, TimeoutError) and error.errno is None


def machine_name() -> str:
    """The processor's family as the system spells it: "x86_64", "AMD64", "aarch64", "arm64"."""
    return platform.machine()


def architecture() -> str:
    """The processor's family, "x86-64" or "aarch64"; unknown ones by the system's own name."""
    name = machine_name().lower()
    return _ARCHITECTURES.get(name, name)


class System(ABC):
    """An operating system.

    Attributes:
        name: "linux", "macos" or "windows".
        wants_proof: compiled kernels were never tested there: see `runtime/self_test.py`.
        program_suffix: how the names of programs end.
        binary: for `os.open`: no line ends are changed.
        open_flags: for `os.open` of files whose bytes count: no other program inherits them, no link is followed where
            the system can promise that.
    """

    name: ClassVar[str]
    wants_proof: bool = False
    program_suffix: ClassVar[str] = ""
    open_flags: ClassVar[int] = 0
    binary: ClassVar[int] = getattr(os, "O_BINARY", 0)

    def __init__(self) -> None:
        self._doubt = ""

    def version(self) -> str:
        """The version of the system."""
        return platform.release()

    # Memory

    def why_no_code(self) -> str:
        """The reason why machine code cannot be mapped into this process; "" where it can."""
        return self._doubt or self._why_not_here()

    @abstractmethod
    def _why_not_here(self) -> str:
        """The reason why this system and processor are none that code is made for."""

    def distrust(self, reason: str) -> None:
        """Lets no more code be mapped, for a reason."""
        self._doubt = reason

    def trust(self) -> None:
        """Maps code although its self-test has not run yet."""
        self.wants_proof = False

    @abstractmethod
    def allocate(self, size: int) -> int:
        """The address of zeroed memory for the life of the process, at a multiple of the page size.

        Raises:
            OSError: there is none.
        """

    @abstractmethod
    def map_code(self, image: bytes) -> int:
        """The address of executable memory with these bytes, which cannot be written to.

        Raises:
            OSError: the system gives none.
        """

    @abstractmethod
    def unmap_code(self, address: int, size: int) -> None:
        """Gives memory of `map_code` back; `size` is that of the image."""

    @abstractmethod
    def read_memory(self, address: int, size: int) -> bytes | None:
        """The bytes at an address, at most a page; None if this process has no memory."""

    @abstractmethod
    def reserve(self, size: int) -> Any:
        """A writable buffer of zeros that costs memory only where it is touched."""

    # Threads and processors

    @abstractmethod
    def function(self, name: str) -> int:
        """The address of a function of the system's libraries.

        Raises:
            ValueError: they have none of that name.
        """

    @abstractmethod
    def new_thread_key(self, at_end: int = 0) -> int:
        """A new key for a word that belongs to a thread.

        Args:
            at_end: the address of a C function that gets the word, if it is not null, when a thread ends; Windows calls
                none.

        Raises:
            OSError: there are no more.
        """

    @abstractmethod
    def set_thread_word(self, key: int, word: int) -> None:
        """Sets the word of this thread."""

    @abstractmethod
    def usable_cpus(self) -> int:
        """The number of processors that this process may use."""

    def hardware_capabilities(self, entry: int) -> int:
        """A word of what the system says of an AArch64 processor: AT_HWCAP, 16, or AT_HWCAP2, 26; 0 if it does not."""
        return 0

    def scalable_vector_bits(self) -> int:
        """The bits of AArch64's scalable vectors (SVE) in this thread and those that it starts; 0 without them."""
        return 0

    def may_use_tiles(self) -> bool:
        """Whether the system gives this process Intel's tile registers (AMX); it may ask the system for them."""
        return False

    @abstractmethod
    def main_thread(self) -> int:
        """A number for Python's main thread, where machine code cannot ask whether it runs there; 0 where it can."""

    @abstractmethod
    def handle_faults(self, handler: int, room: Callable[[int], int]) -> None:
        """Makes machine code, `fault` in `runtime/drivers/cpu/native/systems`, a handler of invalid accesses, for ever.

        Args:
            handler: its address.
            room: gives so many bytes of memory, where it finds what was done before with such an access.
        """

    # Processes

    can_fork: ClassVar[bool] = False

    @abstractmethod
    def when_forked(self, *, before: Done | None = None, parent: Done | None = None, child: Done | None = None) -> None:
        """Calls functions around each fork, where there are forks: before it, then in the parent and in the child."""

    @abstractmethod
    def is_running(self, process: int) -> bool:
        """Whether there is a process of that number."""

    # Files

    @abstractmethod
    def problem_of(self, folder: AnyPath) -> str | None:
        """The reason why others than this user can have written into a folder; None if they cannot.

        Raises:
            FileNotFoundError: it is not there.
        """

    @abstractmethod
    def make_private(self, folder: AnyPath) -> None:
        """Ensures that no other user may write into a folder that `problem_of` accepts."""

    @abstractmethod
    def facts_of_files(self, folder: str, suffix: str) -> Sequence[tuple[str, os.stat_result | None]]:
        """The names in a folder, in order, and what the system says of those with a suffix."""

    @abstractmethod
    def read_at(self, file: int, size: int, offset: int) -> bytes:
        """Bytes of an open file, fewer at its end."""

    @abstractmethod
    def write_at(self, file: int, content: bytes, offset: int) -> None:
        """Writes bytes of an open file."""

    @abstractmethod
    def lock(self, file: int) -> None:
        """Waits until no other process has the lock of an open file, and takes it; closing the file frees it."""

    @abstractmethod
    def try_lock(self, file: int) -> bool:
        """Takes the lock if it is free; False if it is not.

        Raises:
            OSError: the file system has no locks.
        """

    @abstractmethod
    def replace(self, source: AnyPath, target: AnyPath) -> None:
        """Renames a file over another one, which others may be reading."""
