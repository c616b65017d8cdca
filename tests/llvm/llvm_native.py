"""Run LLVM IR in this process (no libraries: undefined symbols are an error)."""

import ctypes
import struct

import llvmlite.binding as llvm

from tilewright.backends.llvm.machine import compile_object

_KEEP = []


def undefined_symbols(obj: bytes) -> set[str]:
    """Names an ELF64 object expects from outside."""
    section_table = struct.unpack_from("<Q", obj, 40)[0]
    size, count, _ = struct.unpack_from("<HHH", obj, 58)
    sections = [struct.unpack_from("<IIQQQQIIQQ", obj, section_table + i * size) for i in range(count)]
    names = set()
    for section in sections:
        if section[1] != 2:  # SHT_SYMTAB
            continue
        strings = sections[section[6]][4]
        for i in range(1, section[5] // 24):
            name, info, _, where, _, _ = struct.unpack_from("<IBBHQQ", obj, section[4] + 24 * i)
            if where == 0 and info & 15 != 4:
                start = strings + name
                names.add(obj[start : obj.index(b"\0", start)].decode())
    return names


def load(ir_text, target, name, *argument_types, result=None):
    """Compile for `target`, check that nothing is missing, and return a ctypes function."""
    return load_all(ir_text, target, {name: argument_types}, result=result)[name]


def load_all(ir_text, target, argument_types, *, result=None):
    """The same for several functions of one module: by name, what they take, and then the ctypes functions."""
    obj = compile_object(ir_text, target)
    assert not undefined_symbols(obj), undefined_symbols(obj)
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    empty = llvm.parse_assembly("")
    machine = llvm.Target.from_default_triple().create_target_machine(jit=True)
    engine = llvm.create_mcjit_compiler(empty, machine)
    engine.add_object_file(llvm.ObjectFileRef.from_data(obj))
    engine.finalize_object()
    _KEEP.append(engine)
    return {
        name: ctypes.CFUNCTYPE(result, *types)(engine.get_function_address(name))
        for name, types in argument_types.items()
    }
