"""Benchmarks over a range of sizes, as tables, CSV files and plots: `perf_report`.

@perf_report(Benchmark(x_names=["n"], x_vals=[2**i for i in range(12, 20)], line_arg="provider",
                       line_vals=["tilewright", "numpy"], line_names=["Tilewright", "NumPy"], plot_name="add", args={}))
def bench(n, provider): …            # one time or rate, or (value, lowest, highest)

bench.run(print_data=True, save_path="results")          # results/add.csv, results/add.png, results/results.html

The only file that imports matplotlib and pandas, and only when plots and data frames are requested.
"""

from __future__ import annotations

import csv
import html
import importlib
import importlib.util
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from tilewright.runtime.testing.measure import Budget
from tilewright.support.progress import Progress


def can_plot() -> bool:
    """Whether matplotlib is installed."""
    return importlib.util.find_spec("matplotlib") is not None


def needed(module: str, purpose: str) -> Any:
    """The module, for what only it can do.

    Args:
        module: its name.
        purpose: what asks for it, in the plural.

    Raises:
        ImportError: it is not installed; the message says what to install.
    """
    try:
        return importlib.import_module(module)
    except ImportError:
        package = module.split(".")[0]
        raise ImportError(f"{purpose} need {package}, which is not installed: pip install {package}") from None


@dataclass
class Benchmark:
    """One plot: which sizes, and which lines.

    Attributes:
        x_names: parameters of the function that get the size.
        x_vals: the sizes; a tuple gives each of `x_names` its own value.
        line_arg: the parameter that distinguishes the lines.
        line_vals, line_names: its values, and what they are called.
        plot_name: also the name of the files.
        xlabel, ylabel, x_log, y_log: the axes' names, and whether they are logarithmic.
        styles: a colour and a line style for each line.
    """

    x_names: Sequence[str]
    x_vals: Sequence[Any]
    line_arg: str
    line_vals: Sequence[Any]
    line_names: Sequence[str]
    plot_name: str
    args: Mapping[str, Any]
    xlabel: str = ""
    ylabel: str = ""
    x_log: bool = False
    y_log: bool = False
    styles: Sequence[tuple[str, str]] | None = None

    def points(self) -> Iterator[dict[str, Any]]:
        """The sizes, as arguments by name."""
        for value in self.x_vals:
            values = value if isinstance(value, tuple | list) else [value] * len(self.x_names)
            if len(values) != len(self.x_names):
                raise ValueError(f"{value!r} has not one value for each of {', '.join(self.x_names)}")
            yield dict(zip(self.x_names, values, strict=True))


