"""`triton.language.libdevice`, where the functions of `triton.language.extra.libdevice` were once."""

from tilewright.compat.names import public_names
from tilewright.language.extra import libdevice as _own
from tilewright.support.old_forms import old_form as _old_form

_old_form("triton.language.libdevice", "triton.language.extra.libdevice")
globals().update(public_names(_own))
