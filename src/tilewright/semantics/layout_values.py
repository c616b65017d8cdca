"""Layouts as values of Gluon, with Triton's names and fields: `BlockedLayout([1, 4], [8, 4], [4, 1], [1, 0])`.

Each represents an attribute of TTGIR (`value.encoding`, see `layouts`); `layout_of(encoding, shape)` is the inverse.
Two equal ones are equal in every field, as Python's dataclasses are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, TypeAlias, dataclass_transform

from tilewright.layouts.encodings import (
    Auto,
    Blocked,
    Coalesced,
    DotOperand,
    Encoding,
    GenericLinear,
    Linear,
    NvidiaMma,
    Slice,
)
from tilewright.layouts.inference import linear_of_bases
from tilewright.layouts.views import hardware_view, tensor_view
from tilewright.semantics.constexpr import constexpr_type, unwrap
from tilewright.support.cached_property import cached_property
from tilewright.support.named_tuple import fields_of


class Row(list[Any]):
    """A list that equals a tuple of the same items: in kernels `[1, 0]` is one."""

    def __eq__(self, other: object) -> bool:
        return list.__eq__(self, list(other)) if isinstance(other, (list, tuple)) else NotImplemented

    def __ne__(self, other: object) -> bool:
        found = self.__eq__(other)
        return found if found is NotImplemented else not found

    __hash__ = None


def plain(value: Any) -> Any:
    """`value` without marks of constants; tuples as lists."""
    value = unwrap(value)
    return Row(plain(item) for item in value) if isinstance(value, (list, tuple)) else value


def fixed(value: Any) -> Any:
    """`value` with tuples for its lists, which can be a key."""
    return tuple(fixed(item) for item in value) if isinstance(value, (list, tuple)) else value


Numbers: TypeAlias = "Sequence[int]"
Rows: TypeAlias = "Sequence[Sequence[int]]"


@dataclass_transform(frozen_default=True, eq_default=True)
class Layout:
    """Base of layouts as values. Subclasses name their fields as dataclasses do; lists in them are lists of numbers.

    They are no real dataclasses, as those are slow to import.
    """

    _fields: ClassVar[tuple[str, ...]] = ()

    def __init_subclass__(cls) -> None:
        cls._fields = fields_of(cls)
        for name in cls._fields:
            if type(vars(cls).get(name)) is tuple:
                setattr(cls, name, plain(vars(cls)[name]))

    def __init__(self, *args: Any, **fields: Any) -> None:
        kind = type(self)
        if len(args) > len(self._fields):
            raise TypeError(f"{kind.__name__}() takes {len(self._fields)} arguments, not {len(args)}")
        given = dict(zip(self._fields, args, strict=False))
        for name, value in fields.items():
            if name in given or name not in self._fields:
                problem = "multiple values for argument" if name in given else "an unexpected keyword argument"
                raise TypeError(f"{kind.__name__}() got {problem} '{name}'")
            given[name] = value
        for name in self._fields:
            if name not in given and not hasattr(kind, name):
                raise TypeError(f"{kind.__name__}() is missing the argument '{name}'")
            vars(self)[name] = plain(given[name] if name in given else getattr(kind, name))
        self.check()

    def check(self) -> None:
        """Assert what holds for the fields of this kind."""

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"cannot assign to field {name!r}")

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}={getattr(self, name)!r}" for name in self._fields)
        return f"{type(self).__name__}({shown})"

    def __eq__(self, other: object) -> bool:
        if type(self) is not type(other):
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in self._fields)

    def __hash__(self) -> int:
        return hash((type(self), tuple(fixed(getattr(self, name)) for name in self._fields)))

    def __getstate__(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self._fields}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)

    @property
    def type(self) -> constexpr_type:
        """The value, as a type."""
        return constexpr_type(self)

    @property
    def encoding(self) -> Any:
        """The attribute of TTGIR.

        Raises:
            LayoutError: the fields break a rule of this kind.
        """
        return self._encoding

    @cached_property
    def _encoding(self) -> Encoding:
        return self.encode()

    def encode(self) -> Encoding:
        """The value of `encoding`."""
        raise NotImplementedError

    def mangle(self) -> str:
        """The part of a mangled function name for this layout."""
        raise NotImplementedError


def steps_of_ctas(layout: Layout) -> Rows:
    """One step per bit of the CTA's number in its cluster; none if it is left to the compiler."""
    rows: Rows = getattr(layout, "cga_layout", None) or getattr(layout, "block_bases", [])
    return rows


def joined(values: Any) -> str:
    """Numbers as a piece of a name: `1_32`."""
    return "_".join(map(str, values or ()))


def rows_text(rows: Any) -> str:
    """Rows of numbers as a piece of a name: `1~0_0~1`."""
    return "_".join("~".join(map(str, row)) for row in rows or ())


