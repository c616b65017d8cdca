"""The C files of one compiled kernel: the only place that writes C for it.

The stub fills a launch record, as the native launcher does for Python, and calls the machine code on ranges of
programs. It checks the assumptions of the code and returns TT_ERROR_INVALID_VALUE if one does not hold.

    parameter("x_ptr", "*fp32", is_stored=False)        TT_ConstPointer x_ptr
    parameter("n", "i32", is_stored=False)              int32_t n

Every type is one word, because the linker reads signatures from the comments of headers. Machine code calls a function
for each `tl.device_print`; a line is one call of printf, so lines of several threads do not mix.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from math import prod
from string import Template
from typing import Any, NamedTuple

_INTEGERS = {
    f"{sign}{bits}": f"{prefix}int{bits}_t" for sign, prefix in (("i", ""), ("u", "u")) for bits in (8, 16, 32, 64)
}
TYPES = {
    **_INTEGERS,
    "i1": "int8_t",
    "u1": "uint8_t",
    "fp16": "float",
    "bf16": "float",
    "fp32": "float",
    "fp64": "double",
}
FIELDS = {"float": "single", "double": "real"}
"""The field of a slot in the launch record by C type; the others are integers or pointers."""

POINTER, CONST_POINTER = "TT_Pointer", "TT_ConstPointer"

_WORDS = """
auto break case char const continue default do double else enum extern float for goto if inline int long register
restrict return short signed sizeof static struct switch typedef union unsigned void volatile while asm
catch class delete explicit export friend mutable namespace new operator private protected public template this
throw try typename using virtual bool true false
"""
_KEYWORDS = frozenset(_WORDS.split())
"""Keywords of C and C++."""


class Parameter(NamedTuple):
    """One argument of a C function."""

    name: str
    type: str

    def __str__(self) -> str:
        return f"{self.type} {self.name}"

    @property
    def slot(self) -> str:
        """The assignment of the argument to a slot of the launch record."""
        if self.type in (POINTER, CONST_POINTER):
            return f".pointer = {self.name}"
        return f".{FIELDS.get(self.type, 'integer')} = {self.name}"


def parameter(name: str, kind: str, *, is_stored: bool) -> Parameter:
    """An argument as it appears in C.

    Args:
        is_stored: the kernel stores through it.
    """
    safe = f"{name}_" if name in _KEYWORDS or name.lower().startswith("tt_") else name
    if kind.startswith("*"):
        return Parameter(safe, POINTER if is_stored else CONST_POINTER)
    return Parameter(safe, TYPES[kind])


def declared(parameters: list[Parameter]) -> str:
    """Parameters in a declaration, each with a comma in front."""
    return "".join(f", {parameter}" for parameter in parameters)


def passed(parameters: list[Parameter]) -> str:
    """Parameters in a call, each with a comma in front."""
    return "".join(f", {parameter.name}" for parameter in parameters)


_DECLARED = """\

static int64_t tt_report(int32_t tt_site, int32_t tt_x, int32_t tt_y, int32_t tt_z, int64_t tt_address) {
  int64_t tt_i;
  switch (tt_site) {
%s  }
  return 0;
}