@dataclass(frozen=True)
class Table:
    """The results of one benchmark: rows of the sizes, then value, lowest and highest of each line in turn."""

    benchmark: Benchmark
    rows: list[list[Any]]

    def header(self) -> list[str]:
        """Names of the columns that a table shows: the lines without their bounds."""
        unit = f" ({self.benchmark.ylabel})" if self.benchmark.ylabel else ""
        return [*self.benchmark.x_names, *(f"{name}{unit}" for name in self.benchmark.line_names)]

    def shown(self) -> list[list[Any]]:
        """The rows without the bounds."""
        sizes = len(self.benchmark.x_names)
        return [[*row[:sizes], *row[sizes::3]] for row in self.rows]

    def draw(self, pyplot: Any) -> Any:
        """The plot, as a figure of matplotlib: a line for each of the lines, with error bars where there are bounds."""
        benchmark = self.benchmark
        x, *columns = list(zip(*self.rows, strict=True))
        columns = columns[len(benchmark.x_names) - 1 :]
        styles: Sequence[tuple[Any, Any]] = benchmark.styles or [(None, None)] * len(benchmark.line_names)
        figure, axes = pyplot.subplots()
        for i, (name, (colour, dashes)) in enumerate(zip(benchmark.line_names, styles, strict=False)):
            values, lowest, highest = columns[3 * i : 3 * i + 3]
            errors = None if None in (*lowest, *highest) else _distances(values, lowest, highest)
            axes.errorbar(x, values, yerr=errors, label=name, color=colour, ls=dashes, capsize=3)
        axes.set(title=benchmark.plot_name, xlabel=benchmark.xlabel or benchmark.x_names[0], ylabel=benchmark.ylabel)
        axes.set_xscale("log" if benchmark.x_log else "linear")
        axes.set_yscale("log" if benchmark.y_log else "linear")
        axes.legend()
        return figure

    def show(self) -> None:
        """Open a window with the plot."""
        pyplot = needed("matplotlib.pyplot", "plots")
        self.draw(pyplot)
        pyplot.show()

    def text(self) -> str:
        """The table with aligned columns."""
        cells = [self.header(), *([_cell(value) for value in row] for row in self.shown())]
        widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
        lines = ["  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in cells]
        return f"{self.benchmark.plot_name}:\n" + "\n".join(lines)

    def save(self, folder: Path) -> None:
        """Write the CSV file, and the plot where matplotlib is installed."""
        with (folder / f"{self.benchmark.plot_name}.csv").open("w", newline="") as file:
            csv.writer(file).writerows([self.header(), *self.shown()])
        if can_plot():
            pyplot = needed("matplotlib.pyplot", "plots")
            figure = self.draw(pyplot)
            figure.savefig(folder / f"{self.benchmark.plot_name}.png")
            pyplot.close(figure)


class Mark:
    """A function with the benchmarks that it is to be run for, as `perf_report` makes it.

    Attributes:
        fn: takes a size, the name of a line and the `args` of the benchmark; returns a number, or (value, low, high).
        benchmarks: one, or several.
    """

    def __init__(self, fn: Callable[..., Any], benchmarks: Benchmark | Sequence[Benchmark]) -> None:
        self.fn = fn
        self.benchmarks = benchmarks

    def run(
        self,
        show_plots: bool = False,
        print_data: bool = False,
        save_path: str = "",
        return_df: bool = False,
        **kwargs: Any,
    ) -> Any:
        """Measure everything.

        Args:
            show_plots: open a window for each plot (needs matplotlib).
            print_data: print a table of each benchmark.
            save_path: a folder for a CSV file of each benchmark and, where matplotlib is installed, a plot of each
                and a page with all of them; "" for none.
            return_df: return pandas data frames (needs pandas): one, or a list where there are several benchmarks.
            kwargs: further arguments of the function.

        Raises:
            ImportError: a library that is asked for is not installed; the message names it.
        """
        single = isinstance(self.benchmarks, Benchmark)
        benchmarks = [self.benchmarks] if isinstance(self.benchmarks, Benchmark) else self.benchmarks
        tables = list(map(partial(self._measure, kwargs=kwargs), benchmarks))
        for table in tables:
            if print_data:
                print(table.text())  # noqa: T201 - what the caller asked for
            if show_plots:
                table.show()
        if save_path:
            _save(tables, Path(save_path))
        if not return_df:
            return None
        frame = needed("pandas", "data frames").DataFrame
        frames = [frame(table.shown(), columns=table.header()) for table in tables]
        return frames[0] if single else frames

    def _measure(self, benchmark: Benchmark, kwargs: Mapping[str, Any]) -> Table:
        budget = Budget(benchmark.plot_name, len(benchmark.line_vals))
        points, lines = list(benchmark.points()), len(benchmark.line_vals)
        rows = []
        with Progress(f"measuring {benchmark.plot_name}", len(points) * lines) as progress:
            for number, point in enumerate(points):
                row = list(point.values())
                for at, (value, line) in enumerate(zip(benchmark.line_vals, budget.lines, strict=True)):
                    progress.at(number * lines + at)
                    of_line = {benchmark.line_arg: value}
                    row += _bounds(line.point(partial(self.fn, **point, **of_line, **benchmark.args, **kwargs)))
                rows.append(row)
        budget.warn()
        return Table(benchmark, rows)


def perf_report(benchmarks: Benchmark | Sequence[Benchmark]) -> Callable[[Callable[..., Any]], Mark]:
    """Mark a function that measures one size of one implementation; `.run()` then measures all.

    Args:
        benchmarks: one table and plot, or several.

    Example:
        >>> sums = tw.testing.Benchmark(x_names=["n"], x_vals=[10, 1000], line_arg="provider", line_vals=["numpy"],
        ...                             line_names=["NumPy"], plot_name="sums", args={})
        >>> @tw.testing.perf_report(sums)
        ... def measure(n, provider):
        ...     return tw.testing.do_bench(lambda: np.ones(n).sum(), warmup=1, rep=2)
        >>> measure.run()
    """
    return lambda fn: Mark(fn, benchmarks)


def _bounds(result: Any) -> list[Any]:
    """Value, lowest and highest of what the function returned."""
    return list(result) if isinstance(result, tuple | list) else [result, None, None]


def _distances(values: Sequence[float], *bounds: Sequence[float]) -> list[list[float]]:
    """How far the bounds are below and above the values; a rate's lowest is that of the highest time."""
    both = list(zip(values, *bounds, strict=True))
    below = [max(value - min(first, second), 0.0) for value, first, second in both]
    return [below, [max(max(first, second) - value, 0.0) for value, first, second in both]]


def _cell(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _save(tables: Sequence[Table], folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for table in tables:
        table.save(folder)
    if not can_plot():
        return
    names = [html.escape(table.benchmark.plot_name) for table in tables]
    images = "".join(f'<img src="{name}.png" alt="{name}"/>\n' for name in names)
    (folder / "results.html").write_text(f"<html><body>\n{images}</body></html>\n")
