"""The process that runs LLVM for NVIDIA GPUs: modules in, PTX out. `nvptx.py` starts it and talks to it.

    python -I -S nvptx_worker.py <folder that llvmlite is in> <seconds>

LLVM aborts its process when it meets code that it cannot compile, so it must not run in the user's. The worker reads
requests from its standard input and writes answers to its standard output, both in Python's marshal format:

    (text, cpu, features, libraries)     →    (True, PTX) or (False, message)

It ends when its input is closed, so it never outlives the process that started it, and also when no request has come
for the given number of seconds.
"""

import marshal
import os
import signal
import sys
from functools import cache
from threading import Timer

sys.path.insert(0, sys.argv[1])

import llvmlite.binding as llvm

TRIPLE = "nvptx64-nvidia-cuda"


@cache
def machine_for(cpu: str, features: str) -> llvm.TargetMachine:
    """LLVM's code generator for a device."""
    return llvm.Target.from_triple(TRIPLE).create_target_machine(cpu=cpu, features=features, opt=3)


@cache
def part_of_library(path: str, names: frozenset[str], cpu: str, features: str) -> bytes:
    """The functions of these names, and what they need, of a library of bitcode, such as libdevice."""
    with open(path, "rb") as file:  # noqa: PTH123 - pathlib takes a while to import
        module = llvm.parse_bitcode(file.read())
    for function in module.functions:
        if not function.is_declaration and function.name not in names:
            function.linkage = "internal"
    manager = llvm.create_new_module_pass_manager()
    manager.add_global_dead_code_eliminate_pass()
    manager.run(module, pass_builder(cpu, features))
    return bytes(module.as_bitcode())


def link(module: llvm.ModuleRef, path: str, cpu: str, features: str) -> None:
    """Add the functions of a library that the module calls."""
    called = frozenset(f.name for f in module.functions if f.is_declaration and not f.name.startswith("llvm."))
    part = llvm.parse_bitcode(part_of_library(path, called, cpu, features))
    part.triple, part.data_layout = module.triple, module.data_layout
    module.link_in(part)
    for function in module.functions:
        if function.name in called and not function.is_declaration:
            function.linkage = "internal"


def pass_builder(cpu: str, features: str) -> llvm.PassBuilder:
    """LLVM's pipelines for a device; scalars of straight-line code become the lanes of packed instructions."""
    options = llvm.create_pipeline_tuning_options(speed_level=2)
    options.slp_vectorization = True
    return llvm.create_pass_builder(machine_for(cpu, features), options)


def emit(text: str, cpu: str, features: str, libraries: list[str]) -> str:
    """The PTX of a module."""
    module = llvm.parse_assembly(text)
    machine = machine_for(cpu, features)
    module.triple, module.data_layout = TRIPLE, str(machine.target_data)
    for path in libraries:
        link(module, path, cpu, features)
    module.verify()
    passes = pass_builder(cpu, features)
    passes.getModulePassManager().run(module, passes)
    return str(machine.emit_assembly(module))


def serve() -> None:
    """Answer requests until there are no more."""
    requests, answers = sys.stdin.buffer, sys.stdout.buffer
    while True:
        patience = Timer(float(sys.argv[2]), os._exit, (0,))  # not every system can wait for a pipe for so long only
        patience.daemon = True
        patience.start()
        try:
            request = marshal.load(requests)
        except (EOFError, ValueError, TypeError):  # whoever asked is gone
            return
        finally:
            patience.cancel()
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
    # Induction variables for each address take registers: 208 instead of 176 for a product of 128x256x64 on sm_90.
    llvm.set_option("tilewright", "--disable-lsr")
    llvm.set_option("tilewright", "--slp-schedule-budget=5000")  # as good as 100000, in half the time for long sorts
    serve()
    os._exit(0)  # LLVM's own clearing up takes a while
