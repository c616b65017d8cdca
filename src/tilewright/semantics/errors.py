"""All errors of a program in types, shapes and memory accesses; their titles name the error."""

from __future__ import annotations

from typing import Any

from tilewright.support.diagnostics import Diagnostic, Limit


class EmptyShape(Diagnostic):
    title = "a tile has no shape"
    label = "the shape () is not a tile's"
    help = "use a scalar, or a shape with at least one extent"


class ExtentNotPowerOfTwo(Diagnostic):
    title = "tile extents must be powers of two"
    label = "extent {axis} of {shape} is {extent}"
    help = "take {package}.next_power_of_2({extent}) and mask the elements beyond {extent}"
    shape: tuple[int, ...]
    axis: int
    extent: int


class RangeNotPowerOfTwo(Diagnostic):
    title = "the length of a range must be a power of two"
    label = "{start} to {end} are {extent} numbers"
    help = "take {package}.next_power_of_2({extent}) numbers and mask those beyond {extent}"
    start: int
    end: int

    @property
    def extent(self) -> int:
        return self.end - self.start


class TileTooLarge(Diagnostic):
    title = "the tile is too large"
    label = "{shape} has {numel} elements, the limit is {limit}"
    help = "loop over smaller tiles"
    shape: tuple[int, ...]
    numel: int
    limit: int


class NotBroadcastable(Diagnostic):
    title = "shapes do not broadcast"
    label = "{left} and {right} differ in dimension {axis}"
    help = "reshape one side, or index it with [:, None] so that dimension {axis} is 1"
    left: tuple[int, ...]
    right: tuple[int, ...]
    axis: int


class CannotBroadcastTo(Diagnostic):
    title = "the tile does not broadcast to the shape"
    label = "{source} does not fit {target}"
    help = "only extents of 1 stretch, and the ranks must be equal: add axes with [:, None] or tl.expand_dims"
    source: tuple[int, ...]
    target: tuple[int, ...]


class NoCommonType(Diagnostic):
    title = "the operands have no common type"
    label = "{left} and {right} do not mix"
    help = "convert one side with .to(...), for example .to(tl.float32)"
    left: Any
    right: Any


class MixedSigns(Diagnostic):
    title = "division and remainder need operands of the same sign"
    label = "{left} and {right}"
    help = "convert one side with .to(...): the result would depend on which"
    left: Any
    right: Any


class NegativeMeetsUnsigned(Diagnostic):
    title = "a negative number meets an unsigned tile"
    label = "{number} is not a {dtype}"
    help = "convert the tile to a signed type first, for example .to(tl.int32)"
    number: float
    dtype: Any


class NumberOutOfRange(Diagnostic):
    title = "the number does not fit the type"
    label = "{number} is out of range for {dtype}"
    help = "convert the other operand to a wider type first, for example .to(tl.int64)"
    number: float
    dtype: Any


class WrongOperandType(Diagnostic):
    title = "`{operation}` is not defined for {type}"
    label = "expected {expected}"
    help = "convert the operand with .to(...)"
    operation: str
    type: Any
    expected: str


class NoWayBetween(Diagnostic):
    """A conversion between an integer and an 8-bit float, which Triton does not have."""

    title = "{source} is not converted to {target}"
    label = "there is no conversion between integers and 8-bit floats"
    help = "take two steps: to tl.float32, then to {target}; a literal is written 1.0"
    source: Any
    target: Any


class NumberAsTruth(Diagnostic):
    """`and`, `or` or `not` of run-time numbers."""

    title = "`{operation}` needs booleans"
    label = "this is {type}"
    help = "compare it with 0 first: `x != 0`; `&`, `|` and `~` work on the bits of integers"
    operation: str
    type: Any


class NotATile(Diagnostic):
    title = "a tile or a number is needed here"
    label = "this is {what}"
    help = "only tiles, numbers and constexpr values take part in operations of the kernel"
    what: str


class ForeignNumber(Diagnostic):
    """A number of NumPy or of another library among the constants of a kernel; Triton refuses it, too."""

    title = "a number of Python is needed here"
    label = "this is of type {type}"
    help = "write {python}(…) around what the kernel is given"
    type: str
    python: str


