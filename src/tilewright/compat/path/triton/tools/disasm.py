"""`triton.tools.disasm`."""

from tilewright.compat.unavailable import unavailable

_NAMES = ("extract", "get_sass", "parseCtrl", "path_to_cuobjdump", "processSassLines")
_REASON = "it shows the machine code of NVIDIA's GPUs; `kernel.asm[\"asm\"]` shows the CPU's"
globals().update({name: unavailable(f"triton.tools.disasm.{name}", _REASON) for name in _NAMES})

__all__ = [*_NAMES]
