"""One process of the table "Vectorized functions": prints a JSON line per row. `run.py` starts it.

Scalar calls against Numba's `njit`, first calls against its `vectorize`, then each expression at each size against the
fastest of Numba, numexpr, JAX and NumPy. All get arrays of float64 and make a new array.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import json
import os
import re
import statistics
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
from expressions import EXPRESSIONS, SIZES, Expression, Work
from peers import jax, numba
from timing import clock_for, race

import tilewright as tw

numexpr = importlib.import_module("numexpr") if importlib.util.find_spec("numexpr") else None
SCALAR_LIMIT, FIRST_LIMIT, BAR, MEDIAN_BAR = 0.12e-6, 15e-3, 1.0, 2.0
FIRST_CALLS = 10


def some_expr(a: Any, b: Any, c: Any) -> Any:
    return b / (a + 2) - c * (b - a)


def scalar_calls(seconds: float) -> Iterator[dict[str, Any]]:
    """One call with Python's numbers."""
    ours = tw.vectorize(some_expr)
    theirs = {"numba": numba.njit(some_expr)} if numba else {}
    for name, numbers in (("int", (2, 16, 3)), ("float", (2.0, 16.0, 3.0))):
        functions = {who: calling(function, *numbers) for who, function in {"ours": ours, **theirs}.items()}
        found = race(functions, seconds=seconds, clock=time.thread_time)
        found = {who: cost / CALLS for who, cost in found.items()}
        yield {"row": f"scalar call, {name}", "ours": found.pop("ours"), "peers": found, "limit": SCALAR_LIMIT}


def calling(function: Any, *arguments: Any) -> Work:
    """CALLS calls, one after the other."""
    text = "def work():\n" + f"    f({', '.join(map(repr, arguments))})\n" * CALLS
    namespace: dict[str, Any] = {"f": function}
    exec(text, namespace)
    found: Work = namespace["work"]
    return found


CALLS = 100


def first_calls() -> Iterator[dict[str, Any]]:
    """CPU time from the decorator to the result of the first call, modules being imported; the best of FIRST_CALLS."""
    x = np.ones(1000)
    for expression in (EXPRESSIONS[0], EXPRESSIONS[2], EXPRESSIONS[-1]):
        cached = min(_first_call(expression, x) for _ in range(FIRST_CALLS))
        with tw.knobs.compilation.scope():
            tw.knobs.compilation.always_compile = True
            cost = min(_first_call(expression, x) for _ in range(FIRST_CALLS))
        peers = {"from the disk cache": cached}
        if numba:
            peers["numba"] = min(_first_call_of_numba(expression, x) for _ in range(FIRST_CALLS))
        yield {"row": f"first call, {expression.name}", "ours": cost, "peers": peers, "limit": FIRST_LIMIT}


def _first_call(expression: Expression, x: np.ndarray) -> float:
    function = expression.function(np)
    start = time.thread_time()
    tw.vectorize(function)(x, x)
    return time.thread_time() - start


def _first_call_of_numba(expression: Expression, x: np.ndarray) -> float:
    function = expression.function(np, for_numba=True)
    start = time.thread_time()
    numba.vectorize(function)(x, x)
    return time.thread_time() - start


def contest(expression: Expression, size: int, threads: int, seconds: float) -> dict[str, Any]:
    """One expression at one size."""
    random = np.random.default_rng(0)
    a, b = random.random(size) * 4 - 2, random.random(size) * 4 - 1.5
    ours, plain = tw.vectorize(expression.function(np)), expression.function(np)
    functions: dict[str, Work] = {"ours": lambda: ours(a, b), "numpy": lambda: plain(a, b)}
    if numba:
        compiled = numba.vectorize(expression.function(np, for_numba=True))
        functions["numba"] = lambda: compiled(a, b)
        if threads > 1 and size >= 100_000:
            of_threads = numba.vectorize(["float64(float64, float64)"], target="parallel")
            parallel = of_threads(expression.function(np, for_numba=True))
            functions["numba parallel"] = lambda: parallel(a, b)
    if numexpr:
        numexpr.set_num_threads(threads)
        functions["numexpr"] = lambda: numexpr.evaluate(expression.numexpr, {"a": a, "b": b})
    if jax:
        traced = jax.jit(expression.function(jax.numpy))
        on_device = jax.numpy.asarray(a), jax.numpy.asarray(b)
        functions["jax"] = lambda: traced(*on_device).block_until_ready()
    expected = plain(a, b)
    for function in functions.values():
        np.testing.assert_allclose(np.asarray(function()), expected, rtol=1e-12, atol=1e-12)
    found = race(functions, seconds=seconds, clock=clock_for(threads), threads=threads)
    cost = found.pop("ours")
    best = min(found, key=lambda name: found[name])
    row = f"{expression.name}, {size:.0e}".replace("e+0", "e")
    return {"row": row, "ours": cost, "peers": found, "against": best, "bar": BAR}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=1.0, help="per row")
    parser.add_argument("--only", default="", help="rows whose name matches this regular expression")
    arguments = parser.parse_args()
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[-arguments.threads :])
    if jax:
        jax.config.update("jax_enable_x64", True)
    rows: list[dict[str, Any]] = []
    if arguments.threads == 1 and re.search(arguments.only, "calls"):
        for row in (*scalar_calls(arguments.seconds), *first_calls()):
            print(json.dumps(row), flush=True)
    for size in SIZES:
        for expression in EXPRESSIONS:
            if re.search(arguments.only, expression.name):
                rows.append(contest(expression, size, arguments.threads, arguments.seconds))
                print(json.dumps(rows[-1]), flush=True)
    if rows:
        print(json.dumps(median(rows)), flush=True)


def median(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """The ratio in the middle, as a row: a peer that takes so many times one unit."""
    ratio = statistics.median(row["peers"][row["against"]] / row["ours"] for row in rows)
    return {"row": "median of these", "ours": 1.0, "peers": {"best": ratio}, "against": "best", "bar": MEDIAN_BAR}


if __name__ == "__main__":
    main()
