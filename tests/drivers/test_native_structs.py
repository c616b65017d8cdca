"""Structs that Python and native code share: no field lies over another, and all are where a processor likes them."""

from __future__ import annotations

import pytest

from tilewright.runtime.drivers.cpu.native import structs
from tilewright.runtime.drivers.cpu.native.structs import Struct
from tilewright.vectorizing.native import structs as vectorizing_structs

BYTES = {"i32": 4, "i64": 8, "ptr": 8}
STRUCTS = {
    f"{module.__name__.split('.')[1]} {name}": found
    for module in (structs, vectorizing_structs)
    for name, found in vars(module).items()
    if isinstance(found, Struct)
} | structs.CAPSULE_KINDS


@pytest.mark.quick
@pytest.mark.parametrize("name", STRUCTS)
def test_fields_lie_apart_and_aligned(name: str) -> None:
    fields = sorted(STRUCTS[name].fields.values())
    ends = [0, *(field.offset + BYTES[field.type] for field in fields)]
    begins = [*(field.offset for field in fields), STRUCTS[name].size]
    assert all(end <= begin for end, begin in zip(ends, begins, strict=True))
    assert not [field for field in fields if field.offset % BYTES[field.type]]
