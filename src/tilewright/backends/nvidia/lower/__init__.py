"""TTGIR as LLVM IR for NVIDIA's GPUs: what each thread of a block does."""
