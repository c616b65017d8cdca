"""Run by the interpreter of an environment with Triton: reads kernels as JSON, writes what Triton makes of them.

Input, a line for each: a dictionary with `text` (a file), `kernel`, `signature`, `constants`, `capability`; or with
`module` (TTIR) and `capability`. Output, a line for each: `source` (TTIR of the front end), `ttir` (after the passes),
`seconds` (of the passes, best of `repeat`), `ttgir` if `gpu` is true (with locations). With `module` alone: `printed`.
With `compile`: `stages` and `ttgir` of `triton.compile`. With `ptx`, and `options`: PTX, and what a launch must know.
Of the file only jitted functions, constants and imports of Triton are executed.
"""

from __future__ import annotations

import ast
import importlib.util
import json
import os
import re
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import triton
from triton._C.libtriton import ir
from triton.backends.compiler import GPUTarget
from triton.compiler.compiler import ASTSource, make_backend

IMPORT = re.compile(r"import triton( |$)|import triton\.language|from triton\.language")


def reduced(text: str) -> str:
    """The part of a file that defines kernels."""
    kept: list[ast.stmt] = [ast.parse("import triton").body[0]]
    for node in ast.parse(text).body:
        if isinstance(node, ast.FunctionDef) and any(".jit" in ast.unparse(d) for d in node.decorator_list):
            node.decorator_list = [ast.parse("triton.jit", mode="eval").body]
            kept.append(node)
        elif is_constant(node) or IMPORT.match(ast.unparse(node)):
            kept.append(node)
    return "\n\n".join(map(ast.unparse, kept)) + "\n"


def is_constant(node: ast.stmt) -> bool:
    return isinstance(node, ast.Assign) and (isinstance(node.value, ast.Constant) or "constexpr(" in ast.unparse(node))


def loaded(text: str, folder: str) -> Any:
    path = Path(folder) / "kernels.py"
    path.write_text(reduced(text))
    spec = importlib.util.spec_from_file_location("kernels", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def constant(value: Any) -> Any:
    """`tl.fp16` means the type."""
    return triton.language.dtype(value[3:]) if isinstance(value, str) and value.startswith("tl.") else value


def optimized(request: dict[str, Any], folder: str) -> dict[str, Any]:
    """Triton's result for one request."""
    backend = make_backend(GPUTarget("cuda", request["capability"], 32))
    options = backend.parse_options({})
    make = from_text(request, folder) if "module" in request else from_kernel(request, folder, backend, options)
    best = float("inf")
    for _ in range(request.get("repeat", 1)):
        context = ir.context()
        ir.load_dialects(context)
        backend.load_dialects(context)
        module = make(context)
        text = module.str_nodebug()
        start = time.thread_time()
        module = backend.make_ttir(module, {}, options, request["capability"])
        best = min(best, time.thread_time() - start)
    answer = {"source": text, "ttir": module.str_nodebug(), "seconds": best}
    if request.get("gpu"):
        answer["ttgir"] = str(backend.make_ttgir(module, {}, options, request["capability"]))
    return answer | (compiled(request, folder) if request.get("compile") else {})


def printed(request: dict[str, Any], folder: str) -> dict[str, Any]:
    """The text that Triton prints of a module that it reads."""
    context = ir.context()
    ir.load_dialects(context)
    make_backend(GPUTarget("cuda", 90, 32)).load_dialects(context)
    module = from_text(request, folder)(context)
    assert module.verify(), "Triton refuses the module"
    return {"printed": str(module)}


def compiled(request: dict[str, Any], folder: str) -> dict[str, Any]:
    """The result of `triton.compile` for a file of TTIR, or for the kernel."""
    target = GPUTarget("cuda", request["capability"], 32)
    if "module" in request:
        path = Path(folder) / "kernel.ttir"
        path.write_text(request["module"])
        source: Any = str(path)
    else:
        source = kernel_source(request, folder)
    kernel = triton.compile(source, target=target)
    path = Path(folder) / "kernel.ttgir"
    path.write_text(kernel.asm["ttgir"])
    context = ir.context()
    ir.load_dialects(context)
    make_backend(target).load_dialects(context)
    return {"stages": sorted(kernel.asm), "ttgir": ir.parse_mlir_module(str(path), context).str_nodebug()}


def assembled(request: dict[str, Any], folder: str) -> dict[str, Any]:
    """PTX of the kernel, and the facts of its launch."""
    os.environ["TRITON_CACHE_DIR"] = folder
    source, target = kernel_source(request, folder), GPUTarget("cuda", request["capability"], 32)
    kernel = triton.compile(source, target=target, options=request.get("options") or {})
    facts = ("shared", "num_warps", "num_ctas", "global_scratch_size", "tensordesc_meta")
    return {"ptx": kernel.asm["ptx"], **{name: getattr(kernel.metadata, name, None) for name in facts}}


def from_text(request: dict[str, Any], folder: str) -> Any:
    path = Path(folder) / "kernel.ttir"
    path.write_text(request["module"])

    def make(context: Any) -> Any:
        module = ir.parse_mlir_module(str(path), context)
        module.context = context
        return module

    return make


def from_kernel(request: dict[str, Any], folder: str, backend: Any, options: Any) -> Any:
    source = kernel_source(request, folder)
    implementation, modules = backend.get_codegen_implementation(options), backend.get_module_map()
    return lambda context: source.make_ir(backend.target, options, implementation, modules, context)


def kernel_source(request: dict[str, Any], folder: str) -> Any:
    kernel = getattr(loaded(request["text"], folder), request["kernel"])
    constants = {name: constant(value) for name, value in request["constants"].items()}
    names = kernel.arg_names
    signature = {name: request["signature"].get(name, "constexpr") for name in names}
    aligned = request.get("aligned", [name for name, type in signature.items() if type[0] == "*"])
    attributes = {(names.index(name),): [["tt.divisibility", 16]] for name in aligned}
    return ASTSource(kernel, signature, constants, attributes)


def main() -> None:
    for line in sys.stdin:
        request = json.loads(line)
        with tempfile.TemporaryDirectory() as folder:
            try:
                make = assembled if "ptx" in request else optimized if "capability" in request else printed
                answer = make(request, folder)
            except Exception as error:  # noqa: BLE001 - the test is told
                answer = {"error": f"{type(error).__name__}: {error}"}
            sys.stdout.write(json.dumps(answer, default=str) + "\n")


main()
