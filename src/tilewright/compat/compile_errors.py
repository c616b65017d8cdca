"""Compile errors in Triton's form: positions within the function, and a chain of causes.

    --> kernel.py:8:5
    at 2:4:                             line and column in the function, which begins with `def` in line 1
    def kernel():
        0 + "a"
        ^
    TypeError: unsupported operand …

If one function calls another, there is one error per function: the caller's is raised, and its `__cause__` is the
callee's. The last cause is the exception of the failed operation, with the bare message.
"""

from __future__ import annotations

import ast
from functools import lru_cache
from types import TracebackType

from tilewright.compat.core_shims import IncompatibleTypeErrorImpl
from tilewright.frontends import errors as syntax
from tilewright.language import core
from tilewright.language.callable import ResultUnused
from tilewright.language.python_code import UnsupportedSyntax
from tilewright.semantics import errors as semantic
from tilewright.support import knobs
from tilewright.support.diagnostics import CompilationError, Diagnostic, SemanticError, Wording, advice, callers
from tilewright.support.source import Span, source_line, source_text, syntax_tree

SENTENCES: dict[type[Diagnostic], str] = {
    semantic.AxisOutOfRange: "invalid axis {axis}; the rank is {rank}",
    syntax.BoundNotScalar: "For {which} must be a scalar, got {type}",
    semantic.BadIndex: "unsupported tensor index: {index}",
    semantic.BlockTooNarrow: (
        "Descriptor block shape must have at least {least} bytes in the last dimension, and has {size}"
    ),
    syntax.BranchTypeMismatch: "Mismatched type for {name}: {then} if the condition holds, {orelse} otherwise",
    syntax.ChoiceTypeMismatch: "Ternary expression with dynamic condition has inconsistent types: {then} and {orelse}",
    syntax.ConstantRedefined: "{name} is already defined. constexpr cannot be reassigned.",
    semantic.ExtentNotPowerOfTwo: "Shape element {axis} must be a power of 2",
    semantic.MixedSigns: "Cannot use / or % on {left} and {right} because they have different signedness",
    semantic.NoSuchProgramAxis: "program_id axis must be 0, 1, or 2 but got {axis}",
    semantic.RangeNotPowerOfTwo: "arange's range must be a power of 2",
    ResultUnused: "The result of {function} is not being used. {advice}",
    syntax.LoopTypeChange: "Loop-carried variable {name} has initial type {before} and {after} after one iteration",
    syntax.ReturnTypeMismatch: "Return type mismatch: {then} if the condition holds, {orelse} otherwise",
    semantic.SameAxisTwice: "duplicate axes, normalized axes = {positions}",
    semantic.ScaleFactorsDiffer: "Operands must have the same scale factor; (lhs: {left} vs rhs: {right})",
    semantic.StoreToConst: "Cannot store to a constant pointer",
    semantic.TooManyImpreciseSums: semantic.TooManyImpreciseSums.title,
    semantic.BadBuffer: "{problem}",
    semantic.WrongLayout: "{problem}",
    semantic.WrongOperandType: "invalid operands of type {type} for {operation}: expected {expected}",
}
"""Diagnostics for which programs look for certain words."""
CAUSES: dict[type[Diagnostic], type[Exception]] = {
    semantic.CombineChangesType: AssertionError,
    semantic.DotShapesDiffer: AssertionError,
    semantic.DotTooShallow: AssertionError,
    semantic.MixedSigns: TypeError,
    semantic.NotATile: TypeError,
    semantic.NoWayBetween: AssertionError,
    semantic.PointerMeetsPointer: TypeError,
}
"""The exception that an operation raises in Triton; ValueError where nothing is said."""
_OF_CONSTANTS = ("num_bins", "num_stages", "shape", "values")
CAUSES_OF_OPERATIONS: dict[type[Diagnostic], dict[str, type[Exception]]] = {
    semantic.BadArgument: {
        "descriptor offsets": AssertionError,
        "device_print prefix": AssertionError,
        "dot allow_tf32": AssertionError,
        "dot input_precision": AssertionError,
        "full value": AssertionError,
        "gather a descriptor of blocks": AssertionError,
        "gather blocks of": AssertionError,
        "gather index": AssertionError,
        "gather x_offsets": AssertionError,
        "max a value": AssertionError,
        "max values": AssertionError,
        "min a value": AssertionError,
        "min values": AssertionError,
        "split shape": AssertionError,
        "store a value of shape": AssertionError,
    },
    semantic.MustBeConstant: dict.fromkeys(_OF_CONSTANTS, TypeError),
    semantic.MustBeWhole: dict.fromkeys(_OF_CONSTANTS, TypeError),
    semantic.NotAPointer: {"make_tensor_descriptor": AssertionError},
    semantic.ShapesDiffer: {"dot": AssertionError, "gather": AssertionError, "reduce": AssertionError},
    semantic.WrongOperandType: {
        **dict.fromkeys(("%", "&", "*", "+", "-", "/", "<<", ">>", "^", "|"), IncompatibleTypeErrorImpl),
        **dict.fromkeys(("!=", "<", "<=", "==", ">", ">="), IncompatibleTypeErrorImpl),
        **dict.fromkeys(("maximum", "minimum", "pointer + offset"), IncompatibleTypeErrorImpl),
        **dict.fromkeys(("abs", "cast", "descriptor offsets", "dot"), AssertionError),
        **dict.fromkeys(("//", "fdiv", "fma"), TypeError),
    },
}
"""The same for diagnostics of several operations, by how these (and their arguments) are called."""
SENTENCES_OF_SYNTAX = {
    "`return` inside a loop": "Cannot have `return` statements inside `while` or `for` statements in triton",
}
"""The same for parts of Python that kernels do not have."""
LINES_OF_FUNCTION = 4
"""Max lines of a function that are shown: that of `def`, and the last ones up to the place."""
OF_WHOLE_FUNCTIONS = (syntax.ReturnTypeMismatch,)
"""Diagnostics of a function as a whole: the place is its beginning."""


