"""The package as type checkers and editors see it."""

# ruff: noqa: F403 - the public names of these files
from tilewright.language import core as core
from tilewright.language import extra as extra
from tilewright.language import math as math
from tilewright.language import random as random
from tilewright.language import standard as standard
from tilewright.language import target_info as target_info
from tilewright.language.assembly import *
from tilewright.language.control import *
from tilewright.language.debug import *
from tilewright.language.descriptors import *
from tilewright.language.loops import *
from tilewright.language.math import *
from tilewright.language.memory import *
from tilewright.language.operations import *
from tilewright.language.random import *
from tilewright.language.scaled import *
from tilewright.language.shaping import *
from tilewright.language.signatures import *
from tilewright.language.sorting import *
from tilewright.language.standard import *
from tilewright.language.tensors import *
from tilewright.language.tuples import *
from tilewright.semantics.constexpr import *
from tilewright.semantics.types import *

# Not those of the semantics, which files above import.
from tilewright.language.operations import to_tensor as to_tensor  # isort: skip
from tilewright.language.operations import where as where  # isort: skip

TRITON_MAX_TENSOR_NUMEL: int
__all__: list[str]
