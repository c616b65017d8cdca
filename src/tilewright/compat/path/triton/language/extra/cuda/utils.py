"""`triton.language.extra.cuda.utils`."""

from tilewright.language.extra.cuda import globaltimer, smid

__all__ = ["globaltimer", "smid"]
