"""Every environment variable that Tilewright reads, as one frozen record.

    settings.current().cache_dir        # read once per process
    settings.refresh()                  # read again, after os.environ changed

Triton's variables keep their names and meaning; Tilewright's own start with TILEWRIGHT_. Only `compiler`, `runtime` and
`tools` ask for settings; passes and back ends get frozen options instead.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple


def _flag(text: str) -> bool:
    return text.strip().lower() in ("1", "true", "yes", "on", "y")


def _path(text: str) -> Path:
    return Path(text).expanduser()


def _count(text: str) -> int:
    number = int(text)
    if number < 0:
        raise ValueError("negative")
    return number


class _Variable(NamedTuple):
    """An environment variable: how its text becomes a value, and what it is for."""

    name: str
    convert: Callable[[str], Any]
    meaning: str


_VARIABLES = {
    "interpret": _Variable(
        "TRITON_INTERPRET", _flag, "`@jit` makes kernels that run eagerly in Python instead of compiled ones"
    ),
    "home": _Variable("TRITON_HOME", Path, "the folder that holds `.tilewright`"),
    "chosen_cache_dir": _Variable(
        "TRITON_CACHE_DIR", _path, "where compiled kernels are kept; default `~/.tilewright/cache`"
    ),
    "chosen_dump_dir": _Variable(
        "TRITON_DUMP_DIR", _path, "where TRITON_KERNEL_DUMP writes; default `~/.tilewright/dump`"
    ),
    "always_compile": _Variable("TRITON_ALWAYS_COMPILE", _flag, "ignore compiled kernels that are already on disk"),
    "store_binary_only": _Variable(
        "TRITON_STORE_BINARY_ONLY", _flag, "keep only object and metadata on disk, not the texts of the stages"
    ),
    "kernel_dump": _Variable(
        "TRITON_KERNEL_DUMP", _flag, "write every stage of every compiled kernel to the dump folder"
    ),
    "ir_dump": _Variable(
        "MLIR_ENABLE_DUMP",
        str,
        "print the IR after each pass to stderr: `1` for every kernel, otherwise the name of one",
    ),
    "debug": _Variable("TRITON_DEBUG", _flag, "compile every kernel with `debug=True`: device assertions are checked"),
    "front_end_debugging": _Variable(
        "TRITON_FRONT_END_DEBUGGING", _flag, "let Python exceptions of the front end pass unwrapped"
    ),
    "cpu": _Variable(
        "TILEWRIGHT_CPU", str, "generate code for this CPU instead of the host's, for example `x86-64-v3`"
    ),
    "num_threads": _Variable(
        "TILEWRIGHT_NUM_THREADS", _count, "threads that share a grid; 0: as many as the process may use"
    ),
    "internal_debug": _Variable(
        "TILEWRIGHT_DEBUG", _flag, "show full tracebacks and compile times of Tilewright itself"
    ),
}
"""The variable for each field of `Settings`."""


class Settings(NamedTuple):
    """What the environment asks for; `_VARIABLES` says what each field means."""

    interpret: bool = False
    home: Path = Path("~")
    chosen_cache_dir: Path | None = None
    chosen_dump_dir: Path | None = None
    always_compile: bool = False
    store_binary_only: bool = False
    kernel_dump: bool = False
    ir_dump: str = ""
    debug: bool = False
    front_end_debugging: bool = False
    cpu: str = ""
    num_threads: int = 0
    internal_debug: bool = False

    @property
    def state_dir(self) -> Path:
        """The folder for everything Tilewright keeps."""
        return self.home.expanduser() / ".tilewright"

    @property
    def cache_dir(self) -> Path:
        return self.chosen_cache_dir or self.state_dir / "cache"

    @property
    def dump_dir(self) -> Path:
        return self.chosen_dump_dir or self.state_dir / "dump"


class Documented(NamedTuple):
    """One row of `docs/settings.md`."""

    variable: str
    default: str
    meaning: str


class SettingError(ValueError):
    """An environment variable has a value that it cannot have."""


_current: list[Settings] = []


def current() -> Settings:
    """The settings of this process, read from the environment on the first call."""
    return _current[0] if _current else refresh()


def refresh() -> Settings:
    """Read the environment again and return the new settings.

    Raises:
        SettingError: a variable has a value that it cannot have; the message names the variable.
    """
    _current[:] = [parse(os.environ)]
    return _current[0]


def parse(environment: Mapping[str, str]) -> Settings:
    """The settings that `environment` asks for; an empty variable counts as unset.

    Raises:
        SettingError: a variable has a value that it cannot have.
    """
    return Settings(**dict(_given(environment)))


def _given(environment: Mapping[str, str]) -> Iterator[tuple[str, Any]]:
    for field, variable in _VARIABLES.items():
        text = environment.get(variable.name)
        if not text:
            continue
        try:
            yield field, variable.convert(text)
        except ValueError:
            raise SettingError(f"{variable.name}={text!r}: not a value for it ({variable.meaning})") from None


def documented() -> list[Documented]:
    """All variables with default and meaning, in the order of their names."""
    return sorted(_documented(variable, Settings._field_defaults[field]) for field, variable in _VARIABLES.items())


def _documented(variable: _Variable, default: Any) -> Documented:
    default_text = "" if default is None else str(int(default) if isinstance(default, bool) else default)
    return Documented(variable.name, default_text, variable.meaning)
