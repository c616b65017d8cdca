"""One configuration (constants and options) of a kernel, and measured times of configurations, kept on disk.

Config({"BLOCK": 128}, num_warps=8).all_kwargs()      {"BLOCK": 128, "num_warps": 8, "num_ctas": 1, "num_stages": 3}

Results are in `<kernel>.autotune.json` in the cache folder of their key:

{"key": ["1024", "fp32"], "configs_timings": [[{"BLOCK": 128, "num_warps": 4, …}, [0.12, 0.11, 0.15]], …]}
"""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from tilewright.runtime.cache.managers import get_cache_manager
from tilewright.support.deprecation import without_dropped
from tilewright.support.hashing import hash_of

PreHook = Callable[[dict[str, Any]], Any]


class Config:
    """One choice of constants and options.

    Attributes:
        kwargs: constants, and options of the back end, by name.
        num_warps, num_stages, num_ctas, maxnreg: GPU options, which mean nothing on a CPU.
        pre_hook: called with all arguments by name before each launch of this configuration.
        ir_override: a file of TTIR or of a later stage that is compiled instead of the kernel.
        num_cpu_threads: threads that share the grid on a CPU, 0 for the default.

    Options of GPUs that Triton has dropped are taken, with a warning.

    Raises:
        TypeError: there never was such an option, or the constants are no dict.
    """

    def __init__(
        self,
        kwargs: Mapping[str, Any],
        num_warps: int = 4,
        num_stages: int = 3,
        num_ctas: int = 1,
        maxnreg: int | None = None,
        pre_hook: PreHook | None = None,
        ir_override: str | None = None,
        *,
        num_cpu_threads: int | None = None,
        **dropped: Any,
    ) -> None:
        if not isinstance(kwargs, Mapping):
            raise TypeError(f"Config takes a dict of constants first, as in Config({{'BLOCK': 128}}); got {kwargs!r}")
        for name in without_dropped(dropped):
            raise TypeError(f"Config has no option {name!r}")
        self.kwargs = dict(kwargs)
        self.num_warps, self.num_stages, self.num_ctas, self.maxnreg = num_warps, num_stages, num_ctas, maxnreg
        self.pre_hook = pre_hook
        self.ir_override = ir_override
        self.num_cpu_threads = num_cpu_threads

    def all_kwargs(self) -> dict[str, Any]:
        """Constants and options, as keywords of a launch."""
        options = {
            "num_warps": self.num_warps,
            "num_ctas": self.num_ctas,
            "num_stages": self.num_stages,
            "maxnreg": self.maxnreg,
            "ir_override": self.ir_override,
            "num_cpu_threads": self.num_cpu_threads,
        }
        return self.kwargs | {name: value for name, value in options.items() if value is not None}

    def __str__(self) -> str:
        return ", ".join(f"{name}: {value}" for name, value in self.all_kwargs().items())

    def __repr__(self) -> str:
        return f"Config({self})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Config) and self._identity() == other._identity()

    def __hash__(self) -> int:
        return hash(self._identity())

    def _identity(self) -> Hashable:
        return tuple(sorted(self.all_kwargs().items(), key=lambda item: item[0])), self.pre_hook


def checked(configs: Any, giver: str) -> list[Config]:
    """The configurations that `giver` gives.

    Raises:
        TypeError: they are no list of configurations.
    """
    if not isinstance(configs, Iterable) or isinstance(configs, Config | Mapping | str):
        raise TypeError(f"{giver} gives a list of configurations; got {configs!r}")
    found = list(configs)
    for place, config in enumerate(found):
        if not isinstance(config, Config):
            example = config if isinstance(config, Mapping) else "{'BLOCK': 128}"
            kind = type(config).__name__
            raise TypeError(f"{giver} gives a list of Config({example}); entry {place} is {config!r}, of type {kind}")
    return found


Timings = dict[Config, list[float]]


class StoredResults:
    """The place on disk for the timings of one kernel and one tuning key.

    Args:
        facts: everything that the timings depend on, as text: kernel, machine, compiler, key.

    Attributes:
        digest: of all that, candidates included.
    """

    def __init__(self, name: str, facts: Sequence[str], configs: Sequence[Config]) -> None:
        described = [*facts, *map(str, configs)]
        text = "".join(f"{len(part)}:{part}" for part in described)
        self.digest = hash_of(text.encode()).hexdigest()
        self._manager = get_cache_manager(self.digest)
        self._file = f"{name[:150]}.autotune.json"
        self._key = list(facts)
        self._configs = list(configs)

    def load(self) -> Timings | None:
        """The timings of all candidates, or None if they are not there or damaged."""
        path = self._manager.get_file(self._file)
        if path is None:
            return None
        try:
            content = Path(path).read_bytes()
        except OSError:
            return None
        return self.parse(content)

    def parse(self, content: bytes) -> Timings | None:
        """The timings of all candidates that a text from `text` has; None if it is something else."""
        try:
            rows = json.loads(content)["configs_timings"]
            known = {_described(facts): [float(time) for time in times] for facts, times in rows}
            return {config: known[_described(config.all_kwargs())] for config in self._configs}
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            return None

    def text(self, timings: Timings) -> str:
        """The timings as JSON."""
        rows = [[{name: _plain(value) for name, value in c.all_kwargs().items()}, t] for c, t in timings.items()]
        return json.dumps({"key": self._key, "configs_timings": rows})

    def save(self, timings: Timings) -> None:
        """Keep the timings; where that is not possible, the next process measures again."""
        with suppress(OSError):
            self._manager.put(self.text(timings), self._file, binary=False)


def _described(facts: dict[str, object]) -> tuple[tuple[str, object], ...]:
    return tuple(sorted((name, _plain(value)) for name, value in facts.items()))


def _plain(value: object) -> object:
    """The value where JSON has it, else its text."""
    return value if isinstance(value, int | float | str | None) else repr(value)
