"""`triton.language.extra.cuda`."""

from triton.language.extra import libdevice
from triton.language.extra.cuda import gdc, utils

from tilewright.language.extra.cuda import gdc_launch_dependents, gdc_wait, globaltimer, num_threads, num_warps, smid

__all__ = ["gdc_launch_dependents", "gdc_wait", "globaltimer", "libdevice", "num_threads", "num_warps", "smid"]
