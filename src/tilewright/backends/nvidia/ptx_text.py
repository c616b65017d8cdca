"""Facts in the text of PTX, and the changes to it before it is assembled.

finish(text, keeps_debugging=False)     # `.target sm_90a, debug` → `.target sm_90a`
kernel_name(text)                       # "add"
arguments(text)                         # ["*i8", "*i8", "i32"], the two pointers to scratch memory left out
"""

from __future__ import annotations

import re
from typing import Any

_ENTRY = re.compile(r"\.entry\s+([\w$]+)\s*\(([^)]*)\)")
_THREADS = re.compile(r"\.(?:reqntid|maxntid)\s+(\d+)")
_PARAMETER = re.compile(r"\.param\s+(?:\.align\s+\d+\s+)?\.(\w+)\s*(\.ptr)?")
_TYPES = {
    **{f"{kind}{bits}": f"i{bits}" for kind in "usb" for bits in (8, 16, 32, 64)},
    "f16": "fp16",
    "f32": "fp32",
    "f64": "fp64",
}
SCRATCH_POINTERS = 2
WARP = 32


def finish(text: str, *, keeps_debugging: bool) -> str:
    """The text as it is assembled.

    Args:
        text: as LLVM writes it.
        keeps_debugging: ptxas is to keep all variables visible; it optimises nothing then.
    """
    return text if keeps_debugging else re.sub(r"^(\.target \w+), debug$", r"\1", text, count=1, flags=re.M)


def kernel_name(text: str) -> str:
    """The name of the kernel.

    Raises:
        ValueError: there is none, or there are several.
    """
    names = [match[1] for match in _ENTRY.finditer(text)]
    if len(names) != 1:
        raise ValueError(f"expected one .entry in the PTX, found {len(names)}")
    return names[0]


def facts(text: str) -> dict[str, Any]:
    """`entry`, `arguments` and `num_warps` of the kernel in the text; nothing without one."""
    match = _ENTRY.search(text)
    if not match:
        return {}
    threads = _THREADS.search(text, match.end())
    warps = {"num_warps": int(threads[1]) // WARP} if threads else {}
    return {"entry": match[1], "arguments": arguments(match[2]), **warps}


def arguments(parameters: str) -> list[str]:
    """The types of a kernel's run-time arguments, out of its list of parameters; what pointers point to is unknown."""
    found = [("*i8" if pointer else _TYPES.get(kind, kind)) for kind, pointer in _PARAMETER.findall(parameters)]
    return found[:-SCRATCH_POINTERS]
