"""The C files that `tilewright link` writes: the only place that writes C for it."""

from __future__ import annotations

from collections.abc import Sequence
from string import Template
from typing import NamedTuple

from tilewright.tools.aot.c_text import PRELUDE, Parameter, declared, passed


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
