"""Builds a kernel that can run from a source: from the disk cache, or by the compiler.

digest of the cache key → entry on disk? → else claim it, compile, link, store → CompiledKernel

`PreparationCounter` counts one-time work of this process that later launches reuse: kernels built, configurations
chosen.

before = PreparationCounter.count
fn()
is_like_any_other = PreparationCounter.count == before          # this call prepared nothing

`StandaloneStages` makes shared objects of a kernel for a CPU, which run without Python; AOTInductor uses them:

kernel.asm["so"]              # a shared object that exports the kernel as kernel.metadata.name
kernel.asm["launcher.so"]     # one that exports its launcher, run_from_nativert
"so" in kernel.asm            # False: they are no stages of compilation
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from time import perf_counter
from typing import Any

from tilewright.backends.base import BaseBackend, GPUTarget, StageTable, options_facts, options_identity
from tilewright.backends.registry import make_backend
from tilewright.compiler.artifact import Artifact, Metadata, Stage, Stages, StageSource
from tilewright.compiler.cache_key import CacheKey, compiler_sources, llvm_identity, portable_identity
from tilewright.compiler.signature import ArgumentSpec
from tilewright.runtime import devices, lazy_imports, trace
from tilewright.runtime.cache.claims import Claim
from tilewright.runtime.cache.folders import file_stem
from tilewright.runtime.cache.managers import base32, get_dump_manager, get_override_manager
from tilewright.runtime.cache.store import Entry, StoredEntry, load, store, warn_of_damage
from tilewright.runtime.gpu_stages import GpuStages
from tilewright.runtime.kernel import CompiledKernel, Image
from tilewright.runtime.sources import Source, signature_text, text_of
from tilewright.support import knobs
from tilewright.support.knobs import CompileTimes
from tilewright.support.named_tuple import NamedTuple
from tilewright.support.system import machine_name

IMAGE = "image"


def current_target() -> GPUTarget:
    """The default target of kernels: that of the device for what no array decides, or what TILEWRIGHT_CPU names."""
    device = devices.default_device()
    return cpu_target() if device is None else device.target


def cpu_target() -> GPUTarget:
    """This CPU, or what TILEWRIGHT_CPU names."""
    return GPUTarget("cpu", knobs.tilewright.cpu or machine_name(), 0)


def current_backend() -> BaseBackend:
    """The back end for `current_target()`."""
    return make_backend(current_target())


def build(source: Source, backend: BaseBackend, options: Mapping[str, Any]) -> CompiledKernel:
    """The kernel of a source, from the disk cache or compiled.

    Raises:
        CompilationError: the kernel is wrong.
        KeyError, ValueError: an option does not exist or cannot have its value.
    """
    PreparationCounter.count += 1
    job = _Job.of(source, backend, options)
    found = None if knobs.compilation.always_compile else _stored(job)
    if found is not None or knobs.compilation.always_compile:
        kernel = found or _from_compiler(job)
    else:
        with Claim(knobs.cache.dir, base32(job.digest)):  # another process may be compiling it
            found = _stored(job)
            kernel = found or _from_compiler(job)
    if knobs.compilation.listener is not None or trace.is_on():
        _report(kernel, job, is_new=found is None)
    return kernel


def _report(kernel: CompiledKernel, job: _Job, *, is_new: bool) -> None:
    """Report to listener and trace what was done and how long it took."""
    steps = [(name, int(1000 * milliseconds)) for name, milliseconds in kernel.metadata.times.items()] if is_new else []
    rest = max(1, int(1e6 * (perf_counter() - job.begin)) - sum(time for _, time in steps))
    begin = steps[0][1] if steps else rest
    times = CompileTimes(begin, steps[1:], rest if is_new else 0)
    if trace.is_on():
        trace.compilation(kernel, job.begin, times, cache_hit=not is_new)
    if knobs.compilation.listener is not None:
        knobs.compilation.listener(
            src=job.source,
            metadata=kernel.metadata._asdict(),
            metadata_group=dict(kernel.metadata_group),
            times=times,
            cache_hit=not is_new,
        )


class _Job(NamedTuple):
    """One compilation, and where its result belongs."""

    source: Source
    backend: BaseBackend
    given: Mapping[str, Any]
    options: Any
    replacements: Mapping[str, Stage]
    name: str
    digest: str
    begin: float

    @classmethod
    def of(cls, source: Source, backend: BaseBackend, given: Mapping[str, Any]) -> _Job:
        begin = perf_counter()
        given = _with_defaults({**given, **source.parse_options()})
        options = backend.parse_options(given)
        replacements = _replacements(source, backend, options)
        digest = cache_key(source, backend, options, replacements).digest
        name = source.name.removeprefix("@")
        return cls(source, backend, given, options, replacements, name, digest, begin)


def cache_key(
    source: Source, backend: BaseBackend, options: Any, replacements: Mapping[str, Stage] | None = None
) -> CacheKey:
    """The key of all that the compiled code depends on.

    Args:
        replacements: text that takes the place of stages.
    """
    hook = knobs.runtime.add_stages_inspection_hook
    changes = (
        hook()[0] if hook else "",
        "globals" if knobs.compilation.allow_non_constexpr_globals else "",
        "" if knobs.tilewright.leave_loops else "stay in loops",
        *(f"{name}={text!r}" for name, text in (replacements or {}).items()),
    )
    return CacheKey(
        function=source.identity,
        name=source.name,
        signature=signature_text(source.specs),
        target=backend.hash(),
        options=options_identity(options),
        changes="".join(changes),
        compiler=compiler_identity(),
        llvm=llvm_identity(),
    )


def compiler_identity() -> str:
    """The identity of this package's sources; by content where machines share the cache."""
    is_shared = knobs.cache.manager_class is not None or knobs.tilewright.cache_is_shared
    return portable_identity() if is_shared else compiler_sources()


