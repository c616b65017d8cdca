"""`triton.profiler.viewer`."""

from tilewright.compat.unavailable import unavailable

_REASON = "there are no profiles to read: nothing is recorded there"
_NAMES = ("apply_frame_filter", "get_min_time_bytes", "get_min_time_flops", "parse", "print_tree", "read")
globals().update({name: unavailable(f"triton.profiler.viewer.{name}", _REASON) for name in _NAMES})

__all__ = [*_NAMES]
