"""`tilewright link`: one C function that picks among the specialisations that `tilewright compile` wrote.

    tilewright link matmul.*.h -o matmul            matmul.h and matmul.c

    matmul_default(stream, C, A, B, M, …)           with the first set of constants (algorithm 0)
    matmul(stream, C, A, B, M, …, algo_id)          with any of matmul_get_num_algos() sets
    matmul_128x64_warps4xstages3(stream, …)         one set of constants

Specialisations with equal constants differ in hints and in their CPU: of those whose hints hold, the function takes the
one with most hints, and of these the one for the largest CPU that this machine has; otherwise it returns
TT_ERROR_INVALID_VALUE or TT_ERROR_NOT_SUPPORTED. Comments in the headers describe the declarations, in Triton's form:

    // tt-linker: matmul_1a2b3c4d_0d1d6c:TT_Pointer C, TT_ConstPointer A, …:128x64_warps4xstages3
    // tt-linker-backend: cpu
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from string import Template
from typing import NamedTuple

from tilewright.tools.aot.c_text import CONST_POINTER, POINTER, PRELUDE, Parameter, declared, passed
from tilewright.tools.kernels import UsageError

_DIRECTIVE = re.compile(r"//\s*tt-linker:\s*(\w+):(.*):(.+)")
_BACKEND = re.compile(r"//\s*tt-linker-backend:\s*(\w+)")
_FEATURES = re.compile(r"//\s*tilewright-features:\s*(\d+)")
_NAME = re.compile(r"(\w+)_([0-9a-f]+)_((?:\d+[cd])*)")
_PARAMETER = re.compile(r"(\w+)\s+(\w+)")
_HINT = re.compile(r"(\d+)([cd])")


class LinkerError(UsageError):
    """Headers do not fit together, or say nothing that can be linked."""


@dataclass
class HeaderParser:
    """Collects what headers declare.

    Attributes:
        kernels: the specialisations by kernel and algorithm, in the order of the headers.
        backend_name: the back end that they were compiled by.
    """

    kernels: dict[tuple[str, str], list[Specialization]] = field(default_factory=dict)
    backend_name: str | None = None

    def extract_linker_meta(self, header: str) -> None:
        """Take what one header says in its comments."""
        features = 0
        for line in header.splitlines():
            if found := _DIRECTIVE.fullmatch(line.rstrip()):
                self._add(found[1], found[2], found[3], features)
            elif found := _FEATURES.fullmatch(line.rstrip()):
                features = int(found[1])
            elif found := _BACKEND.fullmatch(line.rstrip()):
                if self.backend_name not in (None, found[1]):
                    raise LinkerError(f"headers of two back ends: {self.backend_name} and {found[1]}")
                self.backend_name = found[1]

    def _add(self, function: str, signature: str, algorithm: str, features: int) -> None:
        named = _NAME.fullmatch(function)
        if named is None:
            raise LinkerError(f"{function!r} is no name of a specialisation: expected NAME_DIGEST_HINTS")
        kernel, _, suffix = named.groups()
        parameters = _parameters(signature)
        added = Specialization(function, parameters, _hints(function, suffix, parameters), features)
        self.kernels.setdefault((kernel, algorithm), []).append(added)


def _parameters(signature: str) -> list[Parameter]:
    found = [_PARAMETER.fullmatch(part.strip()) for part in signature.split(",")] if signature.strip() else []
    if not all(found):
        raise LinkerError(f"{signature!r} is no list of C parameters")
    return [Parameter(match[2], match[1]) for match in found if match]


def _hints(function: str, suffix: str, parameters: Sequence[Parameter]) -> dict[str, int]:
    """Hints by parameter."""
    hints = {int(number): 16 if letter == "d" else 1 for number, letter in _HINT.findall(suffix)}
    if any(number >= len(parameters) for number in hints):
        raise LinkerError(f"{function}: the hints {suffix!r} are for more than its {len(parameters)} parameters")
    return {parameters[number].name: hint for number, hint in hints.items()}


def link(headers: Iterable[Path], out: Path, prefix: str = "") -> list[Path]:
    """Write the header and the source that dispatch to what `headers` declare.

    Args:
        headers: written by `tilewright compile`.
        out: the files begin with it.
        prefix: the functions' names begin with it.

    Returns:
        The header and the source.

    Raises:
        LinkerError: the headers do not fit together, or say nothing that can be linked.
        OSError: a file cannot be read or written.
    """
    parser, paths = HeaderParser(), list(headers)
    for path in paths:
        parser.extract_linker_meta(path.read_text())
    if not parser.kernels:
        raise LinkerError(f"{', '.join(map(str, paths))}: expected headers that `tilewright compile` wrote")
    if parser.backend_name != "cpu":
        raise LinkerError(f"these headers are for {parser.backend_name}; only those for the CPU can be linked here")
    kernels = [_linked(kernel, parser, prefix) for kernel in dict.fromkeys(kernel for kernel, _ in parser.kernels)]
    files = [out.with_name(f"{out.name}.h"), out.with_name(f"{out.name}.c")]
    files[0].write_text(header_text(out.name, kernels))
    files[1].write_text(source_text(files[0].name, kernels))
    return files


def _linked(kernel: str, parser: HeaderParser, prefix: str) -> Linked:
    groups = {algorithm: group for (name, algorithm), group in parser.kernels.items() if name == kernel}
    merged = _merged(kernel, [one for group in groups.values() for one in group])
    algorithms = [
        Algorithm(f"{prefix}{kernel}_{algorithm}", sorted(group, key=lambda one: (-len(one.hints), -one.features)))
        for algorithm, group in groups.items()
    ]
    return Linked(f"{prefix}{kernel}", merged, algorithms)


def _merged(kernel: str, specializations: Sequence[Specialization]) -> list[Parameter]:
    """The parameters that all specialisations have; a pointer that one of them stores through is not const."""
    first = specializations[0].parameters
    merged = list(first)
    for other in specializations[1:]:
        if [_loosely(p) for p in other.parameters] != [_loosely(p) for p in first]:
            signatures = " and ".join(f"({', '.join(map(str, one))})" for one in (first, other.parameters))
            raise LinkerError(f"two signatures for the kernel {kernel}: {signatures}")
        merged = [b if a.type == CONST_POINTER else a for a, b in zip(merged, other.parameters, strict=True)]
    return merged


def _loosely(parameter: Parameter) -> Parameter:
    return parameter._replace(type=POINTER) if parameter.type == CONST_POINTER else parameter


def add_arguments(command: argparse.ArgumentParser) -> None:
    """Declare the arguments of this command."""
    command.add_argument("headers", nargs="+", type=Path, help="headers that `tilewright compile` wrote")
    command.add_argument("--out", "-o", type=Path, required=True, help="the files are OUT.h and OUT.c")
    command.add_argument("--prefix", default="", help="the functions' names begin with it")


def run(options: argparse.Namespace) -> int:
    """Link and print the files' names.

    Raises:
        LinkerError: the headers do not fit together.
    """
    for file in link(options.headers, options.out, options.prefix):
        print(file)
    return 0


class Specialization(NamedTuple):
    """One compiled kernel.

    Attributes:
        parameters: with those that are 1, which the function does not take.
        hints: 16 or 1 by parameter.
        features: the number of features of the CPU that it may use.
    """

    name: str
    parameters: list[Parameter]
    hints: dict[str, int]
    features: int

    @property
    def taken(self) -> list[Parameter]:
        """The parameters that its C function takes."""
        return [parameter for parameter in self.parameters if self.hints.get(parameter.name) != 1]


class Algorithm(NamedTuple):
    """Specialisations with equal constants, in the order in which they are tried."""

    name: str
    specializations: list[Specialization]


class Linked(NamedTuple):
    """A kernel with all its algorithms.

    Attributes:
        parameters: that every specialisation has.
        algorithms: in order of their numbers.
    """

    name: str
    parameters: list[Parameter]
    algorithms: list[Algorithm]


_HEADER = Template("""\
#ifndef TT_LINKED_$guard
#define TT_LINKED_$guard

