"""Colours for MLIR's text: Triton IR, Triton GPU IR and vector loops."""

from __future__ import annotations

from pygments.lexer import RegexLexer, words
from pygments.token import Comment, Keyword, Name, Number, Operator, Punctuation, String, Text

KEYWORDS = ("module", "attributes", "to", "step", "else", "iter_args", "dense", "array")


class MlirLexer(RegexLexer):
    """Tokens of MLIR: values, ops, types, attributes, numbers, strings."""

    name = "MLIR"
    aliases = ("mlir",)
    tokens = {  # noqa: RUF012 - as Pygments wants it
        "root": [
            (r"//.*?$", Comment.Single),
            (r'"[^"\n]*"', String.Double),
            (r"[%^][\w$.#]+(:\d+)?", Name.Variable),
            (r"@[\w$.]+", Name.Function),
            (r"[#!][\w.]+", Name.Class),
            (words(KEYWORDS, suffix=r"\b"), Keyword),
            (r"\b(x?(?:i|ui|si|f|bf)\d+|index|tensor|vector|memref)\b", Keyword.Type),
            (r"\b[a-z]\w*(?:\.[a-z_]\w*)+", Name.Builtin),
            (r"-?\b\d+(?:\.\d+(?:e[+-]?\d+)?)?(?:x(?=[\dxfib!]))?", Number),
            (r"0x[0-9A-Fa-f]+", Number.Hex),
            (r"->|=", Operator),
            (r"[{}()\[\]<>,:?+*-]", Punctuation),
            (r"\w+", Name),
            (r"\s+", Text),
            (r".", Text),
        ]
    }
