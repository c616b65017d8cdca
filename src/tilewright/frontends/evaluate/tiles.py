"""The domain of kernels: values that are known only at run time are tiles (`jit`)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, TypeAlias

from tilewright import language as tl
from tilewright.frontends import hir
from tilewright.frontends.errors import (
    BadCondition,
    BranchTypeMismatch,
    ChoiceTypeMismatch,
    LoopTypeChange,
    NotCarried,
    NotIterable,
    ReturnTypeMismatch,
    TileAsCondition,
)
from tilewright.frontends.evaluate.frame import CHOICE, Frame, Handler, Reader
from tilewright.frontends.evaluate.scope import look_outside
from tilewright.ir.attributes import UNIT, Attribute, FileLocation, Number
from tilewright.ir.core import Block, Value
from tilewright.ir.types import i32
from tilewright.language.python_code import UnsupportedSyntax
from tilewright.language.values import (
    Structure,
    at_run_time,
    describe,
    flatten,
    is_compile_time,
    rebuild,
    same_structure,
    set_name,
)
from tilewright.semantics.arithmetic import to_bool
from tilewright.semantics.constexpr import unwrap
from tilewright.semantics.errors import NotATile
from tilewright.semantics.shapes import reshape
from tilewright.semantics.tile import Tile, constant
from tilewright.semantics.types import FP8_KINDS, int1
from tilewright.support.diagnostics import Diagnostic, SemanticError


@dataclass(frozen=True)
class EvaluateOptions:
    """The inputs of evaluation besides the function and its parameters.

    Attributes:
        debug: device_assert and `assert` check something.
        sanitize_overflow: with `debug`, `+`, `-` and `*` of integers check that they do not overflow.
        dot_precision: how `tl.dot` rounds fp32 operands when the program does not say.
        imprecise_sums: how many fp8 products `tl.dot` may add with low precision when the program does not say.
        allow_globals: ordinary globals may be read, but for arrays; the caller detects changes of them.
        capability: the compute capability of the GPU that the kernel is compiled for, 0 for anything else.
        warps, ctas: how many warps and CTAs a program has there.
        target: the device, for Gluon, whose modules name it; "" for the tile language.
        fp8_kinds: the 8-bit floats that may be used.
        leaves_loops: loops may be left early, by `break`, `continue` and `return`.
        deprecated_fp8: those of them that `tl.dot` warns of.
    """

    debug: bool = False
    sanitize_overflow: bool = True
    dot_precision: str = "tf32"
    imprecise_sums: int = 0
    allow_globals: bool = False
    capability: int = 0
    warps: int = 1
    leaves_loops: bool = True
    ctas: int = 1
    target: str = ""
    fp8_kinds: tuple[str, ...] = FP8_KINDS
    deprecated_fp8: tuple[str, ...] = ()

    def facts(self) -> dict[str, Any]:
        """The facts of the context that the semantics work in."""
        return {
            "debug": self.debug,
            "dot_precision": self.dot_precision,
            "imprecise_sums": self.imprecise_sums,
            "checks_overflow": self.debug and self.sanitize_overflow,
            "capability": self.capability,
            "warps": self.warps,
            "ctas": self.ctas,
            "deprecated_fp8": self.deprecated_fp8,
            "calls_libraries": bool(self.target),
        }


@dataclass(eq=False)
class TileDomain:
    """Tiles, and the state that the frames of one module share.

    Attributes:
        module: the builtin.module that gets the functions.
        read: reads (or remembers) the HIR of a Python function.
        handlers: what to do, per class of step.
        functions: the private functions so far, by what they are specialised for.
        symbols: names of functions that are taken.
        depth: how many calls deep the evaluation is.
    """

    module: Block
    options: EvaluateOptions
    read: Reader
    handlers: Mapping[type, Handler]
    functions: dict[Any, Any] = field(default_factory=dict)
    symbols: set[str] = field(default_factory=set)
    depth: int = 0

    one_sided: ClassVar[str] = "only one side of an `if` on a run-time condition gives it a value"
    outside = staticmethod(look_outside)
    is_fixed = staticmethod(is_compile_time)

    def condition(self, frame: TileFrame, value: Any, location: FileLocation) -> Any:
        """A condition: an i1 scalar tile, or True or False.

        Raises:
            CompilationError: the value has no single truth.
        """
        value = known(frame, value)
        if isinstance(value, Tile):
            if any(extent != 1 for extent in value.extents):
                reason = "its elements may disagree; reduce it with tl.max or tl.min, or use tl.where"
                raise frame.fail(TileAsCondition(describe(value), reason), location)
            frame.mark(location)
            return to_bool(reshape(value, ()) if value.extents else value)
        if value is None or isinstance(value, (bool, int)):
            return bool(value)
        raise frame.fail(BadCondition(describe(value)), location)

    def loop_condition(self, frame: TileFrame, value: Any, location: FileLocation) -> tuple[Any, dict[str, Attribute]]:
        """The condition of a `while`, and its hints."""
        attributes: dict[str, Attribute] = {}
        if isinstance(value, tl.condition):
            attributes, value = hints(value), unwrap(value.condition)
        test = self.condition(frame, value, location)
        if test is True:
            raise frame.fail(BadCondition(describe(value), "the loop would never end"), location)
        return test, attributes

    def items(self, frame: TileFrame, iterable: Any, location: FileLocation) -> Any:
        """The items of a tuple."""
        if isinstance(iterable, (tl.range, tl.static_range)):
            raise frame.fail(UnsupportedSyntax("a comprehension over a range"), location)
        if isinstance(iterable, Tile) or not isinstance(iterable, (tuple, list)):
            raise frame.fail(NotIterable(describe(iterable)), location)
        return iterable

    def holds(self, frame: TileFrame, value: Any, location: FileLocation) -> bool:
        """The truth of a constant."""
        return bool(value)

    def structure_of(self, value: Any) -> Structure:
        """The structure of a value with its numbers as tiles."""
        return value.type if isinstance(value, Tile) else flatten(at_run_time(value), [])

    def wider(self, structure: Structure, value: Any) -> Structure | None:
        """The structure, if the value has it; tiles are not converted."""
        found = self.structure_of(value)
        return structure if found is structure or same_structure(found, structure) else None

    def handles_of(self, value: Any, structure: Structure) -> list[Value]:
        """The SSA values inside `value`."""
        if isinstance(value, Tile):
            return [value.handle]
        handles: list[Value] = []
        flatten(at_run_time(value), handles)
        return handles

    def rebuild(self, structure: Structure, handles: Iterator[Value], name: str = "") -> Any:
        """The value of that structure; its SSA values are called as the variable is."""
        value = rebuild(structure, handles)
        if name and " " not in name:
            set_name(value, name)
        return value

    def check_choice(self, value: Any) -> None:
        """Raise for a tuple."""
        if isinstance(value, tuple):
            raise SemanticError(NotATile("a tuple"))

    def certain(self) -> Tile:
        """True, as a condition at run time."""
        return constant(True, int1)

    def no_return(self, frame: TileFrame, other: Any) -> Any:
        """Anything of the type that the other side returns, as in Triton."""
        return self.any_like(frame, other)

    def any_like(self, frame: TileFrame, value: Any) -> Any:
        """Anything of that type; a constant stays as it is."""
        handles: list[Value] = []
        structure = flatten(value, handles)
        return rebuild(structure, iter([frame.emitter.emit("ub.poison", (), (h.type,))[0] for h in handles]))

    def mismatch(self, name: str, then: Any, orelse: Any) -> Diagnostic:
        """The mistake of two types on the two sides of a branch."""
        types = describe(at_run_time(then)), describe(at_run_time(orelse))
        if name == hir.RESULT:
            return ReturnTypeMismatch(*types)
        return (ChoiceTypeMismatch if name == CHOICE else BranchTypeMismatch)(name, *types)

    def carried_mismatch(self, frame: TileFrame, name: str, before: Any, names: dict[str, Any]) -> Diagnostic:
        """The mistake of a variable that leaves a loop with another type, or that cannot be carried at all."""
        if name == hir.RESULT:
            return self.mismatch(name, before, names.get(name))
        at_start = at_run_time(before)
        if is_compile_time(at_start):
            return NotCarried(name, "inside a run-time loop", describe(before))
        return LoopTypeChange(name, describe(at_start), describe(at_run_time(names.get(name))))


TileFrame: TypeAlias = Frame[TileDomain]


def known(frame: TileFrame, value: Any) -> Any:
    """`value`, or the number that it is sure to be, in functions that see through constants."""
    if not isinstance(value, Tile) or value.extents:
        return value
    number = frame.emitter.concrete(value.handle)
    return value if number is None else number


def hints(bounds: Any) -> dict[str, Attribute]:
    """The hints of a tl.range or tl.condition as attributes of the loop."""
    attributes: dict[str, Attribute] = {}
    for name in ("num_stages", "loop_unroll_factor"):
        value = unwrap(getattr(bounds, name, None))
        if value is not None:
            attributes[f"tt.{name}"] = Number(value, i32)
    for name in ("disallow_acc_multi_buffer", "flatten", "warp_specialize", "disable_licm"):
        if unwrap(getattr(bounds, name, False)):
            attributes[f"tt.{name}"] = UNIT
    return attributes
