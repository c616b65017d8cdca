"""CPython's bytecode in one vocabulary; only this file depends on the Python version.

    3.11   LOAD_METHOD sum, PRECALL 1, CALL 1           method "sum", call (1, ())
    3.12   LOAD_ATTR (sum, method), CALL 1              method "sum", call (1, ())
    3.13   LOAD_FAST_LOAD_FAST (x, y)                   load "x", load "y"
    3.14   LOAD_SMALL_INT 3, BINARY_OP []               constant 3, subscript

The vocabulary (`arg` in parentheses):

    constant (value)   load, store, delete (name)   take (name): load that also forgets, around inlined comprehensions
    pop   copy, swap (n)   null   unary, binary, compare (function)   attribute, method (name)   subscript
    slice, tuple, list, map, string (n)   constant_map (n)   extend, append, merge (n)   to_tuple
    convert (code)   format (has a specification)   call (n, keywords)   call_named (n)   call_spread (with keywords)
    enter   special (__enter__ or __exit__)   unpack (n)   unpack_star (before, after)   for → exit   jump → target
    branch (what makes it jump) → target   return   assertion   raise   closure   function   refuse (what)
"""

from __future__ import annotations

import dis
import operator
import sys
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from types import CodeType
from typing import Any, NamedTuple

from tilewright.frontends import operations
from tilewright.language.python_code import has_opcodes

Made = Sequence[tuple[str, Any]]

MATRIX_PRODUCT = "the operator `@`"
_AFTER_3_12 = bool(sys.version_info >= (3, 13))
_AFTER_3_13 = bool(sys.version_info >= (3, 14))
WHILE_TESTS_TWICE = not _AFTER_3_13
"""Whether the condition of a `while` stands before its loop, and again at the end; if not, it begins the loop."""
_COMMON_CONSTANTS = (AssertionError, NotImplementedError, tuple, all, any)
"""The constants of LOAD_COMMON_CONSTANT by number (3.14)."""
_SPECIAL_METHODS = ("__enter__", "__exit__")
"""The methods of LOAD_SPECIAL by number (3.14); those behind them are of `async with`."""
_LIST_TO_TUPLE, _UNARY_POSITIVE = 6, 5
"""Numbers of CALL_INTRINSIC_1 (3.12 and later)."""


class Positions(NamedTuple):
    """The place that an instruction comes from: lines from 1; columns from 0, in bytes; None if unknown."""

    line: int | None
    end_line: int | None
    column: int | None
    end_column: int | None


class BytecodeInstruction(NamedTuple):
    """One instruction of the vocabulary. `target` is the number of the instruction that it may jump to, or -1."""

    op: str
    arg: Any
    target: int
    positions: Positions


def instructions_of(code: CodeType) -> list[BytecodeInstruction]:
    """The instructions of a code object; targets are indices into the list."""
    made: list[BytecodeInstruction] = []
    first: dict[int, int] = {}  # offset in the bytecode → number of its first instruction here
    keywords: tuple[str, ...] = ()
    cells = {*code.co_cellvars, *code.co_freevars}
    for found in dis.get_instructions(code):
        first[found.offset] = len(made)
        if found.opname == "KW_NAMES":
            keywords = found.argval if isinstance(found.argval, tuple) else code.co_consts[found.arg or 0]
            continue
        positions = Positions(*(found.positions or dis.Positions()))
        target = found.argval if found.opcode in _JUMPS else -1
        for op, arg in _translated(found):
            if op == "call":
                arg, keywords = (arg, keywords), ()
            elif op == "load" and found.opname == "LOAD_FAST" and arg in cells:  # 3.13 for LOAD_CLOSURE
                op = "closure"
            made.append(BytecodeInstruction(op, arg, target if op in WITH_TARGET else -1, positions))
    return [i._replace(target=first[i.target]) if i.target >= 0 else i for i in made]


def leaving_statements(code: Sequence[BytecodeInstruction]) -> dict[Positions, str]:
    """The places of what looks like `break`, `continue` and `return` without a value: the word, "" where unknown.

    All are jumps (to the end of the function, perhaps), like the ends of loops and sides of branches; but only theirs
    have a place of their own, as wide as the word. (So has the end of a body whose last line is a constant of that
    width.)
    """
    ops: dict[Positions, set[str]] = {}
    for instruction in code:
        ops.setdefault(instruction.positions, set()).add(instruction.op)
    words = {place: _word(place) for place, here in ops.items() if here <= _LEAVING and here & {"jump", "return"}}
    return {place: word for place, word in words.items() if word is not None}


