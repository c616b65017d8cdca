"""`compile`: kernels for a signature, the text of each stage, listeners, hooks, text in the place of a stage."""

from __future__ import annotations

import inspect
import multiprocessing
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import tilewright as tw
import tilewright.language as tl
from tilewright.backends.base import GPUTarget, Language, OptionError
from tilewright.ir.attributes import UNIT
from tilewright.ir.errors import ParseError
from tilewright.runtime import build
from tilewright.runtime.compile import ASTSource, IRSource, compile, filter_traceback, get_cache_key, make_backend
from tilewright.runtime.kernel import CompiledKernel
from tilewright.support import knobs


@pytest.fixture(autouse=True)
def own_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


@tw.jit
def add(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr = 64):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < n
    total = tl.load(x_ptr + offsets, mask=inside) + tl.load(y_ptr + offsets, mask=inside)
    tl.store(out_ptr + offsets, total, mask=inside)


SIGNATURE = {"x_ptr": "*fp32", "y_ptr": "*fp32", "out_ptr": "*fp32", "n": "i32", "BLOCK": "constexpr"}
ALIGNED = {(i,): [["tt.divisibility", 16]] for i in range(3)}


def source(block: int = 128, **changes: Any) -> ASTSource:
    return ASTSource(add, SIGNATURE | changes, {"BLOCK": block}, ALIGNED)


