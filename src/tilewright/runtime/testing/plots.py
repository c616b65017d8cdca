"""Plots and data frames; the only file that imports matplotlib and pandas, and only when they are asked for."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple


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
