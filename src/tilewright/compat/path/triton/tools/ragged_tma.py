"""`triton.tools.ragged_tma`."""

from tilewright.compat.ragged import create_ragged_descriptor
from tilewright.language.ragged import atomic_add_ragged, load_ragged, store_ragged

__all__ = ["atomic_add_ragged", "create_ragged_descriptor", "load_ragged", "store_ragged"]
