"""The variables carried by a run-time loop, and `while`, in every domain.

    while i < n:             %acc, %i = scf.while (%acc = %start, …) { …, scf.condition(%c) %acc, … } do {
        acc += x         →       %0 = arith.addf %acc, %x
        i += 1                   scf.yield %0, …
                             }

A variable is carried if the body stores it and it has a value before the loop. A value that is known at compile time
stays known unless the body changes it: the body is evaluated with the value fixed, and once more if that was wrong. The
body is evaluated once more, too, if it needs a wider type for a variable, or if a variable has no value at its end:

    i = 5
    while n > 0:
        for i in range(3): …     i may have no value after the inner loop: it is not carried
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilewright.frontends import hir
from tilewright.frontends.evaluate.branches import unless_left
from tilewright.frontends.evaluate.frame import Frame, Structure, discard
from tilewright.ir.attributes import Attribute, FileLocation
from tilewright.ir.core import Block, Op, Region, Value
from tilewright.language.values import same_constant

AFTER_LOOP = "it gets its value inside a loop that may not run at all"
AFTER_ITERATION = "it has no value after an iteration of the loop, as it is the variable of a loop inside"


class Carried:
    """The variables that one loop carries.

    Attributes:
        initial: the SSA values inside them before the loop (those that `Iteration.prune` keeps).
        types: the types of all of them.
        wider: the structures of those variables that need other ones.
        gone: the variables that have no value at the end of the body.
    """

    def __init__(self, frame: Frame[Any], structures: dict[str, Structure]) -> None:
        self._before = {name: frame.names[name] for name in structures}
        self._structures = structures
        self._conversions = Block()
        self.initial: list[Value] = []
        with frame.region(self._conversions):
            for name, structure in structures.items():
                self.initial += frame.domain.handles_of(self._before[name], structure)
        self.types = tuple(value.type for value in self.initial)
        self.wider: dict[str, Structure] = {}
        self.gone: set[str] = set()
        self._constant: dict[int, Value] = {}

    def bind(self, frame: Frame[Any], handles: list[Value]) -> None:
        """Let the variables stand for `handles`."""
        rest = iter(handles)
        for name, structure in self._structures.items():
            frame.names[name] = frame.domain.rebuild(structure, rest, name)

    def yielded(self, frame: Frame[Any], body: hir.Block, location: FileLocation) -> list[Value]:
        """The SSA values of the variables now, at the end of `body`; those in `wider` and in `gone` are missing.

        Raises:
            CompilationError: a variable has a type that does not go together with the one before the loop.
        """
        domain = frame.domain
        handles: list[Value] = []
        for name, structure in self._structures.items():
            if name not in frame.names:
                self.gone.add(name)
                continue
            value = frame.names[name]
            wider = domain.wider(structure, value)
            if wider is None:
                diagnostic = domain.carried_mismatch(frame, name, self._before[name], frame.names)
                raise frame.fail(diagnostic, _last_store(body, name) or location)
            if wider is not structure and wider != structure:
                self.wider[name] = wider
            else:
                handles += domain.handles_of(value, structure)
        return handles

    def discard(self) -> None:
        """Throw away what was emitted for the loop."""
        discard(self._conversions)

    def enter(self, frame: Frame[Any]) -> None:
        """Put the conversions to the types of the loop before it."""
        for op in list(self._conversions):
            op.unlink()
            frame.emitter.block.append(op)

    def drop(self, unchanged: set[int]) -> None:
        """Carry the SSA values at these positions no longer: they are what they were before the loop."""
        self._constant = {position: self.initial[position] for position in unchanged}
        self.initial = [value for position, value in enumerate(self.initial) if position not in self._constant]

    def rebind(self, frame: Frame[Any], results: list[Value]) -> None:
        """Let the variables stand for the results of the loop."""
        rest = iter(results)
        self.bind(frame, [self._constant.get(position) or next(rest) for position in range(len(self.types))])


def _last_store(body: hir.Block, name: str) -> FileLocation | None:
    """The last place in the loop's body where the variable gets a value; None if it gets none."""
    stores = [step.location for step in hir.walk(body) if isinstance(step, (hir.Store, hir.Bind)) and step.name == name]
    return stores[-1] if stores else None


class Iteration:
    """One evaluation of a loop's body.

    Attributes:
        blocks: have one argument per carried SSA value, from position `offset` on.
        names: the variables at the end.
        handed: per block the SSA values that it passes on, to the next block or the next iteration.
        condition: of a `while`.
    """

    def __init__(
        self,
        blocks: tuple[Block, ...],
        offset: int,
        names: dict[str, Any],
        handed: tuple[list[Value], ...],
        condition: Value | None = None,
    ) -> None:
        self.blocks = blocks
        self.offset = offset
        self.names = names
        self.handed = handed
        self.condition = condition

    def prune(self, carried: Carried) -> None:
        """Stop carrying values that every block passes on as they came."""
        arguments = [block.args[self.offset :] for block in self.blocks]
        unchanged = set(range(len(carried.initial)))
        for handed, own in zip(self.handed, arguments, strict=True):
            unchanged = {position for position in unchanged if handed[position] is own[position]}
        if not unchanged:
            return
        before = {own[position]: carried.initial[position] for own in arguments for position in unchanged}
        for block in self.blocks:
            block.args = [arg for arg in block.args if arg not in before]
            for index, arg in enumerate(block.args):
                arg.index = index
        for arg, value in before.items():
            arg.replace_by(value)
        self.handed = tuple(
            [before.get(value, value) for position, value in enumerate(handed) if position not in unchanged]
            for handed in self.handed
        )
        if self.condition is not None:
            self.condition = before.get(self.condition, self.condition)
        carried.drop(unchanged)


