"""Makes the kernels of tests/kernels importable."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "kernels"))
