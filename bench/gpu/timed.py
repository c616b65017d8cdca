"""The rows of the part `fast`, tuned and timed on a device: of one kernel or several, each in some configurations.

TIMED[0].row, .kernel, .configurations      # "matmul fp16", "product", constants with warps and stages
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple


class Configuration(NamedTuple):
    """One way to compile a kernel."""

    constants: dict[str, int]
    warps: int
    stages: int


class Timed(NamedTuple):
    """A kernel that is tuned.

    Attributes:
        row: what it is a part of; the time of a row is that of its kernels together.
        kernel: the function's name in `timed_kernels.py`.
        types: of its run-time arguments.
        constants: those that are the same in all configurations.
        configurations: of which the device chooses one.
        needs: the least capability.
    """

    row: str
    kernel: str
    types: dict[str, str]
    constants: dict[str, Any]
    configurations: tuple[Configuration, ...]
    needs: int = 80

    @property
    def aligned(self) -> tuple[str, ...]:
        """The arguments that are multiples of 16: all but numbers that count something else, or are no integers."""
        return tuple(name for name, kind in self.types.items() if name != "groups" and kind != "fp32")


def _tiles(*shapes: tuple[int, int, int, int, int]) -> tuple[Configuration, ...]:
    return tuple(
        Configuration({"BLOCK_M": m, "BLOCK_N": n, "BLOCK_K": k}, warps, stages) for m, n, k, warps, stages in shapes
    )


def _blocks(*shapes: tuple[int, int, int, int]) -> tuple[Configuration, ...]:
    return tuple(Configuration({"BLOCK_M": m, "BLOCK_N": n}, warps, stages) for m, n, warps, stages in shapes)


def _rows(block: int, warps: Iterable[int]) -> tuple[Configuration, ...]:
    return tuple(Configuration({"BLOCK": block}, count, 1) for count in warps)


WIDE, SQUARE = (128, 256, 64, 8, 3), (128, 128, 64, 8, 3)
SMALL = ((128, 128, 64, 4, 3), (128, 128, 32, 4, 4), (128, 64, 32, 4, 4))
"""Tiles for three stages of which every device has shared memory enough."""
PRODUCTS = _tiles(WIDE, (256, 128, 64, 8, 3), (128, 256, 64, 8, 4), SQUARE, (128, 128, 64, 4, 4), *SMALL)
PRODUCTS_OF_BYTES = _tiles((128, 256, 128, 8, 3), (128, 128, 128, 8, 3), (128, 128, 64, 4, 4))
FEW_PRODUCTS = _tiles(WIDE, SQUARE, *SMALL[:2])
ROWS = {"x_ptr": "*fp32", "out_ptr": "*fp32", "columns": "i32"}
SIZES = dict.fromkeys("MNK", "i32")


def _operands(element: str, result: str) -> dict[str, str]:
    return {"a_ptr": f"*{element}", "b_ptr": f"*{element}", "c_ptr": f"*{result}"}


def _attention(head: int, *, causal: bool) -> list[Timed]:
    """Forward, and the three kernels of the way back."""
    name = f"d{head} causal" if causal else f"d{head}"
    halves, singles = "*fp16", "*fp32"
    shape = {"CAUSAL": causal, "HEAD": head}
    ends = {"scale": "fp32", "n_rows": "i32"}
    inputs = dict.fromkeys(("q_ptr", "k_ptr", "v_ptr"), halves)
    known = {**inputs, "grad_ptr": halves, **dict.fromkeys(("log_sums_ptr", "levels_ptr"), singles)}
    forward = _blocks((128, 64, 4, 3), (128, 64, 8, 3), (128, 128, 8, 2), (64, 64, 4, 3))
    back = f"attention backward {name}"
    gradients = dict.fromkeys(("k_grad_ptr", "v_grad_ptr"), halves)
    return [
        Timed(
            f"attention forward {name}",
            "attention_forward",
            {**inputs, "out_ptr": halves, "log_sums_ptr": singles, **ends},
            shape,
            forward,
        ),
        Timed(
            back,
            "attention_levels",
            {"out_ptr": halves, "grad_ptr": halves, "levels_ptr": singles},
            {"HEAD": head},
            (Configuration({"BLOCK_M": 128}, 4, 1),),
        ),
        Timed(
            back,
            "attention_keys",
            {**known, **gradients, **ends},
            shape,
            _blocks((64, 128, 8, 2), (64, 64, 4, 2), (32, 128, 4, 3)),
        ),
        Timed(
            back,
            "attention_queries",
            {**known, "q_grad_ptr": halves, **ends},
            shape,
            _blocks((128, 64, 8, 2), (64, 64, 4, 2), (128, 32, 4, 3)),
        ),
    ]


TIMED: tuple[Timed, ...] = (
    Timed("matmul fp16", "product", _operands("fp16", "fp16") | SIZES, {"TRANSPOSED": False, "BAND": 8}, PRODUCTS),
    Timed("matmul bf16", "product", _operands("bf16", "bf16") | SIZES, {"TRANSPOSED": False, "BAND": 8}, FEW_PRODUCTS),
    Timed(
        "matmul fp8",
        "product",
        _operands("fp8e4nv", "fp16") | SIZES,
        {"TRANSPOSED": True, "BAND": 8},  # the units of sm_90 want both factors with their depth together
        PRODUCTS_OF_BYTES,
        needs=89,
    ),
    Timed("persistent matmul fp16", "persistent_product", _operands("fp16", "fp16") | SIZES, {"BAND": 8}, FEW_PRODUCTS),
    Timed(
        "grouped matmul fp16",
        "grouped_product",
        {**_operands("fp16", "fp16"), "starts_ptr": "*i32", **dict.fromkeys(("groups", "N", "K"), "i32")},
        {"BAND": 8},
        FEW_PRODUCTS,
    ),
    *_attention(64, causal=False),
    *_attention(128, causal=True),
    Timed("softmax fp32", "row_softmax", ROWS, {}, _rows(4096, (4, 8, 16))),
    Timed(
        "layer norm fp16",
        "layer_norm",
        {**dict.fromkeys(("x_ptr", "out_ptr", "weight_ptr", "bias_ptr"), "*fp16"), "columns": "i32", "epsilon": "fp32"},
        {},
        _rows(4096, (4, 8, 16)),
    ),
)
