"""Reading types and attributes.

!tt.ptr<f32>      tensor<4x8xi32>      (i32) -> f32
{a = 1 : i32, b = dense<0.0> : tensor<4xf32>, c = array<i32: 1, 0>, d = "text", e = @f, g}
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TypeAlias

from tilewright.ir.attributes import (
    UNIT,
    Attribute,
    Dense,
    DenseArray,
    Keyword,
    Number,
    Opaque,
    Symbol,
)
from tilewright.ir.errors import counted
from tilewright.ir.literals import read_number
from tilewright.ir.location_parser import ALIAS, LocationParser
from tilewright.ir.scanner import SPACE
from tilewright.ir.types import (
    FLOATS,
    FunctionType,
    IntType,
    MemDescType,
    OpaqueType,
    PointerType,
    TensorDescType,
    TensorType,
    Type,
    VectorType,
    async_token,
    f64,
    i64,
    index,
    none,
)

Nested: TypeAlias = "str | list[Nested]"

_REFERENCE = re.compile(r"(#[\w.$]+)" + SPACE, re.ASCII)
_TYPE_HEAD = re.compile(r"!?[A-Za-z_][\w$.]*", re.ASCII)
_EXTENT = re.compile(r"(\d+)x")
_EXTENTS = re.compile(r"(\d+(?:x\d+)*)" + SPACE)
_HASH = re.compile(r"#[\w.$]+", re.ASCII)
_RESOURCES = re.compile(r"\{-#.*?#-\}" + SPACE, re.DOTALL)
"""Data beside the module, which no op of ours uses."""
_WHITE = re.compile(r"\s+")
_INTEGER_NAME = re.compile(r"([su]?)i(\d+)")
WIDEST_INTEGER = (1 << 24) - 1
_KEYWORD = re.compile(r"(?!(?:tensor|vector|[su]?i\d+|index|none|b?f\d+\w*|tf32)\b)([a-z_]\w*)" + SPACE, re.ASCII)
"""A word that is no type."""
_PLAIN: dict[str, Type] = {"index": index, "none": none, "!ttg.async.token": async_token, **FLOATS}
_CARRIED = frozenset(("memref",))
"""Types that no op of ours looks into."""
TYPE_RULES: list[Callable[[Type], None]] = []
"""Functions that raise ValueError for a type that breaks a rule. Dialects fill it."""
ATTRIBUTE_SPELLINGS: dict[str, Callable[[str], str]] = {}
"""Per kind of attribute (`#ttg.blocked`) a function to the one spelling of its text. Dialects fill it."""


class AttributeParser(LocationParser):
    """Reads everything that is no op."""

    def __init__(self, text: str, file: str) -> None:
        super().__init__(text, file)
        self._types: dict[str, Type] = {}
        self._attributes: dict[str, Attribute] = {}

    def skip_aliases(self) -> None:
        """Go past definitions of aliases (`#loc1 = …`), which were found at the start, and resources."""
        while match := ALIAS.match(self.text, self.position):
            self.position = match.end()
            if self.looks_at("loc("):
                self._aliased_location(match[1], match.start())
                self.position = self._alias_ends[match[1]]
            elif match[1][0] == "!":
                self.type()
            else:
                self.attribute()
        resources = self.match(_RESOURCES)
        if resources is not None:
            self.skip_aliases()

    # Types

    def type(self) -> Type:
        """A type."""
        start = self.position
        head = _TYPE_HEAD.match(self.text, start)
        if head is None:
            if self.looks_at("("):
                return self.function_type()
            raise self.error("a type")
        end = head.end()
        if self.text.startswith("<", end):
            end = self.bracket(end)
        known = self._types.get(self.text[start:end])
        if known is not None:
            self.position = end
            self.skip_space()
            return known
        self.position = head.end()
        self.skip_space()
        found = self._types[self.text[start:end]] = self._checked(self._type_after(head[0], start), start)
        return found

    def _checked(self, type: Type, start: int) -> Type:
        try:
            for check in TYPE_RULES:
                check(type)
        except ValueError as error:
            raise self.problem(str(error), start) from None
        return type

    def types(self) -> list[Type]:
        """`T, U`."""
        return self.list(self.type)

    def colon_type(self) -> Type:
        """`: T`."""
        self.expect(":")
        return self.type()

    def colon_types(self) -> list[Type]:
        """`: T, U`."""
        self.expect(":")
        return self.list(self.type)

    def type_body(self, head: str) -> Type:
        """The type `head` with the body that is next, as op formats abbreviate it: `<f32>`."""
        start = self.position
        return self._checked(self._type_after(head, start), start)

    def function_type(self) -> FunctionType:
        """`(T, U) -> V`."""
        inputs = self.list(self.type, "(", ")")
        self.expect("->")
        return FunctionType(tuple(inputs), tuple(self.result_types()))

    def result_types(self) -> list[Type]:
        """`(T, U)`, or one type without parentheses."""
        return self.list(self.type, "(", ")") if self.looks_at("(") else [self.type()]

    def signature(self) -> FunctionType:
        """`: (T, U) -> V`."""
        self.expect(":")
        return self.function_type()

    def _type_after(self, head: str, start: int) -> Type:
        """The type that starts with the word `head` at `start`; the position is behind it."""
        if head in _PLAIN:
            return _PLAIN[head]
        body = _TYPE_BODIES.get(head)
        if body is not None:
            return body(self)
        if head[0] == "!" or head in _CARRIED:
            return self._other_type(head, start)
        width = _INTEGER_NAME.fullmatch(head)
        if width is None:
            raise self.error("a type", start)
        if len(width[2]) > 8 or not 0 < int(width[2]) <= WIDEST_INTEGER:
            raise self.problem(f"an integer type has 1 to {WIDEST_INTEGER} bits", start)
        return IntType(int(width[2]), width[1])

    def _tensor_body(self) -> TensorType:
        """`<4x8xf32, #layout>`."""
        self.expect("<")
        shape, element = self._extents(), self.type()
        encoding = self._layout() if self.optional(",") else None
        self.expect(">")
        return TensorType(shape, element, encoding)

    def _vector_body(self) -> VectorType:
        """`<16xf32>`."""
        self.expect("<")
        shape, element = self._extents(), self.type()
        self.expect(">")
        return VectorType(shape, element)

    def _extents(self) -> tuple[int, ...]:
        """`4x8x`."""
        shape: list[int] = []
        while extent := self.match(_EXTENT):
            shape.append(int(extent[1]))
        return tuple(shape)

    def _layout(self) -> str:
        """The text of the next attribute."""
        start = self.position
        layout = self.attribute()
        if not isinstance(layout, Opaque):
            raise self.error("a layout", start)
        return layout.text

    def _memory_body(self) -> MemDescType:
        """`<4x8xf16, #shared, #smem, mutable, 2x4x8>`."""
        self.expect("<")
        shape, element = self._extents(), self.type()
        self.expect(",")
        encoding = self._layout()
        self.expect(",")
        space = self._layout()
        mutable, alloc_shape = False, shape
        while self.optional(","):
            if self.keyword("mutable"):
                mutable = True
            else:
                extents = self.demand(_EXTENTS, "the shape of the allocation")[1]
                alloc_shape = tuple(map(int, extents.split("x")))
        self.expect(">")
        return MemDescType(shape, element, encoding, space, mutable, alloc_shape)

    def _other_type(self, head: str, start: int) -> Type:
        """An alias, or a type that is only carried along."""
        if head in self._aliases:
            with self.inside(head):
                return self.type()
        if self.looks_at("<"):
            self.position = self.bracket(self.position)
        text = self.text[start : self.position].rstrip()
        self.skip_space()
        return OpaqueType(_WHITE.sub(" ", self._resolved(text)))

    def _pointer_body(self) -> PointerType:
        """`<f32>`, `<f32, 3>`."""
        self.expect("<")
        pointee = self.type()
        space = self.integer() if self.optional(",") else 1
        self.expect(">")
        return PointerType(pointee, space)

    def _descriptor_body(self) -> TensorDescType:
        """`<tensor<4x8xf32>>`, or shorter `<4x8xf32>`."""
        if not self.text.startswith("<tensor", self.position):
            return TensorDescType(self._tensor_body())
        self.expect("<")
        block = self.type()
        self.expect(">")
        assert isinstance(block, TensorType), "a type that starts with `tensor`"
        return TensorDescType(block)

    def _images_body(self) -> TensorDescType:
        """`<64x32xf16, #shared>`: pixels, and the channels of each."""
        return TensorDescType(self._tensor_body(), of_images=True)

    # Attributes

    def attributes(self) -> dict[str, Attribute]:
        """`{a = 1 : i32, b}` if it stands next, else nothing."""
        if not self.looks_at("{"):
            return {}
        found: dict[str, Attribute] = {}

        def entry() -> None:
            name = self.string() if self.looks_at('"') else self.dotted("an attribute's name")
            found[name] = self.attribute() if self.optional("=") else UNIT

        self.list(entry, "{", "}")
        return found

    def attribute(self) -> Attribute:
        """An attribute."""
        first = self.text[self.position : self.position + 1]
        if first.isdigit():
            return self._number()
        return _BY_FIRST_CHARACTER.get(first, AttributeParser._word_attribute)(self)

    def _word_attribute(self) -> Attribute:
        """An attribute that starts with a word: a truth value, `dense`, `array`, `unit`, a type, or a keyword."""
        word = self.keyword("true", "false", "unit", "dense", "array")
        if word == "dense":
            return self._dense()
        if word == "array":
            return self._dense_array()
        if word == "unit":
            return UNIT
        if word is not None:
            return word == "true"
        keyword = self.match(_KEYWORD)
        return Keyword(keyword[1]) if keyword else self.type()

    def _dialect_attribute(self) -> Attribute:
        """`#name`, an alias, or `#dialect.name<…>`, kept as text."""
        start = self.position
        reference = self.demand(_REFERENCE, "an attribute")
        if reference[1] in self._aliases:
            return self._aliased(reference[1])
        end = reference.end(1)
        if self.text.startswith("<", end):
            self.position = end = self.bracket(end)
            self.skip_space()
        return Opaque(self._canonical(reference[1], self.text[start:end], start))

    def _aliased(self, name: str) -> Attribute:
        """The attribute of the alias `name`."""
        found = self._attributes.get(name)
        if found is None:
            with self.inside(name):
                found = self._attributes[name] = self.attribute()
        return found

    def _resolved(self, text: str) -> str:
        """`text` with attributes in the place of their aliases."""

        def resolved(match: re.Match[str]) -> str:
            found = self._aliased(match[0]) if match[0] in self._aliases else None
            return found.text if isinstance(found, Opaque) else match[0]

        return _HASH.sub(resolved, text)

    def _canonical(self, name: str, text: str, start: int) -> str:
        """`text` of the attribute `name` with the aliases in it resolved, as its dialect spells it."""
        full = name + _WHITE.sub(" ", self._resolved(text[len(name) :]))
        spelling = ATTRIBUTE_SPELLINGS.get(name)
        try:
            return spelling(full) if spelling else full
        except ValueError as error:
            raise self.problem(str(error), start) from None

    def _number(self) -> Number:
        start = self.position
        text = self.number_text()
        default = f64 if "." in text else i64
        return self._literal(text, self.type() if self.optional(":") else default, start)

    def _literal(self, text: str, type: Type, start: int) -> Number:
        """The number `text` of `type`."""
        try:
            return Number(read_number(text, type), type)
        except (ValueError, TypeError):
            raise self.problem(f"{text} is no value of type {type.scalar.text}", start) from None

    def _dense_array(self) -> DenseArray:
        self.expect("<")
        element = self.type()
        values: list[int] = []
        if self.optional(":"):
            values = self.list(lambda: int(self._literal(self._element_text(), element, self.position).value))
        self.expect(">")
        return DenseArray(element, tuple(values))

    def _element_text(self) -> str:
        return self.keyword("true", "false") or self.number_text()

    def _dense(self) -> Number | Dense:
        """`<0> : tensor<4xi32>`, `<[1, 2]> : tensor<2xi32>`."""
        self.expect("<")
        start = self.position
        nested: Nested = [] if self.looks_at(">") else self._dense_elements()
        self.expect(">")
        type = self.colon_type()
        if not isinstance(type, TensorType):
            raise self.problem(f"dense<…> needs a tensor type, not {type.text}", start)
        if isinstance(nested, str):
            return self._literal(nested, type, start)
        values = [self._literal(text, type, start).value for text in _flattened(nested)]
        if len(values) != type.numel:
            raise self.problem(f"{type.text} has {counted(type.numel, 'element')}, not {len(values)}", start)
        if len(set(map(repr, values))) == 1:
            return Number(values[0], type)
        return Dense(tuple(values), type)

    def _dense_elements(self) -> Nested:
        if self.looks_at("["):
            return list(self.list(self._dense_elements, "[", "]"))
        return self._element_text()


_BY_FIRST_CHARACTER: dict[str, Callable[[AttributeParser], Attribute]] = {
    "-": AttributeParser._number,
    '"': AttributeParser.string,
    "[": lambda parser: tuple(parser.list(parser.attribute, "[", "]")),
    "{": AttributeParser.attributes,
    "@": lambda parser: Symbol(parser.symbol()),
    "#": AttributeParser._dialect_attribute,
}


_TYPE_BODIES: dict[str, Callable[[AttributeParser], Type]] = {
    "tensor": AttributeParser._tensor_body,
    "vector": AttributeParser._vector_body,
    "!tt.ptr": AttributeParser._pointer_body,
    "!tt.tensordesc": AttributeParser._descriptor_body,
    "!ttng.tensordesc_im2col": AttributeParser._images_body,
    "!ttg.memdesc": AttributeParser._memory_body,
}


def _flattened(nested: Nested) -> list[str]:
    """The texts in nested lists, in order."""
    if isinstance(nested, str):
        return [nested]
    return [text for part in nested for text in _flattened(part)]
