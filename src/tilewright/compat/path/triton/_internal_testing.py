"""`triton._internal_testing`."""

from tilewright.compat import internal_testing as _own
from tilewright.compat.internal_testing import _fresh_knobs_impl
from tilewright.compat.names import public_names

globals().update(public_names(_own))
