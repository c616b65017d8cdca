"""The prints of kernels in C: the function that machine code calls for each `tl.device_print`.

case 0: {
  const float *tt_values = (const float *)tt_address;
  for (tt_i = 0; tt_i < 128; ++tt_i)
    printf("pid (%d, %d, %d) idx (%3d)%s%f\\n", tt_x, tt_y, tt_z, (int)tt_i, " x: ", (double)tt_values[tt_i]);
  break;
}

Each line is one call of printf, so lines of several threads do not mix.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

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
