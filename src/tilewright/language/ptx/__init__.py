"""PTX of a program, computed with operations on tiles: what `inline_asm_elementwise` means where there is no GPU.

`support/ptx_parser.py` reads it, run.py puts elements into registers, which registers.py holds, and goes through the
instructions; `integers.py`, `floats.py`, and `conversions.py` say what these mean.
"""
