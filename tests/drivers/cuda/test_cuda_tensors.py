"""torch tensors on GPUs, as native code sees them: with functions in the place of torch's that say what GPUs would."""

from __future__ import annotations

import struct
from collections.abc import Iterator

import pytest
from shared_object import object_code

import optional_peers
from tilewright.runtime.drivers.cpu import launcher, process
from tilewright.runtime.drivers.cpu.blob import link
from tilewright.runtime.drivers.cpu.launcher import Miss, NativeKernel, is_native
from tilewright.runtime.drivers.cpu.native.structs import TABLE, Word
from tilewright.runtime.drivers.cpu.records import Parameter
from tilewright.support.executable_memory import map_code

torch = optional_peers.module("torch")
pytestmark = [
    pytest.mark.needs_torch,
    pytest.mark.skipif(not is_native(), reason="there is no native launcher here"),
]

ANSWERS = """
define i32 @third(ptr %tensor, ptr %place) {
  store i32 2, ptr %place
  ret i32 0
}
define i32 @refuse(ptr %tensor, ptr %place) {
  ret i32 1
}
"""


@pytest.fixture
def answers() -> Iterator[dict[str, int]]:
    """Addresses of functions; afterwards torch's are back, with what tells where a tensor is."""
    runtime = process.native_runtime()
    assert runtime is not None
    NativeKernel([Parameter("x")], lambda *_: None)[(1,)](torch.empty(1))  # torch is known now
    names = ("get_device_index", "tensor_cpu_key", "tensor_odd_keys")
    before = [TABLE.read(runtime.table, name) for name in names]
    blob = link(object_code(ANSWERS))
    mapping = map_code(blob.image)
    yield {name: mapping.address + offset for name, offset in blob.symbols.items()}
    for name, address in zip(names, before, strict=True):
        runtime.set(name, address)
    mapping.unmap()


def words(tensor: torch.Tensor) -> tuple[int, ...] | None:
    """The words of its key; None where it has none."""
    misses: list[Miss | None] = []
    NativeKernel([Parameter("x")], lambda grid, args, kwargs, miss: misses.append(miss))[(1,)](tensor)
    (miss,) = misses
    return None if miss is None else struct.unpack("<2q", miss.key)


def test_keys_have_the_number_of_the_gpu(answers: dict[str, int]) -> None:
    runtime = launcher.native_runtime()
    assert runtime is not None
    tensor = torch.empty(64)
    on_cpu = words(tensor)
    assert on_cpu is not None
    assert on_cpu[1] == Word.TENSOR | Word.MULTIPLE
    runtime.set("tensor_cpu_key", 0)
    runtime.set("get_device_index", answers["third"])
    assert words(tensor) == (on_cpu[0], 3 * Word.GPU | Word.TENSOR | Word.MULTIPLE)
    assert words(tensor[1:]) == (on_cpu[0], 3 * Word.GPU | Word.TENSOR)
    runtime.set("get_device_index", answers["refuse"])
    assert words(tensor) is None
    runtime.set("get_device_index", answers["third"])
    runtime.set("tensor_odd_keys", 2**63 - 1)  # neither the CPU nor CUDA
    assert words(tensor) is None
