"""TTGIR as LLVM IR for NVIDIA's GPUs: the code of one thread of a CTA."""
