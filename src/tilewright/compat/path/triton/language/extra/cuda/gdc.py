"""`triton.language.extra.cuda.gdc`."""

from tilewright.language.extra.cuda import gdc_launch_dependents, gdc_wait

__all__ = ["gdc_launch_dependents", "gdc_wait"]
