"""Register-blocked matrix products of tiles in scratch memory.

space = dot_workspace_bytes(spec, target)
emit_dot(writer, spec, "%a", "%b", "%c", "%workspace", prefetch=(Prefetch("%next", "%stride", 64, 512),))
"""

from tilewright.backends.cpu.dot.emit import dot_workspace_bytes, emit_dot
from tilewright.backends.cpu.dot.spec import DotSpec, Offset, Prefetch, operand_element_type, wants_bias

__all__ = ["DotSpec", "Offset", "Prefetch", "dot_workspace_bytes", "emit_dot", "operand_element_type", "wants_bias"]