def as_triton(error: CompilationError) -> CompilationError:
    """The error of the outermost function, whose causes are those of the functions that it calls."""
    sentence = sentence_of(error.diagnostic)
    given = () if type(error.diagnostic) in SENTENCES else advice(error.diagnostic, error.span)
    explained = "\n".join([sentence, *given])  # programs look for some of the sentences at the end
    cause = _refusal(error, sentence)
    if error.span is None:
        return _reworded(error, None, sentence, f"error: {explained}", cause)
    whole = isinstance(error.diagnostic, OF_WHOLE_FUNCTIONS)
    shown = _reworded(error, error.span, sentence, place_text(error.span, whole=whole) + "\n" + explained, cause)
    for caller, _ in callers(error.span):
        if caller is not None:
            shown = _reworded(error, caller, sentence, place_text(caller), shown)
    return shown


def sentence_of(diagnostic: Diagnostic) -> str:
    """The diagnostic as a sentence."""
    template = SENTENCES.get(type(diagnostic))
    if template is not None:
        return diagnostic.fill(template)
    if isinstance(diagnostic, UnsupportedSyntax) and diagnostic.what in SENTENCES_OF_SYNTAX:
        return SENTENCES_OF_SYNTAX[diagnostic.what]
    headline = diagnostic.headline
    return headline[:1].upper() + headline[1:]


def place_text(span: Span, *, whole: bool = False) -> str:
    """The place in the file and in the function around it, how this begins, the lines as far as there, and a mark.

    Args:
        whole: the function itself is meant.
    """
    start, indent = function_around(span)
    line, column = (start, indent) if whole else (span.line, span.col_offset)
    lines = [source_line(span.file, number)[indent:] for number in range(start, line + 1)]
    if len(lines) > LINES_OF_FUNCTION:
        lines[1 : 1 - LINES_OF_FUNCTION] = ["    …"]
    column = max(0, column - indent)
    return "\n".join(
        [f"--> {span.file}:{span.line}:{span.column}", f"at {line - start + 1}:{column}:", *lines, " " * column + "^"]
    )


def function_around(span: Span) -> tuple[int, int]:
    """Line and indentation of the innermost `def` around a place; of the place itself where there is none."""
    around = [found for found in _functions(span.file) if found[0] <= span.line <= found[1]]
    start, _, indent = max(around, default=(span.line, span.line, 0))
    return start, indent


@lru_cache(maxsize=32)
def _functions(file: str) -> tuple[tuple[int, int, int], ...]:
    """First line, last line and indentation of every function of a file."""
    try:
        tree = syntax_tree(source_text(file))
    except SyntaxError:
        return ()
    found = (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))
    return tuple((node.lineno, node.end_lineno or node.lineno, node.col_offset) for node in found)


def _refusal(error: CompilationError, sentence: str) -> Exception | None:
    """The exception that the operation raised; None if the language itself is at fault."""
    raised = error.__cause__
    if raised is None or type(error) is not CompilationError:
        return None
    if isinstance(raised, SemanticError):
        return _class_of(error.diagnostic)(sentence).with_traceback(_builtin_frame(raised))
    is_call = isinstance(error.diagnostic, syntax.BadArguments) and isinstance(raised, TypeError)
    return TypeError(sentence).with_traceback(_builtin_frame(raised)) if is_call else None


def _builtin_frame(raised: BaseException) -> TracebackType | None:
    """The frame of a refusal in the file that has Triton's name; all frames with TILEWRIGHT_FULL_TRACEBACK."""
    frame = raised.__traceback__
    if knobs.tilewright.full_traceback:
        return frame
    while frame is not None and frame.tb_frame.f_code.co_filename != core.__file__:
        frame = frame.tb_next
    return None if frame is None else TracebackType(None, frame.tb_frame, frame.tb_lasti, frame.tb_lineno)


def _class_of(diagnostic: Diagnostic) -> type[Exception]:
    """The class of what the operation raises in Triton."""
    fields = (getattr(diagnostic, name, "") for name in ("function", "operation", "name"))
    named = CAUSES_OF_OPERATIONS.get(type(diagnostic), {}).get(" ".join(filter(None, fields)))
    return named or CAUSES.get(type(diagnostic), ValueError)


def _reworded(
    error: CompilationError, span: Span | None, sentence: str, text: str, cause: Exception | None
) -> CompilationError:
    made = type(error)(error.diagnostic, span)
    made.wording = Wording(sentence, text, own=str(error) if error.wording is None else error.wording.own)
    made.__cause__ = cause
    return made
