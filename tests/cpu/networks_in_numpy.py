"""Sorting networks of the language on an array, step by step."""

from __future__ import annotations

import numpy as np


def sorted_by_steps(x: np.ndarray, descending: bool) -> np.ndarray:
    """`x` behind the network: an element and its partner trade places where a comparison says so, NaN never."""
    i = np.arange(len(x))
    size = 2
    while size <= len(x):
        backwards = ((i & size) != 0) & (size < len(x)) ^ descending
        distance = size // 2
        while distance:
            partner, wants_larger = x[i ^ distance], ((i & distance) != 0) ^ backwards
            x = np.where(np.where(wants_larger, x < partner, x > partner), partner, x)
            distance //= 2
        size *= 2
    return x
