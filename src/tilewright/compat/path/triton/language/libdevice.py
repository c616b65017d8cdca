"""`triton.language.libdevice`, where the functions of `triton.language.extra.libdevice` were once."""

from tilewright.compat.names import public_names
from tilewright.language.extra import libdevice as _own
from tilewright.support.deprecation import warn_deprecated as _warn_deprecated

_warn_deprecated("triton.language.libdevice", "triton.language.extra.libdevice")
globals().update(public_names(_own))