class PointerMeetsPointer(Diagnostic):
    title = "pointers cannot be added to each other"
    label = "{left} and {right}"
    help = "add an integer offset (in elements) to a pointer"
    left: Any
    right: Any


class NoSingleTruth(Diagnostic):
    title = "a tile has no single truth value"
    label = "{type}{origin} is only known when the kernel runs"
    help = "use tl.where, tl.cond, tl.fori_loop or tl.while_loop; & and | instead of `and` and `or`"
    type: Any
    origin: str = ""


class CarryChanges(Diagnostic):
    title = "the value that the loop passes on changes its type"
    label = "it is {before} before the loop and {after} after one iteration"
    help = "give it its final type before the loop, or convert it back with .to(…) inside"
    before: str
    after: str


class SidesDiffer(Diagnostic):
    title = "the functions of tl.cond return different types"
    label = "{then} if the condition holds, {orelse} otherwise"
    help = "convert one result with .to(…), or make the condition a tl.constexpr"
    then: str
    orelse: str


class NotInteger(Diagnostic):
    title = "the bounds of a loop must be integers"
    label = "they are {lower} and {upper}"
    help = "convert them with .to(tl.int32)"
    lower: str
    upper: str


class MustBeConstant(Diagnostic):
    title = "`{name}` must be known at compile time"
    label = "{found} is not a constant"
    help = "annotate the kernel parameter with tl.constexpr"
    name: str
    found: str


class MustBeWhole(Diagnostic):
    title = "`{name}` must be a whole number"
    label = "{found} is {kind}"
    help = "write int(…) around what the kernel is given, and // for quotients"
    name: str
    found: str
    kind: str


class WrongLayout(Diagnostic):
    """A layout of Gluon that does not fit; the sentences are Triton's."""

    title = "the layouts do not fit"
    label = "{problem}"
    help = "gl.convert_layout(x, layout) moves a tile to another layout; `tilewright layout` draws them"
    problem: str


class LayoutsDiffer(Diagnostic):
    """Two tiles of one operation with different layouts; the sentence is Triton's."""

    title = "the layouts do not fit"
    label = "Layout mismatch in broadcast: {left} vs {right}"
    help = (
        "gl.convert_layout(x, layout) moves a tile to another layout; this draws both of them:\n"
        "  tilewright layout '{first}' --shape {shape} --to '{second}'"
    )
    left: str
    right: str
    first: str
    second: str
    shape: str


class LayoutsInConflict(Diagnostic):
    title = "the uses of a tile want different layouts"
    label = "found conflicting encodings for value: {left} and {right}"
    help = "gl.convert_layout(x, layout) moves a tile to another layout; `tilewright layout` draws them"
    left: str
    right: str


class LayoutUnknown(Diagnostic):
    title = "nothing says what layout a tile has"
    label = "a tile of {element} keeps {layout}"
    help = "{advice}"
    element: str
    layout: str
    advice: str


class BadBuffer(Diagnostic):
    """A buffer that cannot be used like this; the sentences are Triton's."""

    title = "the buffer cannot be used like this"
    label = "{problem}"
    problem: str


class BadArgument(Diagnostic):
    title = "`{function}` does not accept {name} = {value}"
    label = "expected {expected}"
    function: str
    name: str
    value: Any
    expected: str


class SameAxisTwice(Diagnostic):
    title = "an axis cannot be inserted twice at one position"
    label = "the positions are {positions}"
    positions: list[int]


class NoSuchProgramAxis(Diagnostic):
    title = "a grid has no axis {axis}"
    label = "expected 0, 1 or 2"
    axis: int


class BlockTooNarrow(Diagnostic):
    title = "rows of a descriptor's block must have at least {least} bytes"
    label = "{extent} elements of {dtype} have {size}"
    help = "make the last extent of the block larger"
    least: int
    extent: int
    dtype: Any
    size: int


