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
from tilewright.frontends.evaluate.frame import EvaluateOptions
from tilewright.ir.core import Op
from tilewright.ir.verifier import verify

FACTS: dict[str, list[dict[str, Any]]] = json.loads(FILE.read_text())
OPTIONS = EvaluateOptions(sanitize_overflow=False, capability=90, warps=4)
CHECKING = EvaluateOptions(debug=True, capability=90)
SAMPLE = 47
"""One signature in so many is tried by the fast suite."""
CONSTANT = r"[\s\S]*'=3'"
DIFFERENT = {
    # what Triton has not, or not yet
    r"^(note\()?\+a|note\(\+w": "+x is x",
    r"\bnot [aw]\b|^a (and|or) b with|logical_(and|or)": "numbers have a truth: they are compared with zero",
    r"note\((3|a|a\.dtype) (not )?in \(": "`in` looks into tuples at compile time",
    r"^(abs|bool|str|type|sum|range)\(|^max\(\(|^min\(a\)|in (zip|enumerate)\(": "more of Python's functions",
    r"for i in [(\[]|x for x in|i for i in": "loops over tuples and constant ranges are unrolled",
    r"\bdel x|, \*y = |x = y = a|Enumeration|unmarked\(|plain_python\(|constant\(a\)": "more of Python",
    r"\{x:\.3f\}": "f-strings take formats",
    r"fp8e4b15": "fp8e4b15 is converted by ops, in Triton by PTX; and it is added up in fp16",
    r"a\.to\(tl\.u?int\d+(, fp_downcast.*)?\) with \['fp8|dtype=tl\.int.*'fp8": "fp8 becomes integers by way of fp32",
    r"float8\w+(, fp_downcast.*)?\) with \['([iu]\d|=)": "integers become fp8 by way of fp32",
    r"tl\.store[\s\S]*('\*fp8\w+', '([iu]\d|=)|'\*[iu]\d+', 'fp8)": "the same in stores",
    r"propagate_nan=1\) with": "a propagate_nan that is none is refused for integers, too",
    r"tl\.(sub|mul|fma)\(.*with .*('bf16', 'fp16'|'fp16', 'bf16')": "bf16 becomes fp16 by way of fp32: the same values",
    r"atomic_(and|or|xor)\(.*fp(32|64)": "bits of floats are not combined",
    r"atomic_(load|store|poll)\(.*'\*([iu](1|8|16)|fp16|bf16|fp8\w+)'": "atomic loads and stores are of 32 and 64 bits",
    r"atomic_cas\(.*\*kfp32": "const pointers are not written through",
    r"tl\.(full|zeros)\([a(\[].*with \['=(4|True)'\]": "a number is a shape, too; True is 1",
    r"static_assert\(a\)": "a number may be asserted",
    r"tl\.dot\(w, v\)": "products of few numbers",
    r"out_dtype=tl\.int32|tl\.zeros\(\[16, 16\], tl\.int32": "floats are not multiplied into integers",
    r"expect_zero\(a.*\*fp32": "of numbers, not of pointers",
    r"tl\.flip.*\*fp32": "tiles of pointers, too",
    r"target_info\.is_cuda": "functions are plain ones",
    # what is clearer otherwise
    r"^for i in range\(3\):\n    pass\nnote\(i\)": "in Triton the variable is broken after the loop",
    r"^return a": "a kernel that returns something is refused at once",
    r"static_range\(3\):\n    return": "Triton goes on behind the return",
    r"^(note\(early|if a > 1:|for i in range\(4\):|while a < 3)"
    + CONSTANT: "only what runs is read, and constants stay constants",
    r"aggregate_replace": "Triton's tl.core has it, ours is tilewright.aggregate_replace",
}
"""Where ours is meant to differ, and why."""
USED: set[str] = set()
"""Those of them that have been needed."""


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
def test_all() -> None:
    USED.clear()
    assert [found for group in GROUPS for found in differences(group, 1)] == []
    assert set(DIFFERENT) - USED == set(), "these do not differ"


@pytest.mark.slow
@pytest.mark.skipif("TRITON_PYTHON" not in os.environ, reason="TRITON_PYTHON names no interpreter with Triton")
@pytest.mark.parametrize("group", ["programs", "shapes"])
def test_the_file_is_what_the_oracle_says(group: str) -> None:
    cases = [case for case in GROUPS[group]() if len(case.body) % 4 == 0]
    known = {(fact["body"]): set(" or ".join(fact["outcomes"]).split(" or ")) for fact in FACTS[group]}
    for case, found in zip(cases, language_facts.asked(os.environ["TRITON_PYTHON"], cases), strict=True):
        assert {outcome(answer, ops=False) for answer in found} - {"?"} <= known[case.body], case.body
