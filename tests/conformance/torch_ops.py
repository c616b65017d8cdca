"""Every operator of torch's own database, compiled by `backend="tilewright"` and compared with eager.

    python tests/conformance/torch_ops.py --page docs/conformance-torch-ops.md
    --dtypes float32,int64      of float32, float64, bfloat16, float16, int64, bool
    --only REGEX                operators whose names match
    --most 800                  the first cases only
    --samples 2                 inputs for each operator and dtype
    --out results.jsonl         the outcomes: a run that was stopped goes on where it was

A case is one operator with one dtype: its samples forward and, where the dtype has gradients, backward. What differs is
tried with Inductor's C++ back end, too: a difference that it has as well is Inductor's. Cases run in a process of their
own kind, which is started again when it crashes; the operator that was under way is then the crash. A process has the
memory of all its cases, and collects their garbage. A case over a bar there runs again, alone in a process, and those
numbers count.
"""

from __future__ import annotations

import argparse
import json
import re
import resource
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from case_runner import Limits, Outcome, outcomes, run_cases

DTYPES = ("float32", "float64", "bfloat16", "float16", "int64", "bool")
SECONDS = 120
"""The time that one case may take, in seconds."""
UNDEFINED = ("empty", "new_empty")
"""How the operators begin whose results are what was in memory before."""
INTRODUCTION = """
`tests/conformance/torch_ops.py` wrote this page. A case is the same where it gives what eager gives, forward and
backward; it is Inductor's where the C++ back end differs, too. Its seconds are the CPU time of its slowest sample,
compiled and run, on two cores that others used as well. Its megabytes are the most that its process had, with torch and
Python. Cases share processes; those over 5 s or 1024 MB there ran again, alone in a process, and those numbers count.
""".strip()
LIMITS = Limits(seconds=5 * SECONDS, cases=150)
BARS = {"seconds": 5, "megabytes": 1024}
"""The limits of a case; the memory includes that of Python and torch."""
ALONE = "alone "
"""How the names of cases begin that run again, each in a process of its own."""


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
    again = [f"{ALONE}{case}" for case in over(outcomes(options.out)) if case in cases]
    run_cases(again, command, options.out, replace(LIMITS, cases=1))
    found = counted(outcomes(options.out), cases)
    text = page(found, cases)
    print(text)
    if options.page:
        options.page.write_text(text)
    return int(any(outcome["result"] in ("differs", "fails", "crashes") for outcome in found.values()))


def over(found: Mapping[str, Outcome]) -> list[str]:
    """The cases that took more than the bars."""
    return [case for case, outcome in found.items() if _is_over(outcome)]


def _is_over(outcome: Outcome) -> bool:
    return any(outcome.get(kind, 0) > bar for kind, bar in BARS.items())


def counted(found: Mapping[str, Outcome], cases: Sequence[str]) -> dict[str, Outcome]:
    """The outcomes of the cases; where a case has run alone, that one counts."""
    return {case: found.get(f"{ALONE}{case}", outcome) for case, outcome in found.items() if case in cases}


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
    _start_torch()
    print("ready", flush=True)
    for line in sys.stdin:
        name, _, dtype = line.strip().removeprefix(ALONE).rpartition(":")
        signal.alarm(SECONDS)
        outcome = _case(ops[name], getattr(torch, dtype), samples)
        signal.alarm(0)
        print(json.dumps({"case": line.strip(), **outcome}), flush=True)


def _start_torch() -> None:
    """Compile something with a gradient, so that no case waits for imports."""
    import torch

    x = torch.ones(4, requires_grad=True)
    torch.compile(lambda x: x + 1, backend="tilewright")(x).sum().backward()


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


def page(found: Mapping[str, Outcome], cases: Sequence[str]) -> str:
    """The text of the page."""
    return "\n".join(_lines(found, cases)) + "\n"


def _lines(found: Mapping[str, Outcome], cases: Sequence[str]) -> Iterator[str]:
    counts = Counter(outcome["result"] for outcome in found.values()).most_common()
    yield "# Operators of torch, compiled"
    yield ""
    yield INTRODUCTION
    yield ""
    results = ", ".join(f"{count} {kind}" for kind, count in counts)
    yield f"{len(found)} of {len(cases)} cases, an operator with a dtype each: {results}."
    every, tried = (Counter(case.rpartition(":")[2] for case in some) for some in (cases, found))
    yield f"By dtype: {', '.join(f'{dtype} {tried[dtype]} of {every[dtype]}' for dtype in every)}."
    for kind, bar in BARS.items():
        beyond = ", ".join(case for case, outcome in found.items() if outcome.get(kind, 0) > bar)
        most = max((outcome.get(kind, 0) for outcome in found.values()), default=0)
        yield f"The most {kind} that a case took: {most}; over {bar}: {beyond or 'none'}."
    alone = [outcome for outcome in found.values() if outcome.get("case", "").startswith(ALONE)]
    most_of_these = (f"{max((outcome.get(kind, 0) for outcome in alone), default=0)} {kind}" for kind in BARS)
    yield f"{len(alone)} cases ran again: they took up to {' and '.join(most_of_these)}."
    yield ""
    for case, outcome in found.items():
        if outcome["result"] in ("differs", "fails", "crashes"):
            yield f"- {case} {outcome['result']}: {' '.join(outcome['detail'].split())[:200]}"


if __name__ == "__main__":
    sys.exit(main())
