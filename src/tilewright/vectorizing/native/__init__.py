"""The part of a vectorized function's call without Python: LLVM IR written from Python, compiled once per machine."""
