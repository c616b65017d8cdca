"""Text read and printed again is the same text: what Triton 3.5.1 printed for our kernels, and every op we know."""

from __future__ import annotations

from pathlib import Path

import pytest

import tilewright.dialects  # noqa: F401  (declares the ops)
from tilewright.ir.core import Op
from tilewright.ir.declare import OPS
from tilewright.ir.parser import parse_module
from tilewright.ir.printer import print_op
from tilewright.ir.verifier import verify

HERE = Path(__file__).parent
TRITON_TEXTS = sorted((HERE / "triton_text").iterdir())
EVERY_OP = (HERE / "every_op.ttir").read_text()
EVERY_GPU_OP = (HERE / "every_gpu_op.ttgir").read_text()
CLUSTERS = """module attributes {"ttg.num-ctas" = 2 : i32, "ttg.num-warps" = 4 : i32} {
  tt.func public @clusters() {
    ttng.fence_mbarrier_init_release_cluster
    ttng.cluster_barrier {relaxed = true}
    ttng.cluster_arrive {relaxed = false}
    ttng.cluster_wait
    tt.return
  }
}
"""
VECTORS = """module {
  tt.func public @vectors(%p: !tt.ptr<i8>, %q: !tt.ptr<f32>, %o: i64, %x: f32, %b: i1) attributes {noinline = false} {
    %0 = vector.load %p[%o] : !tt.ptr<i8> -> vector<16xf32>
    %1 = vector.load %p[%o, %o] {alignment = 4 : i64} : !tt.ptr<i8> -> vector<16xf32>
    %2 = vector.broadcast %x : f32 to vector<16xf32>
    %3 = arith.addf %0, %2 : vector<16xf32>
    %4 = arith.cmpf olt, %1, %3 : vector<16xf32>
    %5 = vector.reduction <or>, %4 : vector<16xi1> into i1
    vector.store %3, %p[%o] : !tt.ptr<i8>, vector<16xf32>
    vector.store %3, %p[%o] {alignment = 64 : i64, nontemporal} : !tt.ptr<i8>, vector<16xf32>
    vector.store %1, %p[%o, %o] : !tt.ptr<i8>, vector<16xf32>
    %6 = vector.maskedload %p[%o], %4, %2 : !tt.ptr<i8> -> vector<16xf32>
    %7 = vector.maskedload %p[%o, %o], %4, %2 {alignment = 4 : i64} : !tt.ptr<i8> -> vector<16xf32>
    vector.maskedstore %6, %p[%o], %4 : !tt.ptr<i8>, vector<16xf32>
    vector.maskedstore %7, %p[%o, %o], %4 : !tt.ptr<i8>, vector<16xf32>
    %8 = vector.step : vector<16xi64>
    %9 = vector.gather %q[%8] : !tt.ptr<f32>, vector<16xi64> -> vector<16xf32>
    %10 = vector.gather %q[%8], %4, %2 : !tt.ptr<f32>, vector<16xi64> -> vector<16xf32>
    vector.scatter %9, %q[%8] : !tt.ptr<f32>, vector<16xi64>, vector<16xf32>
    vector.scatter %10, %q[%8], %4 : !tt.ptr<f32>, vector<16xi64>, vector<16xf32>
    vector.prefetch %p[%o] {locality = 2 : i64, write} : !tt.ptr<i8>
    %11 = vector.alloca 256 : !tt.ptr<i8>
    %12 = vector.table {value = dense<[1, 2]> : vector<2xi16>} : !tt.ptr<i16>
    %13 = vector.shuffle %0, %1 [0, 16, 1, 17] : vector<16xf32> -> vector<4xf32>
    %14 = vector.shuffle %13 [3] : vector<4xf32> -> vector<1xf32>
    %15 = vector.extract %13[2] : vector<4xf32> -> f32
    %16 = vector.from_elements %15, %x : vector<2xf32>
    %17 = vector.fma %0, %1, %2 : vector<16xf32>
    %18 = vector.bitcast %17 : vector<16xf32> to vector<64xi8>
    %19 = vector.bitcast %17 : vector<16xf32> to vector<16xi32>
    %20 = vector.dot_accumulate %18, %18, %19 {unsigned} : vector<64xi8> -> vector<16xi32>
    %21 = vector.matrix_accumulate %18, %18, %20 : vector<64xi8> -> vector<16xi32>
    %22 = amx.tile_load %p[%o], %o : !tt.ptr<i8> -> vector<16x32xbf16>
    %23 = amx.tile_load %p[%o], %o : !tt.ptr<i8> -> vector<16x16xf32>
    %24 = amx.tile_mulf %22, %22, %23 : vector<16x32xbf16>, vector<16x32xbf16> -> vector<16x16xf32>
    amx.tile_store %24, %p[%o], %o : !tt.ptr<i8>, vector<16x16xf32>
    %25 = amx.tile_load %p[%o], %o : !tt.ptr<i8> -> vector<16x64xi8>
    %26 = amx.tile_load %p[%o], %o : !tt.ptr<i8> -> vector<16x16xi32>
    %27 = amx.tile_muli %25, %25, %26 : vector<16x64xi8>, vector<16x64xi8> -> vector<16x16xi32>
    scf.for %arg5 = %o to %o step %o  : i64 {
    } {vector.nonempty}
    scf.if %b {
    } {vector.unlikely}
    tt.return
  }
}
"""
GLUON = """\
#blocked = #ttg.blocked<{sizePerThread = [1], threadsPerWarp = [32], warpsPerCTA = [4], order = [0]}>
module {
  tt.func public @f(%x: tensor<64xi32, #gluon.auto_encoding>, %y: tensor<64xi32, #gluon.coalesced_encoding>) {
    %0 = gluon.set_auto_layout %x : tensor<64xi32, #gluon.auto_encoding> -> tensor<64xi32, #blocked>
    tt.return
  }
}
"""
PARALLEL = """module {
  tt.func public @parallel(%p: !tt.ptr<f32>, %o: i64) {
    %0 = scf.parallel %arg2 = %o to %o step %o -> (vector<4xf32>) : i64 {
      %1 = vector.load %p[%arg2] : !tt.ptr<f32> -> vector<4xf32>
      scf.reduce(%1) : vector<4xf32> {
      ^bb0(%arg3: f32, %arg4: f32):
        %2 = arith.addf %arg3, %arg4 : f32
        scf.reduce.return %2 : f32
      }
    }
    tt.return
  }
}
"""
LATER_THAN_3_5 = ("tt.grid_dependency_wait", "tt.grid_dependency_launch_dependents")
SAMPLES = {"every_op": EVERY_OP, "every_gpu_op": EVERY_GPU_OP, "clusters": CLUSTERS, "vectors": VECTORS}
SAMPLES |= {"gluon": GLUON, "parallel": PARALLEL}


