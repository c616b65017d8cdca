"""The candidates that an autotuner tried, as a table and as a plot.

print(matmul.tuning_table())

matmul: 3 configurations in 0.4 s
BLOCK  num_warps      ms   lowest  highest  of the best
  128          4   0.110    0.108    0.117         1.00
   64          4   0.142    0.140    0.149         1.29
 2048          8  not possible

matmul.tuning_table().plot().savefig("tuning.png")
"""

from __future__ import annotations

import html
from collections.abc import Iterator, Mapping
from math import inf, isfinite
from typing import Any, NamedTuple

from tilewright.runtime.testing.report import needed
from tilewright.runtime.tuning.config import Config, Timings

_TIMES = ("ms", "lowest", "highest", "of the best")
_NOT_POSSIBLE = "not possible"


class Trial(NamedTuple):
    """One configuration that was tried.

    Attributes:
        config: the configuration.
        ms: median of its milliseconds; infinite where it does not suit the kernel.
        lowest, highest: quantiles 0.2 and 0.8 of them.
        ratio: `ms` relative to the best.
    """

    config: Config
    ms: float
    lowest: float
    highest: float
    ratio: float


class TuningTable:
    """The configurations that were tried for one launch, the fastest first; `print` shows it, and so do notebooks.

    Attributes:
        name: of the kernel.
        trials: the configurations with their times.
        seconds: how long measuring took; None if the times come from the disk.
    """

    def __init__(self, name: str, timings: Timings, seconds: float | None) -> None:
        self.name, self.seconds = name, seconds
        best = min((times[0] for times in timings.values()), default=inf)
        found = [_trial(config, times, best) for config, times in timings.items()]
        self.trials = sorted(found, key=lambda trial: trial.ms)

    def columns(self) -> list[str]:
        """The constants, and the options in which the configurations differ."""
        rows = [trial.config.all_kwargs() for trial in self.trials]
        constants = dict.fromkeys(name for trial in self.trials for name in trial.config.kwargs)
        options = dict.fromkeys(name for row in rows for name in row if name not in constants)
        return [*constants, *(name for name in options if len({repr(row.get(name)) for row in rows}) > 1)]

    def frame(self) -> Any:
        """A data frame of pandas, with the columns of the table; milliseconds are infinite where it is not possible.

        Raises:
            ImportError: pandas is not installed.
        """
        names = self.columns()
        rows = [[*_chosen(trial.config.all_kwargs(), names), *trial[1:]] for trial in self.trials]
        return needed("pandas", "data frames").DataFrame(rows, columns=[*names, *_TIMES])

    def plot(self) -> Any:
        """A figure of matplotlib: a bar for each configuration that works, with its quantiles 0.2 and 0.8.

        Raises:
            ImportError: matplotlib is not installed.
        """
        pyplot = needed("matplotlib.pyplot", "plots")
        names, works = self.columns(), [trial for trial in self.trials if isfinite(trial.ms)]
        labels = [", ".join(f"{n} {v}" for n, v in _pairs(trial.config, names)) or str(trial.config) for trial in works]
        figure, axes = pyplot.subplots(figsize=(8, 1 + 0.3 * len(works)))
        below = [max(trial.ms - trial.lowest, 0.0) for trial in works]
        above = [max(trial.highest - trial.ms, 0.0) for trial in works]
        axes.barh(labels, [trial.ms for trial in works], xerr=[below, above], capsize=3, color=_colours(len(works)))
        axes.invert_yaxis()
        axes.set(title=f"{self.name}: what was tried", xlabel="milliseconds")
        figure.tight_layout()
        return figure

    def __len__(self) -> int:
        return len(self.trials)

    def __str__(self) -> str:
        rows = list(self._cells())
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = ["  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in rows]
        return "\n".join([self._title(), *(line.rstrip() for line in lines)])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        header, *rows = self._cells()
        body = "".join(f"<tr>{''.join(f'<td>{html.escape(cell)}</td>' for cell in row)}</tr>" for row in rows)
        head = "".join(f"<th>{html.escape(cell)}</th>" for cell in header)
        return f"<table><caption>{html.escape(self._title())}</caption><tr>{head}</tr>{body}</table>"

    def _title(self) -> str:
        where = "from the disk" if self.seconds is None else f"in {self.seconds:.1f} s"
        return f"{self.name}: {len(self)} configurations {where}"

    def _cells(self) -> Iterator[list[str]]:
        names = self.columns()
        yield [*names, *_TIMES]
        for trial in self.trials:
            times = [f"{time:.3f}" for time in trial[1:4]] + [f"{trial.ratio:.2f}"]
            chosen = ["" if value is None else str(value) for value in _chosen(trial.config.all_kwargs(), names)]
            yield chosen + (times if isfinite(trial.ms) else [_NOT_POSSIBLE, "", "", ""])


def _trial(config: Config, times: list[float], best: float) -> Trial:
    ms, lowest, highest = times if len(times) == 3 else (times[0], times[0], times[0])
    return Trial(config, ms, lowest, highest, ms / best if best > 0 and isfinite(best) else 1.0)


def _chosen(values: Mapping[str, Any], names: list[str]) -> list[Any]:
    return [values.get(name) for name in names]


def _pairs(config: Config, names: list[str]) -> Iterator[tuple[str, Any]]:
    values = config.all_kwargs()
    return ((name, values[name]) for name in names if name in values)


def _colours(count: int) -> list[str]:
    """The best stands out."""
    return ["tab:green", *["tab:blue"] * (count - 1)]
