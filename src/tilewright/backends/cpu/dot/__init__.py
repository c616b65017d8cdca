"""Register-blocked matrix products of tiles in memory, as vector loops.

space = dot_workspace_bytes(spec, target)
lower_dot(builder, target, spec, a, b, c, workspace, prefetch=(Prefetch(following, stride, 64, 512),))
"""

from tilewright.backends.cpu.dot.lower import dot_workspace_bytes, lower_dot
from tilewright.backends.cpu.dot.spec import DotSpec, Offset, Prefetch, operand_element_type, wants_bias

__all__ = ["DotSpec", "Offset", "Prefetch", "dot_workspace_bytes", "lower_dot", "operand_element_type", "wants_bias"]
