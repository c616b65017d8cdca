"""The IR with the interface of Triton's bindings: `module.walk(function)` and queries of each op.

    module = ASTSource(kernel, signature).make_ir(target, options, {}, {}, context)
    module.walk(lambda op: print(op.get_name(), op.get_num_operands()))

Views of ops, values and blocks are made on demand; `id()` tells whether two views show the same object.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from tilewright.analysis.live_ranges import inner_first
from tilewright.compat.torch_bridge import torch
from tilewright.ir.attributes import Dense, Number, Symbol
from tilewright.ir.core import Block, Op, Region, Value, integer_in
from tilewright.ir.errors import VerificationError
from tilewright.ir.printer import print_op
from tilewright.ir.types import TensorType
from tilewright.ir.verifier import verify
from tilewright.runtime import sources


class ASTSource(sources.ASTSource):
    """A kernel for a signature, whose IR can be walked over."""

    def make_ir(
        self, target: Any, options: Any, codegen_fns: Any = None, module_map: Any = None, context: Any = None
    ) -> ModuleView:
        """The module of `sources.ASTSource`; programs count the parameters to find the version of Triton."""
        return ModuleView(super().make_ir(target, options))


class context:  # noqa: N801 - Triton's name
    """MLIR's context, which keeps its types; here there is nothing to keep."""


def load_dialects(into: context) -> None:
    """Does nothing: dialects declare themselves."""


class ModuleView(NamedTuple):
    """A module."""

    op: Op

    def walk(self, visit: Callable[[OpView], Any]) -> None:
        """Call `visit` with every op, inner ones first."""
        for op in list(inner_first(self.op)):
            visit(OpView(op))

    def verify(self) -> bool:
        """Whether it follows the rules of the IR."""
        try:
            verify(self.op)
        except VerificationError:
            return False
        return True

    def str_nodebug(self) -> str:
        """The text without locations and names of variables."""
        return print_op(self.op, names=False)

    def __str__(self) -> str:
        return print_op(self.op)


class OpView(NamedTuple):
    """An op."""

    op: Op

    def id(self) -> int:
        """A number that identifies this op."""
        return id(self.op)

    def get_name(self) -> str:
        """Its name, such as `tt.load`."""
        return self.op.name

    def get_num_operands(self) -> int:
        return len(self.op.operands)

    def get_operand(self, index: int) -> ValueView:
        return ValueView(self.op.operands[index])

    def get_num_results(self) -> int:
        return len(self.op.results)

    def get_result(self, index: int) -> ValueView:
        return ValueView(self.op.results[index])

    def get_num_regions(self) -> int:
        return len(self.op.regions)

    def get_region(self, index: int) -> RegionView:
        return RegionView(self.op.regions[index])

    def get_block(self) -> BlockView | None:
        """The block that it stands in; None for a module."""
        return None if self.op.block is None else BlockView(self.op.block)

    def get_str_attr(self, name: str) -> str | None:
        """A text attribute, or None."""
        found = self.op.attributes.get(name)
        return found if isinstance(found, str) else None

    def get_int_attr(self, name: str) -> int | None:
        """A whole number among the attributes, or None."""
        return integer_in(self.op, name)

    def get_bool_attr(self, name: str) -> bool | None:
        """A truth value among the attributes, or None."""
        found = self.op.attributes.get(name)
        return bool(found.value) if isinstance(found, Number) else found if isinstance(found, bool) else None

    def get_flat_symbol_ref_attr(self, name: str) -> str | None:
        """The name of a function among the attributes, or None."""
        found = self.op.attributes.get(name)
        return found.name if isinstance(found, Symbol) else None

    def get_constant_value(self) -> Any:
        """The number of a constant; that of all elements where it is a tile; None for other ops."""
        found = self.op.attributes.get("value")
        if isinstance(found, Number):
            return found.value
        return found.values[0] if isinstance(found, Dense) else None


class ValueView(NamedTuple):
    """An SSA value."""

    value: Value

    def id(self) -> int:
        """A number that identifies this value."""
        return id(self.value)

    def get_shape(self) -> list[int] | None:
        """The shape of a tile; None for scalars."""
        kind = self.value.type
        return list(kind.shape) if isinstance(kind, TensorType) else None

    def get_type(self) -> str:
        return str(self.value.type)


class RegionView(NamedTuple):
    """A region."""

    region: Region

    def id(self) -> int:
        """A number that identifies this region."""
        return id(self.region)


class BlockView(NamedTuple):
    """A block."""

    block: Block

    def id(self) -> int:
        """A number that identifies this block."""
        return id(self.block)

    def get_parent(self) -> RegionView | None:
        """The region that it stands in."""
        return None if self.block.region is None else RegionView(self.block.region)

    def get_num_arguments(self) -> int:
        return len(self.block.args)

    def get_argument(self, index: int) -> ValueView:
        return ValueView(self.block.args[index])


class CublasLt:
    """NVIDIA's library of products, as torch calls it: programs for Triton compare their kernels with it."""

    def __init__(self, workspace: Any = None) -> None:
        """Make a handle; torch has a workspace of its own."""

    def matmul(self, a: Any, b: Any, c: Any) -> None:
        """Put `a @ b.T` into `c`.

        Args:
            a: torch's tensor of M × K elements.
            b: one of N × K.
            c: one of M × N; its elements are of the type of the others.
        """
        library = torch()
        if a.element_size() == 1:
            one = library.ones((), device=a.device)
            c.copy_(library._scaled_mm(a, b.T, scale_a=one, scale_b=one, out_dtype=c.dtype))
        else:
            library.matmul(a, b.T, out=c)

    def gemm(self, a: Any, b: Any, c: Any, d: Any, alpha: float, beta: float) -> None:
        """Put `alpha * a @ b.T + beta * c` into `d`; arguments as for `matmul`."""
        torch().addmm(c, a, b.T, beta=beta, alpha=alpha, out=d)
