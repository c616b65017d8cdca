"""Lowering of a cpu.nest to LLVM loops: each value is written out element by element where a sink asks for it."""
