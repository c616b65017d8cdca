"""PTX of a program, computed with operations on tiles: what `inline_asm_elementwise` means where there is no GPU.

text.py reads it, registers.py holds values, packs.py puts elements into them, run.py goes through the instructions;
`integers.py`, `floats.py`, `conversions.py` and `memory.py` say what these mean.
"""