def digest_of(source: Source, backend: BaseBackend, options: Mapping[str, Any]) -> str:
    """The digest under which `build` keeps a kernel: 64 hexadecimal digits; errors as of `build`."""
    return _Job.of(source, backend, options).digest


def _with_defaults(given: Mapping[str, Any]) -> dict[str, Any]:
    """The options of a launch, with what the knobs say where it does not: all of the environment that changes code."""
    options = {"enable_fp_fusion": knobs.language.fp_fusion_enabled, **given}
    if knobs.tilewright.sanitize:
        options.setdefault("sanitize", knobs.tilewright.sanitize)
    if knobs.tilewright.interruptible:
        options.setdefault("interruptible", True)
    options["debug"] = bool(given.get("debug")) or knobs.runtime.debug
    if knobs.language.fp32_default is not None:
        options.setdefault("default_dot_input_precision", knobs.language.fp32_default)
    if knobs.language.force_disable_fp_fusion:
        options["enable_fp_fusion"] = False
    no_lines, has_variables = knobs.compilation.disable_line_info, knobs.compilation.dump_ir_extract_di_local_variables
    if not no_lines and (has_variables or no_lines is not None):
        options.setdefault("debug_info", "variables" if has_variables else "lines")
    return options


def _replacements(source: Source, backend: BaseBackend, options: Any) -> dict[str, Stage]:
    """Text that takes the place of a stage: the file that the option `ir_override` names, and the override folder."""
    named = options_facts(options).get("ir_override")
    found: dict[str, Stage] = {os.path.splitext(named)[1].removeprefix("."): _content(named)} if named else {}
    if knobs.compilation.override:
        stages: StageTable = {}
        backend.add_stages(stages, options)
        manager, stem = get_override_manager(source.hash()), file_stem(source.name.removeprefix("@"))
        paths = {stage: manager.get_file(f"{stem}.{stage}") for stage in ("ttir", *stages)}
        found |= {stage: _content(path) for stage, path in paths.items() if path}
    return found


def _content(path: str) -> Stage:
    with open(path, "rb") as file:
        content = file.read()
    try:
        return text_of(content)
    except UnicodeDecodeError:
        return content


def _from_compiler(job: _Job) -> CompiledKernel:
    artifact = lazy_imports.compile_kernel(
        job.source.origin,
        name=job.name,
        source=job.source.text,
        signature=job.source.specs,
        digest=job.digest,
        backend=job.backend,
        options=job.options,
        edit=partial(_inspected, job),
        replacement=job.replacements.get,
        dump_ir=knobs.tilewright.ir_dump in ("1", job.name),
    )
    image = _linked(artifact, job.backend)
    files = {IMAGE: image.code} if image else {}
    files |= {name: _bytes(artifact.asm[name]) for name in artifact.asm if _is_kept(name, artifact.asm, job.backend)}
    facts = artifact.metadata.json_facts() | ({"entry_offset": image.entry} if image else {})
    group = store(job.digest, job.name, Entry(facts, files))
    if knobs.compilation.dump_ir:
        _dump(artifact, job.source)
    return _kernel(job, artifact, image, group)


def _kernel(job: _Job, artifact: Artifact, image: Image | None, group: Mapping[str, str]) -> CompiledKernel:
    if job.backend.makes_objects:
        gpu = GpuStages(job.source, job.name, job.given)
        elsewhere = StandaloneStages(artifact.metadata, job.source.specs, gpu)
        artifact = artifact._replace(asm=artifact.asm.with_elsewhere(elsewhere))
    return CompiledKernel(artifact, image, job.source.specs, source=job.source, metadata_group=group)