$prelude
#ifdef __cplusplus
extern "C" {
#endif
$kernels
#ifdef __cplusplus
}
#endif
#endif
""")

_DECLARATIONS = Template("""
/* $name with the constants of one algorithm: */
$algorithms
/* With algorithm 0, and with any one below ${name}_get_num_algos(): */
TT_ResultTy ${name}_default(TT_StreamTy tt_stream$declared);
TT_ResultTy $name(TT_StreamTy tt_stream$declared, int tt_algorithm);
int ${name}_get_num_algos(void);
void load_$name(void);
void unload_$name(void);
""")

_DEFINITIONS = Template("""$algorithms
typedef TT_ResultTy (*tt_${name}_launch)(TT_StreamTy tt_stream$declared);
static const tt_${name}_launch tt_${name}_algorithms[] = {
$table};

int ${name}_get_num_algos(void) { return $count; }

TT_ResultTy $name(TT_StreamTy tt_stream$declared, int tt_algorithm) {
  if (tt_algorithm < 0 || tt_algorithm >= $count)
    return TT_ERROR_INVALID_VALUE;
  return tt_${name}_algorithms[tt_algorithm](tt_stream$passed);
}

TT_ResultTy ${name}_default(TT_StreamTy tt_stream$declared) { return $name(tt_stream$passed, 0); }
""")


def header_text(file: str, kernels: Sequence[Linked]) -> str:
    guard = "".join(letter if letter.isalnum() else "_" for letter in file.upper())
    return _HEADER.substitute(guard=f"{guard}_H", prelude=PRELUDE, kernels="".join(map(_declarations, kernels)))


def source_text(header: str, kernels: Sequence[Linked]) -> str:
    return f'#include "{header}"\n' + "".join(map(_definitions, kernels))


def _declarations(kernel: Linked) -> str:
    parameters = declared(kernel.parameters)
    lines = [f"TT_ResultTy {one.name}(TT_StreamTy tt_stream{parameters});" for one in kernel.algorithms]
    lines += [f"void {mode}_{one.name}(void);" for one in kernel.algorithms for mode in MODES]
    return _DECLARATIONS.substitute(name=kernel.name, algorithms="\n".join(lines), declared=parameters)


def _definitions(kernel: Linked) -> str:
    text = _DEFINITIONS.substitute(
        name=kernel.name,
        declared=declared(kernel.parameters),
        passed=passed(kernel.parameters),
        algorithms="".join(_dispatcher(kernel, one) for one in kernel.algorithms),
        table="".join(f"  {one.name},\n" for one in kernel.algorithms),
        count=len(kernel.algorithms),
    )
    return text + "".join(_forwarded(mode, kernel.name, [a.name for a in kernel.algorithms]) for mode in MODES)


MODES = ("load", "unload")


def _dispatcher(kernel: Linked, algorithm: Algorithm) -> str:
    """Declarations of the specialisations, and the function that picks one."""
    ones = algorithm.specializations
    lines = [f"\nTT_ResultTy {one.name}(TT_StreamTy tt_stream{declared(one.taken)});" for one in ones]
    lines += [f"void {mode}_{one.name}(void);" for one in ones for mode in MODES]
    lines += ["", f"TT_ResultTy {algorithm.name}(TT_StreamTy tt_stream{declared(kernel.parameters)}) {{"]
    lines.append("  TT_ResultTy tt_status = TT_ERROR_INVALID_VALUE;")
    for one in ones:
        lines += [
            f"  if ({_condition(one)}) {{",
            f"    tt_status = {one.name}(tt_stream{passed(one.taken)});",
            "    if (tt_status != TT_ERROR_NOT_SUPPORTED)",
            "      return tt_status;",
            "  }",
        ]
    lines += ["  return tt_status;", "}", ""]
    return "\n".join(lines) + "".join(_forwarded(mode, algorithm.name, [one.name for one in ones]) for mode in MODES)


def _condition(one: Specialization) -> str:
    tests = [f"{name} == 1" if hint == 1 else f"(uintptr_t){name} % 16 == 0" for name, hint in one.hints.items()]
    return " && ".join(tests) or "1"


def _forwarded(mode: str, name: str, others: Sequence[str]) -> str:
    """load and unload of several."""
    calls = "".join(f"  {mode}_{other}();\n" for other in others)
    return f"void {mode}_{name}(void) {{\n{calls}}}\n"
