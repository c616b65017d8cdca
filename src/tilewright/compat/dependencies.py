"""`DependenciesFinder`: what the text of a function depends on, asked the way Triton's own code asks.

finder = DependenciesFinder(name, fn.__globals__, inspect.getclosurevars(fn).nonlocals, fn.src)
finder.visit(fn.parse())
finder.ret                     # 64 digits; other when the text, a callee or a constant changes
finder.used_global_vals        # {(name, id(namespace)): (value, namespace)}
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from types import CodeType, FunctionType
from typing import Any

from tilewright.runtime.dependencies import UsedGlobals, dependencies
from tilewright.support.hashing import hash_of


class DependenciesFinder:
    """Digests a function and all that it refers to.

    Attributes:
        used_global_vals: the outer values that it reads, and those that its callees read.
    """

    def __init__(self, name: str, globals: dict[str, Any], nonlocals: Mapping[str, Any], src: str) -> None:
        self.name, self.globals, self.nonlocals = name, globals, nonlocals
        self.used_global_vals: UsedGlobals = {}
        self._hasher = hash_of()
        self._hasher.update(src.encode())

    def visit(self, node: ast.Module | ast.FunctionDef) -> None:
        """Follow what a function refers to.

        Args:
            node: the function, or a module with nothing else.

        Raises:
            RuntimeError: two functions saw one global with different values, or one belongs to another package.
        """
        definition = node.body[0] if isinstance(node, ast.Module) else node
        assert isinstance(definition, ast.FunctionDef), "finds the dependencies of functions"
        found = dependencies(self._function(definition))
        self._hasher.update(found.digest.encode())
        self.used_global_vals.update(found.globals)

    @property
    def ret(self) -> str:
        """The digest."""
        return self._hasher.hexdigest()

    def _function(self, definition: ast.FunctionDef) -> FunctionType:
        """The function that the text means, among these globals and in these variables."""
        text = f"def enclosing({', '.join(self.nonlocals)}): return {definition.name}"
        (outer,) = (part for part in ast.parse(text).body if isinstance(part, ast.FunctionDef))
        outer.body.insert(0, ast.FunctionDef(**dict(ast.iter_fields(definition)) | {"decorator_list": []}))
        tree = ast.fix_missing_locations(ast.Module([outer], []))
        module = compile(tree, f"<{self.name}>", "exec", dont_inherit=True)
        (code,) = (constant for constant in module.co_consts if isinstance(constant, CodeType))
        made: FunctionType = FunctionType(code, self.globals)(*self.nonlocals.values())
        return made
