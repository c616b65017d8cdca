"""`triton._C.libtriton.ir`."""

from tilewright.compat.bindings import BlockView as block
from tilewright.compat.bindings import ModuleView as module
from tilewright.compat.bindings import OpView as operation
from tilewright.compat.bindings import RegionView as region
from tilewright.compat.bindings import ValueView as value
from tilewright.compat.bindings import context, load_dialects

__all__ = ["block", "context", "load_dialects", "module", "operation", "region", "value"]