class ViewedLayout(Layout):
    """Base of layouts that can be drawn for a shape; `no_view` says why a kind cannot."""

    no_view: ClassVar[str] = ""

    def format_tensor_view(self, shape: Any) -> str:
        """A table over the elements of a tile of `shape`: the holder of each, or the element at each place of memory.

        Raises:
            ValueError: layouts of this kind cannot be drawn.
            LayoutError: tiles of this shape cannot have this layout.
        """
        return tensor_view(self._drawn(), plain(shape))

    def format_hardware_view(self, shape: Any) -> str:
        """The elements that each place holds, register by register; errors as for `format_tensor_view`."""
        return hardware_view(self._drawn(), plain(shape))

    def _drawn(self) -> Encoding:
        if self.no_view:
            raise ValueError(f"{type(self).__name__} cannot be visualized{self.no_view}")
        return self._encoding


class DistributedLayout(ViewedLayout):
    """Base of layouts in registers: which thread holds which element."""

    @property
    def rank(self) -> int:
        """The number of axes of the tiles that can have it."""
        raise NotImplementedError("DistributedLayout subclasses must define rank")


class AutoLayout(DistributedLayout):
    """The layout that the compiler finds: that of what the tile is used with."""

    no_view: ClassVar[str] = ": no layout is known yet"

    @property
    def rank(self) -> int:
        raise ValueError("AutoLayout has no rank")

    def encode(self) -> Encoding:
        return Auto()

    def mangle(self) -> str:
        return "AL"


class CoalescedLayout(DistributedLayout):
    """The layout that suits a load or store of global memory best."""

    no_view: ClassVar[str] = ": no layout is known yet"

    @property
    def rank(self) -> int:
        raise ValueError("CoalescedLayout has no rank")

    def encode(self) -> Encoding:
        return Coalesced()

    def mangle(self) -> str:
        return "CL"


class BlockedLayout(DistributedLayout):
    """Each thread holds a block, each warp a grid of those, each CTA a grid of those; repeated to fill the tile.

    Attributes:
        size_per_thread, threads_per_warp, warps_per_cta: per axis, elements, threads and warps.
        order: the axes, fastest first.
        cga_layout: one step per bit of the CTA's number in its cluster, or [].

    Example:
        >>> BlockedLayout([1, 4], [8, 4], [4, 1], [1, 0]).rank
        2
    """

    size_per_thread: Numbers
    threads_per_warp: Numbers
    warps_per_cta: Numbers
    order: Numbers
    cga_layout: Rows = ()

    def check(self) -> None:
        for name in ("threads_per_warp", "warps_per_cta", "order"):
            assert len(getattr(self, name)) == len(self.size_per_thread), f"{name} has another rank than the others"

    @property
    def rank(self) -> int:
        return len(self.order)

    def encode(self) -> Encoding:
        size, threads, warps = map(tuple, (self.size_per_thread, self.threads_per_warp, self.warps_per_cta))
        return Blocked(size, threads, warps, tuple(self.order), fixed(self.cga_layout))

    def mangle(self) -> str:
        sizes = self.size_per_thread, self.threads_per_warp, self.warps_per_cta, self.order
        return f"B{'_'.join(map(joined, sizes))}_{rows_text(self.cga_layout)}B"


class SliceLayout(DistributedLayout):
    """The layout of a tile with layout `parent` after axis `dim` is removed."""

    dim: int
    parent: DistributedLayout

    @property
    def rank(self) -> int:
        return self.parent.rank - 1

    @property
    def cga_layout(self) -> Rows:
        """The steps of the parent without those along `dim`."""
        rows = steps_of_ctas(self.parent)
        return [[*row[: self.dim], *row[self.dim + 1 :]] for row in rows]

    def encode(self) -> Encoding:
        return Slice(self.dim, self.parent.encoding)

    def mangle(self) -> str:
        return f"SL{self.dim}_{self.parent.mangle()}SL"


class DistributedLinearLayout(DistributedLayout):
    """Any linear layout of tiles of `shape`: the step of each bit of register, lane, warp and CTA.

    Attributes:
        reg_bases, lane_bases, warp_bases, block_bases: one row per bit, with one number per axis.
        shape: of the tiles.
    """

    reg_bases: Rows
    lane_bases: Rows
    warp_bases: Rows
    block_bases: Rows
    shape: Numbers

    def check(self) -> None:
        for row in (*self.reg_bases, *self.lane_bases, *self.warp_bases, *self.block_bases):
            assert len(row) == len(self.shape), f"{row} has another rank than the shape {self.shape}"

    @property
    def rank(self) -> int:
        return len(self.shape)

    def encode(self) -> Encoding:
        bases = self.reg_bases, self.lane_bases, self.warp_bases, self.block_bases
        return linear_of_bases(*map(fixed, bases))

    def mangle(self) -> str:
        fields = self.reg_bases, self.lane_bases, self.warp_bases, self.block_bases, self.shape
        return f"DLL{'_'.join(map(str, fields))}DLL"