static const struct {
  int64_t (*report)(int32_t, int32_t, int32_t, int32_t, int64_t);
  int64_t stop, tick;
  const void *look, *wait;
} tt_listener = {tt_report, 0, 0, NULL, NULL};
"""
_KINDS = {"float32": ("float", "double", ""), "float64": ("double", "double", "")}
"""dtype of a buffer → C type of its elements, type that printf gets, what the format says of that."""


def prints_text(sites: Sequence[Mapping[str, Any]]) -> str:
    """The function for these prints, and the listener that points at it; nothing for none."""
    return _DECLARED % "".join(f"  case {number}:{_shown(site)}" for number, site in enumerate(sites)) if sites else ""


def _shown(site: Mapping[str, Any]) -> str:
    program, text = "tt_x, tt_y, tt_z", _quoted(site["text"])
    if "format" not in site:
        return f'\n    printf("pid (%d, %d, %d)%s\\n", {program}, {text});\n    break;\n'
    dtype, shape = site["dtype"], site["shape"]
    element, passed, size = _KINDS.get(dtype) or (f"{dtype}_t", _integer(dtype), "ll")
    value = site["format"][:-1] + size + _letter(site["format"], dtype)
    index = ", ".join(f"%{len(str(extent - 1))}d" for extent in shape)
    arguments = [program, *_places(shape), text, f"({passed})tt_values[tt_i]"]
    return (
        f" {{\n    const {element} *tt_values = (const {element} *)(intptr_t)tt_address;\n"
        f"    for (tt_i = 0; tt_i < {prod(shape)}; ++tt_i)\n"
        f'      printf("pid (%d, %d, %d) idx ({index})%s{value}\\n", {", ".join(arguments)});\n'
        "    break;\n  }\n"
    )


def _integer(dtype: str) -> str:
    return "unsigned long long" if dtype.startswith("u") else "long long"


def _letter(format: str, dtype: str) -> str:
    """The conversion: Python's %d takes numbers without a sign, too."""
    return "u" if format[-1] == "d" and dtype.startswith("u") else str(format[-1])


def _places(shape: Sequence[int]) -> list[str]:
    """The index along each axis of element number tt_i."""
    return [f"(int)(tt_i / {prod(shape[axis + 1 :])} % {extent})" for axis, extent in enumerate(shape)]


def _quoted(text: str) -> str:
    """A string of C."""
    plain = (chr(byte) if 32 <= byte < 127 and chr(byte) not in '"\\?' else f"\\{byte:03o}" for byte in text.encode())
    return f'"{"".join(plain)}"'


PRELUDE = """\
#ifndef TILEWRIGHT_LAUNCH_H
#define TILEWRIGHT_LAUNCH_H
#include <stdint.h>

typedef int TT_ResultTy;
enum {
  TT_SUCCESS = 0,
  TT_ERROR_INVALID_VALUE = 1, /* an argument, or the grid, is not what the kernel was compiled for */
  TT_ERROR_OUT_OF_MEMORY = 2, /* no scratch memory */
  TT_ERROR_NOT_SUPPORTED = 3  /* this CPU lacks instructions that the kernel uses */
};
typedef void *TT_Pointer;
typedef const void *TT_ConstPointer;

/* How a grid is divided. `run` calls part(launch, i) for each i below `parts`, on any threads, starting them in order,
   and returns when all are done. A null pointer stands for one part on the caller's thread. */
typedef struct {
  int64_t parts;
  void (*run)(void *pool, int64_t parts, void (*part)(void *launch, int64_t i), void *launch);
  void *pool;
} TT_Stream;
typedef const TT_Stream *TT_StreamTy;
#endif
"""

_HEADER = Template("""\
/* The kernel $kernel: $about
   Link with $object. */
#ifndef TT_$guard
#define TT_$guard

$prelude
#ifdef __cplusplus
extern "C" {
#endif

/* Run all programs of the grid ($grid). */
TT_ResultTy $name(TT_StreamTy tt_stream$declared);

/* The same for programs tt_begin to tt_end - 1 of ${name}_programs(), on this thread, with ${name}_scratch_bytes()
   bytes of scratch memory at a multiple of 64. */
TT_ResultTy ${name}_range(int64_t tt_begin, int64_t tt_end, void *tt_scratch$declared);
int64_t ${name}_programs($alone);
int64_t ${name}_scratch_bytes(void);

/* Nothing to do on a CPU; there for programs that also run on GPUs. */
void load_$name(void);
void unload_$name(void);

#ifdef __cplusplus
}
#endif
#endif
// tilewright-features: $features
// tt-linker: $name:$full:$algorithm
// tt-linker-backend: cpu
""")

