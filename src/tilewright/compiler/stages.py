"""The table of stages of one compilation, conversions of their results to text and back, and facts from texts.

source      (the kernel's Python text)
ttir        module     every back end
ttcir       module     the CPU's loop level
llir        text
obj         bytes

describe(backend, "ttir", "… tt.func public @add(%x: !tt.ptr<f32> {tt.divisibility = 16 : i32}, %n: i32) …")
Described("add", (ArgumentSpec("x", "*fp32", 16), ArgumentSpec("n", "i32")), {0: "*f32", 1: "i32"})
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

from tilewright.backends.base import BaseBackend, Language, StageTable
from tilewright.compiler.artifact import Stage
from tilewright.compiler.signature import ArgumentSpec
from tilewright.dialects.tt_function import Func
from tilewright.ir.attributes import Number
from tilewright.ir.core import Op
from tilewright.ir.parser import parse_module
from tilewright.ir.printer import print_op
from tilewright.ir.types import FloatType, PointerType, Type
from tilewright.ir.verifier import verify
from tilewright.semantics.errors import NotOnThisTarget
from tilewright.support import knobs
from tilewright.support.diagnostics import Unsupported
from tilewright.transforms.pipeline import PASSES, dump, dump_after, optimize_ttir


def stage_table(
    backend: BaseBackend, options: Any, language: Language = Language.TRITON, *, dump_ir: bool = False
) -> StageTable:
    """Every stage by name, in order: the passes on TTIR, then what the back end puts there.

    Args:
        language: that of the kernel; Gluon's have layouts from the beginning, and no TTIR.
        dump_ir: print the module before the passes on TTIR and after each one to stderr.
    """
    fuse = getattr(options, "enable_fp_fusion", True)  # other packages' options need not have it
    if language is Language.GLUON:
        return _gluon_stages(backend, options)
    stages: StageTable = {"ttir": partial(_optimized, fuse=fuse, dump_ir=dump_ir)}
    backend.add_stages(stages, options)
    return stages


def _gluon_stages(backend: BaseBackend, options: Any) -> StageTable:
    stages: StageTable = {}
    if "ttgir" not in backend.module_stages:
        reason = f"its kernels name what GPUs have, and {backend.target.backend} is none"
        help = "pass arrays of an NVIDIA GPU, or launch inside of `with tilewright.simulate('cuda:90')`"
        raise Unsupported(NotOnThisTarget("Gluon", reason, help))
    backend.add_stages(stages, options, Language.GLUON)
    return stages


def stored(product: Any) -> Stage:
    """The form in which a product is kept: text, or bytes."""
    if isinstance(product, Op):
        return print_op(product)
    return product if isinstance(product, bytes) else str(product)


def remade(backend: BaseBackend, options: Any, stage: str, text: Stage) -> Stage:
    """The text of a stage that was not kept, derived from the text of another stage."""
    product = parse_stage(backend, backend.remade[stage], text)
    return stored(stage_table(backend, options)[stage](product, {}))


def parse_stage(backend: BaseBackend, name: str, text: Stage) -> Any:
    """The product of the stage `name` that `text` stands for.

    Raises:
        ParseError, VerificationError: it stands for none.
    """
    if name not in backend.module_stages:
        return text
    module = parse_module(text if isinstance(text, str) else text.decode(), f"<{name}>")
    verify(module)
    return module


def _optimized(module: Op, facts: dict[str, Any], *, fuse: bool, dump_ir: bool) -> Op:
    if not dump_ir:
        return optimize_ttir(module, fuse=fuse, verify_each=knobs.tilewright.verify_passes)
    dump(f"Before {PASSES[0].name}", module)
    return optimize_ttir(module, fuse=fuse, dump=dump_after)


_WORKERS = {"num_warps": "ttg.num-warps", "num_ctas": "ttg.num-ctas"}
TENSOR_MAP, TENSOR_MAP_MARK = "nvTmaDesc", "tt.nv_tma_desc"
"""Triton's type of an argument that its text marks as a tensor map, and the mark."""
_FLOATS = {"f16": "fp16", "bf16": "bf16", "f32": "fp32", "f64": "fp64"}


class Described(NamedTuple):
    """A kernel in a text.

    Attributes:
        signature: their types by number, as MLIR spells them.
        options: what the text says of how it was compiled: `num_warps` and `num_ctas` of TTGIR.
    """

    name: str
    specs: tuple[ArgumentSpec, ...]
    signature: dict[int, str]
    options: dict[str, int]


def describe(backend: BaseBackend, stage: str, text: Stage, file: str) -> Described:
    """The kernel in the text of a stage.

    Raises:
        ValueError: there is no such stage, no kernel, or the text does not say what arguments the kernel takes.
        ParseError: the text of a module is no MLIR.
    """
    stages = list(stage_table(backend, backend.parse_options({})))
    if stage in ("s", "asm", backend.assembly_ext):
        raise ValueError(f"{file}: assembly can only be read; begin with the text of {stages[-2]}")
    if stage not in stages:
        raise ValueError(f"{file}: {backend.target.backend} has no stage {stage!r}; it has {', '.join(stages)}")
    if stage in backend.module_stages:
        return _in_module(parse_stage(backend, stage, text), file)
    facts = backend.text_facts(stage, text)
    if not {"entry", "arguments"} <= facts.keys():
        raise ValueError(f"{file}: the text does not say what arguments its kernel takes; begin with an earlier stage")
    types = list(facts["arguments"])
    specs = tuple(ArgumentSpec(f"arg{i}", kind) for i, kind in enumerate(types))
    options = {name: int(facts[name]) for name in _WORKERS if name in facts}
    return Described(facts["entry"], specs, dict(enumerate(types)), options)


def _in_module(module: Op, file: str) -> Described:
    public = [op for op in module.regions[0].block if isinstance(op, Func) and op.is_public]
    if len(public) != 1:
        raise ValueError(f"{file}: expected one public tt.func, found {len(public)}")
    kernel = public[0]
    arguments = kernel.body.args
    if "sanitizer" in kernel.attributes:  # the runtime adds the last one
        arguments = arguments[:-1]
    attributes = kernel.argument_attributes
    specs = [
        ArgumentSpec(argument.name or f"arg{number}", _type_string(argument.type), _divisibility(attributes[number]))
        for number, argument in enumerate(arguments)
    ]
    signature = {
        number: TENSOR_MAP if _is_tensor_map(attributes[number]) else _spelled(argument.type)
        for number, argument in enumerate(arguments)
    }
    workers = {name: module.attributes.get(attribute) for name, attribute in _WORKERS.items()}
    options = {name: int(value.value) for name, value in workers.items() if isinstance(value, Number)}
    return Described(kernel.symbol, tuple(specs), signature, options)


def _is_tensor_map(attributes: object) -> bool:
    return isinstance(attributes, dict) and TENSOR_MAP_MARK in attributes


def _divisibility(attributes: object) -> int:
    found = attributes.get("tt.divisibility") if isinstance(attributes, dict) else None
    return int(found.value) if isinstance(found, Number) else 1


def _type_string(type: Type) -> str:
    """`!tt.ptr<f32>` → `*fp32`."""
    if isinstance(type, PointerType):
        return f"*{_type_string(type.pointee)}"
    if isinstance(type, FloatType):
        return _FLOATS.get(type.text, type.text)
    return "u1" if type.text == "i1" else type.text


def _spelled(type: Type) -> str:
    """`!tt.ptr<f32>` → `*f32`."""
    return f"*{_spelled(type.pointee)}" if isinstance(type, PointerType) else type.text
