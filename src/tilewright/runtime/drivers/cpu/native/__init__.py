"""The native side of launching, as LLVM IR: thread pool, argument keys, the call itself.

`launch.runtime_text(machine)` is the whole text. Each file writes a few functions with the small language of `code.py`;
`structs.py` has the memory that Python and native code share.
"""