_SOURCE = Template("""\
#include "$header"

#include <stddef.h>
$includes#include <stdlib.h>

extern int64_t $entry(const void *tt_launch, int64_t tt_begin, int64_t tt_end, void *tt_scratch);

enum { tt_scratch_bytes = $scratch };

typedef union {
  const void *pointer;
  int64_t integer;
  float single;
  double real;
} tt_slot;

typedef struct {
  int32_t grid[3];
  int32_t unused;
  const void *listener;
  tt_slot slots[$slots];
} tt_record;

typedef struct {
  tt_record record;
  int64_t programs, parts;
  unsigned char *scratch;
} tt_launch;
$prints
static TT_ResultTy tt_fill(tt_record *tt_to, int64_t *tt_programs$declared) {
  const tt_record tt_nothing = {{0, 0, 0}, 0, NULL, {{NULL}}};
$constants  const int64_t tt_x = (int64_t)($x), tt_y = (int64_t)($y), tt_z = (int64_t)($z);
  const int64_t tt_most = INT32_MAX, tt_side = 65535;
$features$hints  if (tt_x < 0 || tt_x > tt_most || tt_y < 0 || tt_y > tt_side || tt_z < 0 || tt_z > tt_side)
    return TT_ERROR_INVALID_VALUE;
  *tt_programs = tt_x * tt_y;
  if (tt_z != 0 && *tt_programs > INT64_MAX / 2 / tt_z)
    return TT_ERROR_INVALID_VALUE;
  *tt_programs *= tt_z;
  *tt_to = tt_nothing;
  tt_to->grid[0] = (int32_t)tt_x;
  tt_to->grid[1] = (int32_t)tt_y;
  tt_to->grid[2] = (int32_t)tt_z;
$listener$arguments  return TT_SUCCESS;
}

static void tt_part(void *tt_all, int64_t tt_i) {
  const tt_launch *tt_this = (const tt_launch *)tt_all;
  const int64_t tt_each = tt_this->programs / tt_this->parts, tt_more = tt_this->programs % tt_this->parts;
  const int64_t tt_begin = tt_each * tt_i + (tt_i < tt_more ? tt_i : tt_more);
  const int64_t tt_end = tt_begin + tt_each + (tt_i < tt_more ? 1 : 0);
  $entry(&tt_this->record, tt_begin, tt_end, tt_this->scratch + tt_i * tt_scratch_bytes);
}

TT_ResultTy $name(TT_StreamTy tt_stream$declared) {
  tt_launch tt_this;
  void *tt_memory;
  int64_t tt_i;
  const TT_ResultTy tt_status = tt_fill(&tt_this.record, &tt_this.programs$passed);
  if (tt_status != TT_SUCCESS || tt_this.programs == 0)
    return tt_status;
  tt_this.parts = tt_stream == NULL || tt_stream->parts < 1 ? 1 : tt_stream->parts;
  if (tt_this.parts > tt_this.programs)
    tt_this.parts = tt_this.programs;
  tt_memory = malloc((size_t)(tt_scratch_bytes * tt_this.parts + 64));
  if (tt_memory == NULL)
    return TT_ERROR_OUT_OF_MEMORY;
  tt_this.scratch = (unsigned char *)tt_memory + (64 - (uintptr_t)tt_memory % 64);
  if (tt_stream != NULL && tt_stream->run != NULL)
    tt_stream->run(tt_stream->pool, tt_this.parts, tt_part, &tt_this);
  else
    for (tt_i = 0; tt_i < tt_this.parts; ++tt_i)
      tt_part(&tt_this, tt_i);
  free(tt_memory);
  return TT_SUCCESS;
}

TT_ResultTy ${name}_range(int64_t tt_begin, int64_t tt_end, void *tt_scratch$declared) {
  tt_record tt_this;
  int64_t tt_programs;
  const TT_ResultTy tt_status = tt_fill(&tt_this, &tt_programs$passed);
  if (tt_status != TT_SUCCESS)
    return tt_status;
  if (tt_begin < 0 || tt_end > tt_programs || (tt_scratch_bytes > 0 && (uintptr_t)tt_scratch % 64 != 0))
    return TT_ERROR_INVALID_VALUE;
  if (tt_begin < tt_end)
    $entry(&tt_this, tt_begin, tt_end, tt_scratch);
  return TT_SUCCESS;
}

int64_t ${name}_programs($alone) {
  tt_record tt_this;
  int64_t tt_programs;
  return tt_fill(&tt_this, &tt_programs$passed) == TT_SUCCESS ? tt_programs : -1;
}

int64_t ${name}_scratch_bytes(void) { return tt_scratch_bytes; }
void load_$name(void) {}
void unload_$name(void) {}
""")

