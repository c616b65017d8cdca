"""`triton.language.extra.cuda.utils`."""

from tilewright.language.extra.cuda import globaltimer, num_threads, num_warps, smid

__all__ = ["globaltimer", "num_threads", "num_warps", "smid"]
