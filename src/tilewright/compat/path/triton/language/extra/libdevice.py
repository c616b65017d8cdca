"""`triton.language.extra.libdevice`."""

from tilewright.compat.names import public_names
from tilewright.language.extra import libdevice as _own

globals().update(public_names(_own))
