"""How each opcode reads in the reader's vocabulary, those of other versions of Python included."""

from __future__ import annotations

import operator
from types import SimpleNamespace
from typing import Any

import pytest

from tilewright.frontends import operations
from tilewright.frontends.from_bytecode import opcodes
from tilewright.frontends.from_bytecode.opcodes import BINARY, COMPARISONS, MATRIX_PRODUCT, SUPPORTED

ARGUMENT_AS_IT_IS = {
    "BUILD_CONST_KEY_MAP": "constant_map",
    "BUILD_LIST": "list",
    "BUILD_MAP": "map",
    "BUILD_SLICE": "slice",
    "BUILD_STRING": "string",
    "BUILD_TUPLE": "tuple",
    "CALL": "call",
    "CALL_KW": "call_named",
    "COPY": "copy",
    "DELETE_DEREF": "delete",
    "DELETE_FAST": "delete",
    "DICT_MERGE": "merge",
    "DICT_UPDATE": "merge",
    "LIST_APPEND": "append",
    "LIST_EXTEND": "extend",
    "LOAD_CLOSURE": "closure",
    "LOAD_CONST": "constant",
    "LOAD_DEREF": "load",
    "LOAD_FAST": "load",
    "LOAD_FAST_AND_CLEAR": "take",
    "LOAD_FAST_BORROW": "load",
    "LOAD_FAST_CHECK": "load",
    "LOAD_METHOD": "method",
    "LOAD_NAME": "load",
    "LOAD_SMALL_INT": "constant",
    "MAKE_FUNCTION": "function",
    "SET_FUNCTION_ATTRIBUTE": "function_attribute",
    "STORE_DEREF": "store",
    "STORE_FAST": "store",
    "SWAP": "swap",
    "UNPACK_SEQUENCE": "unpack",
}
FIXED = {
    "BEFORE_WITH": ("enter", None),
    "BINARY_SUBSCR": ("subscript", None),
    "FORMAT_SIMPLE": ("format", False),
    "FORMAT_WITH_SPEC": ("format", True),
    "FOR_ITER": ("for", None),
    "GET_ITER": ("iterate", None),
    "JUMP_BACKWARD": ("jump", None),
    "JUMP_BACKWARD_NO_INTERRUPT": ("jump", None),
    "JUMP_FORWARD": ("jump", None),
    "LIST_TO_TUPLE": ("to_tuple", None),
    "LOAD_ASSERTION_ERROR": ("assertion", None),
    "POP_ITER": ("pop", None),
    "POP_TOP": ("pop", None),
    "PUSH_NULL": ("null", None),
    "RETURN_VALUE": ("return", None),
    "UNARY_INVERT": ("unary", operator.invert),
    "UNARY_NEGATIVE": ("unary", operator.neg),
    "UNARY_NOT": ("unary", operations.logical_not),
    "UNARY_POSITIVE": ("unary", operator.pos),
    **{
        f"POP_JUMP_{way}IF_{name}": ("branch", sense)
        for way in ("", "BACKWARD_", "FORWARD_")
        for name, sense in (("FALSE", "false"), ("TRUE", "true"), ("NONE", "none"), ("NOT_NONE", "not none"))
    },
}
NOTHING = {
    *("CACHE", "COPY_FREE_VARS", "EXTENDED_ARG", "KW_NAMES", "MAKE_CELL", "NOP", "NOT_TAKEN", "PRECALL", "RESUME"),
    "TO_BOOL",
}
OTHERS = [
    ("BINARY_OP", 0, 0, "+", [("binary", operator.add)]),
    ("BINARY_OP", 13, 13, "+=", [("binary", operator.add)]),
    ("BINARY_OP", 4, 4, "@", [("refuse", MATRIX_PRODUCT)]),
    ("BINARY_OP", 26, 26, "[", [("subscript", None)]),
    ("BINARY_OP", 26, 26, "[]", [("subscript", None)]),
    *(("BINARY_OP", 0, 0, sign, [("binary", function)]) for sign, function in BINARY.items()),
    *(("BINARY_OP", 0, 0, f"{sign}=", [("binary", function)]) for sign, function in BINARY.items()),
    *(("COMPARE_OP", 0, sign, sign, [("binary", function)]) for sign, function in COMPARISONS.items()),
    *(("COMPARE_OP", 0, sign, f"bool({sign})", [("binary", function)]) for sign, function in COMPARISONS.items()),
    ("BINARY_SLICE", None, None, "", [("slice", 2), ("subscript", None)]),
    ("CALL_INTRINSIC_1", 5, 5, "UNARY_POSITIVE", [("unary", operator.pos)]),
    ("CALL_INTRINSIC_1", 6, 6, "LIST_TO_TUPLE", [("to_tuple", None)]),
    ("CALL_INTRINSIC_1", 4, 4, "WRAP", [("refuse", "the bytecode instruction CALL_INTRINSIC_1 WRAP")]),
    ("CONTAINS_OP", 0, 0, "", [("binary", operations.contains)]),
    ("CONTAINS_OP", 1, 1, "", [("binary", operations.lacks)]),
    ("IS_OP", 0, 0, "", [("binary", operator.is_)]),
    ("IS_OP", 1, 1, "", [("binary", operator.is_not)]),
    *(("CONVERT_VALUE", number, str, "", [("convert", ord(how))]) for number, how in enumerate("sra", 1)),
    *(("FORMAT_VALUE", number, (), "", [("convert", how), ("format", False)]) for number, how in enumerate([-1, 115])),
    ("FORMAT_VALUE", 4 + 2, (), "", [("swap", 2), ("convert", ord("r")), ("swap", 2), ("format", True)]),
    ("FORMAT_VALUE", 4 + 3, (), "", [("swap", 2), ("convert", ord("a")), ("swap", 2), ("format", True)]),
    ("JUMP_IF_FALSE_OR_POP", 1, 1, "", [("copy", 1), ("branch", "false"), ("pop", None)]),
    ("JUMP_IF_TRUE_OR_POP", 1, 1, "", [("copy", 1), ("branch", "true"), ("pop", None)]),
    ("LOAD_COMMON_CONSTANT", 0, 0, "", [("assertion", None)]),
    ("LOAD_COMMON_CONSTANT", 1, 1, "", [("constant", NotImplementedError)]),
    ("LOAD_COMMON_CONSTANT", 2, 2, "", [("constant", tuple)]),
    ("LOAD_COMMON_CONSTANT", 3, 3, "", [("constant", all)]),
    ("LOAD_COMMON_CONSTANT", 4, 4, "", [("constant", any)]),
    ("LOAD_FAST_BORROW_LOAD_FAST_BORROW", 1, ("a", "b"), "", [("load", "a"), ("load", "b")]),
    ("LOAD_FAST_LOAD_FAST", 1, ("a", "b"), "", [("load", "a"), ("load", "b")]),
    ("STORE_FAST_LOAD_FAST", 1, ("a", "b"), "", [("store", "a"), ("load", "b")]),
    ("STORE_FAST_STORE_FAST", 1, ("a", "b"), "", [("store", "a"), ("store", "b")]),
    ("LOAD_GLOBAL", 0, "g", "", [("load", "g")]),
    ("LOAD_GLOBAL", 2, "g", "", [("load", "g")]),
    ("LOAD_GLOBAL", 3, "g", "", [("null", None), ("load", "g")]),
    ("RAISE_VARARGS", 1, 1, "", [("raise", 1)]),
    ("RETURN_CONST", 1, 7, "", [("constant", 7), ("return", None)]),
    ("UNPACK_EX", 2 | 1 << 8, 0, "", [("unpack_star", (2, 1))]),
    ("UNPACK_EX", 3, 0, "", [("unpack_star", (3, 0))]),
]
BY_VERSION = {
    "LOAD_ATTR": [
        ((3, 11), 3, "x", [("attribute", "x")]),
        ((3, 12), 2, "x", [("attribute", "x")]),
        ((3, 12), 3, "x", [("method", "x")]),
        ((3, 14), 1, "x", [("method", "x")]),
    ],
    "CALL_FUNCTION_EX": [
        ((3, 13), 0, 0, [("call_spread", False)]),
        ((3, 13), 1, 1, [("call_spread", True)]),
        ((3, 14), None, None, [("call_spread", True)]),
    ],
    "LOAD_SPECIAL": [
        ((3, 14), 0, 0, [("special", "__enter__")]),
        ((3, 14), 1, 1, [("special", "__exit__")]),
        ((3, 14), 2, 2, [("refuse", "`async`")]),
    ],
    "END_FOR": [((3, 12), None, None, []), ((3, 13), None, None, [("constant", None)])],
}
"""Opcodes that mean something else, or come with another argument, from some version on."""


