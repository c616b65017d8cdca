"""Places in nested lists and tuples, as tuples of indices.

find_paths_if((1, (2, 3)), lambda path, value: value > 1)      # [(1, 0), (1, 1)]
get_iterable_path((1, (2, 3)), (1, 0))                         # 2
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import reduce
from operator import getitem
from typing import Any

Path = tuple[int, ...]


def find_paths_if(iterable: Any, pred: Callable[[Path, Any], Any]) -> list[Path]:
    """The paths of the values for which `pred(path, value)` holds; that of a value that is no sequence is empty."""
    return [path for path, value in _leaves((), iterable) if pred(path, value)]


def get_iterable_path(iterable: Any, path: Path) -> Any:
    """The value at a path."""
    return reduce(getitem, path, iterable)


def set_iterable_path(iterable: Any, path: Path, val: Any) -> None:
    """Put `val` at a path; what holds it must be a list."""
    get_iterable_path(iterable, path[:-1])[path[-1]] = val


def apply_with_path(value: Any, fn: Callable[[Path, Any], Any]) -> None:
    """Call `fn(path, value)` with every value."""
    for path, leaf in _leaves((), value):
        fn(path, leaf)


def is_iterable(value: Any) -> bool:
    """Whether paths lead into it."""
    return isinstance(value, list | tuple)


def is_namedtuple(val: Any) -> bool:
    """Whether it is a class of named tuples."""
    return isinstance(val, type) and issubclass(val, tuple) and hasattr(val, "_fields")


def _leaves(path: Path, value: Any) -> Iterator[tuple[Path, Any]]:
    if is_iterable(value):
        for index, part in enumerate(value):
            yield from _leaves((*path, index), part)
    else:
        yield path, value
