"""Every op kind can be executed, or stands in the table of those that cannot."""

from __future__ import annotations

import numpy as np
import pytest

import tilewright.dialects
from tilewright.dialects import cpu
from tilewright.dialects.numpy_types import numpy_dtype
from tilewright.interpreter import run_ir
from tilewright.interpreter.machine import EXECUTORS, Interpreter
from tilewright.interpreter.memory import Memory
from tilewright.interpreter.scaled_dots import unpack_fp4
from tilewright.ir.core import Op
from tilewright.ir.declare import OPS
from tilewright.ir.types import TensorType, Type, f32, i32
from tilewright.support.diagnostics import Unsupported

assert tilewright.dialects
assert cpu
assert run_ir  # their imports declare the ops and enter the executors

UNSUPPORTED = {
    "builtin.unrealized_conversion_cast": "nothing makes it",
    **dict.fromkeys(
        [
            *("nvws.warp_group", "ttg.warp_specialize", "ttg.warp_id"),
            *("ttng.async_copy_mbarrier_arrive", "ttng.async_shared_store"),
        ],
        "warps that do different things do not run one after the other",
    ),
    **dict.fromkeys(
        [
            *("ttng.clc_get_program_id", "ttng.clc_is_canceled", "ttng.clc_load_result", "ttng.clc_try_cancel"),
            *("ttng.clc_try_cancel_sync", "ttng.cluster_arrive", "ttng.cluster_wait"),
        ],
        "no pass makes it",
    ),
    "ttg.local_atomic_scatter_rmw": "no pass makes it",
    "ttg.inline_asm": "PTX of Gluon's programs for whole threads, which only GPUs run",
}
DIALECTS = {"arith", "math", "scf", "cf", "tt", "ttg", "ttng", "nvws", "cpu", "builtin"}
CONTAINERS = {"builtin.module", "tt.func"}


def test_every_op_has_semantics_or_an_executor() -> None:
    without = {
        name
        for name, definition in OPS.items()
        if definition.semantics is None and name not in EXECUTORS and not definition.terminator
    }
    without = {
        name
        for name in without
        if name.split(".")[0] in {"arith", "math", "scf", "cf", "tt", "cpu", "builtin", "nvws", "ttg", "ttng"}
    }
    assert without == CONTAINERS | UNSUPPORTED.keys()


def test_other_ops_are_refused_by_name() -> None:
    machine = Interpreter(Memory([]), program=(0, 0, 0), grid=(1, 1, 1), functions={})
    with pytest.raises(Unsupported, match=r"tt\.elementwise_inline_asm is not supported"):
        machine.execute(Op.create("tt.elementwise_inline_asm"), [])


@pytest.mark.parametrize("symbol", ["__nv_tanhf", "__tw_unheard_of"])
def test_functions_without_a_meaning_are_refused_by_name(symbol: str) -> None:
    """They ended in a KeyError."""
    machine = Interpreter(Memory([]), program=(0, 0, 0), grid=(1, 1, 1), functions={})
    op = Op.create("tt.extern_elementwise", (), (f32,), {"symbol": symbol})
    with pytest.raises(Unsupported, match=f"{symbol} is not supported: the pass adopt_libraries writes"):
        machine.execute(op, [np.float32(1)])


@pytest.mark.quick
@pytest.mark.parametrize("type", [i32, f32, TensorType((4,), i32), TensorType((2, 4), f32)], ids=str)
def test_poison_is_some_value_of_its_type(type: Type) -> None:
    machine = Interpreter(Memory([]), program=(0, 0, 0), grid=(1, 1, 1), functions={})
    (found,) = machine.execute(Op.create("ub.poison", (), (type,)), [])
    assert (found.dtype, found.shape) == (numpy_dtype(type), type.shape or ())


def test_two_numbers_of_four_bits_in_a_byte() -> None:
    packed = np.array([[0x21, 0x4F]], np.uint8).view(np.int8)
    np.testing.assert_array_equal(unpack_fp4(packed, 1), [[0.5, 1, -6, 2]])
    np.testing.assert_array_equal(unpack_fp4(packed, 0), [[0.5, -6], [1, 2]])
