"""The outcomes of one-line kernels: run by an interpreter with Triton, and imported for our own language.

Input, one line of JSON each: `header` (functions that the kernel calls), `body` (the kernel's lines), `parameters`,
`debug`, and `signatures`, a list of lists of type strings; a constant is written `=3`. Output, one line for each: a
list with an answer per signature, which is `{"types": […], "ttir": …}`, with what the kernel gave to `note`, or
`{"error": …, "cause": …, "text": …}`.

    {"header": "", "body": "note(a + b)", "parameters": ["a", "b"], "signatures": [["i32", "fp16"]], "debug": false}
    [{"types": ["fp16"], "ttir": "module { … }"}]
"""

from __future__ import annotations

import ast
import contextlib
import dataclasses
import io
import json
import linecache
import re
import sys
import warnings
from collections.abc import Callable
from functools import partial
from types import ModuleType
from typing import Any

TYPES: list[str] = []
"""The values that the running kernel has given to `note`."""
LANGUAGE: list[Any] = [None]
"""The language that is asked."""
FP8 = ("fp8e4nv", "fp8e4b8", "fp8e4b15", "fp8e5", "fp8e5b16")


def note(value: Any, _semantic: Any = None) -> None:
    """Called by kernels: takes down the type of a value, or the value of a constant; what made it stays alive."""
    TYPES.append(described(value))
    used(value, {} if _semantic is None else {"_semantic": _semantic})


note.__triton_builtin__ = True


def used(value: Any, semantic: dict[str, Any]) -> None:
    """Prints the tiles in a value."""
    if type(value).__name__ == "tuple":
        for item in value:
            used(item, semantic)
    elif hasattr(value, "handle") and hasattr(value, "dtype") and str(value.dtype) != "void":
        LANGUAGE[0].device_print("", value, **semantic)


def described(value: Any) -> str:
    """The type of a value, or the value of a constant."""
    value = getattr(value, "value", value) if type(value).__name__ == "constexpr" else value
    if isinstance(value, (list, tuple)) or type(value).__name__ == "tuple":
        return "(" + ", ".join(described(item) for item in value) + ")"
    if value is None or str(getattr(value, "dtype", "")) == "void":
        return "=None"
    if hasattr(value, "handle"):
        return str(value.type).replace("'", "")
    if isinstance(value, getattr(LANGUAGE[0], "range", ())):  # Triton's has no text of its own
        return "=range"
    text = f"={value!r}".replace("'", "")
    return text if "0x" not in text and "<" not in text else f"={type(value).__name__}"


def answers(triton: ModuleType, request: dict[str, Any], compiled: Callable[..., str]) -> list[dict[str, Any]]:
    """One answer per signature.

    Args:
        triton: the package whose language is asked.
        request: one line of the input.
        compiled: the TTIR of a kernel, by kernel, types and constants of its parameters.
    """
    LANGUAGE[0] = triton.language
    try:
        kernel = loaded(triton, request)
    except Exception as error:  # noqa: BLE001 - what is raised is what is asked
        return [refusal(error)] * len(request["signatures"])
    return [answer(kernel, request["parameters"], signature, compiled) for signature in request["signatures"]]


def loaded(triton: ModuleType, request: dict[str, Any]) -> Any:
    """The kernel of a request, in a file that `inspect` can read."""
    lines = "".join(f"    {line}\n" for line in request["body"].splitlines())
    text = f"{request['header']}\n@triton.jit\ndef kernel({', '.join(request['parameters'])}):\n{lines}"
    file = f"<language {hash(text)}>"
    linecache.cache[file] = (len(text), None, text.splitlines(True), file)
    module = sys.modules["language_kernels"] = ModuleType("language_kernels")  # where annotations are looked up
    vars(module).update(triton=triton, tl=triton.language, note=note)
    exec(compile(text, file, "exec"), vars(module))
    return vars(module)["kernel"]


def answer(kernel: Any, parameters: list[str], signature: list[str], compiled: Callable[..., str]) -> dict[str, Any]:
    """The outcome of a kernel for one signature."""
    TYPES.clear()
    names = [name.partition(":")[0].partition("=")[0].strip() for name in parameters]
    pairs = list(zip(names, signature, strict=True))
    constants = {name: ast.literal_eval(text[1:]) for name, text in pairs if text[0] == "="}
    types = {name: "constexpr" if name in constants else text for name, text in pairs}
    try:
        with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")
            return {"ttir": compiled(kernel, types, constants), "types": list(dict.fromkeys(TYPES))}
    except Exception as error:  # noqa: BLE001 - what is raised is what is asked
        return refusal(error)


def refusal(error: BaseException) -> dict[str, Any]:
    """The class of an error, that of its last cause, and the sentence of the latter."""
    last = error
    while last.__cause__ is not None:
        last = last.__cause__
    text = getattr(last, "error_message", None) or str(last)
    return {"error": type(error).__name__, "cause": type(last).__name__, "text": text.strip().split("\n")[0][:200]}


def main() -> None:
    """Answer the standard input with the Triton that is installed."""
    import triton
    from triton._C.libtriton import ir
    from triton.backends.compiler import GPUTarget
    from triton.compiler.compiler import ASTSource, make_backend

    backend = make_backend(GPUTarget("cuda", 90, 32))
    options, checking = (
        dataclasses.replace(backend.parse_options(given), supported_fp8_dtypes=FP8)
        for given in ({"sanitize_overflow": False}, {"debug": True})
    )
    functions, modules = backend.get_codegen_implementation(options), backend.get_module_map()
    context = ir.context()
    ir.load_dialects(context)
    backend.load_dialects(context)

    def compiled(kernel: Any, types: dict[str, str], constants: dict[str, Any], *, debug: bool = False) -> str:
        places = {(kernel.arg_names.index(name),): value for name, value in constants.items()}
        chosen = checking if debug else options
        module = ASTSource(kernel, types, places).make_ir(backend.target, chosen, functions, modules, context)
        return re.sub(r"\s*loc\(.*?\)$", "", module.str_nodebug(), flags=re.M)

    for line in sys.stdin:
        request = json.loads(line)
        found = answers(triton, request, partial(compiled, debug=request["debug"]))
        sys.stdout.write(json.dumps(found) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
