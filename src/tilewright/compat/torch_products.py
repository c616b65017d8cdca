"""Products of float32 matrices in torch's graphs, computed by our kernels on some CPUs.

torch calls MKL for them, which runs AVX2 code on AMD's processors. Those from Zen 5 on execute vectors of 512 bits at
once: there the products of a model take 0.45 to 0.65 of MKL's time as kernels, those of two to seven rows 0.3 to 0.95,
and the ops after a product are computed before it leaves the caches. On other CPUs MKL is as fast. Products remain
calls of MKL there, and in these cases: sizes other than the number of rows are known only at run time; there is one
row, or few columns; `beta=0` hides NaNs of the addend; the dtype is another one.

Inductor has templates of such kernels, and chooses one by timing twenty of them (`max_autotune`). Here the block
follows from the sizes of the product, and nothing is timed. If the user asks for `max_autotune`, torch chooses.

Ops before a product remain a kernel of their own: a product would compute them once for each of its columns of blocks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import wraps
from importlib import import_module
from math import prod
from typing import Any

from tilewright.backends.cpu.backend import machine_for
from tilewright.backends.llvm.machine import Target
from tilewright.runtime.build import cpu_target
from tilewright.support import knobs
from tilewright.support.named_tuple import NamedTuple

TEMPLATES, CANDIDATES = "torch._inductor.choices", "torch._inductor.select_algorithm"
OPERATORS = ("mm", "addmm", "bmm", "baddbmm")
"""Names of torch's operators whose templates are taken."""
SETTINGS = {
    "max_autotune_gemm": True,
    "max_autotune_gemm_backends": "TRITON",
    "benchmark_epilogue_fusion": False,
    "triton.num_decompose_k_splits": 0,
}
"""Settings of Inductor with which it offers one kernel per product, and fuses what follows without timing it."""
LEAST_SIZE = 2
"""Min number of rows and terms: with one row, MKL reads the other matrix as fast as memory gives it."""
LEAST_COLUMNS = 8
"""Min number of columns: with fewer, most lanes of a vector are empty."""
LIKELY_ROWS = 64
"""The number of rows that is expected where data decide on it."""
COSTS_OF_ROWS = {128: 1.0, 64: 1.04, 32: 1.1, 16: 1.2, 8: 1.2, 4: 1.2, 2: 1.2}
"""The cost of a number in a block of that many rows, beside one in the highest block."""
FEW_ROWS = 16
"""Min rows of a block that is one of several on top of each other: each moves the other matrix's columns again."""
COLUMNS_OF_BLOCK, TERMS_OF_STEP = (16, 64), (2, 64)
"""Min and max of the columns of a block, and of the terms of one of its steps."""
PROGRAMS = 2
"""Min number of programs for each thread, as long as blocks can be lower."""


class Block(NamedTuple):
    """A block of a product that a program computes, and the terms that it adds in a step."""

    rows: int
    columns: int
    terms: int


_BLOCK: ContextVar[Block | None] = ContextVar("block", default=None)
"""The block of the product that is being lowered."""


def are_taken(torch: Any) -> bool:
    """Whether products are kernels: as the user has set it, or where that is faster than the library of `torch`."""
    wanted = knobs.tilewright.torch_products
    if wanted is not None:
        return wanted
    return bool(torch.backends.mkl.is_available()) and outruns_mkl(machine_for(str(cpu_target().arch)))


def outruns_mkl(target: Target) -> bool:
    """Whether kernels for `target` multiply with wider vectors than MKL."""
    return target.tune.startswith("znver") and target.vector_bits == 512 and not target.costs.splits_vectors


