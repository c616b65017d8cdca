"""The process that runs LLVM for NVIDIA GPUs: modules in, PTX out. `nvptx.py` starts it and talks to it.

    python -I -S nvptx_worker.py <folder that llvmlite is in>

LLVM ends the process it is in when it meets what it cannot compile, so that is never the user's. The process reads
requests from its standard input and writes answers to its standard output, both in Python's marshal format:

    (text, cpu, features, library, fold_ftz)     →    (True, PTX) or (False, message)

It ends with its input, so it never outlives who started it.
"""

import marshal
import os
import signal
import sys
from functools import cache

sys.path.insert(0, sys.argv[1])

import llvmlite.binding as llvm

TRIPLE = "nvptx64-nvidia-cuda"


@cache
def machine_for(cpu: str, features: str):  # type: ignore[no-untyped-def]
    """LLVM's code generator for a device."""
    return llvm.Target.from_triple(TRIPLE).create_target_machine(cpu=cpu, features=features, opt=3)


@cache
def library_at(path: str):  # type: ignore[no-untyped-def]
    """A library of bitcode, such as libdevice; parsed once, and cloned for each use."""
    with open(path, "rb") as file:  # noqa: PTH123 - pathlib takes a while to import
        return llvm.parse_bitcode(file.read())


def link(module, path: str) -> None:  # type: ignore[no-untyped-def]
    """Add the functions of a library; those that are not called go again at once."""
    own = {function.name for function in module.functions if not function.is_declaration}
    library = library_at(path).clone()
    library.triple, library.data_layout = module.triple, module.data_layout
    module.link_in(library)
    for function in module.functions:
        if not function.is_declaration and function.name not in own:
            function.linkage = "internal"


def emit(text: str, cpu: str, features: str, libraries: list[str]) -> str:
    """The PTX of a module."""
    module = llvm.parse_assembly(text)
    machine = machine_for(cpu, features)
    module.triple, module.data_layout = TRIPLE, str(machine.target_data)
    for path in libraries:
        link(module, path)
    module.verify()
    options = llvm.create_pipeline_tuning_options(speed_level=3)
    passes = llvm.create_pass_builder(machine, options)
    if libraries:
        drop_unused(module, passes)
    passes.getModulePassManager().run(module, passes)
    return str(machine.emit_assembly(module))


def drop_unused(module, passes) -> None:  # type: ignore[no-untyped-def]
    """Remove functions that nothing calls, before work is put into them."""
    manager = llvm.create_new_module_pass_manager()
    manager.add_global_dead_code_eliminate_pass()
    manager.run(module, passes)


def serve() -> None:
    """Answer requests until there are no more."""
    requests, answers = sys.stdin.buffer, sys.stdout.buffer
    while True:
        try:
            request = marshal.load(requests)
        except (EOFError, ValueError, TypeError):  # whoever asked is gone
            return
        try:
            answer = (True, emit(*request))
        except (RuntimeError, OSError) as error:
            answer = (False, str(error))
        marshal.dump(answer, answers)
        answers.flush()


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for who started us; we end with them
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    llvm.set_option("tilewright", "--nvptx-short-ptr")  # 32 bits for addresses of shared memory
    llvm.set_option("tilewright", "--nvptx-mad-wide-opt")  # offsets are multiplied and added at once
    serve()
    os._exit(0)  # LLVM's own clearing up takes a while
