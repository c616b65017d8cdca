"""Benchmarks over a range of sizes, as tables, CSV files and plots: `perf_report`.

@perf_report(Benchmark(x_names=["n"], x_vals=[2**i for i in range(12, 20)], line_arg="provider",
                       line_vals=["tilewright", "numpy"], line_names=["Tilewright", "NumPy"], plot_name="add", args={}))
def bench(n, provider): …            # one time or rate, or (value, lowest, highest)

bench.run(print_data=True, save_path="results")          # results/add.csv, results/add.png, results/results.html

The only file that imports matplotlib and pandas, and only when plots and data frames are asked for.
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
from typing import Any, NamedTuple

from tilewright.runtime.testing.measure import Budget


class Line(NamedTuple):
    """One line of a plot; `style` is a colour and a line style, or None. Bounds may be missing."""

    name: str
    values: Sequence[float]
    lowest: Sequence[float | None]
    highest: Sequence[float | None]
    style: tuple[str, str] | None


class Plot(NamedTuple):
    """A plot: lines over `x`, with the axes' names and whether they are logarithmic."""

    title: str
    x: Sequence[Any]
    lines: Sequence[Line]
    xlabel: str
    ylabel: str
    x_log: bool
    y_log: bool


def data_frame(header: Sequence[str], rows: Sequence[Sequence[Any]]) -> Any:
    """A pandas data frame.

    Raises:
        ImportError: pandas is not installed.
    """
    return _needed("pandas", "data frames").DataFrame(rows, columns=list(header))


def show(plot: Plot) -> None:
    """Open a window with the plot.

    Raises:
        ImportError: matplotlib is not installed.
    """
    pyplot = _needed("matplotlib.pyplot", "plots")
    _draw(pyplot, plot)
    pyplot.show()


def can_plot() -> bool:
    """Whether matplotlib is installed."""
    return importlib.util.find_spec("matplotlib") is not None


def save(plot: Plot, path: Path) -> None:
    """Write the plot as an image.

    Raises:
        ImportError: matplotlib is not installed.
    """
    pyplot = _needed("matplotlib.pyplot", "plots")
    figure = _draw(pyplot, plot)
    figure.savefig(path)
    pyplot.close(figure)


def _draw(pyplot: Any, plot: Plot) -> Any:
    figure, axes = pyplot.subplots()
    for line in plot.lines:
        colour, dashes = line.style or (None, None)
        (drawn,) = axes.plot(plot.x, line.values, label=line.name, color=colour, ls=dashes)
        if None not in (*line.lowest, *line.highest):
            axes.fill_between(plot.x, line.lowest, line.highest, alpha=0.15, color=drawn.get_color())
    axes.set(title=plot.title, xlabel=plot.xlabel, ylabel=plot.ylabel)
    axes.set_xscale("log" if plot.x_log else "linear")
    axes.set_yscale("log" if plot.y_log else "linear")
    axes.legend()
    return figure


def _needed(module: str, purpose: str) -> Any:
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
        line_arg: the parameter that tells the lines apart.
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

    def plot(self) -> Plot:
        """The plot of the report."""
        benchmark = self.benchmark
        first = len(benchmark.x_names)
        columns = list(zip(*self.rows, strict=True))
        styles: Sequence[tuple[str, str] | None] = benchmark.styles or [None] * len(benchmark.line_names)
        lines = [
            Line(name, columns[first + 3 * i], columns[first + 3 * i + 1], columns[first + 3 * i + 2], style)
            for i, (name, style) in enumerate(zip(benchmark.line_names, styles, strict=False))
        ]
        xlabel = benchmark.xlabel or benchmark.x_names[0]
        return Plot(benchmark.plot_name, columns[0], lines, xlabel, benchmark.ylabel, benchmark.x_log, benchmark.y_log)

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
            save(self.plot(), folder / f"{self.benchmark.plot_name}.png")


class Mark:
    """A function with the benchmarks that it is to be run for."""

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
                show(table.plot())
        if save_path:
            _save(tables, Path(save_path))
        if not return_df:
            return None
        frames = [data_frame(table.header(), table.shown()) for table in tables]
        return frames[0] if single else frames

    def _measure(self, benchmark: Benchmark, kwargs: Mapping[str, Any]) -> Table:
        budget = Budget(benchmark.plot_name, len(benchmark.line_vals))
        rows = []
        for point in benchmark.points():
            row = list(point.values())
            for value, line in zip(benchmark.line_vals, budget.lines, strict=True):
                of_line = {benchmark.line_arg: value}
                row += _bounds(line.point(partial(self.fn, **point, **of_line, **benchmark.args, **kwargs)))
            rows.append(row)
        budget.warn()
        return Table(benchmark, rows)


def perf_report(benchmarks: Benchmark | Sequence[Benchmark]) -> Callable[[Callable[..., Any]], Mark]:
    """Mark a function that measures one size of one implementation; `.run()` then measures all."""
    return lambda fn: Mark(fn, benchmarks)


def _bounds(result: Any) -> list[Any]:
    """Value, lowest and highest of what the function returned."""
    return list(result) if isinstance(result, tuple | list) else [result, None, None]


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
