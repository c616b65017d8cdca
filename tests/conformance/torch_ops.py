"""Every operator of torch's own database, compiled by `backend="tilewright"` and compared with eager.

    python tests/conformance/torch_ops.py --page docs/conformance-torch-ops.md
    --dtypes float32,int64      of float32, float64, bfloat16, float16, int64, bool
    --only REGEX                operators whose names match
    --most 800                  the first cases only
    --samples 2                 inputs for each operator and dtype
    --out results.jsonl         the outcomes: a run that was stopped goes on where it was

A case is one operator with one dtype: its samples forward and, where the dtype has gradients, backward. What differs is
tried with Inductor's C++ back end, too: a difference that it has as well is Inductor's. Cases run in a process of their
own kind, which is started again when it crashes; the operator that was under way is then the crash.
"""

from __future__ import annotations

import argparse
import json
import re
import resource
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from case_runner import Limits, outcomes, run_cases

DTYPES = ("float32", "float64", "bfloat16", "float16", "int64", "bool")
SECONDS = 120
"""The time that one case may take, in seconds."""
UNDEFINED = ("empty", "new_empty")
"""How the operators begin whose results are what was in memory before."""
INTRODUCTION = """
`tests/conformance/torch_ops.py` wrote this page. A case is the same where it gives what eager gives, forward and
backward; it is Inductor's where the C++ back end differs, too. Its seconds are the CPU time of its slowest sample,
compiled and run, on two cores that others used as well; those of the first case of a process hold torch's own start.
""".strip()
LIMITS = Limits(seconds=5 * SECONDS, cases=150)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dtypes", default=",".join(DTYPES))
    parser.add_argument("--only", default="")
    parser.add_argument("--samples", type=int, default=2)
    parser.add_argument("--out", type=Path, default=Path("torch_ops.jsonl"))
    parser.add_argument("--most", type=int, help="how many cases are run, those that --out knows among them")
    parser.add_argument("--page", type=Path)
    parser.add_argument("--child", action="store_true", help="run the cases that standard input names")
    options = parser.parse_args()
    if options.child:
        _run_cases(options.samples)
        return 0
    cases = _cases(options.dtypes.split(","))
    command = [sys.executable, __file__, "--child", "--samples", str(options.samples)]
    run_cases([case for case in cases if re.search(options.only, case)][: options.most], command, options.out, LIMITS)
    found = {case: outcome for case, outcome in outcomes(options.out).items() if case in cases}
    print(_page(found, cases))
    if options.page:
        options.page.write_text(_page(found, cases))
    return int(any(outcome["result"] in ("differs", "fails", "crashes") for outcome in found.values()))


def _cases(dtypes: list[str]) -> list[str]:
    import torch
    from torch.testing._internal.common_methods_invocations import op_db

    return [
        f"{op.full_name}:{dtype}"
        for op in op_db
        if not op.full_name.startswith(UNDEFINED)
        for dtype in dtypes
        if getattr(torch, dtype) in op.supported_dtypes("cpu")
    ]


def _run_cases(samples: int) -> None:
    import signal

    import torch
    from torch.testing._internal.common_methods_invocations import op_db

    signal.signal(signal.SIGALRM, signal.default_int_handler)
    torch._inductor.config.compile_threads = 1
    torch._dynamo.config.cache_size_limit = 1000
    ops = {op.full_name: op for op in op_db}
    print("ready", flush=True)
    for line in sys.stdin:
        name, _, dtype = line.strip().rpartition(":")
        signal.alarm(SECONDS)
        outcome = _case(ops[name], getattr(torch, dtype), samples)
        signal.alarm(0)
        print(json.dumps({"case": line.strip(), **outcome}), flush=True)


def _case(op: Any, dtype: Any, samples: int) -> dict[str, Any]:
    import torch

    torch._dynamo.reset()
    torch.manual_seed(1)
    longest, result = 0.0, {"result": "same"}
    gradients = dtype.is_floating_point and op.supports_autograd
    try:
        inputs = list(zip(range(samples), op.sample_inputs("cpu", dtype, requires_grad=gradients), strict=False))
    except Exception as error:  # noqa: BLE001 - operators raise what they like
        return {"result": "no sample", "detail": repr(error)[:200]}
    for _, sample in inputs:
        start = time.process_time()
        found = _difference(op, sample, "tilewright")
        longest = max(longest, time.process_time() - start)
        if found is not None:
            torch._dynamo.reset()
            theirs = _difference(op, sample, "inductor")
            kind = "differs" if found.startswith("differs") else "fails"
            is_theirs = theirs is not None and not theirs.startswith("takes over")  # then it has shown nothing
            result = {"result": "Inductor's" if is_theirs else kind, "detail": found, "theirs": theirs or ""}
            break
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
    return {**result, "seconds": round(longest, 2), "megabytes": peak}


