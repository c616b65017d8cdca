"""Facts read from PTX text, and changes to the text before it is assembled.

finish(text, keeps_debugging=False)     # `.target sm_90a, debug` → `.target sm_90a`
kernel_name(text)                       # "add"
arguments(text)                         # ["*i8", "*i8", "i32"], the two pointers to scratch memory left out

The facts that a launch needs are the first line of a kernel's LLVM IR and of its PTX, so each text is complete by
itself.

    ; launch: {"entry": "add", "shared": 0, "arguments": ["*fp32", "i32"], "num_warps": 4}          in LLVM IR
    // launch: {"entry": "add", "shared": 0, "arguments": ["*fp32", "i32"], "num_warps": 4}         in PTX

Text from other compilers has no such line; then the list of parameters is used.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from tilewright.backends.nvidia.address_offsets import fold_offsets
from tilewright.backends.nvidia.thread_bits import bound_thread_bits

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
    if keeps_debugging:
        return text
    return bound_thread_bits(fold_offsets(re.sub(r"^(\.target \w+), debug$", r"\1", text, flags=re.M)))


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


_MARK = " launch: "
_COMMENTS = {"llir": ";", "ptx": "//"}
_NAMES = (
    *("entry", "arguments", "stored", "reports", "shared", "num_warps", "num_ctas", "cluster_dims", "tmem_size"),
    "tensordesc_meta",
    *("global_scratch_size", "global_scratch_align", "profile_scratch_size", "profile_scratch_align"),
)


def launch_line(stage: str, metadata: Mapping[str, Any]) -> str:
    """The line for these facts in the text of a stage: `llir` or `ptx`."""
    return f"{_COMMENTS[stage]}{_MARK}{json.dumps({name: metadata[name] for name in _NAMES if name in metadata})}\n"


def launch_facts(stage: str, text: str) -> dict[str, Any]:
    """The facts in the text of a stage; none if it has none.

    Raises:
        ValueError: the line is no JSON object.
    """
    line, prefix = text.partition("\n")[0], _COMMENTS[stage] + _MARK
    if line.startswith(prefix):
        found: dict[str, Any] = json.loads(line.removeprefix(prefix))
        return {name: found[name] for name in _NAMES if name in found}
    return facts(text) if stage == "ptx" else {}