@pytest.mark.parametrize("path", TRITON_TEXTS, ids=lambda path: path.name)
def test_text_of_triton_prints_as_it_was(path: Path) -> None:
    text = path.read_text()
    module = parse_module(text, path.name)
    verify(module)
    assert print_op(module, locations=True).splitlines() == text.rstrip().splitlines()


@pytest.mark.parametrize("path", TRITON_TEXTS, ids=lambda path: path.name)
def test_text_without_locations_is_stable(path: Path) -> None:
    once = print_op(parse_module(path.read_text()))
    assert "loc(" not in once
    assert print_op(parse_module(once)) == once


@pytest.mark.quick
@pytest.mark.parametrize("text", SAMPLES.values(), ids=SAMPLES)
def test_every_op_prints_as_it_was(text: str) -> None:
    module = parse_module(text)
    verify(module)
    assert print_op(module) == text


def test_every_op_has_a_sample() -> None:
    shown = {op.name for text in SAMPLES.values() for op in parse_module(text).walk()} | {"arith.constant"}
    ours = {name for name in OPS if not name.startswith("cpu.")}
    assert ours - shown == set()


def test_spellings_of_triton_3_9_are_read() -> None:
    text = """tt.func @f(%p: !tt.ptr<f32>, %d: !tt.tensordesc<8xf32>, %k: i32) {
  ttg.barrier global_read|global_write
  %x = tt.load %p {cachePolicy = #tt.cache_policy<cache_modifier = ca, eviction_policy = evict_first>, isVolatile = true} : !tt.ptr<f32>
  %y = tt.descriptor_load %d[%k] {cachePolicy = #tt.cache_policy<cache_modifier = cg>} : !tt.tensordesc<8xf32> -> tensor<8xf32>
  tt.return
}"""  # noqa: E501 - one line of IR
    assert print_op(parse_module(text)).splitlines()[2:5] == [
        "    ttg.barrier global_read|global_write",
        "    %x = tt.load %p cacheModifier = ca evictionPolicy = evict_first {isVolatile = true} : !tt.ptr<f32>",
        "    %y = tt.descriptor_load %d[%k] cacheModifier = cg : !tt.tensordesc<tensor<8xf32>> -> tensor<8xf32>",
    ]


def test_a_cluster_arrives_as_triton_3_7_writes_it() -> None:
    written = print_op(parse_module(CLUSTERS.replace(" {relaxed = false}", "")))
    assert written == CLUSTERS, "Triton 3.5 wants the attribute"


def test_a_clone_prints_the_same() -> None:
    module = parse_module(EVERY_OP)
    assert print_op(module.clone()) == EVERY_OP


@pytest.mark.needs_triton
def test_triton_reads_what_we_print(tmp_path: Path) -> None:
    """Triton's own parser and verifier accept every op of its version, and print it as we do (values without names)."""
    import triton
    from triton._C.libtriton import ir
    from triton.backends.compiler import GPUTarget
    from triton.compiler.compiler import make_backend

    lines = EVERY_OP.splitlines(keepends=True)
    if triton.__version__.startswith("3.5"):
        lines = [line for line in lines if line.strip() not in LATER_THAN_3_5]
    module = parse_module("".join(lines))
    forget_names(module)
    path = tmp_path / "every_op.ttir"
    path.write_text(print_op(module))
    context = ir.context()
    ir.load_dialects(context)
    make_backend(GPUTarget("cuda", 80, 32)).load_dialects(context)
    theirs = ir.parse_mlir_module(str(path), context)
    assert theirs.verify()
    again = parse_module(str(theirs))
    forget_names(again)
    assert print_op(again) == path.read_text()


def forget_names(module: Op) -> None:
    """Let all values be numbered."""
    for op in module.walk():
        for value in op.results:
            value.name = None
        for region in op.regions:
            for block in region.blocks:
                for argument in block.args:
                    argument.name = None


def test_ops_without_a_format_keep_keywords_and_types() -> None:
    text = """module {
  tt.func @f(%t: tensor<4xf32>) {
    %s = "cpu.nest"() <{mode = rows, outer = array<i64: 64>, part = f8E5M2}> ({
      "cpu.yield"(%t) : (tensor<4xf32>) -> ()
    }) : () -> tensor<4xf32>
    tt.return
  }
}
"""
    assert print_op(parse_module(text)) == text
