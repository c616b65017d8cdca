"""Functions of vector loops: built, printed and read again, interpreted, and compiled into this process."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence

import numpy as np

from tilewright.backends.cpu.loop_builder import LoopBuilder
from tilewright.backends.llvm.loops import LoopEmitter
from tilewright.backends.llvm.machine import Target, compile_object
from tilewright.backends.llvm.spelling import element_of
from tilewright.backends.llvm.writer import LlvmWriter
from tilewright.interpreter.run_ir import run_ir
from tilewright.ir.core import Block, Op, Region
from tilewright.ir.parser import parse_module
from tilewright.ir.printer import print_op
from tilewright.ir.types import FunctionType, Type
from tilewright.ir.verifier import verify
from tilewright.runtime.drivers.cpu.blob import link
from tilewright.support.executable_memory import map_code

NAME = "loops"
Build = Callable[..., None]
"""Takes the builder, then the function's arguments."""


def module_of(build: Build, types: Sequence[Type]) -> Op:
    """A module with one function, whose ops `build` makes; its text reads back as it was."""
    block = Block(types)
    build(LoopBuilder(block), *block.args)
    block.append(Op.create("tt.return"))
    attributes = {"sym_name": NAME, "function_type": FunctionType(tuple(types), ()), "sym_visibility": "public"}
    function = Op.create("tt.func", (), (), {**attributes, "noinline": False}, [Region([block])])
    body = Block()
    body.append(function)
    module = Op.create("builtin.module", (), (), {}, [Region([body])])
    verify(module)
    text = print_op(module)
    read = parse_module(text)
    verify(read)
    assert print_op(read) == text
    return module


def block_of(module: Op) -> Block:
    """The body of the only function."""
    (function,) = module.regions[0].block
    return function.regions[0].block


def llvm_text(module: Op, target: Target) -> str:
    """The LLVM IR for the only function."""
    block = block_of(module)
    w = LlvmWriter(target)
    with w.function(NAME, [(element_of(argument.type), f"%a{argument.index}") for argument in block.args]):
        emitter = LoopEmitter(w)
        for argument in block.args:
            emitter.bind(argument, f"%a{argument.index}")
        emitter.run(block)
    return w.render()


def compiled(module: Op, target: Target) -> Callable[..., None]:
    """A native function of addresses and numbers."""
    blob = link(compile_object(llvm_text(module, target), target))
    prototype = ctypes.CFUNCTYPE(None, *[ctypes.c_int64] * len(block_of(module).args))
    return prototype(map_code(blob.image).address + blob.symbols[NAME])


def run_both(build: Build, types: Sequence[Type], arguments: Sequence[np.ndarray | int], target: Target) -> list[list]:
    """The arrays as the interpreter leaves them, and as native code does."""
    module = module_of(build, types)
    interpreted = [value.copy() if isinstance(value, np.ndarray) else value for value in arguments]
    run_ir(module, interpreted)
    native = [value.copy() if isinstance(value, np.ndarray) else value for value in arguments]
    compiled(module, target)(*(v.ctypes.data if isinstance(v, np.ndarray) else v for v in native))
    return [[v for v in values if isinstance(v, np.ndarray)] for values in (interpreted, native)]
