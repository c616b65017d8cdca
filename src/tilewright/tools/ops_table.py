"""`tilewright ops`: the ops, with their support in each part of the compiler, as in `docs/ops.md`."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby

from tilewright import dialects
from tilewright.backends.cpu.emit_function import FunctionEmitter
from tilewright.backends.cpu.emit_scalars import SCALARS
from tilewright.backends.cpu.legality import FOREIGN
from tilewright.backends.cpu.nest import evaluate, sinks
from tilewright.backends.cpu.nest.moves import MOVES
from tilewright.backends.llvm import elementwise
from tilewright.backends.llvm.loops import LoopEmitter
from tilewright.backends.nvidia.lower.legality import UNSUPPORTED
from tilewright.backends.nvidia.lower.tables import LOWERINGS
from tilewright.dialects.traits import Atomic, ControlFlow, DotLike, Indexing, LayoutAnchor, Loop
from tilewright.dialects.ttg_memory import MemDescView
from tilewright.interpreter import run_ir
from tilewright.interpreter.machine import EXECUTORS
from tilewright.ir.core import Op
from tilewright.ir.declare import OPS, Effect, OpDefinition
from tilewright.ir.fields import Field

assert dialects, "its import declares the ops"
assert run_ir, "its import enters the executors"

HEAD = """# Ops

This page says which parts of the compiler know an op, from the declarations in `dialects` and the tables of the parts.
`python -m tilewright ops` prints this page. [add-an-op.md](add-an-op.md) says how an op gets there.

- **text**: the op has a format of its `own`, or MLIR's `generic` one. `tests/ir/test_round_trip.py` reads and
  prints each op but those of `cpu`, which have no sample there.
- **semantics**: the op has reference semantics on NumPy arrays, which constant folding and the interpreters call.
- **CPU**, **NVIDIA**: the op has a lowering (`yes`), or a pass replaces it before (by its name), or it belongs to
  another op, as terminators do.
- **PTX simulator**: it knows instructions, not ops: it runs the PTX that the lowering for NVIDIA writes, and refuses
  instructions that it does not know.
- **`run_ir`**: the interpreter of IR executes the op by a function of its `own`, or by its reference `semantics`.
- **traits**: facts and base classes that passes test. `reads` and `writes` are effects on memory or on what others
  can see; behind them come the fields of the op that are address, value and mask. A `layout anchor` always keeps its
  layout; `tt.load`, `tt.gather` and `tt.reshape` may, depending on their attributes and sizes.

**no** is a gap, with its reason where the code has one.
"""
COLUMNS = f"| op | text | semantics | CPU | NVIDIA | PTX simulator | `run_ir` | traits |\n{'|---' * 8}|\n"

ON_CPUS = (FunctionEmitter.OWN, SCALARS, evaluate.RULES, sinks.PREPARE, MOVES, elementwise.LOWERINGS, LoopEmitter.TABLE)
"""The tables of lowerings for CPUs."""
CPU_PASSES = {
    "cpu.accumulate": "`lower_nests`",
    "cpu.assume": "`lower_nests`",
    "cpu.clip": "`lower_nests`",
    "cpu.dot": "`copy_elision`",
    "cpu.matmul": "`expand_dots`",
    "cpu.nest": "`lower_nests`",
    "cpu.network": "`expand_networks`",
    "scf.parallel": "`unroll_and_jam`",
    "scf.reduce": "`unroll_and_jam`",
    "tt.advance": "`rewrite_tensor_pointer`",
    "tt.assert": "`expand_reports`",
    "tt.dot": "`fuse_loops`",
    "tt.histogram": "`expand_histogram`",
    "tt.make_tensor_ptr": "`rewrite_tensor_pointer`",
    "tt.map_elementwise": "`expand_map`",
    "tt.print": "`expand_reports`",
    "tt.reduce": "yes",
    "tt.scan": "yes",
    "tt.split": "yes",
    "tt.unsplat": "`expand_unsplat`",
}
"""Ops that passes replace, and those that nests handle beside their tables ("yes")."""
NVIDIA_PASSES = {
    "gluon.set_auto_layout": "`resolve_auto_layouts`",
    "nvws.warp_group": "`lower_warp_groups`",
    "tt.advance": "`rewrite_tensor_pointer`",
    "tt.descriptor_gather": "`tma_lowering`",
    "tt.descriptor_load": "`tma_lowering`",
    "tt.descriptor_reduce": "`tma_lowering`",
    "tt.descriptor_scatter": "`tma_lowering`",
    "tt.descriptor_store": "`tma_lowering`",
    "tt.make_tensor_descriptor": "`tma_lowering`",
    "tt.make_tensor_ptr": "`rewrite_tensor_pointer`",
    "ttg.mask": "`pipeline_loops`",
    "ttg.predicate_stage": "`pipeline_loops`",
}
"""Ops that passes replace; devices before 9.0 have `rewrite_tensor_descriptor_to_pointer` for descriptors."""
ACCESSES = (Effect.READ, Effect.WRITE, Effect.READ_WRITE)
CONTAINERS = {"builtin.module": "holds functions", "tt.func": "holds ops"}
WITH_ITS_OP = "with its op"
TRAITS: dict[type[Op], str] = {
    Loop: "loop",
    ControlFlow: "control flow",
    DotLike: "dot",
    Atomic: "atomic",
    Indexing: "indexing",
    MemDescView: "view",
    LayoutAnchor: "layout anchor",
}
"""The page's names of the classes; that a loop is control flow goes without saying."""
OPERANDS = {
    "address": ("pointer", "descriptor", "address", "buffer", "barrier", "response"),
    "value": ("value",),
    "mask": ("mask", "predicate"),
}
"""The fields of an access, by their role."""