def read(name: str, arg: Any, argval: Any, argrepr: str = "") -> list[tuple[str, Any]]:
    return list(SUPPORTED[name](SimpleNamespace(opname=name, arg=arg, argval=argval, argrepr=argrepr)))


def test_all_are_here() -> None:
    others = {row[0] for row in OTHERS}
    assert set(SUPPORTED) == {*ARGUMENT_AS_IT_IS, *FIXED, *NOTHING, *others, *BY_VERSION}


def test_opcodes_with_one_reading() -> None:
    assert {name: read(name, 3, "value") for name in ARGUMENT_AS_IT_IS} == {
        name: [(op, "value")] for name, op in ARGUMENT_AS_IT_IS.items()
    }
    assert {name: read(name, 3, "value") for name in FIXED} == {name: [made] for name, made in FIXED.items()}
    assert [name for name in NOTHING if read(name, 1, 1)] == []


def test_arguments_decide() -> None:
    for name, arg, argval, argrepr, made in OTHERS:
        assert read(name, arg, argval, argrepr) == made, (name, arg, argrepr)


def test_versions_decide(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, (version, arg, argval, made) in [(name, row) for name, rows in BY_VERSION.items() for row in rows]:
        with monkeypatch.context() as changes:
            changes.setattr(opcodes.sys, "version_info", version)
            changes.setattr(opcodes, "_AFTER_3_12", version >= (3, 13))
            changes.setattr(opcodes, "_AFTER_3_13", version >= (3, 14))
            found = read(name, arg, argval)
        assert found == made, (name, version, arg)
