"""Walking over the IR as programs for Triton do."""

from __future__ import annotations

import inspect

import pytest

import tilewright as tw
import tilewright.language as tl
from tilewright.backends.cpu.options import parse_options
from tilewright.compat.bindings import ASTSource, BlockView, CublasLt, ModuleView, OpView, context, load_dialects
from tilewright.ir.core import Block


@tw.jit
def helper(x):
    return x + 1


@tw.jit
def kernel(x, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    if tl.load(x) > 0:
        tl.store(x + i, helper(i)[None, :].reshape(BLOCK))


@pytest.fixture
def module() -> ModuleView:
    load_dialects(context())
    source = ASTSource(kernel, {"x": "*i32", "BLOCK": "constexpr"}, {"BLOCK": 16})
    return source.make_ir(None, parse_options({}), {}, {}, context())


def ops(module: ModuleView, name: str) -> list[OpView]:
    found: list[OpView] = []
    module.walk(lambda op: found.append(op) if op.get_name() == name else None)
    return found


def test_every_op_is_visited_inner_ones_first(module: ModuleView) -> None:
    names: list[str] = []

    module.walk(lambda op: names.append(op.get_name()))

    assert names[-1] == "builtin.module"
    assert names.index("tt.store") < names.index("tt.func")
    assert names.count("tt.func") == str(module).count("tt.func") == 2


def test_attributes(module: ModuleView) -> None:
    [arange] = ops(module, "tt.make_range")
    [call] = ops(module, "tt.call")

    assert (arange.get_int_attr("start"), arange.get_int_attr("end"), arange.get_int_attr("other")) == (0, 16, None)
    assert [f.get_str_attr("sym_name") for f in ops(module, "tt.func")] == [
        "kernel",
        call.get_flat_symbol_ref_attr("callee"),
    ]
    assert call.get_str_attr("callee") is None  # a symbol
    assert [f.get_bool_attr("noinline") for f in ops(module, "tt.func")] == [False, False]
    assert {c.get_constant_value() for c in ops(module, "arith.constant")} == {0, 1}
    assert arange.get_constant_value() is None


def test_values_blocks_and_regions(module: ModuleView) -> None:
    [arange] = ops(module, "tt.make_range")
    [call] = ops(module, "tt.call")
    function = ops(module, "tt.func")[0]
    [whole] = ops(module, "builtin.module")

    assert (call.get_num_operands(), call.get_num_results()) == (1, 1)
    assert call.get_operand(0).id() == arange.get_result(0).id() != call.get_result(0).id()
    assert (arange.get_result(0).get_shape(), arange.get_result(0).get_type()) == ([16], "tensor<16xi32>")
    block = arange.get_block()
    assert block is not None
    assert (block.get_num_arguments(), block.get_argument(0).get_shape()) == (1, None)
    assert block.id() != call.id() != arange.id()
    assert function.get_num_regions() == 1
    assert function.get_region(0).id() != whole.get_region(0).id()
    assert whole.get_block() is None


def test_ir_is_made_with_the_parameters_of_triton(module: ModuleView) -> None:
    source = ASTSource(kernel, {"x": "*i32", "BLOCK": "constexpr"}, {"BLOCK": 16})
    names = ["target", "options", "codegen_fns", "module_map", "context"]
    assert list(inspect.signature(source.make_ir).parameters) == names
    given = {"target": None, "options": parse_options({}), "codegen_fns": {}, "module_map": {}, "context": context()}
    assert str(source.make_ir(**given)) == str(module)


def test_a_module_is_verified(module: ModuleView) -> None:
    assert module.verify()
    [arange] = ops(module, "tt.make_range")
    del arange.op.attributes["end"]
    assert not module.verify()


def test_blocks_know_their_region(module: ModuleView) -> None:
    function, helping = ops(module, "tt.func")
    [arange] = ops(module, "tt.make_range")
    inside = arange.get_block()
    assert inside is not None
    parent = inside.get_parent()
    assert parent is not None
    assert parent.id() == function.get_region(0).id() != helping.get_region(0).id()
    assert BlockView(Block()).get_parent() is None


@pytest.mark.needs_torch
def test_products_by_nvidias_library_take_the_second_factor_transposed() -> None:
    """On this CPU it is torch's own product; programs for Triton compare kernels with it."""
    import torch

    a, b, c = torch.randn(5, 3), torch.randn(4, 3), torch.randn(5, 4)
    library, out, sums = CublasLt(torch.empty(1 << 10)), torch.empty(5, 4), torch.empty(5, 4)
    library.matmul(a, b, out)
    torch.testing.assert_close(out, a @ b.T)
    library.gemm(a, b, c, sums, 2.0, 0.5)
    torch.testing.assert_close(sums, 2 * (a @ b.T) + 0.5 * c)