def page() -> str:
    by_dialect = groupby(sorted(OPS), lambda name: name.partition(".")[0])
    return HEAD + "".join(f"\n## {dialect}\n\n{COLUMNS}{''.join(map(_row, names))}" for dialect, names in by_dialect)


def _row(name: str) -> str:
    definition = OPS[name]
    text = "own" if definition.print is not None else "generic"
    semantics = "yes" if definition.semantics is not None else ""
    nvidia = _on_nvidia(definition)
    simulated = "by its PTX" if name in LOWERINGS else ""
    cells = (text, semantics, _on_cpus(definition), nvidia, simulated, _in_run_ir(definition))
    return f"| `{name}` | {' | '.join(cells)} | {', '.join(_traits(definition))} |\n"


def _on_cpus(definition: OpDefinition) -> str:
    name, kind = definition.name, definition.kind or Op
    if any(name in table for table in ON_CPUS):
        return "yes"
    if name in CPU_PASSES:
        return CPU_PASSES[name]
    if name.startswith(("nvws.", "ttg.", "ttng.")):
        return "**no**: for GPUs"
    if issubclass(kind, FOREIGN):
        return "**no**: the language emits simpler ops"
    return "**no**" if name.startswith("cf.") else _elsewhere(definition)


def _on_nvidia(definition: OpDefinition) -> str:
    name = definition.name
    if name in LOWERINGS:
        return "yes"
    if name in UNSUPPORTED:
        return f"**no**: {UNSUPPORTED[name]}"
    if name in NVIDIA_PASSES:
        return NVIDIA_PASSES[name]
    return "**no**: for CPUs" if name.startswith("cpu.") else _elsewhere(definition)


def _in_run_ir(definition: OpDefinition) -> str:
    if definition.name in EXECUTORS:
        return "own"
    return "semantics" if definition.semantics is not None else _elsewhere(definition)


def _elsewhere(definition: OpDefinition) -> str:
    """The cell for an op that has no entry in a table."""
    if definition.name in CONTAINERS:
        return CONTAINERS[definition.name]
    if definition.terminator:
        return WITH_ITS_OP
    return "**no**: for AMD's GPUs" if definition.name.startswith("amd") else "**no**"


def _traits(definition: OpDefinition) -> Iterator[str]:
    kind = definition.kind or Op
    for fact in ("elementwise", "commutative", "associative", "idempotent", "terminator", "isolated"):
        if getattr(definition, fact):
            yield fact
    for trait, word in TRAITS.items():
        if issubclass(kind, trait) and not (trait is ControlFlow and issubclass(kind, Loop)):
            yield word
    does = _effects(definition)
    if does:
        yield f"{does}{_operands(kind) if definition.effect in ACCESSES else ''}"


def _effects(definition: OpDefinition) -> str:
    """The effects of an op on memory; "" if it has none."""
    words = {
        Effect.READ: "reads",
        Effect.WRITE: "writes",
        Effect.READ_WRITE: "reads and writes",
        Effect.ALLOCATE: "allocates",
        Effect.UNKNOWN: "unknown effects",
    }
    word = words.get(definition.effect, "")
    return word if definition.effect_of is None else f"{word or 'no effects'}, attributes may add some"


def _operands(kind: type[Op]) -> str:
    """The operands of an access by what they are to it, as ` (address pointer, value value)`."""
    names = {name for base in kind.__mro__ for name, field in vars(base).items() if isinstance(field, Field)}
    found = [f"{role} `{name}`" for role, known in OPERANDS.items() for name in known if name in names]
    return f" ({', '.join(found)})" if found else ""
