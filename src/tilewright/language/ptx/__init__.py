"""Inline PTX computed with operations on tiles: `inline_asm_elementwise` where there is no GPU.

`support/ptx_parser.py` parses it. run.py puts elements into registers, which registers.py holds, and executes the
instructions; `integers.py`, `floats.py`, and `conversions.py` define their meaning.
"""