def check(kernel: CompiledKernel, *constants: int, block: int = 128) -> None:
    """Runs an addition; `constants` stand where the kernel has constexprs."""
    x = np.arange(1000, dtype=np.float32)
    out = np.zeros_like(x)
    kernel[(-(-1000 // block),)](x, x, out, 1000, *constants)
    np.testing.assert_array_equal(out, x + x)


def test_kernel_for_a_signature() -> None:
    kernel = compile(source())
    check(kernel, 128)
    assert list(kernel.asm) == ["source", "ttir", "ttcir", "llir", "asm", "obj"]
    assert kernel.asm["source"] == inspect.getsource(add.fn).partition("\n")[2]
    assert kernel.kernel == kernel.asm["obj"]
    assert "tensor<128xi32>" in str(kernel.asm["ttir"])


def test_what_a_source_says_of_itself() -> None:
    given = source()
    assert given.signature == SIGNATURE
    assert given.constants == {(4,): 128}
    assert given.attrs == ALIGNED
    assert (given.name, given.ext, given.language, given.parse_options()) == ("add", "ttir", Language.TRITON, {})
    assert len(given.hash()) == 64
    assert len({given.hash(), source(64).hash(), source(n="i64").hash()}) == 3


def test_constants_may_be_left_to_their_defaults() -> None:
    signature = {name: kind for name, kind in SIGNATURE.items() if name != "BLOCK"}
    assert ASTSource(add, signature).constants == {(4,): 64}
    assert ASTSource(add, SIGNATURE, {(4,): tl.constexpr(32)}).constants == {(4,): 32}


class Place(NamedTuple):
    base: Any
    step: Any


@tw.jit
def strided(place, out_ptr):
    tl.store(out_ptr + place.base * place.step, 7)


def test_tuples_by_path() -> None:
    given = ASTSource(strided, {"place": Place("i32", "constexpr"), "out_ptr": "*i32"}, {(0, 1): 3})
    assert given.signature == {"place": Place("i32", "constexpr"), "out_ptr": "*i32"}
    assert given.constants == {(0, 1): 3}
    out = np.zeros(8, np.int32)
    compile(given)[(1,)](Place(2, 3), out)
    assert out.tolist() == [0, 0, 0, 0, 0, 0, 7, 0]


@pytest.mark.quick
@pytest.mark.parametrize(
    ("signature", "constexprs", "message"),
    [
        ({"x_ptr": "*fp32"}, {}, "parameter 'y_ptr' has neither a type"),
        (SIGNATURE | {"z": "i32"}, {}, "no parameter 'z'"),
        (SIGNATURE, {(9,): 1}, "no parameter"),
        (SIGNATURE | {"n": "f32"}, {}, "f32"),
    ],
)
def test_wrong_signatures(signature: dict[str, str], constexprs: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        compile(ASTSource(add, signature, constexprs))


def test_keys_of_a_signature_are_names() -> None:
    with pytest.raises(TypeError, match="string"):
        ASTSource(add, {0: "*fp32"})


def test_metadata_and_attributes_are_tritons() -> None:
    kernel = compile(source(), options={"num_warps": 8})
    metadata = kernel.metadata
    assert (metadata.name, metadata.num_warps, metadata.num_ctas, metadata.num_stages) == ("add", 8, 1, 3)
    assert isinstance(metadata.target, GPUTarget)
    assert metadata.target.backend == "cpu"
    assert metadata.shared >= 1
    kernel._init_handles()
    assert kernel.n_regs in (16, 32)
    assert (kernel.n_spills, kernel.packed_metadata) == (0, (8, 1, metadata.shared))
    assert kernel.src.fn is add
    assert set(kernel.metadata_group) == {
        f"add.{s}" for s in ("source", "ttir", "llir", "obj", "image", "json")
    }
    assert all(Path(path).exists() for path in kernel.metadata_group.values())


def test_compile_and_launch_share_the_cache() -> None:
    x = np.zeros(128, np.float32)
    launched = tw.jit(add.fn).warmup(x, x, x, 100, BLOCK=128, grid=(1,))
    assert compile(source()).hash == launched.hash
    assert compile(source(64)).hash != launched.hash


@pytest.mark.parametrize("stage", ["ttir", "ttcir", "llir"])
def test_text_of_a_stage(stage: str, tmp_path: Path) -> None:
    path = tmp_path / f"add.{stage}"
    whole = compile(source())
    path.write_bytes(str(whole.asm[stage]).encode())
    kernel = compile(str(path))
    check(kernel)
    assert kernel.kernel == whole.kernel
    assert next(iter(kernel.asm)) == stage
    assert kernel.asm[stage] == path.read_text(), "the passes of the stage do not run again"
    assert isinstance(kernel.src, IRSource)
    assert kernel.src.name == "@add"
    assert compile(path).hash == kernel.hash
    out = np.zeros(128, np.float32)
    out.flags.writeable = False
    with pytest.raises(tw.ReadOnlyError):
        kernel[(1,)](out, out, out, 100)


@pytest.mark.parametrize("stage", ["ttir", "llir"])
def test_lines_of_texts_may_end_as_on_windows(stage: str, tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    paths = (tmp_path / f"add.{stage}", tmp_path / "a" / f"add.{stage}")
    text = str(compile(source()).asm[stage]).encode()
    for path, content in zip(paths, (text, text.replace(b"\n", b"\r\n")), strict=True):
        path.write_bytes(content)
    first, second = map(compile, paths)
    assert first.asm[stage] == second.asm[stage]
    check(second)


def test_text_of_a_stage_from_the_cache(tmp_path: Path) -> None:
    path = tmp_path / "add.llir"
    path.write_text(str(compile(source()).asm["llir"]))
    first = compile(path)
    again = compile(path)
    assert first is not again
    assert (again.hash, again.metadata) == (first.hash, first.metadata)
    check(again)


def test_tritons_own_text() -> None:
    """As Triton 3.5.1 prints a kernel: locations with aliases, a call of a function that is not inlined."""
    kernel = compile(str(Path(__file__).with_name("tritons_add.ttir")))
    check(kernel)
    assert kernel.src.signature == {0: "*f32", 1: "*f32", 2: "*f32", 3: "i32"}
    assert [spec.divisibility for spec in kernel.src.specs] == [16, 1, 1, 1]


TRITONS_TEXTS = Path(__file__).parents[1] / "ir" / "triton_text"


def tritons_text(name: str, tmp_path: Path) -> CompiledKernel:
    """A text that Triton 3.5.1 printed: `x.source` before its passes, `x.ttir` behind them."""
    path = tmp_path / f"{name}.ttir"
    path.write_text((TRITONS_TEXTS / name).read_text())
    return compile(path)


@pytest.mark.parametrize("name", sorted(path.name for path in TRITONS_TEXTS.iterdir() if path.stem != "maths"))
def test_tritons_texts_compile(name: str, tmp_path: Path) -> None:
    assert tritons_text(name, tmp_path).kernel.startswith(b"\x7fELF")


@pytest.mark.parametrize(
    ("changes", "what"),
    [({}, "the op tt.elementwise_inline_asm"), ({"__nv_asinf": "__nv_asinpif"}, "the function __nv_asinpif")],
)
def test_what_only_texts_have_is_refused(changes: dict[str, str], what: str, tmp_path: Path) -> None:
    text = (TRITONS_TEXTS / "maths.ttir").read_text()
    for old, new in changes.items():
        text = text.replace(old, new)
    path = tmp_path / "maths.ttir"
    path.write_text(text)
    with pytest.raises(tw.Unsupported, match=f"{what} is not supported"):
        compile(path)


@pytest.mark.parametrize(
    ("symbol", "expected"),
    [("__nv_tanhf", np.tanh), ("__nv_rcbrtf", lambda x: 1 / np.cbrt(x)), ("__ocml_exp_f32", np.exp)],
)
def test_mathematics_of_other_libraries(symbol: str, expected: Callable[[Any], Any], tmp_path: Path) -> None:
    path = tmp_path / f"{symbol}.ttir"
    text = """tt.func public @k(%x: !tt.ptr<f32>) {
      %i = tt.make_range {end = 8 : i32, start = 0 : i32} : tensor<8xi32>
      %p = tt.splat %x : !tt.ptr<f32> -> tensor<8x!tt.ptr<f32>>
      %q = tt.addptr %p, %i : tensor<8x!tt.ptr<f32>>, tensor<8xi32>
      %v = tt.load %q : tensor<8x!tt.ptr<f32>>
      %t = tt.extern_elementwise %v {libname = "", libpath = "", pure = true, symbol = "__nv_tanhf"} :
        (tensor<8xf32>) -> tensor<8xf32>
      tt.store %q, %t : tensor<8x!tt.ptr<f32>>
      tt.return
    }"""
    path.write_text(text.replace("__nv_tanhf", symbol))
    x = np.linspace(-3, 3, 8, dtype=np.float32)
    out = x.copy()
    compile(path)[(1,)](out)
    np.testing.assert_allclose(out, expected(x), rtol=1e-6)


@pytest.mark.parametrize("name", ["softmax.source", "softmax.ttir"])
def test_tritons_softmax(name: str, tmp_path: Path) -> None:
    x = np.random.default_rng(0).standard_normal((5, 100)).astype(np.float32)
    out = np.zeros_like(x)
    tritons_text(name, tmp_path)[(3,)](out, x, 100, 100, 5, 100)
    expected = np.exp(x - x.max(axis=1, keepdims=True))
    np.testing.assert_allclose(out, expected / expected.sum(axis=1, keepdims=True), rtol=1e-5)


def test_tritons_matmul(tmp_path: Path) -> None:
    M, N, K = 70, 90, 100
    random = np.random.default_rng(0)
    a, b = (random.standard_normal(shape).astype(np.float16) for shape in ((M, K), (K, N)))
    c = np.zeros((M, N), np.float16)
    tritons_text("matmul.ttir", tmp_path)[(64,)](a, b, c, M, N, K, K, 1, N, 1, N, 1)
    np.testing.assert_allclose(c, a.astype(np.float32) @ b.astype(np.float32), rtol=1e-2, atol=1e-2)


INLINE_ASSEMBLY = """
tt.func public @k(%x: i32) {
  %y = tt.elementwise_inline_asm "nop" {constraints = "=r,r", packed_element = 1 : i32, pure = true} %x : i32 -> i32
  tt.return
}
"""


@pytest.mark.quick
@pytest.mark.parametrize(
    ("name", "text", "error", "message"),
    [
        ("a.ttir", "module { what }", ParseError, "what"),
        ("a.ttir", "module {}", ValueError, "expected one public tt.func, found 0"),
        ("a.ttgir", "module {}", ValueError, "cpu has no stage 'ttgir'; it has ttir, ttcir, llir, obj"),
        ("a.asm", "ret", ValueError, "assembly can only be read; begin with the text of llir"),
        ("a.s", "ret", ValueError, "assembly can only be read"),
        ("a.llir", "define void @f() { ret void }", ValueError, "does not say what arguments"),
        ("a.obj", "ELF", ValueError, "does not say what arguments"),
        ("a.ttir", INLINE_ASSEMBLY, tw.Unsupported, "the op tt.elementwise_inline_asm is not supported"),
    ],
)
def test_wrong_texts(name: str, text: str, error: type[Exception], message: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(error, match=message):
        compile(str(tmp_path / name))


def test_another_cpu() -> None:
    kernel = compile(source(), target=GPUTarget("cpu", "neoverse-v1", 0))
    assert "fadd" in kernel.asm["asm"]
    assert kernel.metadata.target == GPUTarget("cpu", "neoverse-v1", 0)


def test_the_cpu_number_zero_is_this_one() -> None:
    target = GPUTarget("cpu", 0, 0)
    kernel = compile(source(), target=target)
    check(kernel, 128)
    assert kernel.metadata.target == target
    assert kernel.asm["asm"] == compile(source()).asm["asm"]
    assert make_backend(target).runs_here()


def test_listener_hears_of_compilations_and_hits(monkeypatch: pytest.MonkeyPatch) -> None:
    heard: list[dict[str, Any]] = []
    monkeypatch.setattr(knobs.compilation, "listener", lambda **what: heard.append(what))
    given = source()
    compile(given)
    compile(given)
    new, old = heard
    assert (new["cache_hit"], old["cache_hit"]) == (False, True)
    assert [name for name, _ in new["times"].lowering_stages] == ["ttir", "ttcir", "llir", "obj"]
    assert min(new["times"].ir_initialization, new["times"].total_lowering, new["times"].store_results) > 0
    assert old["times"].ir_initialization > 0
    assert (old["times"].total_lowering, old["times"].store_results) == (0, 0)
    assert old["src"] is given
    assert old["metadata"] == new["metadata"]
    assert old["metadata"]["target"] == GPUTarget("cpu", make_backend(old["metadata"]["target"]).target.arch, 0)
    assert old["metadata_group"] == new["metadata_group"]


def test_stage_inspection_hook_edits_the_table(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Any] = []

    def hook(self=None, stages=None, options=None, language=None, capability=None):
        if self is None:
            return "key of this hook", "hash of this hook"
        seen.append((list(stages), language, capability))
        optimise = stages["ttir"]
        stages["ttir"] = lambda module, metadata: seen.append("ttir") or optimise(module, metadata)
        stages["llir"] = lambda module, metadata: "; edited\n" + self.make_llir(module, metadata, options)
        return None

    plain = compile(source())
    monkeypatch.setattr(knobs.runtime, "add_stages_inspection_hook", hook)
    edited = compile(source())
    assert edited.hash != plain.hash
    assert seen == [(["ttir", "ttcir", "llir", "obj"], Language.TRITON, edited.metadata.target.arch), "ttir"]
    assert str(edited.asm["llir"]).startswith("; edited\n")
    check(edited, 128)


def test_ttcir_is_made_again_of_ttir_when_somebody_asks() -> None:
    new = compile(source())
    old = compile(source())
    assert "add.ttcir" not in old.metadata_group
    assert not new.asm.is_made("ttcir")
    assert new.asm["ttcir"] == old.asm["ttcir"]
    assert new.asm.is_made("ttcir")
    assert "cpu.nest" in new.asm["ttcir"]


def test_ttcir_that_a_hook_edits_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    def hook(self=None, stages=None, options=None, language=None, capability=None):
        if self is None:
            return "key of a hook", "hash of a hook"
        make = stages["ttcir"]

        def edited(module, metadata):
            module = make(module, metadata)
            next(iter(module.regions[0].block)).attributes["tw.edited"] = UNIT
            return module

        stages["ttcir"] = edited
        return None

    monkeypatch.setattr(knobs.runtime, "add_stages_inspection_hook", hook)
    for kernel in (compile(source()), compile(source())):
        assert "add.ttcir" in kernel.metadata_group
        assert "tw.edited" in kernel.asm["ttcir"]


def test_launches_ask_the_stage_inspection_hook_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    state = ["one"]

    def hook(self=None, stages=None, options=None, language=None, capability=None):
        return (state[0], state[0]) if self is None else None

    monkeypatch.setattr(knobs.runtime, "add_stages_inspection_hook", hook)
    x = np.zeros(64, np.float32)
    first, again = (add.warmup(x, x, x, 64, grid=(1,)) for _ in range(2))
    state[0] = "other"
    assert again is first
    assert add.warmup(x, x, x, 64, grid=(1,)) is not first


def test_a_cache_that_machines_share_does_not_know_dates(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a manager of their own, keys follow the dates of the package's files, which are soon read."""
    backend = make_backend(GPUTarget("cpu", "x86-64-v3", 0))
    options = backend.parse_options({})
    for manager, depends in ((None, True), (object, False)):
        with knobs.cache.scope():
            knobs.cache.manager_class = manager
            monkeypatch.setattr(build, "compiler_sources", lambda: "of files with some dates")
            before = build.cache_key(source(), backend, options).digest
            monkeypatch.setattr(build, "compiler_sources", lambda: "of the same with others")
            assert (build.cache_key(source(), backend, options).digest != before) == depends


def difference(text: str) -> str:
    return text.replace("arith.addf", "arith.subf")


def test_override_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The files that TRITON_KERNEL_DUMP writes can be edited and put into the override folder."""
    monkeypatch.setenv("TRITON_KERNEL_DUMP", "1")
    monkeypatch.setenv("TRITON_DUMP_DIR", str(tmp_path / "dump"))
    plain = compile(source())
    (tmp_path / "dump").rename(tmp_path / "override")
    monkeypatch.setenv("TRITON_OVERRIDE_DIR", str(tmp_path / "override"))
    monkeypatch.setenv("TRITON_KERNEL_OVERRIDE", "1")
    (folder,) = (tmp_path / "override").iterdir()
    for path in folder.iterdir():
        if path.suffix == ".ttir":
            path.write_text(difference(path.read_text()))
        else:
            path.unlink()
    changed = compile(source())
    assert changed.hash != plain.hash
    subtracts(changed)
    monkeypatch.delenv("TRITON_KERNEL_OVERRIDE")
    check(compile(source()), 128)


def test_override_option(tmp_path: Path) -> None:
    path = tmp_path / "mine.ttcir"
    path.write_text(difference(str(compile(source()).asm["ttcir"])))
    from_text = compile(source(), options={"ir_override": str(path)})
    subtracts(from_text)
    (tmp_path / "mine.obj").write_bytes(from_text.kernel)
    from_machine_code = compile(source(), options={"ir_override": str(tmp_path / "mine.obj")})
    subtracts(from_machine_code)
    assert len({from_text.hash, from_machine_code.hash, compile(source()).hash}) == 3


@pytest.mark.quick
@pytest.mark.parametrize("number", [0, 3, -4, "4"])
def test_warps_come_in_powers_of_two_on_every_target(number: Any) -> None:
    for target in (None, GPUTarget("cuda", 90, 32)):
        with pytest.raises(OptionError, match="num_warps must be a power of 2"):
            compile(source(), target=target, options={"num_warps": number})
    assert issubclass(OptionError, AssertionError)  # which is what Triton raises


def subtracts(kernel: CompiledKernel) -> None:
    x, out = np.ones(100, np.float32), np.ones(100, np.float32)
    kernel[(1,)](x, x, out, 100, 128)
    assert not out.any()


@pytest.mark.parametrize(
    ("variable", "value", "same"),
    [
        ("TRITON_DEBUG", "1", False),
        ("TRITON_F32_DEFAULT", "ieee", False),
        ("TRITON_DEFAULT_FP_FUSION", "0", False),
        ("TRITON_FORCE_DISABLE_FP_FUSION", "1", False),
        ("TILEWRIGHT_CPU", "x86-64-v2", False),
        ("TILEWRIGHT_NUM_THREADS", "1", True),
        ("TRITON_DUMP_DIR", "/tmp/elsewhere", True),
        ("TRITON_FRONT_END_DEBUGGING", "1", True),
        ("TRITON_PRINT_AUTOTUNING", "1", True),
    ],
)
def test_variables_that_change_code_are_in_the_key(
    variable: str, value: str, same: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(variable, raising=False)
    before = compile(source()).hash
    monkeypatch.setenv(variable, value)
    assert (compile(source()).hash == before) is same


def test_get_cache_key() -> None:
    backend = make_backend(GPUTarget("cpu", "x86-64-v3", 0))
    options = backend.parse_options({})
    assert get_cache_key(source(), backend, options, {}) == get_cache_key(source(), backend, options, {})
    assert get_cache_key(source(), backend, options, {"A": "1"}) != get_cache_key(source(), backend, options, {})
    assert get_cache_key(source(64), backend, options, {}) != get_cache_key(source(), backend, options, {})


@tw.jit
def wrong(x_ptr):
    tl.store(x_ptr, nothing)  # noqa: F821 - unknown on purpose


def frames(error: BaseException) -> list[str]:
    found, frame = [], error.__traceback__
    while frame is not None:
        found.append(frame.tb_frame.f_code.co_filename)
        frame = frame.tb_next
    return found


def test_filtered_tracebacks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEWRIGHT_FULL_TRACEBACK", "1")
    with pytest.raises(tw.CompilationError) as caught:
        compile(ASTSource(wrong, {"x_ptr": "*i32"}))
    assert any("frontends" in file for file in frames(caught.value))
    monkeypatch.setenv("TRITON_FRONT_END_DEBUGGING", "1")
    filter_traceback(caught.value)
    assert any("frontends" in file for file in frames(caught.value))
    monkeypatch.delenv("TRITON_FRONT_END_DEBUGGING")
    filter_traceback(caught.value)
    assert frames(caught.value)
    assert not any("frontends" in file for file in frames(caught.value))


def _in_child(action: Callable[[], object]) -> int | None:
    child = multiprocessing.get_context("fork").Process(target=action)
    child.start()
    child.join(60)
    return child.exitcode


def test_compile_in_a_forked_process() -> None:
    compile(source())
    assert _in_child(lambda: compile(source(256))) == 0
    check(compile(source(256)), 256, block=256)
