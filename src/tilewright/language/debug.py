"""Output, checks and hints: static_print, device_assert, assume, multiple_of, …"""

from __future__ import annotations

import sys
from typing import Any

from tilewright.language.core import accept_semantic
from tilewright.semantics import debug as debug_semantics
from tilewright.semantics.active import active
from tilewright.semantics.constexpr import unwrap
from tilewright.semantics.errors import BadArgument, MustBeConstant
from tilewright.semantics.tile import Tile
from tilewright.support.diagnostics import SemanticError, StaticAssertionFailed


def static_print(*values: Any, sep: str = " ", end: str = "\n", file: Any = None, flush: bool = False) -> None:
    """Print while the kernel is compiled; of tiles the type: `int32[constexpr[128]]`, of tuples `['3', 'int32[]']`.

    Args:
        values: anything.
        sep, end, file, flush: as for Python's `print`.
    """
    stream = sys.stdout if file is None else file
    stream.write(sep.join(_text(unwrap(value)) for value in values) + end)
    if flush:
        stream.flush()


def _text(value: Any) -> str:
    if isinstance(value, tuple):
        return str([_text(unwrap(item)) for item in value])
    if not isinstance(value, Tile) or hasattr(value.handle, "array"):  # known in a kernel that runs in Python
        return str(value)
    return f"{value.type.scalar}[{', '.join(f'constexpr[{extent}]' for extent in value.type.shape)}]"


def static_assert(cond: Any, msg: Any = "") -> None:
    """Check a constant while the kernel is compiled.

    Args:
        cond: a constant.
        msg: what the error says.

    Raises:
        SemanticError: `cond` is false, or known only at run time.
    """
    known = unwrap(cond)
    if isinstance(known, Tile):
        tile, known = known, active().concrete(known.handle)
        if known is None:
            raise SemanticError(MustBeConstant("cond", str(tile.type)))
    if not isinstance(known, bool):
        raise SemanticError(BadArgument("static_assert", "cond", known, "True or False: compare it with something"))
    if not known:
        raise SemanticError(StaticAssertionFailed(str(unwrap(msg))))


def device_print(prefix: Any, *args: Any, hex: Any = False) -> None:
    """Print `args` after `prefix` (a literal) from every program, `hex`adecimal if wanted.

    Args:
        prefix: a literal text.
        args: tiles, scalars or numbers: one line per element.
        hex: print numbers in hexadecimal.
    """
    debug_semantics.device_print(prefix, args, as_hex=bool(hex))


def device_assert(cond: Any, msg: Any = "", mask: Any = None) -> None:
    """When debugging, stop with `msg` where `cond` is false and `mask` holds.

    Args:
        cond: a tile of truth values, or a scalar.
        msg: a literal text.
        mask: where to look.

    Raises:
        DeviceAssertError: from the launch.
    """
    debug_semantics.device_assert(cond, msg, mask)


def assume(cond: Any) -> None:
    """Promise the compiler that `cond` holds.

    Args:
        cond: a scalar; where it does not hold, anything may happen.
    """
    debug_semantics.assume(cond)


def debug_barrier() -> None:
    """Wait for all threads of the program."""
    debug_semantics.debug_barrier()


def multiple_of(input: Any, values: Any) -> Any:
    """Promise that the elements are multiples of `values` (per axis).

    Args:
        input: an integer or pointer tile, or a scalar.
        values: a constant, or one per axis.

    Returns:
        `input`.
    """
    return debug_semantics.hint("tt.divisibility", input, values)


def max_contiguous(input: Any, values: Any) -> Any:
    """Promise that runs of `values` elements (per axis) count up by one.

    Args:
        input: an integer or pointer tile.
        values: a constant, or one per axis.

    Returns:
        `input`.
    """
    return debug_semantics.hint("tt.contiguity", input, values)


def max_constancy(input: Any, values: Any) -> Any:
    """Promise that runs of `values` elements (per axis) are equal; only tiles have axes.

    Args:
        input: a tile.
        values: a constant, or one per axis.

    Returns:
        `input`.
    """
    if not input.type.shape:
        raise SemanticError(BadArgument("max_constancy", "input", input.type, "a tile"))
    return debug_semantics.hint("tt.constancy", input, values)


def expect_zero(x: Any, mask: Any) -> Any:
    """`x`, which must be 0 where `mask` holds; checked only when debugging.

    Args:
        x: a tile.
        mask: a tile of truth values.

    Returns:
        `x`.
    """
    debug_semantics.device_assert(x == 0, "expected zero", mask)
    return x


accept_semantic(globals())