def block_of(rows: int, columns: int, terms: int, *, batch: int = 1, threads: int = 1) -> Block | None:
    """The block for `batch` products of `rows` × `terms` and `terms` × `columns`; None if some threads get none."""
    wide = _power(columns, *COLUMNS_OF_BLOCK)
    across = batch * -(-columns // wide)
    programs = {high: -(-rows // high) * across for high in COSTS_OF_ROWS if high >= min(rows, FEW_ROWS)}
    lowest = min(programs)
    if programs[lowest] < threads:
        return None
    heights = [high for high, count in programs.items() if count >= PROGRAMS * threads]
    best = min(heights or [lowest], key=lambda high: -(-rows // high) * high * COSTS_OF_ROWS[high])
    return Block(best, wide, _power(terms, *TERMS_OF_STEP))


def _power(length: int, least: int, most: int) -> int:
    """The least power of two from `least` to `most` that is not below `length`, or `most`."""
    return min(most, max(least, 1 << (length - 1).bit_length()))


def take_products(lowerings: Any) -> None:
    """Let the module `torch._inductor.lowering` make kernels of products on CPUs."""
    refused = import_module(CANDIDATES).NoValidChoicesError
    for name in OPERATORS:
        operator = getattr(lowerings.aten, name).default
        lowerings.lowerings[operator] = _taking(lowerings.lowerings[operator], lowerings, refused)


def _taking(original: Callable[..., Any], lowerings: Any, refused: type[Exception]) -> Callable[..., Any]:
    config = lowerings.config

    @wraps(original)
    def lower(*operands: Any, **named: Any) -> Any:
        is_asked = config.max_autotune or config.max_autotune_gemm or config.cpu_backend != "triton"
        is_left = is_asked or named.get("beta") == 0 or not are_taken(lowerings.torch)
        block = None if is_left else _block(operands, lowerings)
        if block is None:
            return original(*operands, **named)
        try:
            with config.patch(SETTINGS), _taken(block):
                made = original(*operands, **named)
        except refused:
            return original(*operands, **named)
        made.data.data.allow_prologue_fusion = False
        return made

    return lower


def _block(operands: Sequence[Any], lowerings: Any) -> Block | None:
    """The block of the product of the last two of `operands`; None if it is the library's."""
    *_, left, right = operands
    if any(each.get_dtype() != lowerings.torch.float32 or not lowerings.ir.is_cpu(each) for each in operands):
        return None
    *sizes, rows, terms = left.get_size()
    sizes += [terms, right.get_size()[-1]]
    if not all(map(is_number, sizes)):
        return None
    *batch, terms, columns = map(int, sizes)
    if not is_number(rows):
        rows = max(FEW_ROWS, lowerings.V.graph.sizevars.optimization_hint(rows, fallback=LIKELY_ROWS))
    if min(rows, terms) < LEAST_SIZE or columns < LEAST_COLUMNS or 0 in batch:
        return None
    return block_of(int(rows), columns, terms, batch=prod(batch), threads=lowerings.torch.get_num_threads())


def is_number(size: Any) -> bool:
    """Whether a size of torch's is known when a graph is compiled."""
    return isinstance(size, int) or bool(size.is_Integer)


@contextmanager
def _taken(block: Block) -> Iterator[None]:
    token = _BLOCK.set(block)
    try:
        yield
    finally:
        _BLOCK.reset(token)


def choose_blocks(templates: Any) -> None:
    """Let the module `TEMPLATES` offer one candidate for a product that is taken: its template with its block."""
    handler = templates.InductorChoices
    original = handler._finalize_template_configs

    def finalized(self: Any, offered: Any, inputs: Any, *rest: Any, **named: Any) -> Any:
        found, block = original(self, offered, inputs, *rest, **named), _BLOCK.get()
        return found if block is None else list(_with_block(found, inputs, block))

    handler._finalize_template_configs = finalized


def _with_block(found: Iterable[Any], inputs: Any, block: Block) -> Iterator[Any]:
    """The first of the candidates with blocks, with `block`."""
    for candidate in found:
        settings = candidate.params.to_kwargs()
        if "BLOCK_M" in settings:
            *_, terms = inputs.mnk_symbolic()
            sizes = {"BLOCK_M": block.rows, "BLOCK_N": block.columns, "BLOCK_K": block.terms}
            settings |= sizes | {"EVEN_K": int(terms) % block.terms == 0}
            candidate.params = type(candidate.params)(settings)
            yield candidate
            return
