"""Asynchronous products of warp groups in the default partition, and the release of the slots that they read.

    scf.for %k … {                                      scf.for %k … iter_args(…, %before) {
      ttng.wait_barrier %full[%i], %p                     ttng.wait_barrier %full[%i], %p
      %d = ttng.warp_group_dot %a[%i], %b[%i], %c         %d = ttng.warp_group_dot … {isAsync = true}
      ttng.arrive_barrier %empty[%i]                ->    %e = ttng.warp_group_dot_wait %d … {pendings = 1}
    }                                                     ttng.arrive_barrier %empty[%before], 1, %k != %low
                                                          yield …, %i
                                                        }
                                                        ttng.warp_group_dot_wait … {pendings = 0}
                                                        ttng.arrive_barrier %empty[%before]  in a loop around

`launch_wgmmas` says which products may be asynchronous, and where the program waits for them. A barrier that released a
slot after such a product now releases it after the next wait that completes the product: in the same iteration if there
is one, else in the next one. A ring of one slot cannot wait for the next iteration, which needs the slot; there the
product completes in its own iteration.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import takewhile

from tilewright.dialects.nvws import WarpGroup
from tilewright.dialects.scf import For
from tilewright.dialects.ttg_memory import MemDescIndex
from tilewright.dialects.ttng_barriers import ArriveBarrier
from tilewright.dialects.ttng_mma import WarpGroupDot, WarpGroupDotWait
from tilewright.ir.core import Block, Op, Value, buffer_type, typed
from tilewright.ir.types import i32
from tilewright.transforms.carried_values import add_carried
from tilewright.transforms.gpu.pipelining.schedule import Writer, body_of
from tilewright.transforms.gpu.pipelining.wgmma_waits import launch_wgmmas, wait_for
from tilewright.transforms.matching import following


def run_products_on(default: Block) -> None:
    """Let the products of warp groups in the loops of the default partition run on as far as they may."""
    loops = [op for outer in default for op in outer.walk() if isinstance(op, For)]
    for loop in reversed(loops):  # inner ones first: the loops around see what they wait for
        if any(isinstance(op, WarpGroupDot) for op in loop.body):
            launch_wgmmas(loop)
            _arrive_later(loop)


def _arrive_later(loop: For) -> None:
    """Move the ops of `loop` that release a slot to where the products that read it have ended."""
    for arrive in _early_arrivals(loop):
        if buffer_type(_view(arrive).source).shape[0] == 1:
            wait_for(Writer(arrive), [_waited_for(product, arrive) for product in _running_at(arrive)], 0)
    for arrive in _early_arrivals(loop):
        wait = next(_ends(following(arrive)), None)
        if wait is not None:
            arrive.unlink()
            Writer.after(wait).insert(arrive)
        else:
            _arrive_in_next_iteration(loop, arrive)


def _early_arrivals(loop: For) -> list[ArriveBarrier]:
    return [op for op in body_of(loop) if isinstance(op, ArriveBarrier) and _running_at(op)]


def _running_at(op: Op) -> list[WarpGroupDot]:
    """The products of the iteration so far that may still run when `op` is executed."""
    assert op.block is not None, "the op is in a loop"
    running: list[WarpGroupDot] = []
    for other in op.block:
        if other is op:
            break
        if isinstance(other, WarpGroupDot):
            running.append(other)
        elif isinstance(other, WarpGroupDotWait):
            running = running[max(0, len(running) - other.pendings) :]
    return running


def _waited_for(product: WarpGroupDot, end: Op) -> Value:
    """The sum of `product` as the last wait before `end` gives it."""
    value = product.result
    for op in takewhile(lambda op: op is not end, following(product)):
        if isinstance(op, WarpGroupDotWait) and value in op.inputs:
            value = op.results[op.inputs.index(value)]
    return value


def _view(arrive: ArriveBarrier) -> MemDescIndex:
    view = arrive.barrier.op
    assert view is not None, "each place has a barrier"
    return typed(view, MemDescIndex)


def _ends(ops: Iterator[Op] | Sequence[Op]) -> Iterator[WarpGroupDotWait]:
    """The waits among `ops` that end all products before those."""
    products = 0
    for op in ops:
        products += isinstance(op, WarpGroupDot)
        if isinstance(op, WarpGroupDotWait) and op.pendings <= products:
            yield op


def _arrive_in_next_iteration(loop: For, arrive: ArriveBarrier) -> None:
    """Release the slot of this iteration in the next one, or behind `loop` if it is inside another one."""
    view = _view(arrive)
    before = add_carried(loop, Writer(loop).constant(0, i32))
    loop.body.terminator.set_operands([*loop.yielded, view.index])
    wait = next(_ends(body_of(loop)))
    at = Writer.after(wait)
    _arrive(at, arrive, at.view(view.source, before), at.compare("ne", loop.induction_variable, loop.low))
    arrive.erase()
    if isinstance(loop.parent, WarpGroup):
        return  # nobody copies to the place any more
    assert loop.next is not None, "the last products are waited for behind the loop"
    at = Writer.after(loop.next)
    less = "ult" if "unsignedCmp" in loop.attributes else "slt"
    _arrive(at, arrive, at.view(view.source, loop.results[-1]), at.compare(less, loop.low, loop.high))


def _arrive(at: Writer, arrive: ArriveBarrier, barrier: Value, predicate: Value) -> None:
    """Arrive at `barrier` if `predicate` holds, as `arrive` does at its own."""
    at.op(arrive.name, [barrier, [predicate]], (), dict(arrive.attributes))
