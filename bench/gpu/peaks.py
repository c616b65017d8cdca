"""What devices can do at most, by what their name has in it."""

from __future__ import annotations

import re
from typing import Any

PEAKS = {
    "A10": (125.0, 600.0),
    "A100": (312.0, 2039.0),
    "A100-PCIE-40GB": (312.0, 1555.0),
    "A100-SXM4-40GB": (312.0, 1555.0),
    "B200": (2250.0, 8000.0),
    "H100": (989.0, 3352.0),
    "H100 NVL": (835.0, 3938.0),
    "H100 PCIe": (756.0, 2039.0),
    "H200": (989.0, 4800.0),
    "L4": (121.0, 300.0),
    "L40S": (362.0, 864.0),
    "RTX 3090": (71.0, 936.0),
    "RTX 4090": (165.0, 1008.0),
    "RTX 5090": (209.0, 1792.0),
}
"""TFLOP/s of dense fp16 products with fp32 sums and GB/s, of data sheets."""


def peaks(facts: dict[str, Any]) -> tuple[float, float]:
    """TFLOP/s, 0 where that is not known, and GB/s, of a device with these facts."""
    name = str(facts["device"])
    known = max((key for key in PEAKS if re.search(rf"\b{key}\b", name)), key=len, default="")
    return PEAKS.get(known, (0.0, float(facts.get("gigabytes per second", 0))))
