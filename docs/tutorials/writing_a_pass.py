# %% [markdown]
# # A pass of your own
#
# The compiler is Python, and a pass is a function that changes a module of operations in place. This page writes one: a
# product with a power of two becomes a shift.

# %%
import tilewright.dialects  # noqa: F401 - the ops that text may have
from tilewright.ir.core import Op
from tilewright.ir.parser import parse_module
from tilewright.ir.pass_manager import Pass, run_passes
from tilewright.ir.printer import print_op
from tilewright.ir.rewriter import Rewriter
from tilewright.transforms.functions import rewrite_functions
from tilewright.transforms.matching import integer_of

TEXT = """
tt.func public @f(%x: tensor<8xi32>, %p: tensor<8x!tt.ptr<i32>>) {
  %c = arith.constant dense<16> : tensor<8xi32>
  %y = arith.muli %x, %c : tensor<8xi32>
  tt.store %p, %y : tensor<8x!tt.ptr<i32>>
  tt.return
}
"""

# %% [markdown]
# ## Read, look, print
#
# IR is text that can be read and written. An `Op` knows its name, its operands, its results and its attributes; a value knows
# the op that defines it and the ops that use it.

# %%
module = parse_module(TEXT)
for op in module.walk():
    print(op.name, [str(result.type) for result in op.results])

# %% [markdown]
# ## A rule
#
# A rule is a function of an op and the rewriter. It says in its docstring what becomes of what, and returns whether it did
# something. `integer_of` answers for scalars and for tiles of equal elements alike.


# %%
def product_with_power_of_two(op: Op, rewriter: Rewriter) -> bool:
    """x * 2^k → x << k"""
    x, factor = op.operands
    number = integer_of(factor)
    if number is None or number < 2 or number.bit_count() != 1:
        return False
    shift = rewriter.constant(number.bit_length() - 1, op.result.type)
    rewriter.replace(op, rewriter.create(op, "arith.shli", (x, shift), (op.result.type,)).results)
    return True


def shift_products(module: Op) -> bool:
    """Products with powers of two become shifts."""
    return rewrite_functions(module, {"arith.muli": (product_with_power_of_two,)})


run_passes(module, (Pass("shift_products", shift_products),))
print(print_op(module))

# %% [markdown]
# ## A case that must stay as it is
#
# A test of a rule has both: what changes, and what must not. Here the factor is 12.

# %%
other = parse_module(TEXT.replace("dense<16>", "dense<12>"))
before = print_op(other)
run_passes(other, (Pass("shift_products", shift_products),))
assert print_op(other) == before
assert "arith.shli" in print_op(module)

# %% [markdown]
# [Adding a pass](../add-a-pass.md) says where passes live, which facts they may ask for, and which tests a new one gets.
# [One kernel from Python to machine instructions](../follow-a-kernel.md) shows all the passes at work.
