"""Kernels in a notebook, run by a real ipykernel: what a cell shows of a kernel, of an error, and of prints."""

from __future__ import annotations

import importlib
import re
from typing import Any

import pytest

pytestmark = [pytest.mark.needs_docs, pytest.mark.slow]

CELLS = {
    "define": """
import numpy as np
import tilewright as tw
import tilewright.language as tl

@tw.jit
def double(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + i, 2 * tl.load(x_ptr + i, mask=i < n), mask=i < n)

x = np.arange(100, dtype=np.float32)
out = np.empty_like(x)
""",
    "shows": "double[(1,)](x, out, 100, BLOCK=128)",
    "again": "print(out[99])\ndouble[(1,)](x, out, 100, BLOCK=128)",
    "prints": """
@tw.jit
def loud(x_ptr):
    tl.device_print("x", tl.load(x_ptr + tl.arange(0, 2)))

loud[(1,)](x + 5);
""",
    "does not compile": """
@tw.jit
def wrong(out_ptr):
    tl.store(out_ptr + tl.arange(0, 16) + tl.arange(0, 32), 1.0)

wrong[(1,)](out)
""",
    "wrong argument": 'double[(1,)](x, "text", 100, BLOCK=128)',
    "out of bounds": 'double[(1,)](x, out, 101, BLOCK=128, sanitize="bounds")',
    "asserts": """
@tw.jit(debug=True)
def checks(x_ptr):
    tl.device_assert(tl.load(x_ptr) > 3, "too small")

checks[(1,)](x)
""",
    "simulated": """
with tw.simulate("cuda:90"):
    double[(1,)](x, out, 101, BLOCK=128)
""",
    "vectorized": """
@tw.vectorize
def unknown(a):
    return a.nothing()

unknown(x)
""",
}
ERRORS = {
    "does not compile": "CompilationError: error: shapes do not broadcast",
    "wrong argument": "ArgumentError: argument 'out_ptr': a str cannot be passed to a kernel",
    "out of bounds": "SanitizerError: error: out-of-bounds load",
    "asserts": "DeviceAssertError",
    "simulated": "SimulationError: out of bounds",
    "vectorized": "CompilationError: error: a Element has no attribute",
}


@pytest.fixture(scope="module")
def outputs() -> dict[str, list[Any]]:
    """The output of each cell."""
    format, client = importlib.import_module("nbformat.v4"), importlib.import_module("nbclient")
    notebook = format.new_notebook(cells=[format.new_code_cell(text.strip()) for text in CELLS.values()])
    client.NotebookClient(notebook, kernel_name="python3", timeout=120, allow_errors=True).execute()
    return {name: cell.outputs for name, cell in zip(CELLS, notebook.cells, strict=True)}


def test_a_kernel_shows_itself(outputs: dict[str, list[Any]]) -> None:
    (shown,) = outputs["shows"]
    html = shown["data"]["text/html"]
    assert re.findall(r"<label[^>]*>(.*?)</label>", html) == ["TTIR", "loops", "assembly", "metadata"]
    assert re.search(r'data-line="8"[^>]*><i>8</i>.*tl\.store', html)  # the source, by the lines of its cell
    assert shown["data"]["text/plain"].startswith("CompiledKernel(double, ")


def test_two_cells_may_show_one_kernel(outputs: dict[str, list[Any]]) -> None:
    printed, again = outputs["again"]
    assert printed["text"] == "198.0\n"
    (first,) = outputs["shows"]
    ids = [set(re.findall(r' id="([^"]+)"', output["data"]["text/html"])) for output in (first, again)]
    assert not ids[0] & ids[1]


def test_prints_go_to_the_cell(outputs: dict[str, list[Any]]) -> None:
    (printed,) = outputs["prints"]
    assert printed["output_type"] == "stream"
    assert [line.split("x: ")[1] for line in printed["text"].splitlines()] == ["5.000000", "6.000000"]


@pytest.mark.parametrize("name", ERRORS)
def test_an_error_shows_the_users_line_only(outputs: dict[str, list[Any]], name: str) -> None:
    (error,) = [output for output in outputs[name] if output["output_type"] == "error"]
    text = "\n".join(error["traceback"])
    assert ERRORS[name] in text
    assert re.search(r"Cell In\[\d+\], line \d+, in <module>", text)
    assert "src/tilewright" not in text.replace("\\", "/")
    assert "ipykernel_" not in text
    assert len(text.splitlines()) <= 15


def test_an_error_names_the_line_of_the_cell(outputs: dict[str, list[Any]]) -> None:
    (error,) = outputs["does not compile"]
    assert re.search(r"--> Cell In\[5\]:3:14", "\n".join(error["traceback"]))
