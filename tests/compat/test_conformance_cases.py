"""Cases of conformance that run in processes of their own (`tests/conformance/case_runner.py`, `inductor.py`)."""

import importlib
import sys
from pathlib import Path
from types import ModuleType

import pytest

CONFORMANCE = Path(__file__).parents[1] / "conformance"
CHILD = """
import json, os, sys, time
print("ready", flush=True)
for line in sys.stdin:
    case = line.strip()
    if case == "crash":
        os._exit(7)
    if case == "hang":
        time.sleep(100)
    print(json.dumps({"case": case, "result": "passes", "process": os.getpid()}), flush=True)
"""


@pytest.fixture(params=["case_runner", "inductor"])
def module(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(CONFORMANCE))
    return importlib.import_module(request.param)


@pytest.mark.spared
@pytest.mark.parametrize("module", ["case_runner"], indirect=True)
def test_cases_go_on_behind_a_crash_and_a_hang(module: ModuleType, tmp_path: Path) -> None:
    out, command = tmp_path / "out.jsonl", [sys.executable, "-c", CHILD]
    limits = module.Limits(seconds=1.5, cases=2)
    module.run_cases(["a"], command, out, limits)
    first = module.outcomes(out)["a"]

    module.run_cases(["a", "b", "c", "d", "crash", "e", "hang", "f"], command, out, limits)

    found = module.outcomes(out)
    assert {case: outcome["result"] for case, outcome in found.items()} == {
        **dict.fromkeys("abcdef", "passes"),
        **dict.fromkeys(["crash", "hang"], "crashes"),
    }
    assert [found[case]["detail"] for case in ("crash", "hang")] == ["exit status 7", "takes too long"]
    assert found["a"] == first
    assert found["b"]["process"] == found["c"]["process"] != found["d"]["process"]


@pytest.mark.parametrize("module", ["case_runner"], indirect=True)
def test_a_process_that_cannot_start_is_no_failure_of_cases(module: ModuleType, tmp_path: Path) -> None:
    with pytest.raises(module.NotReady):
        module.run_cases(["a"], [sys.executable, "-c", "1 / 0"], tmp_path / "out.jsonl", module.Limits(5, 2))

    assert module.outcomes(tmp_path / "out.jsonl") == {}


@pytest.mark.parametrize("module", ["inductor"], indirect=True)
def test_page_has_counts_and_causes(module: ModuleType) -> None:
    results = {
        "triton sweep: test_a": {"result": "passes", "detail": ""},
        "triton sweep: test_b": {"result": "fails", "detail": "odd | thing"},
        "triton common: test_c": {"result": "crashes", "detail": "exit status 7"},
        "triton mutation: test_e": {"result": "fails", "detail": "why"},
        "triton common: test_d": {"result": "skips", "detail": "no GPU"},
        "cpp sweep: test_b": {"result": "fails", "detail": ""},
    }

    lines = list(module.page(results, {"introduction": "Words.", "reasons": {"common: *_c": "age of the file: why"}}))

    assert "| sweep | 1 | 1 | 0 | 0 | 50.0% |" in lines
    assert "| all | 1 | 2 | 1 | 1 | 25.0% |" in lines
    assert "1 of the 3 fail for the age of their files; 33.3% of all others pass." in lines
    assert "| `test_e` | not explained yet: why | – |" in lines
    assert "| `test_b` | not explained yet: odd \\| thing | fails |" in lines
    assert "| `test_c` | age of the file: why | not tried |" in lines
    assert lines[-1] == "| 1 | no GPU |"


@pytest.mark.parametrize("module", ["torch_ops"], indirect=True)
def test_numbers_of_a_case_alone_count(module: ModuleType) -> None:
    shared = {"result": "same", "seconds": 6.5, "megabytes": 1100}
    results = {
        "add:bool": {"result": "same", "seconds": 0.1, "megabytes": 1025},
        "mul:bool": shared,
        "gone:bool": shared,
        "alone add:bool": {"result": "differs", "detail": "by 1", "seconds": 0.2, "megabytes": 500},
        "alone mul:bool": {"case": "alone mul:bool", "result": "same", "seconds": 5.25, "megabytes": 501},
    }

    cases = ["add:bool", "mul:bool", "sub:bool"]
    text = module.page(module.counted(results, cases), cases)

    assert module.over(results) == ["add:bool", "mul:bool", "gone:bool", "alone mul:bool"]
    assert "2 of 3 cases, an operator with a dtype each: 1 differs, 1 same." in text
    assert "By dtype: bool 2 of 3." in text
    assert "The most seconds that a case took: 5.25; over 5: mul:bool." in text
    assert "The most megabytes that a case took: 501; over 1024: none." in text
    assert "1 cases ran again: they took up to 5.25 seconds and 501 megabytes." in text
    assert text.endswith("- add:bool differs: by 1\n")
