"""The domain of vectorized functions: values known only at run time are elements (`vectorize`)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, NamedTuple, TypeAlias

from tilewright.frontends.errors import BadCondition, NotIterable, UndefinedName
from tilewright.frontends.evaluate.frame import Frame, Handler, Reader, Structure
from tilewright.frontends.python_function import globals_of, is_python_builtin
from tilewright.ir.attributes import Attribute, FileLocation
from tilewright.ir.core import Value
from tilewright.language.values import Fixed, Sequence, make_tuple, same_constant
from tilewright.semantics.constexpr import unwrap
from tilewright.support.diagnostics import Diagnostic
from tilewright.vectorizing.casting import cast, describe, kind_of, truth
from tilewright.vectorizing.element import Element, constant, is_number
from tilewright.vectorizing.errors import CannotChange, NoValue, ValueNeeded
from tilewright.vectorizing.kinds import BOOL, Kind, promote


class Bounds(NamedTuple):
    """`range` with a bound that is known only when the function runs."""

    start: Any
    stop: Any
    step: Any


class ElementDomain:
    """Elements, and the state that the frames of one function share.

    Attributes:
        read: reads (or remembers) the HIR of a Python function.
        handlers: what to do, per class of step.
        depth: how many calls deep the evaluation is.
        unrolled: how many turns the loops around have together, where they are unrolled.
    """

    one_sided: ClassVar[str] = "only one side of an `if` gives it a value"

    def __init__(self, read: Reader, handlers: Mapping[type, Handler]) -> None:
        self.read = read
        self.handlers = handlers
        self.depth = 0
        self.unrolled = 1

    def outside(self, frame: Frame[Any], name: str, location: FileLocation) -> Any:
        """A name of the closure, of the module, or of Python."""
        if name in frame.lost:
            raise frame.fail(NoValue(name, frame.lost[name]), location)
        captured, module = globals_of(frame.function.python)
        for namespace in (captured, module):
            if name in namespace:
                return unwrap(namespace[name])
        if not is_python_builtin(name):
            raise frame.fail(UndefinedName(name), location)
        builtins = module["__builtins__"]
        return builtins[name] if isinstance(builtins, dict) else getattr(builtins, name)

    def condition(self, frame: Frame[Any], value: Any, location: FileLocation) -> Any:
        """A bool element, or True or False."""
        value = unwrap(value)
        if isinstance(value, Element):
            frame.mark(location)
            return truth(value)
        try:
            return bool(value)
        except (TypeError, ValueError):
            raise frame.fail(BadCondition(describe(value)), location) from None

    def loop_condition(self, frame: Frame[Any], value: Any, location: FileLocation) -> tuple[Any, dict[str, Attribute]]:
        """The condition of a `while`, which may hold for ever."""
        test = self.condition(frame, value, location)
        return (constant(1, BOOL) if test is True else test), {}

    def items(self, frame: Frame[Any], iterable: Any, location: FileLocation) -> Any:
        """The items of something known."""
        if isinstance(iterable, (Bounds, Element)) or not hasattr(iterable, "__iter__"):
            raise frame.fail(NotIterable(describe(iterable)), location)
        return iterable

    def holds(self, frame: Frame[Any], value: Any, location: FileLocation) -> bool:
        """The truth of something that is known."""
        if isinstance(value, Element):
            raise frame.fail(ValueNeeded("compiled", str(value.kind)), location)
        return bool(value)

    def is_fixed(self, value: Any) -> bool:
        """Whether it is neither a number nor a tuple."""
        return not is_number(value) and not isinstance(value, tuple)

    def structure_of(self, value: Any) -> Structure:
        """The kind of a number, the kinds in a tuple."""
        if isinstance(value, tuple):
            return Sequence(value.__class__, tuple(map(self.structure_of, value)))
        return kind_of(value) if is_number(value) else Fixed(value)

    def wider(self, structure: Structure, value: Any) -> Structure | None:
        """The structure with the kinds that can stand for both."""
        if isinstance(structure, Kind):
            if isinstance(value, Element) and value.kind == structure:
                return structure
            return promote(structure, kind_of(value)) if is_number(value) else None
        if isinstance(structure, Fixed):
            return structure if same_constant(structure.value, value) else None
        if not isinstance(value, tuple) or len(value) != len(structure.items):
            return None
        items: list[Structure] = [self.wider(item, part) for item, part in zip(structure.items, value, strict=True)]
        return None if None in items else Sequence(structure.container, tuple(items))

    def handles_of(self, value: Any, structure: Structure) -> list[Value]:
        """The SSA values inside `value`, converted to these kinds."""
        if isinstance(structure, Kind):
            is_same = isinstance(value, Element) and value.kind == structure
            return [value.handle if is_same else cast(value, structure).handle]
        if isinstance(structure, Fixed):
            return []
        pairs = zip(value, structure.items, strict=True)
        return [handle for item, part in pairs for handle in self.handles_of(item, part)]

    def rebuild(self, structure: Structure, handles: Iterator[Value], name: str = "") -> Any:
        """The value of these kinds with its SSA values taken from `handles`."""
        if isinstance(structure, Kind):
            return Element(next(handles), structure)
        if isinstance(structure, Fixed):
            return structure.value
        return make_tuple(structure.container, [self.rebuild(item, handles) for item in structure.items])

    def check_choice(self, value: Any) -> None:
        """Accept anything: tuples can be chosen."""

    def certain(self) -> Element:
        """True, as a condition at run time."""
        return constant(1, BOOL)

    def any_like(self, frame: Frame[Any], value: Any) -> Any:
        """Zero of that kind; what is no number stays as it is."""
        if isinstance(value, tuple):
            return make_tuple(value.__class__, [self.any_like(frame, item) for item in value])
        return constant(0, kind_of(value)) if isinstance(value, Element) else value

    def no_return(self, frame: Frame[Any], other: Any) -> Any:
        """None, as in Python."""
        return None

    def mismatch(self, name: str, then: Any, orelse: Any) -> Diagnostic:
        """The mistake of two values that are not numbers on the two sides of a branch."""
        where = "with a condition that is known only when the function runs"
        return CannotChange(name, where, describe(then), describe(orelse))

    def carried_mismatch(self, frame: Frame[Any], name: str, before: Any, names: dict[str, Any]) -> Diagnostic:
        """The mistake of a variable that is no number, or has no value, at the end of a loop."""
        if name not in names:
            return NoValue(name, frame.lost.get(name, "the loop takes its value away"))
        return CannotChange(name, "in a loop", describe(before), describe(names[name]))


ElementFrame: TypeAlias = Frame[ElementDomain]
