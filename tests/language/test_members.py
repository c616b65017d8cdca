"""The names of `triton.language` and its classes, and that ours can be called as each version of Triton calls them.

`triton_signatures.json` has what Triton 3.5.1 and 3.9.0 say; `tests/oracle/tritons_signatures.py` asks one of them.
"""

from __future__ import annotations

import inspect
import json
import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import tilewright.language as tl

HERE = Path(__file__).parent
SIGNATURES: dict[str, dict[str, list[str | None]]] = json.loads((HERE / "triton_signatures.json").read_text())
MODULES = ("tl", "math", "random", "standard", "target_info")
ABSENT = {
    "dtype.to_ir": "makes a type of MLIR",
    "block_type.to_ir": "makes a type of MLIR",
    "pointer_type.to_ir": "makes a type of MLIR",
    "tuple.__getattr__": "fields of named tuples are attributes of Python's own",
    "standard.sort_impl": "a step of Triton's sort",
    "target_info.driver": "not of the language",
    **{
        f"tensor_descriptor.{name}": "an attribute of each descriptor"
        for name in ("block_shape", "block_type", "dtype")
    },
    **{
        f"block_type.{name}": "asked of element types"
        for name in ("FP_TYPES", "KIND", "OTHER_TYPES", "SIGNEDNESS", "SINT_TYPES", "STANDARD_FP_TYPES", "UINT_TYPES")
    },
    **{
        f"block_type.{name}": "asked of element types"
        for name in ("codegen_name", "get_int_max_value", "get_int_min_value", "kind")
    },
}
DIFFERENT = {
    "tl.pointer_type": "3.9 names address spaces, 3.5 numbers them; both are taken",
    "tl.tensor_descriptor": "made by tl.make_tensor_descriptor",
}


def owner_of(name: str) -> Any:
    return tl if name == "tl" else getattr(tl, name)


def names() -> Iterator[tuple[str, str]]:
    yield from ((owner, name) for owner, members in SIGNATURES.items() for name in members)


def test_nothing_is_missing() -> None:
    missing = {f"{owner}.{name}" for owner, name in names() if not hasattr(owner_of(owner), name)}
    assert missing == {name for name in ABSENT if name in missing}
    assert set(ABSENT) - missing == set(), "these are here"


def parameters(text: str) -> list[tuple[str, str, str]]:
    """(kind, name, default) of each parameter of a list like `x, *more, !only_by_name=None`."""
    return re.findall(r"(\**|!)(\w+)(?:=('[^']*'|<[^>]*>|\([^)]*\)|[^,]+))?(?:, |$)", text)


def complaints(ours: inspect.Signature, text: str, *, method: bool) -> Iterator[str]:
    """The parameters at which a call as `text` has it would fail."""
    own = list(ours.parameters.values())
    theirs = parameters(text)
    places = {parameter.name: number for number, parameter in enumerate(own)}
    for number, (kind, name, default) in enumerate(theirs):
        if (method and number == 0) or kind.startswith("*"):
            continue
        found = ours.parameters.get(name)
        if found is None:
            yield f"{name} is no parameter"
        elif not kind and places[name] != number:
            yield f"{name} is the parameter {places[name]}, not {number}"
        elif default and found.default is found.empty:
            yield f"{name} has no default"
        elif not default and found.default is not found.empty and not kind:
            continue  # ours may be left out
    by_name = {name for _, name, _ in theirs}
    yield from (
        f"{p.name} must be given"
        for p in own[method:]
        if p.default is p.empty and p.name not in by_name and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)
    )


@pytest.mark.quick
@pytest.mark.parametrize("owner", SIGNATURES)
def test_calls_are_taken(owner: str) -> None:
    wrong = []
    for name, variants in SIGNATURES[owner].items():
        ours = getattr(owner_of(owner), name, None)
        if f"{owner}.{name}" in DIFFERENT or name.startswith("__") or not callable(ours) or inspect.isclass(ours):
            continue
        signature = inspect.signature(ours)
        for text in variants:
            if text is not None and not set(text.split(", ")) & {"*args", "**kwargs"}:
                found = complaints(signature, text, method=owner not in MODULES)
                wrong += [f"{owner}.{name}({text}): {complaint}" for complaint in found]
    assert wrong == []


@pytest.mark.slow
@pytest.mark.needs_triton_python
def test_the_list_has_what_the_oracle_has() -> None:
    script = HERE.parent / "oracle/tritons_signatures.py"
    done = subprocess.run(
        [os.environ["TRITON_PYTHON"], script], capture_output=True, text=True, timeout=300, check=True
    )
    missing = [
        f"{owner}.{name}: {text}"
        for owner, members in json.loads(done.stdout).items()
        for name, text in members.items()
        if text not in SIGNATURES[owner].get(name, ["absent"])
    ]
    assert missing == []