def _word(place: Positions) -> str | None:
    """The word that a statement of this place begins with; "" if its width is unknown, None if it is none of them."""
    if place.line is None:
        return None
    if place.column is None or place.end_column is None:
        return ""
    width = place.end_column - place.column if place.line == place.end_line else 0
    return {len("break"): "break", len("continue"): "continue", len("return"): "return"}.get(
        width, "return" if width > len("return ") else None
    )


_LEAVING = frozenset(("constant", "jump", "pop", "return", "swap"))
"""The instructions that these consist of: the iterator is dropped; the end of the function may follow at once."""


def tried(code: CodeType) -> Positions | None:
    """The place of the first `try` statement; `with` and comprehensions have protected code, too, but no `try`."""
    if not has_opcodes(code, ("PUSH_EXC_INFO",)):
        return None
    found = list(dis.get_instructions(code))
    after = pairwise(i for i in found if i.opname != "CACHE")
    of_with = "WITH_EXCEPT_START"  # how handlers of `with` go on
    handlers = {i.offset for i, following in after if i.opname == "PUSH_EXC_INFO" and following.opname != of_with}
    if not handlers:
        return None
    entries = dis.Bytecode(code).exception_entries  # type: ignore[attr-defined]  # `dis` has it, its stubs do not
    start = min((entry.start for entry in entries if entry.target in handlers), default=0)
    before = next((i for i in reversed(found) if i.offset < start and i.opname != "CACHE"), None)
    statement = before if before is not None and before.opname == "NOP" else None
    protected = next((i for i in found if i.offset >= start), None)
    place = statement or protected
    return Positions(*place.positions) if place is not None and place.positions else None


WITH_TARGET = frozenset(("branch", "for", "jump"))
_JUMPS = frozenset((*dis.hasjrel, *dis.hasjabs))


def _translated(found: dis.Instruction) -> Made:
    translate = SUPPORTED.get(found.opname)
    if translate is None:
        return (("refuse", REFUSED.get(found.opname, f"the bytecode instruction {found.opname}")),)
    return translate(found)


def _with(op: str) -> Callable[[dis.Instruction], Made]:
    """The argument as `dis` gives it."""
    return lambda found: ((op, found.argval),)


def _fixed(op: str, arg: Any = None) -> Callable[[dis.Instruction], Made]:
    """Always this argument."""
    return lambda found: ((op, arg),)


def _pairs(*ops: str) -> Callable[[dis.Instruction], Made]:
    """Two loads or stores in one instruction."""
    return lambda found: tuple(zip(ops, found.argval, strict=True))


def _or_pop(sense: str) -> Callable[[dis.Instruction], Made]:
    """3.11: jump with the value, or drop it."""
    return lambda found: (("copy", 1), ("branch", sense), ("pop", None))


def _load_global(found: dis.Instruction) -> Made:
    load = ("load", found.argval)
    return (("null", None), load) if (found.arg or 0) & 1 else (load,)


def _load_attribute(found: dis.Instruction) -> Made:
    is_method = sys.version_info >= (3, 12) and (found.arg or 0) & 1
    return (("method" if is_method else "attribute", found.argval),)


def _binary(found: dis.Instruction) -> Made:
    if found.argrepr in ("[", "[]"):  # 3.14
        return (("subscript", None),)
    function = BINARY.get(found.argrepr.rstrip("="))
    return (("refuse", MATRIX_PRODUCT) if function is None else ("binary", function),)


def _format_value(found: dis.Instruction) -> Made:
    """3.11 and 3.12: conversion and specification in one."""
    flags = found.arg or 0
    convert = ("convert", {0: -1, 1: ord("s"), 2: ord("r"), 3: ord("a")}[flags & 3])
    if flags & 4:
        return (("swap", 2), convert, ("swap", 2), ("format", True))
    return (convert, ("format", False))


def _intrinsic(found: dis.Instruction) -> Made:
    if found.arg == _LIST_TO_TUPLE:
        return (("to_tuple", None),)
    if found.arg == _UNARY_POSITIVE:
        return (("unary", operator.pos),)
    return (("refuse", f"the bytecode instruction {found.opname} {found.argrepr}"),)


def _common_constant(found: dis.Instruction) -> Made:
    constant = _COMMON_CONSTANTS[found.arg or 0]
    return (("assertion", None) if constant is AssertionError else ("constant", constant),)


