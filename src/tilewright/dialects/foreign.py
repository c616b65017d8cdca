"""Single ops of dialects that Triton's texts mention and that nothing here makes."""

from __future__ import annotations

from tilewright.dialects.assembly import assembly
from tilewright.ir.declare import Effect, declare

declare(
    "builtin.unrealized_conversion_cast", **assembly("?( %inputs* : !inputs*) to !outputs*{}", "inputs*", "outputs*")
)
declare("llvm.mlir.undef", **assembly("{} : !result", "", "result"))
declare("tti.experimental_fpsan_embed", **assembly(" %val{} : =>", "val", "result"))
declare("tti.experimental_fpsan_unembed", **assembly(" %val{} : =>", "val", "result"))
declare("tti.experimental_cluster_cta_id", **assembly("{} : !result", "", "result"))
for _dialect in ("amdg", "amdgpu"):
    declare(
        f"{_dialect}.local_load_packed_tranposed",
        effect=Effect.READ,
        **assembly(" %src{} : !src -> !result", "src", "result"),
    )
