"""From a specialised kernel to one that can run: out of the disk cache, or through the compiler.

digest of the cache key → entry on disk? → else compile, link, store → CompiledKernel
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

from tilewright.backends.cpu.options import CpuOptions, parse_options
from tilewright.backends.llvm.machine import Target, host_target
from tilewright.compiler.artifact import Artifact, Metadata, Stages, StageSource
from tilewright.compiler.cache_key import COMPILER_IDENTITY, CacheKey, llvm_identity
from tilewright.compiler.signature import ArgumentSpec
from tilewright.language.callable import JITCallable
from tilewright.runtime import late
from tilewright.runtime.cache import DiskCache, Entry, StoredEntry, file_stem, write_whole
from tilewright.runtime.dependencies import value_text
from tilewright.runtime.kernel import CompiledKernel, Image
from tilewright.support import knobs

IMAGE, OBJECT, ASSEMBLY = "image", "obj", "asm"
BINARY = (IMAGE, OBJECT)


class KernelRequest(NamedTuple):
    """A kernel to be made ready.

    Attributes:
        function: the kernel.
        name: its symbol.
        source: its text, asked for only when it is compiled.
        signature: one entry per parameter.
        options: the keywords of the launch that are no parameters.
    """

    function: JITCallable
    name: str
    source: Callable[[], str]
    signature: Sequence[ArgumentSpec]
    options: Mapping[str, Any]


def make_kernel(request: KernelRequest) -> CompiledKernel:
    """The kernel, from the disk cache or compiled.

    Raises:
        CompilationError: the kernel is wrong.
        KeyError, ValueError: an option does not exist or cannot have its value.
    """
    options = parse_options(_with_defaults(request.options))
    target = host_target(knobs.tilewright.cpu)
    digest = _cache_key(request, target, options).digest
    disk = _disk_cache(knobs.cache.dir)
    if not knobs.compilation.always_compile:
        stored = disk.load(digest, request.name)
        kernel = _from_disk(stored, target, options, request) if stored else None
        if kernel:
            return kernel
    artifact = late.compile_kernel(
        request.function,
        name=request.name,
        source=request.source,
        signature=request.signature,
        digest=digest,
        target=target,
        options=options,
        dump_ir=knobs.tilewright.ir_dump in ("1", request.name),
    )
    return _from_compiler(artifact, request, disk, target)


def _with_defaults(given: Mapping[str, Any]) -> dict[str, Any]:
    """The options of a launch, with what the knobs say where it does not."""
    options = {"debug": knobs.runtime.debug, "enable_fp_fusion": knobs.language.fp_fusion_enabled, **given}
    if knobs.language.fp32_default is not None:
        options.setdefault("default_dot_input_precision", knobs.language.fp32_default)
    if knobs.language.force_disable_fp_fusion:
        options["enable_fp_fusion"] = False
    return options


def _cache_key(request: KernelRequest, target: Target, options: CpuOptions) -> CacheKey:
    return CacheKey(
        function=request.function.cache_key,
        name=request.name,
        signature=";".join(map(_spec_text, request.signature)),
        target=target.identity,
        options=options.identity,
        compiler=COMPILER_IDENTITY,
        llvm=llvm_identity(),
    )


def _spec_text(spec: ArgumentSpec) -> str:
    if spec.is_constant:
        return f"{spec.name}={value_text(spec.constant)}"
    inner = f"({';'.join(map(_spec_text, spec.elements))}){spec.sequence.__qualname__}" if spec.elements else ""
    return f"{spec.name}:{spec.type}/{spec.divisibility}{inner}"


def _from_compiler(artifact: Artifact, request: KernelRequest, disk: DiskCache, target: Target) -> CompiledKernel:
    blob = late.link(artifact.object)
    image = Image(blob.image, blob.symbols[artifact.metadata.entry], target.runs_here())
    files = {IMAGE: image.code}
    if not knobs.compilation.store_binary_only:
        texts = {name: artifact.asm[name] for name in artifact.asm if name != ASSEMBLY}
        files |= {name: stage if isinstance(stage, bytes) else stage.encode() for name, stage in texts.items()}
    disk.store(artifact.hash, artifact.name, Entry({**artifact.metadata._asdict(), "entry_offset": image.entry}, files))
    if knobs.compilation.dump_ir:
        _dump(artifact, Path(knobs.cache.dump_dir) / artifact.hash)
    return CompiledKernel(artifact, image, request.signature)


def _from_disk(
    stored: StoredEntry, target: Target, options: CpuOptions, request: KernelRequest
) -> CompiledKernel | None:
    facts = {**stored.facts, **options.facts()}
    try:
        image = Image(stored.read(IMAGE), facts.pop("entry_offset"), target.runs_here())
    except (OSError, KeyError):
        return None
    stages: dict[str, StageSource] = {}
    for suffix in stored.suffixes:
        if suffix == OBJECT:
            stages[ASSEMBLY] = partial(_assembly, stored, target)
            stages[OBJECT] = partial(stored.read, OBJECT)
        elif suffix != IMAGE:
            stages[suffix] = partial(_text, stored, suffix)
    return CompiledKernel(Artifact(Stages(stages), Metadata(facts), OBJECT), image, request.signature)


def _text(stored: StoredEntry, suffix: str) -> str:
    return stored.read(suffix).decode()


def _assembly(stored: StoredEntry, target: Target) -> str:
    texts = {suffix: _text(stored, suffix) for suffix in stored.suffixes if suffix not in BINARY}
    return late.cpu_assembly(texts, target)


def _dump(artifact: Artifact, folder: Path) -> None:
    """Every stage as a file, for TRITON_KERNEL_DUMP."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in artifact.asm:
        stage = artifact.asm[name]
        content = stage if isinstance(stage, bytes) else stage.encode()
        write_whole(folder / f"{file_stem(artifact.name)}.{name}", content)


@cache
def _disk_cache(root: str) -> DiskCache:
    return DiskCache(Path(root))