def _load_special(found: dis.Instruction) -> Made:
    number = found.arg or 0
    return (("special", _SPECIAL_METHODS[number]),) if number < len(_SPECIAL_METHODS) else (("refuse", "`async`"),)


BINARY: Mapping[str, Callable[..., Any]] = {
    "%": operator.mod,
    "&": operator.and_,
    "*": operator.mul,
    "**": operator.pow,
    "+": operator.add,
    "-": operator.sub,
    "/": operator.truediv,
    "//": operator.floordiv,
    "<<": operator.lshift,
    ">>": operator.rshift,
    "^": operator.xor,
    "|": operator.or_,
}

COMPARISONS: Mapping[str, Callable[..., Any]] = {
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    "==": operator.eq,
    ">": operator.gt,
    ">=": operator.ge,
}

SUPPORTED: Mapping[str, Callable[[dis.Instruction], Made]] = {
    "BEFORE_WITH": _fixed("enter"),
    "BINARY_OP": _binary,
    "BINARY_SLICE": lambda found: (("slice", 2), ("subscript", None)),
    "BINARY_SUBSCR": _fixed("subscript"),
    "BUILD_CONST_KEY_MAP": _with("constant_map"),
    "BUILD_LIST": _with("list"),
    "BUILD_MAP": _with("map"),
    "BUILD_SLICE": _with("slice"),
    "BUILD_STRING": _with("string"),
    "BUILD_TUPLE": _with("tuple"),
    "CALL": _with("call"),
    "CALL_FUNCTION_EX": lambda found: (("call_spread", _AFTER_3_13 or bool((found.arg or 0) & 1)),),
    "CALL_INTRINSIC_1": _intrinsic,
    "CALL_KW": _with("call_named"),
    "COMPARE_OP": lambda found: (("binary", COMPARISONS[found.argrepr.removeprefix("bool(").removesuffix(")")]),),
    "CONTAINS_OP": lambda found: (("binary", operations.lacks if found.arg else operations.contains),),
    "CONVERT_VALUE": lambda found: (("convert", {1: ord("s"), 2: ord("r"), 3: ord("a")}[found.arg or 0]),),
    "COPY": _with("copy"),
    "DELETE_DEREF": _with("delete"),
    "DELETE_FAST": _with("delete"),
    "DICT_MERGE": _with("merge"),
    "DICT_UPDATE": _with("merge"),
    # The iterator is gone already in this vocabulary; 3.13 follows with a POP_TOP for it, 3.14 with a POP_ITER.
    "END_FOR": lambda found: (("constant", None),) if _AFTER_3_12 else (),
    "FORMAT_SIMPLE": _fixed("format", False),
    "FORMAT_VALUE": _format_value,
    "FORMAT_WITH_SPEC": _fixed("format", True),
    "FOR_ITER": _fixed("for"),
    "GET_ITER": _fixed("iterate"),
    "IS_OP": lambda found: (("binary", operator.is_not if found.arg else operator.is_),),
    "JUMP_BACKWARD": _fixed("jump"),
    "JUMP_BACKWARD_NO_INTERRUPT": _fixed("jump"),
    "JUMP_FORWARD": _fixed("jump"),
    "JUMP_IF_FALSE_OR_POP": _or_pop("false"),
    "JUMP_IF_TRUE_OR_POP": _or_pop("true"),
    "KW_NAMES": lambda found: (),  # belongs to the call that follows
    "LIST_APPEND": _with("append"),
    "LIST_EXTEND": _with("extend"),
    "LIST_TO_TUPLE": _fixed("to_tuple"),
    "LOAD_ASSERTION_ERROR": _fixed("assertion"),
    "LOAD_ATTR": _load_attribute,
    "LOAD_CLOSURE": _with("closure"),
    "LOAD_COMMON_CONSTANT": _common_constant,
    "LOAD_CONST": _with("constant"),
    "LOAD_FAST_AND_CLEAR": _with("take"),
    "LOAD_FAST_BORROW_LOAD_FAST_BORROW": _pairs("load", "load"),
    "LOAD_FAST_LOAD_FAST": _pairs("load", "load"),
    "LOAD_GLOBAL": _load_global,
    "LOAD_METHOD": _with("method"),
    "LOAD_SMALL_INT": _with("constant"),
    "LOAD_SPECIAL": _load_special,
    "MAKE_FUNCTION": _with("function"),
    "POP_ITER": _fixed("pop"),
    "POP_TOP": _fixed("pop"),
    "PUSH_NULL": _fixed("null"),
    "RAISE_VARARGS": lambda found: (("raise", found.arg),),
    "RETURN_CONST": lambda found: (("constant", found.argval), ("return", None)),
    "RETURN_VALUE": _fixed("return"),
    "SET_FUNCTION_ATTRIBUTE": _with("function_attribute"),
    "STORE_DEREF": _with("store"),
    "STORE_FAST": _with("store"),
    "STORE_FAST_LOAD_FAST": _pairs("store", "load"),
    "STORE_FAST_STORE_FAST": _pairs("store", "store"),
    "SWAP": _with("swap"),
    "UNARY_INVERT": _fixed("unary", operator.invert),
    "UNARY_NEGATIVE": _fixed("unary", operator.neg),
    "UNARY_NOT": _fixed("unary", operations.logical_not),
    "UNARY_POSITIVE": _fixed("unary", operator.pos),
    "UNPACK_EX": lambda found: (("unpack_star", ((found.arg or 0) & 0xFF, (found.arg or 0) >> 8)),),
    "UNPACK_SEQUENCE": _with("unpack"),
    **dict.fromkeys(("LOAD_DEREF", "LOAD_FAST", "LOAD_FAST_BORROW", "LOAD_FAST_CHECK", "LOAD_NAME"), _with("load")),
    **dict.fromkeys(
        ("CACHE", "COPY_FREE_VARS", "EXTENDED_ARG", "MAKE_CELL", "NOP", "NOT_TAKEN", "PRECALL", "RESUME", "TO_BOOL"),
        lambda found: (),
    ),
    **{
        f"POP_JUMP_{way}IF_{name}": _fixed("branch", name.lower().replace("_", " "))
        for way in ("", "BACKWARD_", "FORWARD_")
        for name in ("FALSE", "NONE", "NOT_NONE", "TRUE")
    },
}
"""Opcode → how it reads in the vocabulary."""