def settle(
    frame: Frame[Any], stores: tuple[str, ...], location: FileLocation, evaluate: Callable[[Carried], Iteration | None]
) -> tuple[Carried, Iteration | None]:
    """Evaluate a loop's body until it is known which variables it carries, and as what.

    Args:
        frame: the function.
        stores: the names that the body stores.
        location: of the loop.
        evaluate: evaluates the body once; None if the loop does nothing.

    Raises:
        CompilationError: the body changes a value that exists only at compile time.
    """
    domain = frame.domain
    before = {name: frame.names[name] for name in dict.fromkeys(stores) if name in frame.names}
    fixed = {name: value for name, value in before.items() if domain.is_fixed(value)}
    structures = {name: domain.structure_of(value) for name, value in before.items() if name not in fixed}
    while True:
        carried = Carried(frame, {name: structures[name] for name in before if name in structures})
        iteration = evaluate(carried)
        if iteration is None:
            carried.discard()
            return carried, None
        gone = carried.gone.union(fixed.keys() - iteration.names.keys())
        changed = [name for name, value in fixed.items() if not same_constant(iteration.names.get(name), value)]
        returns = hir.RESULT in iteration.names and hir.RESULT not in frame.names
        if not (gone or changed or carried.wider or returns):
            iteration.prune(carried)
            carried.enter(frame)
            return carried, iteration
        carried.discard()
        for block in iteration.blocks:
            discard(block)
        structures.update(carried.wider)
        for name in gone:
            del before[name], frame.names[name]
            frame.lost[name] = AFTER_ITERATION
        if returns:  # nothing reads it before
            result = before[hir.RESULT] = frame.names[hir.RESULT] = domain.any_like(frame, iteration.names[hir.RESULT])
            (fixed if domain.is_fixed(result) else structures)[hir.RESULT] = (
                result if domain.is_fixed(result) else domain.structure_of(result)
            )
        for name in changed:
            value = fixed.pop(name)
            if name in gone:
                continue
            structures[name] = domain.structure_of(value)
            if not domain.handles_of(value, structures[name]):
                raise frame.fail(domain.carried_mismatch(frame, name, value, iteration.names), location)


def repeat(frame: Frame[Any], step: hir.While) -> None:
    """`while` as an scf.while; one whose condition is False at compile time vanishes.

    A condition that is True at compile time may be so before the body changes a variable only: whether the loop has no
    end shows when it is known what it carries.
    """
    domain, is_endless = frame.domain, False

    def holds() -> Any:
        nonlocal is_endless
        value = frame.valued(step.test, step.test_value)
        is_endless = isinstance(value, int) and bool(value)
        return (domain.certain(), {}) if is_endless else domain.loop_condition(frame, value, step.location)

    def test() -> Any:
        return unless_left(frame, step.left, step.test.stores, step.location, holds)

    stores = (*step.test.stores, *step.body.stores)
    if not run_while(frame, stores, (step.test, step.body), step.location, test, lambda: frame.run(step.body)):
        frame.run(step.test)
    elif is_endless and (not step.left or frame.names[step.left] is False):
        domain.loop_condition(frame, True, step.location)


def run_while(
    frame: Frame[Any],
    stores: tuple[str, ...],
    blocks: tuple[hir.Block, hir.Block],
    location: FileLocation,
    test: Callable[[], tuple[Any, dict[str, Attribute]]],
    body: Callable[[], None],
) -> bool:
    """An scf.while over the variables that a loop stores.

    Args:
        frame: the function.
        stores: the names that the loop stores.
        blocks: the blocks that do so in the condition and in the body.
        location: of the loop.
        test: evaluates the condition; it and the attributes of the loop.
        body: evaluates the body.

    Returns:
        whether there is a loop: its condition is not known to be false.
    """
    names = frozenset(frame.names)
    attributes: dict[str, Attribute] = {}

    def iteration(carried: Carried) -> Iteration | None:
        with frame.region(Block(carried.types)) as before:
            carried.bind(frame, before.args)
            condition, found = test()
            if condition is False:
                discard(before)
                return None
            attributes.update(found)
            passed = carried.yielded(frame, blocks[0], location)
            with frame.region(Block(carried.types)) as after:
                for name in frame.names.keys() - names:
                    del frame.names[name]
                    frame.lost[name] = "the condition of a `while` gives it a value, which does not reach the body"
                carried.bind(frame, after.args)
                body()
                yields = carried.yielded(frame, blocks[1], location)
                return Iteration((before, after), 0, frame.names, (passed, yields), condition.handle)

    carried, found = settle(frame, stores, location, iteration)
    if found is None:
        return False
    before, after = found.blocks
    passed, yields = found.handed
    assert found.condition is not None, "set by `iteration`"
    where = frame.emitter.location
    before.append(Op.create("scf.condition", [found.condition, *passed], location=where))
    after.append(Op.create("scf.yield", yields, location=where))
    types = [value.type for value in carried.initial]
    regions = [Region([before]), Region([after])]
    carried.rebind(frame, frame.emitter.emit("scf.while", carried.initial, types, attributes, regions))
    forget(frame, stores)
    return True


def forget(frame: Frame[Any], stores: tuple[str, ...]) -> None:
    """Remember why the variables that only the body of a loop knows have no value after it."""
    for name in stores:
        if name not in frame.names:
            frame.lost[name] = AFTER_LOOP
