"""Run by the interpreter of an environment with Triton: writes its TTGIR of the kernels in gluon_programs.py.

Output: JSON, the texts by kernel.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "gluon"))
import gluon_programs as programs
from triton._C.libtriton import ir
from triton.backends.compiler import GPUTarget
from triton.compiler.compiler import make_backend
from triton.experimental.gluon._runtime import GluonASTSource

ELEMENTS = {32: "fp32", 16: "fp16"}


def descriptor(block: list[int], layout: Any) -> str:
    return f"tensordesc<{ELEMENTS[layout.element_bitwidth]}{block},{layout!r}>"


def ttgir(name: str) -> str:
    capability, types, constants, descriptors = programs.CASES[name]
    kernel = getattr(programs, name)
    target = GPUTarget("cuda", capability, 32)
    backend: Any = make_backend(target)
    context = ir.context()
    ir.load_dialects(context)
    backend.load_dialects(context)
    signature = dict(types) | {key: descriptor(*value) for key, value in descriptors.items()}
    ordered = {key: signature.get(key, "constexpr") for key in kernel.arg_names}
    constexprs = {(kernel.arg_names.index(key),): value for key, value in constants.items()}
    options = backend.parse_options({"num_warps": 4, "num_ctas": programs.CTAS.get(name, 1)})
    pointers = [number for number, kind in enumerate(ordered.values()) if kind.startswith("*")]
    attributes = {(number,): [["tt.divisibility", 16]] for number in pointers}
    source = GluonASTSource(kernel, ordered, constexprs, attributes)
    maps = backend.get_module_map()
    module = source.make_ir(target, options, backend.get_codegen_implementation(options), maps, context)
    module = backend.gluon_to_ttgir(module, {}, options, capability)
    return str(module.str_nodebug())


sys.stdout.write(json.dumps({name: ttgir(name) for name in programs.CASES}))
