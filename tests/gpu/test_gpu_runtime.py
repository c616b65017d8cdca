"""The rows about Tilewright's runtime on a GPU, on a simulated one and against the fake driver."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import runtime
import tilewright as tw
from runtime import OUT_OF_MEMORY, ROWS, row_of
from tilewright import cuda

SCRIPT = Path(runtime.__file__)


class Simulated:
    """Arrays of the CPU, for a simulated GPU."""

    def copy(self, array: Any) -> Any:
        return np.array(array)

    def numpy(self, array: Any) -> Any:
        return array


SLOW = pytest.param("out_of_resources", marks=pytest.mark.slow)
"""A large product is compiled."""


@pytest.mark.parametrize("name", ["arrays", "assertions", SLOW])
def test_rows_on_a_simulated_gpu(name: str) -> None:
    with tw.simulate("cuda:90"):
        assert row_of(name, Simulated()) == {"good": True}


PRINTS = """
import sys
sys.path[:0] = [{bench!r}, {here!r}]
import tilewright as tw
from runtime import row_of
from test_gpu_runtime import Simulated
with tw.simulate("cuda:90"):
    print(row_of("prints", Simulated()))
"""


@pytest.mark.slow
def test_prints_of_a_simulated_gpu() -> None:
    code = PRINTS.format(bench=str(SCRIPT.parent), here=str(Path(__file__).parent))
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout == "{'good': True}\n", "what the kernel printed was read by the row"


def test_a_wrong_address_is_no_error_of_the_driver_there() -> None:
    with tw.simulate("cuda:90"):
        assert "out of bounds" in row_of("illegal_address", Simulated())["problem"]


@pytest.mark.parametrize("name", ["arrays", "streams", "threads", "grids", "array_interface", "prints"])
def test_a_gpu_that_computes_nothing_is_seen(name: str, fake: Any) -> None:
    row = row_of(name, runtime.Hardware())
    assert not row["good"]
    assert row["problem"].startswith("AssertionError")


@pytest.mark.parametrize("name", ["illegal_address", "launch_failure", "assertions", SLOW])
def test_errors_have_to_come(name: str, fake: Any) -> None:
    assert not row_of(name, runtime.Hardware())["good"]


def test_errors_of_the_driver(fake: Any) -> None:
    gpu = runtime.Hardware()
    runtime.launch(gpu.copy(runtime.start()))
    fake.fail("cuLaunchKernelEx", 700)
    assert row_of("illegal_address", gpu) == {"good": True}
    fake.fail("cuLaunchKernelEx", OUT_OF_MEMORY)
    assert "out of memory" in row_of("illegal_address", gpu)["problem"]
    assert "out of memory" in row_of("out_of_memory", gpu)["problem"], "the launch behind the error has to work"


def test_work_on_two_streams_is_ordered(fake: Any) -> None:
    runtime.streams(CountingGpu())
    launches = fake.launches()
    assert len(launches) == 40
    assert len({launch.stream for launch in launches}) == 2
    assert len(fake.calls("cuStreamWaitEvent")) == 40


class CountingGpu(runtime.Hardware):
    """Believed to have computed."""

    def numpy(self, array: Any) -> Any:
        return runtime.start() + 40


def test_without_torch(fake: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("runtime.find_spec", lambda name: None)
    assert row_of("torch_tensors", cuda) == {"skipped": "torch is not installed"}


SOME = """
import sys
from pathlib import Path
sys.path.insert(0, {bench!r})
import runtime
from processes import add_rows, print_one
names = list({names})
runtime.ROWS = dict.fromkeys(names, runtime.is_usable)
if sys.argv[1] == "--skip":
    print_one(lambda name: runtime.row_of(name, runtime.Hardware()), names, int(sys.argv[2]))
add_rows(Path(sys.argv[1]), [sys.executable, __file__], names)
"""


@pytest.mark.spared
def test_rows_are_added_to_those_of_the_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a GPU every row says so, and none takes another one with it."""
    file = tmp_path / "right.json"
    file.write_text(
        json.dumps({"part": "right", "seconds": 470, "rows": [{"name": "a", "good": True}, {"name": "streams"}]})
    )
    monkeypatch.setenv("TRITON_LIBCUDA_PATH", str(tmp_path))
    names = ("streams", "illegal_address")
    script = tmp_path / "some.py"
    script.write_text(SOME.format(bench=str(SCRIPT.parent), names=names))
    subprocess.run([sys.executable, script, file], check=True)
    result = json.loads(file.read_text())
    rows = result["rows"]
    assert [row["name"] for row in rows] == ["a", *names]
    assert 470 <= result["seconds"] < 480, "what the part and these rows took, rounded"
    assert all("MissingDriverError" in row["problem"] for row in rows[1:])


def test_what_there_are_rows_for() -> None:
    assert {"streams", "contexts", "prints", "assertions", "torch_tensors", "array_interface"} <= ROWS.keys()
    assert {"illegal_address", "out_of_memory", "launch_failure"} <= ROWS.keys()
