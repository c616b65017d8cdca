"""Our language next to what Triton says of 24,000 small kernels (`language_facts.json`): types, ops and refusals.

An error is to be of Triton's class; where Triton says CompilationError, ours may be Unsupported, which is one.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from functools import partial
from typing import Any

import language_facts
import pytest
from language_facts import FILE, GROUPS, WITH_OPS, from_run_lengths, outcome
from tritons_language import answers

import tilewright as tw
from tilewright.compiler.parameters import front_end_parameters
from tilewright.frontends.choice import make_ttir
from tilewright.frontends.evaluate.tiles import EvaluateOptions
from tilewright.ir.core import Op
from tilewright.ir.verifier import verify

FACTS: dict[str, list[dict[str, Any]]] = json.loads(FILE.read_text())
OPTIONS = EvaluateOptions(sanitize_overflow=False, capability=90, warps=4, leaves_loops=False)
CHECKING = EvaluateOptions(debug=True, capability=90, leaves_loops=False)
SAMPLE = 47
"""One signature in so many is tried by `make check`."""
SHARE = 5
"""One in so many is tried by `make test`: other types for each body, since the first one depends on its length."""
CONSTANT = r"[\s\S]*'=3'"
DIFFERENT = {
    # more is accepted
    r"note\(constant\(a\)": "a constexpr_function may compute with the tiles that it gets",
    r"^range\(a\)": "only what a range is called differs, and that it is not looked into before a loop does",
    # less is accepted, because of what Triton would do
    r"for x in t if x > 1": "Triton keeps every item when it cannot know what the filter says",
    r"propagate_nan=1\) with": "a propagate_nan that is none is refused for integers, too",
    r"atomic_(and|or|xor)\(.*fp(32|64)": "bits of floats are not combined: Triton fails later",
    r"atomic_(load|store|poll)\(.*'\*([iu](1|8|16)|fp16|bf16|fp8\w+)'": "ours are of 32 and 64 bits",
    r"atomic_cas\(.*\*kfp32": "const pointers are not written through",
    r"out_dtype=tl\.int32|tl\.zeros\(\[16, 16\], tl\.int32": "floats are not multiplied into integers",
    r"expect_zero\(a.*\*fp32": "of numbers, not of pointers",
    r"^return a": "a kernel that returns something is refused at once",
    r"static_range\(3\):\n    return": "Triton goes on behind the return",
    r"^for i in range\(3\):\n    pass\nnote\(i\)": "in Triton the variable is broken after the loop",
    # the same in other words
    r"\{x:\.3f\}": "f-strings take formats, which Triton reads over",
    r"fp8e4b15": "fp8e4b15 is converted by ops, in Triton by PTX; and it is added up in fp16",
    r"tl\.(sub|mul|fma|m[axin]+imum)\(.*with .*('bf16', 'fp16'|'fp16', 'bf16')": "bf16 to fp16 is through fp32",
    r"tl\.(full|zeros)\([a(\[].*with \['=True'\]": "the extent True is 1",
    r"target_info\.is_cuda": "functions are plain ones",
    r"^(a (\*|//) b|tl\.mul\(a, b\)) with \[('i1', '=True'|'=True', 'i1')\]": "b * true is b, Triton keeps the op",
    r"^(note\(early|if a > 1:|for i in range\(4\):|while a < 3)"
    + CONSTANT: "only what runs is read, and constants stay constants",
    r"aggregate_replace": "Triton's tl.core has it, ours is tilewright.aggregate_replace",
}
"""The facts in which ours is meant to differ, and the reasons."""
USED: set[str] = set()
"""The keys among them that have been needed."""


def compiled(kernel: Any, types: dict[str, str], constants: dict[str, Any], *, debug: bool = False) -> Op:
    options = CHECKING if debug else OPTIONS
    specs = tw.ASTSource(kernel, types, constants).specs
    module = make_ttir(kernel.fn, front_end_parameters(specs), name="kernel", options=options, frontend="ast")
    verify(module)
    return module


def agree(found: str, wanted: str) -> bool:
    """Whether our outcome is one of Triton's."""
    if wanted == "?":
        return found != "!InternalError"
    alternatives = wanted.split(" or ")
    if found == "!Unsupported" and "!CompilationError" in alternatives:
        return True
    return any(found == other or (other.endswith("| *") and found.startswith(other[:-1])) for other in alternatives)


def is_meant(kernel: str) -> bool:
    """Whether ours is meant to differ in a kernel; notes why."""
    found = next((pattern for pattern in DIFFERENT if re.search(pattern, kernel)), None)
    USED.update(filter(None, [found]))
    return found is not None


def differences(group: str, step: int) -> Iterator[str]:
    """Cases of a group that come out otherwise, one signature in `step`."""
    for case, fact in zip(GROUPS[group](), FACTS[group], strict=True):
        assert case.body == fact["body"], "language_facts.json is older than the cases"
        chosen = slice(len(case.body) % step, None, step)
        request = dict(case.request)
        request["signatures"] = signatures = request["signatures"][chosen]
        if not signatures:
            continue
        numbers = from_run_lengths(fact["which"])[chosen]
        ours = answers(tw, request, partial(compiled, debug=case.debug))
        for signature, answer, number in zip(signatures, ours, numbers, strict=True):
            found, wanted = outcome(answer, ops=group in WITH_OPS), fact["outcomes"][number]
            if not agree(found, wanted) and not is_meant(f"{case.body} with {signature}"):
                yield f"{case.body} with {', '.join(signature)}: {found}, not {wanted}"


@pytest.mark.parametrize("group", GROUPS)
def test_a_sample(group: str) -> None:
    assert list(differences(group, SAMPLE)) == []


@pytest.mark.slow
@pytest.mark.parametrize("group", GROUPS)
def test_more(group: str) -> None:
    assert list(differences(group, SHARE)) == []


@pytest.mark.slow
@pytest.mark.long
def test_all() -> None:
    USED.clear()
    assert [found for group in GROUPS for found in differences(group, 1)] == []
    assert set(DIFFERENT) - USED == set(), "these do not differ"


@pytest.mark.slow
@pytest.mark.needs_triton_python
@pytest.mark.parametrize("group", ["programs", "shapes"])
def test_the_file_is_what_the_oracle_says(group: str) -> None:
    cases = [case for case in GROUPS[group]() if len(case.body) % 4 == 0]
    known = {(fact["body"]): set(" or ".join(fact["outcomes"]).split(" or ")) for fact in FACTS[group]}
    for case, found in zip(cases, language_facts.asked(os.environ["TRITON_PYTHON"], cases), strict=True):
        assert {outcome(answer, ops=False) for answer in found} - {"?"} <= known[case.body], case.body
