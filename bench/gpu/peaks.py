"""The peaks of devices, by the driver's names for them; of other devices nothing is known.

Dense products with fp32 sums: where a data sheet only gives figures "with sparsity", they are halved. Bandwidths that
it gives in TB/s are times 1000.
"""

from __future__ import annotations

from typing import Any, NamedTuple


class Peak(NamedTuple):
    """TFLOP/s of products of fp16 and bf16 matrices, GB/s, and TFLOP/s of fp8 ones, 0 where there are none."""

    fp16: float
    bandwidth: float
    fp8: float = 0.0

    def of(self, element: str) -> float:
        """TFLOP/s of products of a type; 0 where that is not known."""
        return {"fp16": self.fp16, "bf16": self.fp16, "fp8e4nv": self.fp8, "fp8e5": self.fp8}.get(element, 0.0)


PEAKS = {
    # A10, A30, A40: their data sheets of 2021 and 2022.
    "NVIDIA A10": Peak(125.0, 600.0),
    "NVIDIA A30": Peak(165.0, 933.0),
    "NVIDIA A40": Peak(149.7, 696.0),
    # NVIDIA A100 Tensor Core GPU data sheet, 2021; 40 GB: that of 2020.
    "NVIDIA A100 80GB PCIe": Peak(312.0, 1935.0),
    "NVIDIA A100-PCIE-40GB": Peak(312.0, 1555.0),
    "NVIDIA A100-SXM4-40GB": Peak(312.0, 1555.0),
    "NVIDIA A100-SXM4-80GB": Peak(312.0, 2039.0),
    # L4, L40 and L40S: their data sheets of 2023.
    "NVIDIA L4": Peak(121.0, 300.0, 242.5),
    "NVIDIA L40": Peak(181.05, 864.0, 362.0),
    "NVIDIA L40S": Peak(362.05, 864.0, 733.0),
    # NVIDIA H100 Tensor Core GPU data sheet: SXM and NVL that of 2024, PCIe that of 2022.
    "NVIDIA H100 80GB HBM3": Peak(989.5, 3350.0, 1979.0),
    "NVIDIA H100 NVL": Peak(835.5, 3900.0, 1670.5),
    "NVIDIA H100 PCIe": Peak(756.5, 2000.0, 1513.0),
    # NVIDIA H200 Tensor Core GPU data sheet, 2024.
    "NVIDIA H200": Peak(989.5, 4800.0, 1979.0),
    "NVIDIA H200 NVL": Peak(835.5, 4800.0, 1670.5),
    # NVIDIA HGX B200, in the Blackwell data sheet of 2024.
    "NVIDIA B200": Peak(2250.0, 8000.0, 4500.0),
    # Appendices of the architecture white papers: GA102 (2020), Ada (2022), RTX Blackwell (2025); 8-bit with fp32 sums.
    "NVIDIA GeForce RTX 3090": Peak(71.0, 936.0),
    "NVIDIA GeForce RTX 4090": Peak(165.2, 1008.0, 330.3),
    "NVIDIA GeForce RTX 5090": Peak(209.5, 1792.0, 419.0),
}
"""A device is found by its whole name, so that a part of it (`… MIG 1g.18gb`), or one for another market, is not."""
UNKNOWN = Peak(0.0, 0.0)


def peak_of(facts: dict[str, Any]) -> Peak:
    """The peaks of a device with these facts."""
    return PEAKS.get(str(facts["device"]), UNKNOWN)