def _inspected(job: _Job, stages: StageTable) -> None:
    """Let the stage inspection hook see and edit the table."""
    hook = knobs.runtime.add_stages_inspection_hook
    if hook is not None:
        hook(job.backend, stages, job.options, job.source.language, job.backend.target.arch)


def _linked(artifact: Artifact, backend: BaseBackend) -> Image | None:
    if not backend.makes_objects:
        return None
    blob = lazy_imports.link(artifact.binary)
    return Image(blob.image, blob.symbols[artifact.metadata.entry], backend.runs_here())


def _stored(job: _Job) -> CompiledKernel | None:
    """The kernel out of the cache, None if it is not there."""
    stored = load(job.digest, job.name)
    return _from_disk(stored, job) if stored else None


def _from_disk(stored: StoredEntry, job: _Job) -> CompiledKernel | None:
    backend = job.backend
    facts = {**stored.facts, **options_facts(job.options)}
    if not backend.makes_objects and "num_warps" in stored.facts:
        facts["num_warps"] = stored.facts["num_warps"]  # those of partitions count; on a CPU the option means nothing
    image = None
    try:
        if backend.makes_objects:
            image = Image(stored.read(IMAGE), facts.pop("entry_offset"), backend.runs_here())
    except (FileNotFoundError, KeyError):
        return None
    except OSError as error:
        warn_of_damage(str(error))
        return None
    stages: dict[str, StageSource] = {}
    for suffix in stored.suffixes:
        if suffix == backend.binary_ext:
            if backend.assembly_ext:
                stages[backend.assembly_ext] = partial(_assembly, stored, backend)
            stages[suffix] = partial(_text, stored, suffix) if backend.binary_is_text else partial(stored.read, suffix)
        elif suffix != IMAGE:
            stages[suffix] = partial(_text, stored, suffix)
        for name, origin in backend.remade.items():
            if origin == suffix and name in facts["times"] and name not in stored.suffixes:
                stages[name] = partial(_remade, stored, job, name)
    artifact = Artifact(Stages(stages, backend.on_request), Metadata(facts), backend.binary_ext)
    return _kernel(job, artifact, image, stored.group)


def _is_kept(stage: str, stages: Stages, backend: BaseBackend) -> bool:
    """Whether a stage is stored: what can be made again is not, nor are texts when only the binary is asked for."""
    return stage in _binaries(backend) or (stages.is_made(stage) and not knobs.compilation.store_binary_only)


def _text(stored: StoredEntry, suffix: str) -> str:
    return stored.read(suffix).decode()


def _assembly(stored: StoredEntry, backend: BaseBackend) -> str:
    return backend.assembly({name: _text(stored, name) for name in stored.suffixes if name not in _binaries(backend)})


def _remade(stored: StoredEntry, job: _Job, stage: str) -> Stage:
    text = _text(stored, job.backend.remade[stage])
    return lazy_imports.remade(job.backend, job.options, stage, text)


def _binaries(backend: BaseBackend) -> set[str]:
    return {IMAGE, backend.binary_ext}


def _bytes(stage: Stage) -> bytes:
    return stage if isinstance(stage, bytes) else stage.encode()


def _dump(artifact: Artifact, source: Source) -> None:
    """Every stage as a file, for TRITON_KERNEL_DUMP; in the override folder the same names take their place."""
    manager = get_dump_manager(source.hash())
    for name in artifact.asm:
        manager.put(_bytes(artifact.asm[name]), f"{file_stem(artifact.name)}.{name}")


class PreparationCounter:
    """The number of preparations; each one that begins adds to it."""

    count = 0


class StandaloneStages:
    """The two shared objects of one kernel, by name."""

    def __init__(self, metadata: Metadata, specs: Sequence[ArgumentSpec], otherwise: Callable[[str], Stage]) -> None:
        """The shared objects.

        Args:
            metadata: facts about the kernel.
            specs: its parameters, constants too.
            otherwise: gives all other stages.
        """
        self.metadata, self.specs, self.otherwise = metadata, specs, otherwise

    def __call__(self, name: str, stages: Stages) -> Stage:
        """A stage, made of the kernel's own.

        Raises:
            KeyError: there is no stage of that name.
            StandaloneError: the kernel needs Python while it runs.
        """
        if name == "so":
            return lazy_imports.kernel_stage(stages["obj"], self.metadata)
        if name == "launcher.so":
            return lazy_imports.launcher_stage(self.metadata, self.specs)
        return self.otherwise(name)
