"""What kernels of torch's graphs for CPUs compute once, and store, where Inductor would let each reader compute it.

Inductor stores what is read several times, or by several rows, if exponentials and logarithms are in it. Sines, cosines
and powers take as long: a small Llama computed the cosine of each position and frequency for each head of each layer.
A table of embeddings reads an index once for each column, which torch does not count as rows.
"""

from __future__ import annotations

from math import prod
from typing import Any

LOWERINGS = "torch._inductor.lowering"
LONG = {"cos", "pow", "sin", "tan"}
"""Functions, as Inductor names them, that take longer than a load, beside those of which torch knows that."""


def store_functions(nodes: Any) -> None:
    """Let the module `torch._inductor.ir` store values with `LONG` functions that are read several times on CPUs."""
    original, config = nodes.StorageBox.should_realize_on_reuse, nodes.config

    def should_realize_on_reuse(self: Any, users: int, **named: Any) -> bool:
        if original(self, users, **named):
            return True
        computed = isinstance(self.data, (nodes.Pointwise, nodes.Reduction))
        if users < 2 or not computed or not nodes.is_cpu(self.data) or config.cpu_backend != "triton":
            return False
        return not LONG.isdisjoint(self.data.inner_fn_opcount().used_ops)

    nodes.StorageBox.should_realize_on_reuse = should_realize_on_reuse


def store_indices(lowerings: Any) -> None:
    """Let the module `LOWERINGS` count each column of a table as a reader of its indices, on CPUs."""
    overload, known = lowerings.aten.embedding.default, lowerings.lowerings
    original, config = known[overload], lowerings.config

    def of_rows(weight: Any, indices: Any, *rest: Any, **named: Any) -> Any:
        columns = weight.get_size()[1:]
        if lowerings.ir.is_cpu(weight) and config.cpu_backend == "triton" and all(map(_is_number, columns)):
            indices.mark_reuse(prod(map(int, columns)), graph_reuse=False)
        return original(weight, indices, *rest, **named)

    known[overload] = of_rows


def _is_number(size: Any) -> bool:
    return isinstance(size, int) or bool(size.is_Integer)
