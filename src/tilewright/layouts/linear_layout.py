"""Layouts as matrices over F2: each bit of an index is a step in the tile, and steps are added by XOR.

Two warps of 32 lanes with two registers each hold a tile of 4x32 like this:

    layout = from_bases(
        {"register": [(0, 1)], "lane": [(0, 2), (0, 4), (0, 8), (0, 16), (1, 0)], "warp": [(2, 0)]},
        [("dim0", 4), ("dim1", 32)],
    )
    layout.apply(register=1, lane=2, warp=1)      # (2, 5)
    layout.invert().apply(dim0=2, dim1=5)         # (1, 2, 1): register, lane and warp of that element

The bits of the inputs are the columns of the matrix. A column holds one coordinate per output, packed into one number,
the last output lowest. So the columns of a layout of a tile are row-major indices, and reshaping a tile only changes
the names and sizes of the outputs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

Columns: TypeAlias = tuple[int, ...]


def log2(size: int) -> int:
    """The exponent of a power of two."""
    assert size & (size - 1) == 0 < size, f"{size} is no power of two"
    return size.bit_length() - 1


class LinearLayout:
    """A linear map from named inputs to named outputs, all of whose sizes are powers of two. Not to be changed.

    Attributes:
        columns: per input, in order, the image of each of its bits, lowest first; packed.
        outs: names and sizes of the outputs, in order.
    """

    __slots__ = ("_hash", "_shifts", "columns", "outs")
    columns: dict[str, Columns]
    outs: tuple[tuple[str, int], ...]

    def __init__(self, columns: Mapping[str, Columns], outs: tuple[tuple[str, int], ...]) -> None:
        self.columns = dict(columns)
        self.outs = outs
        self._shifts: tuple[tuple[int, int], ...] | None = None
        self._hash = 0

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, LinearLayout):
            return NotImplemented
        return self.outs == other.outs and tuple(self.columns.items()) == tuple(other.columns.items())

    def __hash__(self) -> int:
        self._hash = self._hash or hash((self.outs, tuple(self.columns.items())))
        return self._hash

    # What it looks like

    @property
    def ins(self) -> tuple[str, ...]:
        """Names of the inputs."""
        return tuple(self.columns)

    @property
    def out_names(self) -> tuple[str, ...]:
        return tuple(name for name, _ in self.outs)

    @property
    def shape(self) -> tuple[int, ...]:
        """Sizes of the outputs."""
        return tuple(size for _, size in self.outs)

    @property
    def shifts(self) -> tuple[tuple[int, int], ...]:
        """The lowest bit of each output in a column, and the mask of its bits once they are shifted down."""
        if self._shifts is None:
            found, shift = [], 0
            for _, size in reversed(self.outs):
                found.append((shift, size - 1))
                shift += log2(size)
            self._shifts = tuple(reversed(found))
        return self._shifts

    @property
    def out_bits(self) -> int:
        """The number of bits of all outputs together."""
        return sum(log2(size) for _, size in self.outs)

    def in_size(self, name: str) -> int:
        """The number of values of the input; 1 for one that is not there."""
        return 1 << len(self.columns.get(name, ()))

    def out_size(self, name: str) -> int:
        """The number of values of the output."""
        return dict(self.outs)[name]

    def unpack(self, column: int) -> tuple[int, ...]:
        """The coordinates in a column, one per output."""
        return tuple(column >> shift & mask for shift, mask in self.shifts)

    def pack(self, coordinates: Sequence[int]) -> int:
        """The column with these coordinates."""
        return sum(value << shift for value, (shift, _) in zip(coordinates, self.shifts, strict=True))

    @property
    def bases(self) -> dict[str, tuple[tuple[int, ...], ...]]:
        """The step in the outputs that each bit makes, per input."""
        return {name: tuple(map(self.unpack, columns)) for name, columns in self.columns.items()}

    def __repr__(self) -> str:
        return self.text

    @property
    def text(self) -> str:
        """The text that Triton prints for a linear layout."""
        shown = f"[{', '.join(f'{name} (size {size})' for name, size in self.outs)}]"
        if not self.columns:
            return f"(empty layout with out-dims {shown})" if self.outs else "(empty layout)"
        lines = []
        for name, rows in self.bases.items():
            steps = [f"{name}={1 << bit} -> ({', '.join(map(str, row))})" for bit, row in enumerate(rows)]
            lines.append(" - " + ("\n   ".join(steps) or f"{name} is a size 1 dimension"))
        return "\n".join([*lines, f"where out dims are: {shown}"])

    # What it computes

    def image(self, index: Mapping[str, int]) -> int:
        """The packed outputs for an index; inputs that are left out are 0."""
        found = 0
        for name, value in index.items():
            for column in self.columns[name]:
                if value & 1:
                    found ^= column
                value >>= 1
        return found

    def apply(self, **index: int) -> tuple[int, ...]:
        """The outputs for an index; inputs that are left out are 0."""
        return self.unpack(self.image(index))

    @property
    def all_columns(self) -> Columns:
        """The columns of all inputs, one after the other."""
        return tuple(column for columns in self.columns.values() for column in columns)

    @property
    def rank(self) -> int:
        """The number of independent columns."""
        return len(Subspace(self.all_columns).pivots)

    @property
    def is_surjective(self) -> bool:
        """Every value of the outputs is reached."""
        return self.rank == self.out_bits

    @property
    def is_injective(self) -> bool:
        """Whether no two indices give the same outputs."""
        return self.rank == len(self.all_columns)

    @property
    def is_invertible(self) -> bool:
        return self.is_surjective and self.is_injective

    def free_masks(self) -> dict[str, int]:
        """The mask of bits that do not matter, per input: an index without them reaches the same outputs."""
        span, masks = Subspace(()), {}
        for name, columns in self.columns.items():
            masks[name] = sum(1 << bit for bit, column in enumerate(columns) if not span.add(column))
        return masks

    # Layouts from layouts

    def __mul__(self, outer: LinearLayout) -> LinearLayout:
        """The layout whose low bits are this one's and whose high bits are `outer`'s, per input and per output."""
        sizes = dict(self.outs)
        for name, size in outer.outs:
            sizes[name] = sizes.get(name, 1) * size
        found = LinearLayout({}, tuple(sizes.items()))
        factors = [dict(self.outs).get(name, 1) for name in sizes]
        columns = {name: [found.pack(self._named(row, sizes)) for row in rows] for name, rows in self.bases.items()}
        for name, rows in outer.bases.items():
            scaled = ([a * b for a, b in zip(outer._named(row, sizes), factors, strict=True)] for row in rows)
            columns.setdefault(name, []).extend(map(found.pack, scaled))
        return LinearLayout({name: tuple(rows) for name, rows in columns.items()}, found.outs)

    def _named(self, row: Sequence[int], names: Iterable[str]) -> tuple[int, ...]:
        """The coordinates of a step in outputs with these names; 0 where there is no such output."""
        values = dict(zip(self.out_names, row, strict=True))
        return tuple(values.get(name, 0) for name in names)

    def compose(self, outer: LinearLayout) -> LinearLayout:
        """The layout that is this one first, then `outer`, whose inputs are this one's outputs."""
        assert set(self.out_names) == set(outer.ins), f"{self.out_names} do not fit {outer.ins}"
        names = self.out_names
        return LinearLayout(
            {
                name: tuple(outer.image(dict(zip(names, row, strict=True))) for row in rows)
                for name, rows in self.bases.items()
            },
            outer.outs,
        )

    def invert_and_compose(self, outer: LinearLayout) -> LinearLayout:
        """The layout X -> Y with outer(result(x)) = self(x), for self: X -> T and outer: Y -> T.

        So it says where in `outer` the element lies that this layout has at x. Inputs that are alike in both become the
        identity; of several places in `outer` the one is taken that has no free bits.
        """
        outer = outer.transpose_outs(self.out_names)
        shared = [
            name
            for name, columns in outer.columns.items()
            if name in self.columns and self._unpacked_alike(name, outer, columns)
        ]
        outs = tuple((name, outer.in_size(name)) for name in outer.ins)
        result = LinearLayout({}, outs)
        found = dict.fromkeys(self.ins, ())  # type: dict[str, Columns]
        span, places = Subspace(()), dict(zip(outer.ins, (shift for shift, _ in result.shifts), strict=True))
        for name, columns in outer.columns.items():
            if name not in shared:
                for bit, column in enumerate(columns):
                    span.add(column, 1 << (places[name] + bit))
        same = self.outs == outer.outs
        for name, columns in self.columns.items():
            if name in shared:
                found[name] = tuple(1 << (places[name] + bit) for bit in range(len(columns)))
            else:
                wanted = columns if same else tuple(outer.pack(self.unpack(column)) for column in columns)
                found[name] = tuple(map(span.solve, wanted))
        return LinearLayout(found, outs)

    def _unpacked_alike(self, name: str, other: LinearLayout, columns: Columns) -> bool:
        if self.outs == other.outs:
            return self.columns[name] == columns
        return self.bases[name] == tuple(map(other.unpack, columns))

    def pseudo_invert(self) -> LinearLayout:
        """The map from outputs to inputs: one place of each element."""
        return identity(self.outs).invert_and_compose(self)

    def invert(self) -> LinearLayout:
        """The map from outputs to inputs; every element must have exactly one place."""
        assert self.is_invertible, "a layout with copies or holes has no inverse"
        return self.pseudo_invert()

    def sublayout(self, ins: Iterable[str], outs: Iterable[str]) -> LinearLayout:
        """The layout of these inputs and outputs alone."""
        kept, inputs = set(outs), set(ins)
        chosen = [index for index, (name, _) in enumerate(self.outs) if name in kept]
        found = LinearLayout({}, tuple(self.outs[index] for index in chosen))
        columns = {
            name: tuple(found.pack([row[index] for index in chosen]) for row in rows)
            for name, rows in self.bases.items()
            if name in inputs
        }
        return LinearLayout(columns, found.outs)

    def is_zero(self, ins: Iterable[str], outs: Iterable[str]) -> bool:
        """Whether these inputs do not change these outputs."""
        return not any(self.sublayout(ins, outs).all_columns)

    def transpose_outs(self, names: Sequence[str]) -> LinearLayout:
        """The outputs in another order."""
        if tuple(names) == self.out_names:
            return self
        assert sorted(names) == sorted(self.out_names), f"{names} are not {self.out_names}"
        order = [self.out_names.index(name) for name in names]
        found = LinearLayout({}, tuple(self.outs[index] for index in order))
        return LinearLayout(
            {name: tuple(found.pack([row[i] for i in order]) for row in rows) for name, rows in self.bases.items()},
            found.outs,
        )

    def reshape_ins(self, sizes: Iterable[tuple[str, int]]) -> LinearLayout:
        """The bits of all inputs, lowest first, dealt out to new inputs."""
        columns, found, start = self.all_columns, {}, 0
        for name, size in sizes:
            found[name] = columns[start : start + log2(size)]
            start += log2(size)
        assert start == len(columns), "the new inputs have as many values as the old ones"
        return LinearLayout(found, self.outs)

    def reshape_outs(self, outs: Iterable[tuple[str, int]]) -> LinearLayout:
        """The same row-major index, in outputs of other sizes."""
        found = LinearLayout(self.columns, tuple(outs))
        assert found.out_bits == self.out_bits, "the new outputs have as many values as the old ones"
        return found

    def with_columns(self, **columns: Columns) -> LinearLayout:
        """The layout with other columns for some inputs."""
        return LinearLayout({**self.columns, **columns}, self.outs)

    def without_zeros(self, name: str) -> LinearLayout:
        """The input without its bits that change nothing."""
        return self.with_columns(**{name: tuple(filter(None, self.columns[name]))})

    def is_trivial_over(self, names: Sequence[str]) -> bool:
        """Whether inputs and outputs of these names are passed on as they are, and nothing else mixes with them."""
        shifts = dict(zip(self.out_names, self.shifts, strict=True))
        kept = 0
        for name in names:
            shift, mask = shifts[name]
            kept |= mask << shift
            if self.columns[name] != tuple(1 << (shift + bit) for bit in range(log2(mask + 1))):
                return False
        return not any(column & kept for name in self.ins if name not in names for column in self.columns[name])

    def quotient(self, names: Sequence[str]) -> LinearLayout | None:
        """The rest, when the layout is trivial over `names`; None when it is not."""
        if not self.is_trivial_over(names):
            return None
        return self.sublayout(
            [name for name in self.ins if name not in names], [name for name in self.out_names if name not in names]
        )

    def divide_left(self, inner: LinearLayout) -> LinearLayout | None:
        """The layout with inner * result = self; None if there is none."""
        factors = [dict(inner.outs).get(name, 1) for name in self.out_names]
        sizes = {name: size // factor for (name, size), factor in zip(self.outs, factors, strict=True)}
        if not all(sizes.values()) or not {*inner.ins, *inner.out_names} <= {*self.ins, *self.out_names}:
            return None
        quotient, columns = LinearLayout({}, tuple(sizes.items())), {}
        inner_rows = inner.bases
        for name, rows in self.bases.items():
            low = [inner._named(row, self.out_names) for row in inner_rows.get(name, ())]
            if list(rows[: len(low)]) != low:
                return None
            rest = rows[len(low) :]
            if any(value % factor for row in rest for value, factor in zip(row, factors, strict=True)):
                return None
            columns[name] = tuple(
                quotient.pack([value // factor for value, factor in zip(row, factors, strict=True)]) for row in rest
            )
        return LinearLayout(columns, quotient.outs)


class Subspace:
    """A growing set of columns, and the numbers that they span.

    Attributes:
        pivots: (highest bit, reduced column, the mark of the columns that it is made of).
    """

    __slots__ = ("pivots",)

    def __init__(self, columns: Iterable[int]) -> None:
        self.pivots: dict[int, tuple[int, int]] = {}
        for column in columns:
            self.add(column)

    def reduce(self, column: int, mark: int = 0) -> tuple[int, int]:
        """`column` without what the set spans; the marks of what was taken away."""
        pivots = self.pivots
        while column:
            pivot = pivots.get(column.bit_length())
            if pivot is None:
                break
            column ^= pivot[0]
            mark ^= pivot[1]
        return column, mark

    def add(self, column: int, mark: int = 0) -> bool:
        """Put `column` into the set; False if it is spanned already."""
        column, mark = self.reduce(column, mark)
        if not column:
            return False
        self.pivots[column.bit_length()] = column, mark
        return True

    def spans(self, column: int) -> bool:
        return self.reduce(column)[0] == 0

    def solve(self, column: int) -> int:
        """The marks of the columns whose sum is `column`."""
        rest, mark = self.reduce(column)
        assert rest == 0, "the other layout does not hold this element"
        return mark


def from_bases(bases: Mapping[str, Iterable[Sequence[int]]], outs: Iterable[tuple[str, int]]) -> LinearLayout:
    """The layout with these steps per input, and these outputs."""
    found = LinearLayout({}, tuple(outs))
    return LinearLayout({name: tuple(map(found.pack, rows)) for name, rows in bases.items()}, found.outs)


def identity(outs: Iterable[tuple[str, int]]) -> LinearLayout:
    """Every output has an input of its name and size."""
    sizes = tuple(outs)
    found = LinearLayout({}, sizes)
    return LinearLayout(
        {
            name: tuple(1 << (shift + bit) for bit in range(log2(size)))
            for (name, size), (shift, _) in zip(sizes, found.shifts, strict=True)
        },
        sizes,
    )


def identity_1d(size: int, name: str, out: str) -> LinearLayout:
    """The layout in which input `name` is output `out`."""
    return LinearLayout({name: tuple(1 << bit for bit in range(log2(size)))}, ((out, size),))


def zeros_1d(size: int, name: str, out: str) -> LinearLayout:
    """The layout in which input `name` has `size` values, none of which changes output `out`."""
    return LinearLayout({name: (0,) * log2(size)}, ((out, 1),))
