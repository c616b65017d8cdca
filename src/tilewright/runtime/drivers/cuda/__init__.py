"""NVIDIA GPUs: the driver's library, devices, loading and launching kernels, memory, streams, tensor maps."""