_REFUSED: Mapping[str, str] = {
    "a bytecode instruction that compiled functions do not contain": (
        "ANNOTATIONS_PLACEHOLDER CALL_INTRINSIC_2 ENTER_EXECUTOR EXIT_INIT_CHECK INTERPRETER_EXIT JUMP "
        "JUMP_IF_FALSE JUMP_IF_TRUE JUMP_NO_INTERRUPT POP_BLOCK POP_EXCEPT PRINT_EXPR RERAISE RESERVED "
        "SETUP_CLEANUP SETUP_FINALLY SETUP_WITH STORE_FAST_MAYBE_NULL WITH_EXCEPT_START"
    ),
    "`async`": "ASYNC_GEN_WRAP BEFORE_ASYNC_WITH END_ASYNC_FOR GET_AITER GET_ANEXT GET_AWAITABLE",
    "a template string": "BUILD_INTERPOLATION BUILD_TEMPLATE",
    "a set": "BUILD_SET SET_UPDATE",
    "`try`": "CHECK_EG_MATCH CHECK_EXC_MATCH PREP_RERAISE_STAR PUSH_EXC_INFO",
    "`yield`": "CLEANUP_THROW END_SEND GET_YIELD_FROM_ITER RETURN_GENERATOR SEND YIELD_VALUE",
    "`del` of anything but a variable": "DELETE_ATTR DELETE_SUBSCR",
    "`global`": "DELETE_GLOBAL STORE_GLOBAL",
    "a class": (
        "DELETE_NAME LOAD_BUILD_CLASS LOAD_CLASSDEREF LOAD_FROM_DICT_OR_DEREF LOAD_FROM_DICT_OR_GLOBALS "
        "LOAD_LOCALS SETUP_ANNOTATIONS STORE_NAME"
    ),
    "`match`": "GET_LEN MATCH_CLASS MATCH_KEYS MATCH_MAPPING MATCH_SEQUENCE",
    "`import`": "IMPORT_FROM IMPORT_NAME IMPORT_STAR",
    "`super()`": "LOAD_SUPER_ATTR LOAD_SUPER_METHOD LOAD_ZERO_SUPER_ATTR LOAD_ZERO_SUPER_METHOD",
    "a dict comprehension": "MAP_ADD",
    "a set comprehension": "SET_ADD",
    "assignment to an attribute": "STORE_ATTR",
    "assignment to a subscript": "STORE_SLICE STORE_SUBSCR",
}
"""Parts of Python that kernels do not have → the opcodes that belong to them."""
REFUSED: Mapping[str, str] = {opcode: part for part, opcodes in _REFUSED.items() for opcode in opcodes.split()}