def _difference(op: Any, sample: Any, backend: str) -> str | None:
    """The mistake of a compiled operator; None if there is none."""
    import torch

    def function(*args: Any, **kwargs: Any) -> Any:
        return op.op(*args, **kwargs)

    try:
        torch.manual_seed(5)
        expected = _run(function, sample)
    except Exception:  # noqa: BLE001 - operators raise what they like
        return None  # eager has nothing to say
    try:
        torch.manual_seed(5)
        found = _run(torch.compile(function, backend=backend), sample)
    except KeyboardInterrupt:
        return f"takes over {SECONDS} s"
    except Exception as error:  # noqa: BLE001 - operators raise what they like
        return f"{type(error).__name__}: {error}"[:600]
    try:
        torch.testing.assert_close(found, expected, equal_nan=True, **_tolerance(expected))
    except AssertionError as error:
        return f"differs: {error}"[:600]
    return None


def _tolerance(expected: list[Any]) -> dict[str, float]:
    """Inductor's own tolerances for the dtype that has the fewest bits."""
    import torch

    dtypes = {tensor.dtype for tensor in expected}
    if dtypes & {torch.float16, torch.bfloat16}:
        return {"atol": 1e-2, "rtol": 2e-2}
    return {"atol": 1e-4, "rtol": 1e-4}


def _run(function: Any, sample: Any) -> list[Any]:
    """All tensors that the operator gives, and the gradients of its inputs."""
    import torch
    from torch.utils._pytree import tree_leaves, tree_map

    def fresh(value: Any) -> Any:
        return value.detach().clone().requires_grad_(value.requires_grad) if isinstance(value, torch.Tensor) else value

    args, kwargs = tree_map(fresh, ((sample.input, *sample.args), dict(sample.kwargs)))
    outputs = [leaf for leaf in tree_leaves(function(*args, **kwargs)) if isinstance(leaf, torch.Tensor)]
    inputs = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor) and leaf.requires_grad]
    sums = [output.sum() for output in outputs if output.requires_grad]
    gradients: list[Any] = []
    if inputs and sums:
        total = sums[0] if len(sums) == 1 else torch.stack([value.abs() for value in sums]).sum()
        gradients = [g for g in torch.autograd.grad(total.abs(), inputs, allow_unused=True) if g is not None]
    return [tensor.detach() for tensor in (*outputs, *gradients)]


def _page(found: dict[str, dict[str, Any]], cases: list[str]) -> str:
    return "\n".join(_lines(found, cases)) + "\n"


def _lines(found: dict[str, dict[str, Any]], cases: list[str]) -> Iterator[str]:
    counts = Counter(outcome["result"] for outcome in found.values()).most_common()
    seconds = {case: outcome.get("seconds", 0) for case, outcome in found.items()}
    slow = ", ".join(case for case, time_taken in seconds.items() if time_taken > 5)
    yield "# Operators of torch, compiled"
    yield ""
    yield INTRODUCTION
    yield ""
    results = ", ".join(f"{count} {kind}" for kind, count in counts)
    yield f"{len(found)} of {len(cases)} cases, an operator with a dtype each: {results}."
    every, tried = (Counter(case.rpartition(":")[2] for case in some) for some in (cases, found))
    yield f"By dtype: {', '.join(f'{dtype} {tried[dtype]} of {every[dtype]}' for dtype in every)}."
    yield f"The longest took {max(seconds.values(), default=0)} s; over 5 s: {slow or 'none'}."
    yield ""
    for case, outcome in found.items():
        if outcome["result"] in ("differs", "fails", "crashes"):
            yield f"- {case} {outcome['result']}: {' '.join(outcome['detail'].split())[:200]}"


if __name__ == "__main__":
    sys.exit(main())
