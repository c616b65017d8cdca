"""`triton.profiler`."""

from tilewright.compat import profiler as _own
from tilewright.compat.names import public_names
from tilewright.compat.profiler import DEFAULT_PROFILE_NAME

globals().update(public_names(_own))