class AxisOutOfRange(Diagnostic):
    title = "the tile has no axis {axis}"
    label = "its rank is {rank}"
    help = "axes run from 0 to rank - 1; negative ones count from the last"
    axis: int
    rank: int


class NumelDiffers(Diagnostic):
    title = "a reshape keeps the number of elements"
    label = "{source} does not become {target}"
    help = "the products of the extents must be equal"
    source: tuple[int, ...]
    target: tuple[int, ...]


class BadPermutation(Diagnostic):
    title = "the axes are not a permutation"
    label = "{order} does not name each of {rank} axes once"
    order: tuple[int, ...]
    rank: int


class ShapesDiffer(Diagnostic):
    title = "`{operation}` needs operands that agree"
    label = "{left} and {right} do not"
    operation: str
    left: Any
    right: Any


class BadIndex(Diagnostic):
    title = "tiles are indexed only with `:` and `None`"
    label = "{index} is neither"
    help = "move the pointer instead, or select elements with tl.gather, tl.where or a reduction"
    index: str


class NotAPointer(Diagnostic):
    title = "`{operation}` needs a pointer"
    label = "this is {type}"
    help = "pass the tensor itself to the kernel; its argument is a pointer to the first element"
    operation: str
    type: Any


class OtherNeedsMask(Diagnostic):
    title = "`other` has no meaning without `mask`"
    label = "every element is loaded"
    help = "pass mask=..., or leave other out"


class MaskNotBoolean(Diagnostic):
    title = "a mask must be boolean"
    label = "this one holds {type}"
    help = "compare it with something, or convert it with .to(tl.int1)"
    type: Any


class TileThroughScalarPointer(Diagnostic):
    title = "one pointer cannot move a whole tile"
    label = "`{name}` is a tile, the pointer is a scalar"
    help = "add offsets to the pointer: ptr + tl.arange(0, N)"
    name: str


class StoreToConst(Diagnostic):
    title = "cannot store through a const pointer"
    label = "{type} promises that the memory is not written"
    help = "drop tl.const from the parameter's annotation"
    type: Any


class OnlyForBlockPointers(Diagnostic):
    title = "`{name}` works only with block pointers"
    label = "this is {type}"
    help = "use mask= and other=, or make the pointer with tl.make_block_ptr"
    name: str
    type: Any


class NotForBlockPointers(Diagnostic):
    title = "`{name}` does not work with block pointers"
    label = "this is {type}"
    help = "use boundary_check= and padding_option="
    name: str
    type: Any


class AtomicNotSupported(Diagnostic):
    title = "`atomic_{operation}` does not exist for {type}"
    label = "expected {expected}"
    help = "use a wider element type"
    operation: str
    type: Any
    expected: str


class DotShapesDiffer(Diagnostic):
    title = "the operands of `dot` do not fit"
    label = "{left} times {right}"
    help = "the last extent of the left one must be the last but one of the right one"
    left: tuple[int, ...]
    right: tuple[int, ...]


class ScaleFactorsDiffer(Diagnostic):
    title = "the scales of both sides must stand for as many elements"
    label = "each scale of the left side stands for {left}, of the right side for {right}"
    help = "give both sides one scale per 16 or per 32 elements along K"
    left: int
    right: int


class DotTooShallow(Diagnostic):
    """A product of fewer elements than a GPU multiplies at a time."""

    title = "Input shapes should have M >= 1, N >= 1 and K >= {least}"
    label = "K is {depth}"
    help = "load zeros beyond K, or add products up: tl.sum(a[:, :, None] * b[None, :, :], 1)"
    least: int
    depth: int


class TooManyImpreciseSums(Diagnostic):
    title = "max_num_imprecise_acc ({given}) must be <= K ({depth})"
    help = "take at most {depth}, or leave it to the target"
    given: int
    depth: int


class CombineChangesType(Diagnostic):
    title = "the combine function must return what it was given"
    label = "it returns {found} for {expected}"
    help = "convert the results with .to(...)"
    found: Any
    expected: Any


class NotOnThisTarget(Limit):
    title = "`{feature}` is not supported"
    label = "{reason}"
    help = "{instead}"
    feature: str
    reason: str
    instead: str
