"""`tilewright.vectorize`: plain Python functions on numbers and arrays, as machine code.

A call goes down this list as far as it has to:

    native/calls.py      known kinds: no Python at all
    function.py          numbers, or arrays
    arrays.py            kinds, broadcast, result → iteration.py: rows, prepared.py: run them; reductions.py: folds
    build.py             machine code from the disk cache, or
    compile.py           program.py: Python → TTIR on scalars; bodies.py, lanes.py: → vectors; LLVM
"""

from tilewright.vectorizing.function import Vectorized, vectorize

__all__ = ["Vectorized", "vectorize"]
