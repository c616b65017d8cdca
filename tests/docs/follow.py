"""The texts of docs/follow-a-kernel.md, made anew: what the kernel of centered_rows.py becomes at each stage.

In the page each text stands in the fence after its marker:

    <!-- text: ttir -->
    ```mlir
    …
    ```
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from pathlib import Path

import centered_rows

from tilewright.backends.base import GPUTarget
from tilewright.backends.cpu.backend import CpuBackend
from tilewright.compiler.artifact import Artifact
from tilewright.compiler.compile import compile_kernel
from tilewright.compiler.parameters import front_end_parameters
from tilewright.compiler.signature import CONSTEXPR, ArgumentSpec
from tilewright.frontends import hir
from tilewright.frontends.evaluate.kernel import evaluate_kernel
from tilewright.frontends.evaluate.tiles import EvaluateOptions
from tilewright.frontends.from_ast import read_function_once
from tilewright.ir.core import Op
from tilewright.ir.printer import print_op
from tilewright.transforms.pipeline import optimize_ttir

SIGNATURE = (
    ArgumentSpec("x_ptr", "*fp32", 16),
    ArgumentSpec("out_ptr", "*fp32", 16),
    ArgumentSpec("columns", "i32"),
    ArgumentSpec("BLOCK", CONSTEXPR, constant=1024),
)
TARGET = "x86-64-v3"
_FENCE = re.compile(r"(<!-- text: (\w+) -->\n```\w*\n)(.*?)(^```)", re.MULTILINE | re.DOTALL)


def with_current_texts(page: str) -> str:
    """The page with every marked text replaced by what the stage gives now."""
    return _FENCE.sub(lambda found: found[1] + TEXTS[found[2]]().strip("\n") + "\n" + found[4], page)


def texts_in(page: str) -> dict[str, str]:
    """The marked texts of a page by name, in order."""
    return {found[2]: found[3] for found in _FENCE.finditer(page)}


def source() -> str:
    """The file of the kernel, from its first import on."""
    text = Path(centered_rows.__file__).read_text()
    return text[text.index("import tilewright as tw") :]


def hir_of_mean() -> str:
    """The steps of the line that computes the mean."""
    function = read_function_once(centered_rows.center.fn)
    lines = source_lines()
    number = next(i for i, line in enumerate(lines, 1) if line.strip().startswith("mean ="))
    steps = [step for step in function.body.steps if step.location.line == number]
    return "\n".join(_step(step, function.initial) for step in steps)


def source_lines() -> list[str]:
    """The lines of the kernel's file."""
    return Path(centered_rows.__file__).read_text().splitlines()


def evaluated() -> str:
    return print_op(_module())


def passes() -> str:
    """A line per pass: the number of ops before and after it, or how else it changed them."""
    module, lines = _module(), []
    before = [print_op(module), sum(1 for _ in module.walk())]

    def note(name: str, module: Op) -> None:
        text, count = print_op(module), sum(1 for _ in module.walk())
        change = "no change" if text == before[0] else f"{before[1]} → {count} ops" if count != before[1] else "moved"
        lines.append(f"{name:26}{change}")
        before[:] = [text, count]

    optimize_ttir(module, dump=note)
    return "\n".join(lines)


def optimized() -> str:
    module = _module()
    optimize_ttir(module)
    return print_op(module)


def ttcir() -> str:
    return str(_artifact().asm["ttcir"])


def fast_loop() -> str:
    """The loop over the first addition of vectors, with its names numbered from 1."""
    text = str(_artifact().asm["llir"])
    loops = re.findall(r"^loop\d+:\n(?:  .*\n)+", text, re.MULTILINE)
    return _renumbered(next(loop for loop in loops if re.search(r"fadd .*<8 x float>", loop)))


def assembly() -> str:
    """The same loop as machine instructions."""
    text = str(_artifact().asm["asm"])
    blocks = re.findall(r"^\.LBB\d+_\d+:\n(?:\t.*\n)+", text, re.MULTILINE)
    return next(_up_to_jump(block) for block in blocks if "vaddps" in block).expandtabs(8)


TEXTS: dict[str, Callable[[], str]] = {
    "source": source,
    "hir": hir_of_mean,
    "evaluated": evaluated,
    "passes": passes,
    "ttir": optimized,
    "ttcir": ttcir,
    "llir": fast_loop,
    "asm": assembly,
}


def _module() -> Op:
    function = read_function_once(centered_rows.center.fn)
    return evaluate_kernel(function, front_end_parameters(SIGNATURE), name="center", options=EvaluateOptions())


@cache
def _artifact() -> Artifact:
    backend = CpuBackend(GPUTarget("cpu", TARGET, 0))
    options = backend.parse_options({})
    kernel = centered_rows.center
    return compile_kernel(kernel, name="center", signature=SIGNATURE, digest="", backend=backend, options=options)


def _step(step: hir.Step, initial: tuple[object, ...]) -> str:
    def register(number: int) -> str:
        return f"r{number}" if initial[number] is None else repr(initial[number])

    match step:
        case hir.Load():
            return f"r{step.result} = load {step.name}"
        case hir.Store():
            return f"store {step.name} = r{step.value}"
        case hir.Operate():
            return f"r{step.result} = {step.function.__name__}({', '.join(map(register, step.operands))})"
        case hir.Call():
            keywords = [f"{name}={register(value)}" for name, value in step.keywords]
            return f"r{step.result} = r{step.callee}({', '.join([*map(register, step.arguments), *keywords])})"
    raise AssertionError(f"the page has no words for {type(step).__name__}")


def _renumbered(text: str) -> str:
    """Names in the order in which they appear, so that code elsewhere does not change them."""
    numbers: dict[str, int] = {}

    def short(found: re.Match[str]) -> str:
        return f"{found[1]}{found[2]}{numbers.setdefault(found[2] + found[3], len(numbers) + 1)}"

    return re.sub(r"(%|^)([a-z]+)(\d+)\b", short, text, flags=re.MULTILINE)


def _up_to_jump(block: str) -> str:
    lines = block.splitlines()
    end = next(i for i, line in enumerate(lines) if line.startswith("\tj"))
    return "\n".join(lines[: end + 1])