class DotOperandLayout(DistributedLayout):
    """The layout of an operand of a product whose result has layout `parent`.

    Attributes:
        operand_index: 0 for the left one, 1 for the right one.
        k_width: neighbours along K in a register of 32 bits.
    """

    operand_index: int
    parent: DistributedLayout
    k_width: int

    @property
    def rank(self) -> int:
        return self.parent.rank

    @property
    def cga_layout(self) -> Rows:
        """The steps of the parent, but for those along K."""
        k = self.rank - 1 if self.operand_index == 0 else self.rank - 2
        rows = steps_of_ctas(self.parent)
        return [[0 if axis == k else step for axis, step in enumerate(row)] for row in rows]

    def encode(self) -> Encoding:
        return DotOperand(self.operand_index, self.parent.encoding, self.k_width)

    def mangle(self) -> str:
        return f"DO{self.operand_index}_{self.parent.mangle()}_{self.k_width}DO"


class NVMMADistributedLayout(DistributedLayout):
    """The layout of what NVIDIA's matrix instructions give.

    Attributes:
        version: [2, 0] for `mma.sync`, [3, 0] for `wgmma`.
        warps_per_cta: per axis.
        instr_shape: rows, columns and, with version 3, depth of one instruction.
        cga_layout: one step per bit of the CTA's number in its cluster, or [].
    """

    version: Numbers
    warps_per_cta: Numbers
    instr_shape: Numbers
    cga_layout: Rows = ()

    @property
    def rank(self) -> int:
        return len(self.warps_per_cta)

    def encode(self) -> Encoding:
        sizes = tuple(self.warps_per_cta), tuple(self.instr_shape)
        return NvidiaMma(self.version[0], self.version[1], *sizes, fixed(self.cga_layout))

    def mangle(self) -> str:
        sizes = f"{self.version}_{self.warps_per_cta}_{self.instr_shape}"
        return f"MMA_{sizes}_{rows_text(self.cga_layout)}_MMA"


def linear_layout(bases: Sequence[Rows], shape: Numbers) -> DistributedLinearLayout:
    """The layout with these rows of register, lane, warp and CTA."""
    register, lane, warp, block = bases
    return DistributedLinearLayout(register, lane, warp, block, shape)


_interned: dict[Encoding, DistributedLayout] = {}


def interned(layout: DistributedLayout) -> DistributedLayout:
    """The unique object for all layouts of the same meaning."""
    return _interned.setdefault(layout.encoding, layout)


def layout_of(encoding: Encoding, shape: tuple[int, ...]) -> DistributedLayout:
    """The value for the layout of a tile of `shape`."""
    found = _interned.get(encoding)
    return _interned.setdefault(encoding, _value(encoding, shape)) if found is None else found


def _slice(layout: Slice, shape: tuple[int, ...]) -> DistributedLayout:
    return SliceLayout(layout.dim, layout_of(layout.parent, (*shape[: layout.dim], 1, *shape[layout.dim :])))


def _blocked(layout: Blocked, _shape: tuple[int, ...]) -> DistributedLayout:
    sizes = layout.size_per_thread, layout.threads_per_warp, layout.warps_per_cta, layout.order
    return BlockedLayout(*sizes, layout.cga)


def _matrix(layout: NvidiaMma, _shape: tuple[int, ...]) -> DistributedLayout:
    version = layout.version_major, layout.version_minor
    return NVMMADistributedLayout(version, layout.warps_per_cta, layout.instr_shape, layout.cga)


def _operand(layout: DotOperand, shape: tuple[int, ...]) -> DistributedLayout:
    return DotOperandLayout(layout.op_index, layout_of(layout.parent, shape), layout.k_width)


def _linear(layout: Linear, shape: tuple[int, ...]) -> DistributedLayout:
    return linear_layout(layout.all_bases, shape)


_VALUES: dict[type[Encoding], Callable[[Any, tuple[int, ...]], DistributedLayout]] = {
    Auto: lambda layout, shape: AutoLayout(),
    Blocked: _blocked,
    Coalesced: lambda layout, shape: CoalescedLayout(),
    DotOperand: _operand,
    GenericLinear: _linear,
    Linear: _linear,
    NvidiaMma: _matrix,
    Slice: _slice,
}


def _value(encoding: Encoding, shape: tuple[int, ...]) -> DistributedLayout:
    make = _VALUES.get(type(encoding))
    if make is None:
        raise NotImplementedError(f"#{encoding.name} has no name in Gluon")
    return make(encoding, shape)
