"""Results of tuning, kept on disk: `<kernel>.autotune.json` in the cache folder of their key.

{"key": ["1024", "fp32"], "configs_timings": [[{"BLOCK": 128, "num_warps": 4, …}, [0.12, 0.11, 0.15]], …]}
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from tilewright.runtime.cache.managers import get_cache_manager
from tilewright.runtime.tuning.config import Config
from tilewright.support.hashing import hash_of

Timings = dict[Config, list[float]]


class StoredResults:
    """The place on disk for the timings of one kernel and one tuning key.

    Args:
        name: the name of the kernel.
        facts: everything that the timings depend on, as text: kernel, machine, compiler, key.
        configs: the candidates.
    """

    def __init__(self, name: str, facts: Sequence[str], configs: Sequence[Config]) -> None:
        described = [*facts, *map(str, configs)]
        text = "".join(f"{len(part)}:{part}" for part in described)
        self._manager = get_cache_manager(hash_of(text.encode()).hexdigest())
        self._file = f"{name[:150]}.autotune.json"
        self._key = list(facts)
        self._configs = list(configs)

    def load(self) -> Timings | None:
        """The timings of all candidates, or None where they are not there or damaged."""
        path = self._manager.get_file(self._file)
        if path is None:
            return None
        try:
            rows = json.loads(Path(path).read_bytes())["configs_timings"]
            known = {_described(facts): [float(time) for time in times] for facts, times in rows}
            return {config: known[_described(config.all_kwargs())] for config in self._configs}
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return None

    def save(self, timings: Timings) -> None:
        """Keep the timings; where that is not possible, the next process measures again."""
        rows = [[{name: _plain(value) for name, value in c.all_kwargs().items()}, t] for c, t in timings.items()]
        content = json.dumps({"key": self._key, "configs_timings": rows})
        with suppress(OSError):
            self._manager.put(content, self._file, binary=False)


def _described(facts: dict[str, object]) -> tuple[tuple[str, object], ...]:
    return tuple(sorted((name, _plain(value)) for name, value in facts.items()))


def _plain(value: object) -> object:
    """The value where JSON has it, else its text."""
    return value if isinstance(value, int | float | str | None) else repr(value)
