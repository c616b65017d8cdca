"""`triton.tools.LinearLayout`: layouts as linear maps over bits, for programs that compute with them.

rows = LinearLayout.identity_1d(4, "register", "row")
both = rows * LinearLayout.strided_1d(8, 2, "lane", "column")
both.apply({"register": 3, "lane": 5})          # {"row": 3, "column": 10}
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tilewright.layouts import linear_layout as own
from tilewright.support.diagnostics import TilewrightError

Bases = Sequence[tuple[str, Sequence[Sequence[int]]]]


class LayoutValueError(TilewrightError, ValueError):
    """Numbers that make no layout, or layouts that do not go together."""


def _demand(holds: bool, message: str) -> None:
    if not holds:
        raise LayoutValueError(message)


def _power_of_two(size: int, what: str) -> None:
    _demand(size > 0 and size & (size - 1) == 0, f"{what} is a power of two, and {size} is none")


class LinearLayout:
    """A linear map from named inputs to named outputs; `LinearLayout()` has neither."""

    __slots__ = ("_layout",)

    def __init__(self, layout: own.LinearLayout | None = None) -> None:
        self._layout = layout or own.LinearLayout({}, ())

    @classmethod
    def identity_1d(cls, size: int, inDim: str, outDim: str) -> LinearLayout:  # noqa: N803 - Triton's names
        """The input is the output.

        Raises:
            ValueError: the size is no power of two.
        """
        return cls.strided_1d(size, 1, inDim, outDim)

    @classmethod
    def strided_1d(cls, size: int, stride: int, inDim: str, outDim: str) -> LinearLayout:  # noqa: N803 - Triton's names
        """The output is the input times a stride."""
        _power_of_two(size, "the size of an input")
        _power_of_two(stride, "a stride")
        bits = own.log2(size)
        return cls(own.from_bases({inDim: [(stride << bit,) for bit in range(bits)]}, [(outDim, size * stride)]))

    @classmethod
    def zeros_1d(cls, size: int, inDim: str, outDim: str, outDimSize: int = 1) -> LinearLayout:  # noqa: N803 - Triton's
        """The output is 0, whatever the input."""
        _power_of_two(size, "the size of an input")
        _power_of_two(outDimSize, "the size of an output")
        return cls(own.from_bases({inDim: [(0,)] * own.log2(size)}, [(outDim, outDimSize)]))

    @classmethod
    def from_bases(
        cls,
        bases: Bases,
        out_dim_names: Sequence[str],
        out_dim_sizes: Sequence[int] | None = None,
        require_surjective: bool = True,
    ) -> LinearLayout:
        """The layout with given steps.

        Args:
            bases: per input, what each of its bits adds to the outputs.
            out_dim_sizes: their sizes; without them as small as they can be.
            require_surjective: every value of the outputs is to be reached.

        Raises:
            ValueError: a step has the wrong length or is outside of the outputs, a size is no power of two, or some
                values are not reached.
        """
        rows = [row for _, steps in bases for row in steps]
        wrong = next((row for row in rows if len(row) != len(out_dim_names) or min(row, default=0) < 0), None)
        _demand(wrong is None, f"a step has a coordinate from 0 on per output, and {wrong} does not")
        largest = [max((row[axis] for row in rows), default=0) for axis in range(len(out_dim_names))]
        sizes = [1 << value.bit_length() for value in largest] if out_dim_sizes is None else list(out_dim_sizes)
        _demand(len(sizes) == len(out_dim_names), f"there are {len(out_dim_names)} outputs and {len(sizes)} sizes")
        for size, value in zip(sizes, largest, strict=True):
            _power_of_two(size, "the size of an output")
            _demand(value < size, f"a step of {value} leaves an output of size {size}")
        made = own.from_bases(dict(bases), zip(out_dim_names, sizes, strict=True))
        _demand(made.is_surjective or not require_surjective, "the layout does not reach every value of its outputs")
        return cls(made)

    @property
    def bases(self) -> list[tuple[str, list[list[int]]]]:
        """The contribution of each bit to the outputs, per input."""
        return [(name, [list(row) for row in rows]) for name, rows in self._layout.bases.items()]

    @property
    def out_dims(self) -> list[tuple[str, int]]:
        """Names and sizes of the outputs."""
        return list(self._layout.outs)

    @property
    def num_in_dims(self) -> int:
        return len(self._layout.ins)

    @property
    def num_out_dims(self) -> int:
        return len(self._layout.outs)

    def get_in_dim_names(self) -> list[str]:
        """Names of the inputs."""
        return list(self._layout.ins)

    def get_out_dim_names(self) -> list[str]:
        """Names of the outputs."""
        return list(self._layout.out_names)

    def get_matrix_view(self) -> list[list[int]]:
        """The matrix: a row per bit of the outputs and a column per bit of the inputs, lowest bits first."""
        steps = [row for rows in self._layout.bases.values() for row in rows]
        sizes = self._layout.shape
        return [
            [row[axis] >> bit & 1 for row in steps] for axis, size in enumerate(sizes) for bit in range(own.log2(size))
        ]

    def apply(self, inputs: Mapping[str, int]) -> dict[str, int]:
        """The outputs for a value of each input."""
        given, wanted = sorted(inputs), sorted(self._layout.ins)
        _demand(given == wanted, f"the inputs are {', '.join(wanted)}, and these are {', '.join(given)}")
        return dict(zip(self._layout.out_names, self._layout.apply(**inputs), strict=True))

    def is_surjective(self) -> bool:
        """Whether every value of the outputs is reached."""
        return self._layout.is_surjective

    def is_injective(self) -> bool:
        """Whether no two inputs give the same outputs."""
        return self._layout.is_injective

    def is_invertible(self) -> bool:
        """Whether it is both injective and surjective."""
        return self._layout.is_invertible

    def compose(self, outer: LinearLayout) -> LinearLayout:
        """The composition: first this layout, then `outer`."""
        fits = set(self._layout.out_names) == set(outer._layout.ins)
        _demand(fits, f"the outputs are {self._layout.out_names}, and the other's inputs {outer._layout.ins}")
        return LinearLayout(self._layout.compose(outer._layout))

    def invert(self) -> LinearLayout:
        """The inverse, from outputs to inputs."""
        _demand(self.is_invertible(), "a layout with copies or holes has no inverse")
        return LinearLayout(self._layout.invert())

    def pseudoinvert(self) -> LinearLayout:
        """The pseudo-inverse, from outputs to inputs: one place of each element."""
        _demand(self.is_surjective(), "a layout with holes has no pseudo-inverse")
        return LinearLayout(self._layout.pseudo_invert())

    def invert_and_compose(self, outer: LinearLayout) -> LinearLayout:
        """The layout that gives the places of this layout's elements in `outer`: outer(result(x)) = self(x)."""
        fits = sorted(self._layout.outs) == sorted(outer._layout.outs) and outer.is_surjective()
        _demand(fits, "the other layout reaches every value of the same outputs")
        return LinearLayout(self._layout.invert_and_compose(outer._layout))

    def __mul__(self, outer: LinearLayout) -> LinearLayout:
        if not isinstance(outer, LinearLayout):
            return NotImplemented
        return LinearLayout(self._layout * outer._layout)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, LinearLayout) and self._layout == other._layout

    def __hash__(self) -> int:
        return hash(self._layout)

    def __repr__(self) -> str:
        return f"\n{self._layout.text}"
