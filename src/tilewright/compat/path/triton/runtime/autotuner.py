"""`triton.runtime.autotuner`."""

from tilewright import Autotuner, Config, Heuristics, OutOfResources, autotune, heuristics
from tilewright.support.device_errors import PTXASError

__all__ = ["Autotuner", "Config", "Heuristics", "OutOfResources", "PTXASError", "autotune", "heuristics"]
