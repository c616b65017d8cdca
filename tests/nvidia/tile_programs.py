"""Programs in TTGIR that move one tile, and running them in the simulator of PTX.

text = program([*loaded("%x", "%p0", "#blocked…", (32, 32), "f32"), …])
run(text, [x, np.zeros_like(x)], capability=80)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import tilewright.dialects
from tilewright.backends.nvidia.options import parse_options
from tilewright.backends.nvidia.pipeline import make_llir, make_ptx
from tilewright.backends.nvidia.targets import find
from tilewright.backends.ptxsim import DeviceMemory, Launch, load
from tilewright.ir.parser import parse_module

assert tilewright.dialects.__all__

Shape = tuple[int, ...]
SMEM = "#ttg.shared_memory"


def tensor(shape: Shape, element: str, layout: str) -> str:
    return f"tensor<{'x'.join(map(str, shape))}x{element}, {layout}>"


def memdesc(shape: Shape, element: str, layout: str, *, mutable: bool = False, whole: Shape = ()) -> str:
    tail = (", mutable" if mutable else "") + (f", {'x'.join(map(str, whole))}" if whole else "")
    return f"!ttg.memdesc<{'x'.join(map(str, shape))}x{element}, {layout}, {SMEM}{tail}>"


def _along(axis: int, shape: Shape, layout: str, name: str) -> list[str]:
    """`%name_axis`: the coordinate along one axis, as a tile."""
    layouts, kept = [layout], list(range(len(shape)))
    for other in reversed(range(len(shape))):
        if other != axis:
            layouts.append(f"#ttg.slice<{{dim = {kept.index(other)}, parent = {layouts[-1]}}}>")
            kept.remove(other)
    value, own = f"%{name}_{axis}", (shape[axis],)
    lines = [f"{value}r = tt.make_range {{start = 0 : i32, end = {own[0]} : i32}} : {tensor(own, 'i32', layouts[-1])}"]
    last = f"{value}r"
    for step, other in enumerate(dim for dim in range(len(shape)) if dim != axis):
        kept = sorted([*kept, other])
        place, before = kept.index(other), tensor(own, "i32", layouts[-1 - step])
        own = (*own[:place], 1, *own[place:])
        after = tensor(own, "i32", layouts[-2 - step])
        lines.append(f"{value}e{step} = tt.expand_dims {last} {{axis = {place} : i32}} : {before} -> {after}")
        last = f"{value}e{step}"
    full = tensor(shape, "i32", layout)
    return [*lines, f"{value} = tt.broadcast {last} : {tensor(own, 'i32', layout)} -> {full}"]


def pointers(argument: str, layout: str, shape: Shape, element: str, name: str) -> list[str]:
    """`%name`: pointers to the elements of a tile that lies row by row at `argument`; `%name_0`, …: coordinates."""
    lines, stride, index = [], 1, ""
    whole, addresses = tensor(shape, "i32", layout), tensor(shape, f"!tt.ptr<{element}>", layout)
    for axis in reversed(range(len(shape))):
        lines += _along(axis, shape, layout, name)
        lines.append(f"%{name}_{axis}c = arith.constant dense<{stride}> : {whole}")
        lines.append(f"%{name}_{axis}m = arith.muli %{name}_{axis}, %{name}_{axis}c : {whole}")
        if index:
            lines.append(f"%{name}_{axis}s = arith.addi {index}, %{name}_{axis}m : {whole}")
        index, stride = f"%{name}_{axis}s" if index else f"%{name}_{axis}m", stride * shape[axis]
    return [
        *lines,
        f"%{name}_p = tt.splat {argument} : !tt.ptr<{element}> -> {addresses}",
        f"%{name} = tt.addptr %{name}_p, {index} : {addresses}, {whole}",
    ]


def loaded(value: str, argument: str, layout: str, shape: Shape, element: str) -> list[str]:
    """`value` is the tile that lies row by row at `argument`."""
    addresses = tensor(shape, f"!tt.ptr<{element}>", layout)
    name = f"{argument[1:]}_from"
    return [*pointers(argument, layout, shape, element, name), f"{value} = tt.load %{name} : {addresses}"]


def stored(value: str, argument: str, layout: str, shape: Shape, element: str) -> list[str]:
    """`value` is stored row by row at `argument`."""
    addresses = tensor(shape, f"!tt.ptr<{element}>", layout)
    name = f"{argument[1:]}_to"
    return [*pointers(argument, layout, shape, element, name), f"tt.store %{name}, {value} : {addresses}"]


def program(
    lines: Sequence[str], *, elements: Sequence[str], warps: int = 4, numbers: Sequence[str] = (), blocks: int = 1
) -> str:
    """A kernel `@move` whose arguments are pointers `%p0`, `%p1`, … to these elements, and i32 `numbers`."""
    given = [f"%p{place}: !tt.ptr<{element}> {{tt.divisibility = 16 : i32}}" for place, element in enumerate(elements)]
    given += [f"{name}: i32" for name in numbers]
    body = "\n".join(lines)
    facts = f'"ttg.num-ctas" = {blocks} : i32, "ttg.num-warps" = {warps} : i32, "ttg.threads-per-warp" = 32 : i32'
    return f"""
    module attributes {{{facts}}} {{
      tt.func public @move({", ".join(given)}) {{
        {body}
        tt.return
      }}
    }}"""


def ptx_of(text: str, *, capability: int, warps: int = 4, blocks: int = 1) -> tuple[str, int]:
    """PTX, and the bytes of shared memory."""
    facts: dict[str, Any] = {}
    options, device = (
        parse_options({"num_warps": warps, "num_ctas": blocks, "debug_info": ""}, capability),
        find(capability),
    )
    module = parse_module(text)
    module.attributes["ttg.target"] = f"cuda:{capability}"
    llir = make_llir(module, facts, options, device)
    return make_ptx(llir, facts, options, device), facts["shared"]


def run(
    text: str, arrays: Sequence[np.ndarray[Any, Any]], *numbers: int, capability: int, warps: int = 4, blocks: int = 1
) -> list[np.ndarray[Any, Any]]:
    """The arrays when the program has run."""
    ptx, shared = ptx_of(text, capability=capability, warps=warps, blocks=blocks)
    memory = DeviceMemory()
    places = [memory.copy_in(array) for array in arrays]
    extents = (blocks, 1, 1)
    Launch(load(ptx), grid=extents, cluster=extents, threads=32 * warps, shared=shared).run(
        memory, [*places, *numbers, 0, 0]
    )
    return [memory.copy_out(place, array.shape, array.dtype) for place, array in zip(places, arrays, strict=True)]
