"""The pipeline with a back end that only records: stages, metadata, errors, IR dumps."""

from __future__ import annotations

import json
import pickle
from collections.abc import Mapping
from typing import Any

import pytest

import tilewright.language as tl
from tilewright.analysis.value_flow import stored_arguments
from tilewright.backends.base import BaseBackend, GPUTarget, Language, StageTable
from tilewright.backends.cpu.options import parse_options
from tilewright.compiler.artifact import Artifact, Metadata
from tilewright.compiler.compile import compile_kernel
from tilewright.compiler.signature import ArgumentSpec
from tilewright.ir.core import Op
from tilewright.language.callable import JITCallable
from tilewright.support.diagnostics import CompilationError


class Recorder(BaseBackend):
    """A back end that keeps what it gets."""

    binary_ext = "obj"
    assembly_ext = "asm"

    def __init__(self) -> None:
        super().__init__(GPUTarget("recorder", 1, 0))
        self.assembled = 0

    @staticmethod
    def supports_target(target: GPUTarget) -> bool:
        return target.backend == "recorder"

    def hash(self) -> str:
        return "recorder"

    def parse_options(self, options: dict[str, Any]) -> Any:
        return parse_options(options)

    def add_stages(self, stages: StageTable, options: Any, language: Language = Language.TRITON) -> None:
        stages["llir"] = self.write
        stages["obj"] = lambda text, metadata: b"\x7fELF" + text.encode()

    def write(self, module: Op, metadata: dict[str, Any]) -> str:
        metadata |= {"entry": "k_entry", "scratch_bytes": 192, "n": 1, "stored": sorted(stored_arguments(module))}
        return "define"

    def assembly(self, texts: Mapping[str, str]) -> str:
        self.assembled += 1
        return f"assembled {texts['llir']}"


def scale(x_ptr, out_ptr, n, factor, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < n
    tl.store(out_ptr + offsets, tl.load(x_ptr + offsets, mask=inside) * factor, mask=inside)


SIGNATURE = (
    ArgumentSpec("x_ptr", "*fp32", 16),
    ArgumentSpec("out_ptr", "*fp32", 16),
    ArgumentSpec("n", "i32"),
    ArgumentSpec("factor", "fp32"),
    ArgumentSpec("BLOCK", "constexpr", constant=64),
)


def compiled(fn: Any = scale, signature: Any = SIGNATURE, backend: Any = None, **extra: Any) -> Artifact:
    return compile_kernel(
        JITCallable(fn),
        name=fn.__name__,
        source=lambda: "the source",
        signature=signature,
        digest="digest",
        backend=backend or Recorder(),
        options=parse_options({"num_warps": 8, "num_threads": 2}),
        **extra,
    )


def test_stages_are_in_order_and_kept() -> None:
    artifact = compiled()
    assert list(artifact.asm) == ["source", "ttir", "llir", "asm", "obj"]
    assert artifact.asm["source"] == "the source"
    assert "tt.func public @scale" in str(artifact.asm["ttir"])
    assert artifact.binary == b"\x7fELFdefine"


def test_assembly_is_made_once_and_only_when_asked_for() -> None:
    backend = Recorder()
    artifact = compiled(backend=backend)
    assert backend.assembled == 0
    assert artifact.asm["asm"] == artifact.asm["asm"] == "assembled define"
    assert backend.assembled == 1


def test_metadata() -> None:
    metadata = compiled().metadata
    assert (metadata.name, metadata.entry, metadata.scratch_bytes) == ("scale", "k_entry", 192)
    assert (metadata.num_warps, metadata.num_threads, metadata.n) == (8, 2, 1)
    assert metadata.arguments == ["*fp32", "*fp32", "i32", "fp32"]
    assert metadata.stored == [1]
    assert (metadata.shared, metadata.target) == (192, GPUTarget("recorder", 1, 0))
    assert Metadata(json.loads(json.dumps(metadata.json_facts()))) == metadata
    assert repr(metadata).startswith("Metadata(")
    assert pickle.loads(pickle.dumps(metadata)) == metadata
    assert set(metadata._fields) == metadata._asdict().keys()
    with pytest.raises(AttributeError, match="cubin"):
        _ = metadata.cubin
    with pytest.raises(AttributeError):
        metadata.name = "other"


def test_types_reach_the_kernel() -> None:
    signature = (
        ArgumentSpec("x_ptr", "*kbf16"),
        ArgumentSpec("out_ptr", "*u8"),
        ArgumentSpec("n", "i64", 16),
        ArgumentSpec("factor", "u1"),
        ArgumentSpec("BLOCK", "constexpr", constant=32),
    )
    text = str(compiled(signature=signature).asm["ttir"])
    assert "(%x_ptr: !tt.ptr<bf16>, %out_ptr: !tt.ptr<i8>, %n: i64 {tt.divisibility = 16 : i32}, %factor: i1)" in text


def pair(where, out_ptr):
    tl.store(out_ptr + where[0], where[1])


def test_tuples_are_flattened() -> None:
    where = (ArgumentSpec("where.0", "i32"), ArgumentSpec("where.1", "constexpr", constant=7))
    artifact = compiled(pair, (ArgumentSpec("where", "tuple", elements=where), ArgumentSpec("out_ptr", "*i32")))
    assert artifact.metadata.arguments == ["i32", "*i32"]
    assert artifact.metadata.stored == [1]


def wrong(x_ptr, BLOCK: tl.constexpr):
    tl.store(x_ptr + tl.arange(0, BLOCK), missing_name)  # noqa: F821 - unknown on purpose


def test_mistakes_are_compilation_errors_with_the_place() -> None:
    with pytest.raises(CompilationError, match=r"missing_name") as caught:
        compiled(wrong, (ArgumentSpec("x_ptr", "*i32"), ArgumentSpec("BLOCK", "constexpr", constant=64)))
    assert "test_compile_stages.py" in str(caught.value)


def test_ir_dump(capsys: pytest.CaptureFixture[str]) -> None:
    compiled(dump_ir=True)
    dumped = capsys.readouterr().err
    assert dumped.index("IR Dump Before structure_control_flow") == len("// -----// ")
    assert "IR Dump After cse" in dumped
    assert dumped.count("tt.func public @scale") >= 5
