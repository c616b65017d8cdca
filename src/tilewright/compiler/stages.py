"""The table of stages of one compilation, and how their products become text and come from it.

source      (the kernel's Python text)
ttir        module     every back end
ttcir       module     the CPU's loop level
llir        text
obj         bytes
"""

from __future__ import annotations

from functools import partial
from typing import Any

from tilewright.backends.base import BaseBackend, StageTable
from tilewright.compiler.artifact import Stage
from tilewright.ir.core import Op
from tilewright.ir.parser import parse_module
from tilewright.ir.printer import print_op
from tilewright.ir.verifier import verify
from tilewright.support import knobs
from tilewright.transforms.pipeline import PASSES, dump, dump_after, optimize_ttir


def stage_table(backend: BaseBackend, options: Any, *, dump_ir: bool = False) -> StageTable:
    """Every stage by name, in order: the passes on TTIR, then what the back end puts there.

    Args:
        backend: the back end of the machine.
        options: its options.
        dump_ir: print the module before the passes on TTIR and after each one to stderr.
    """
    fuse = getattr(options, "enable_fp_fusion", True)  # other packages' options need not have it
    stages: StageTable = {"ttir": partial(_optimized, fuse=fuse, dump_ir=dump_ir)}
    backend.add_stages(stages, options)
    return stages


def stored(product: Any) -> Stage:
    """The form in which a product is kept: text, or bytes."""
    if isinstance(product, Op):
        return print_op(product)
    return product if isinstance(product, bytes) else str(product)


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