FEATURES = ("avx512f", "avx512bw", "avx512dq", "avx512vl", "avx512bf16", "avx512vnni", "avx2", "fma", "sse4.2")
"""Features of x86 CPUs that C compilers can ask for and machine code here relies on."""


class Stub(NamedTuple):
    """The facts in the C files of a kernel.

    Attributes:
        kernel: its name in Python.
        header, object: names of files.
        about: signature and constants, for readers.
        algorithm: which constants it was compiled for, for the linker.
        everything: those and the ones that are 1.
        aligned: parameters that must be multiples of 16.
        grid: three C expressions.
        constants: values that the grid may use.
        scratch_bytes: per thread.
        features: the features of the CPU, as LLVM names them; empty for other machines than x86.
    """

    kernel: str
    name: str
    entry: str
    header: str
    object: str
    about: str
    algorithm: str
    parameters: list[Parameter]
    everything: list[Parameter]
    aligned: list[Parameter]
    grid: Sequence[str]
    constants: Mapping[str, Any]
    scratch_bytes: int
    features: Sequence[str]
    prints: Sequence[Mapping[str, Any]] = ()


def header_text(stub: Stub) -> str:
    return _HEADER.substitute(
        _common(stub),
        kernel=stub.kernel,
        about=_comment(stub.about),
        object=stub.object,
        guard=f"{stub.name.upper()}_H",
        prelude=PRELUDE,
        grid=_comment(", ".join(stub.grid)),
        full=", ".join(map(str, stub.everything)),
        algorithm=stub.algorithm,
        features=len(stub.features),
    )


def source_text(stub: Stub) -> str:
    x, y, z = stub.grid
    return _SOURCE.substitute(
        _common(stub),
        header=stub.header,
        entry=stub.entry,
        scratch=stub.scratch_bytes,
        includes="#include <stdio.h>\n" if stub.prints else "",
        prints=prints_text(stub.prints),
        listener="  tt_to->listener = &tt_listener;\n" if stub.prints else "",
        slots=max(1, len(stub.parameters)),
        x=x,
        y=y,
        z=z,
        constants="".join(map(_constant, stub.constants.items())),
        features=_feature_check(stub.features),
        hints="".join(map(_hint_check, stub.aligned)),
        arguments="".join(f"  tt_to->slots[{i}]{parameter.slot};\n" for i, parameter in enumerate(stub.parameters)),
    )


def _common(stub: Stub) -> dict[str, str]:
    alone = ", ".join(map(str, stub.parameters)) or "void"
    return {
        "name": stub.name,
        "declared": declared(stub.parameters),
        "passed": passed(stub.parameters),
        "alone": alone,
    }


def _constant(item: tuple[str, Any]) -> str:
    name, value = item
    return f"  const int64_t {name} = {int(value)};\n"


def _feature_check(features: Sequence[str]) -> str:
    asked = " || ".join(f"!__builtin_cpu_supports({json.dumps(name)})" for name in FEATURES if name in features)
    return (
        f"#if defined(__x86_64__) && defined(__GNUC__)\n  if ({asked})\n    return TT_ERROR_NOT_SUPPORTED;\n#endif\n"
        if asked
        else ""
    )


def _hint_check(parameter: Parameter) -> str:
    return f"  if ((uintptr_t){parameter.name} % 16 != 0)\n    return TT_ERROR_INVALID_VALUE;\n"


def _comment(text: str) -> str:
    return text.replace("*/", "* /")
