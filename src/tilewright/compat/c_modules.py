"""`triton.runtime.build`: C source becomes a Python module, compiled by the machine's C compiler and kept in the cache.

module = compile_module_from_src('#include <Python.h> …', "fast_sum")

Only programs that contain C source need this, and a C compiler; kernels never do.
"""

from __future__ import annotations

import platform
import subprocess
import sysconfig
import tempfile
from collections.abc import Sequence
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from shutil import which
from types import ModuleType

from tilewright.runtime.cache.managers import get_cache_manager
from tilewright.support import knobs
from tilewright.support.hashing import hash_of

SUFFIXES = {"c": ".c", "c++": ".cpp"}
COMPILERS = {"c": ("cc", "gcc", "clang"), "c++": ("c++", "g++", "clang++")}
EXTENSION = str(sysconfig.get_config_var("EXT_SUFFIX"))

Words = Sequence[str] | None


def compile_module_from_src(
    src: str,
    name: str,
    library_dirs: Words = None,
    include_dirs: Words = None,
    libraries: Words = None,
    ccflags: Words = None,
    language: str = "c",
) -> ModuleType:
    """The module `name` whose source is `src`; a damaged file in the cache is made again.

    Args:
        src: the source, which defines `PyInit_<name>`.
        name: the name of the module.
        library_dirs, include_dirs: folders for the compiler.
        libraries: to link with.
        ccflags: further flags of the compiler.
        language: `c` or `c++`.

    Raises:
        RuntimeError: there is no C compiler.
        subprocess.CalledProcessError: the source does not compile.
    """
    build = Build(src, name, library_dirs or (), include_dirs or (), libraries or (), ccflags or (), language)
    kept = build.kept()
    try:
        if kept is not None:
            return load(name, kept)
    except ImportError:
        pass  # damaged
    return load(name, build.made())


def compile_so_from_src(
    src: str,
    name: str,
    library_dirs: Words = None,
    include_dirs: Words = None,
    libraries: Words = None,
    ccflags: Words = None,
    language: str = "c",
) -> str:
    """The path of the shared library made of `src`; arguments and errors as for `compile_module_from_src`."""
    build = Build(src, name, library_dirs or (), include_dirs or (), libraries or (), ccflags or (), language)
    return build.kept() or build.made()


def compile_module_from_file(
    src_path: str,
    name: str,
    library_dirs: Words = None,
    include_dirs: Words = None,
    libraries: Words = None,
    ccflags: Words = None,
) -> ModuleType:
    """The module `name` whose source is in a file; further arguments and errors as for `compile_module_from_src`."""
    words = (library_dirs, include_dirs, libraries, ccflags)
    return compile_module_from_src(Path(src_path).read_text(), name, *words, language_of(src_path))


def compile_so_from_file(
    src_path: str,
    name: str,
    library_dirs: Words = None,
    include_dirs: Words = None,
    libraries: Words = None,
    ccflags: Words = None,
) -> str:
    """The path of the shared library made of a file; arguments and errors as for `compile_module_from_file`."""
    words = (library_dirs, include_dirs, libraries, ccflags)
    return compile_so_from_src(Path(src_path).read_text(), name, *words, language_of(src_path))


def language_of(path: str) -> str:
    """The language of a source, by the suffix of its name."""
    return "c" if Path(path).suffix == ".c" else "c++"


def platform_key() -> str:
    """A key that differs between machines that cannot use each other's libraries."""
    return ",".join([platform.machine(), platform.system(), *platform.architecture()])


def load(name: str, path: str) -> ModuleType:
    """The module in a shared library."""
    spec = spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} is no Python module")
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Build:
    """A source and how to compile it; the arguments are those of `compile_module_from_src`."""

    def __init__(
        self,
        source: str,
        name: str,
        library_dirs: Sequence[str],
        include_dirs: Sequence[str],
        libraries: Sequence[str],
        flags: Sequence[str],
        language: str,
    ) -> None:
        if language not in SUFFIXES:
            raise ValueError(f"language is {' or '.join(SUFFIXES)}, not {language!r}")
        self.source, self.name, self.language = source, name, language
        self.library_dirs, self.include_dirs = list(library_dirs), list(include_dirs)
        self.libraries, self.flags = list(libraries), list(flags)
        facts = (source, language, self.library_dirs, self.include_dirs, self.libraries, self.flags)
        self.cache = get_cache_manager(hash_of(f"{facts} {platform.machine()} {EXTENSION}".encode()).hexdigest())

    def kept(self) -> str | None:
        """The path in the cache, if the library is there."""
        return self.cache.get_file(self.name + EXTENSION)

    def made(self) -> str:
        """Compile, keep, and return the path in the cache."""
        with tempfile.TemporaryDirectory() as folder:
            source = Path(folder, self.name + SUFFIXES[self.language])
            source.write_text(self.source)
            content = self.compiled(source).read_bytes()
        return self.cache.put(content, self.name + EXTENSION)

    def compiled(self, source: Path) -> Path:
        """Call the compiler, or `knobs.build.impl` in its place."""
        folder = str(source.parent)
        if knobs.build.impl is not None:
            implementation = knobs.build.impl
            words = (self.library_dirs, self.include_dirs, self.libraries)
            return Path(implementation(self.name, str(source), folder, *words))
        library = source.with_name(self.name + EXTENSION)
        folders = [*self.include_dirs, folder, sysconfig.get_paths()["include"], *knobs.build.backend_dirs]
        command = [compiler(self.language), str(source), "-O3", "-shared", "-fPIC", "-o", str(library)]
        command += [f"-l{name}" for name in self.libraries]
        command += [flag for path in self.library_dirs for flag in (f"-L{path}", f"-Wl,-rpath,{path}")]
        command += [f"-I{path}" for path in folders]
        subprocess.run([*command, *self.flags], check=True, stdout=subprocess.DEVNULL)
        return library


def compiler(language: str) -> str:
    """The compiler: what CC names, or the first one that is installed."""
    if language == "c" and knobs.build.cc is not None:
        return knobs.build.cc
    found = next(filter(None, map(which, COMPILERS[language])), None)
    if found is None:
        raise RuntimeError(f"no {language} compiler found; install one, or name it in CC")
    return found
