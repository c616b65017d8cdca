"""Every environment variable that Tilewright reads, as one frozen record.

    settings.current().cache_dir        # read once per process
    settings.refresh()                  # read again, after os.environ changed

Triton's variables keep their names and meaning; Tilewright's own start with TILEWRIGHT_. Only `compiler`, `runtime` and
`tools` ask for settings; passes and back ends get frozen options instead.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields
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


def _variable(name: str, convert: Callable[[str], Any], default: Any, meaning: str) -> Any:
    return field(default=default, metadata={"name": name, "convert": convert, "meaning": meaning})


@dataclass(frozen=True)
class Settings:
    """What the environment asks for. Each field is one variable; `documented()` lists them."""

    interpret: bool = _variable(
        "TRITON_INTERPRET", _flag, False, "`@jit` makes kernels that run eagerly in Python instead of compiled ones"
    )
    home: Path = _variable("TRITON_HOME", Path, Path("~"), "the folder that holds `.tilewright`")
    chosen_cache_dir: Path | None = _variable(
        "TRITON_CACHE_DIR", _path, None, "where compiled kernels are kept; default `~/.tilewright/cache`"
    )
    chosen_dump_dir: Path | None = _variable(
        "TRITON_DUMP_DIR", _path, None, "where TRITON_KERNEL_DUMP writes; default `~/.tilewright/dump`"
    )
    always_compile: bool = _variable(
        "TRITON_ALWAYS_COMPILE", _flag, False, "ignore compiled kernels that are already on disk"
    )
    store_binary_only: bool = _variable(
        "TRITON_STORE_BINARY_ONLY", _flag, False, "keep only object and metadata on disk, not the texts of the stages"
    )
    kernel_dump: bool = _variable(
        "TRITON_KERNEL_DUMP", _flag, False, "write every stage of every compiled kernel to the dump folder"
    )
    ir_dump: str = _variable(
        "MLIR_ENABLE_DUMP",
        str,
        "",
        "print the IR after each pass to stderr: `1` for every kernel, otherwise the name of one",
    )
    debug: bool = _variable(
        "TRITON_DEBUG", _flag, False, "compile every kernel with `debug=True`: device assertions are checked"
    )
    front_end_debugging: bool = _variable(
        "TRITON_FRONT_END_DEBUGGING", _flag, False, "let Python exceptions of the front end pass unwrapped"
    )
    cpu: str = _variable(
        "TILEWRIGHT_CPU", str, "", "generate code for this CPU instead of the host's, for example `x86-64-v3`"
    )
    num_threads: int = _variable(
        "TILEWRIGHT_NUM_THREADS", _count, 0, "threads that share a grid; 0: as many as the process may use"
    )
    internal_debug: bool = _variable(
        "TILEWRIGHT_DEBUG", _flag, False, "show full tracebacks and compile times of Tilewright itself"
    )

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
    for place in fields(Settings):
        name: str = place.metadata["name"]
        text = environment.get(name)
        if not text:
            continue
        try:
            yield place.name, place.metadata["convert"](text)
        except ValueError:
            raise SettingError(f"{name}={text!r}: not a value for it ({place.metadata['meaning']})") from None


def documented() -> list[Documented]:
    """All variables with default and meaning, in the order of their names."""
    rows = [_documented(place.metadata, place.default) for place in fields(Settings)]
    return sorted(rows)


def _documented(metadata: Mapping[str, Any], default: Any) -> Documented:
    default_text = "" if default is None else str(int(default) if isinstance(default, bool) else default)
    return Documented(metadata["name"], default_text, metadata["meaning"])
