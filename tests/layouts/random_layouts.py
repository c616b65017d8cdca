"""Random layouts with a shape that they fit, for comparing with Triton's own conversion to linear layouts."""

from __future__ import annotations

from random import Random
from typing import Any

from tilewright.layouts.encodings import (
    AmdMfma,
    AmdWmma,
    Blocked,
    DotOperand,
    Encoding,
    Linear,
    NvidiaMma,
    NvmmaShared,
    PaddedShared,
    SharedLinear,
    Slice,
    SwizzledShared,
)

Shape = tuple[int, ...]
Rows = tuple[tuple[int, ...], ...]


def split(random: Random, total: int, rank: int) -> Shape:
    """`total` as a product of `rank` powers of two."""
    sizes = [1] * rank
    while total > 1:
        sizes[random.randrange(rank)] *= 2
        total //= 2
    return tuple(sizes)


def order(random: Random, rank: int) -> Shape:
    return tuple(random.sample(range(rank), rank))


def shape(random: Random, rank: int, least: int = 1, most: int = 256) -> Shape:
    extents = [1 << bit for bit in range(least.bit_length() - 1, most.bit_length())]
    return tuple(random.choice(extents) for _ in range(rank))


def cga(random: Random, rank: int, shape: Shape) -> Rows:
    """The division of a shape among 1 to 8 blocks, or copies in them; no further than `shape` reaches."""
    if random.random() < 0.6:
        return ()
    rows, step = [], [1] * rank
    for _ in range(random.choice([1, 1, 2, 3])):
        axis = random.randrange(rank)
        moves = random.random() < 0.75 and step[axis] < shape[axis]
        rows.append(tuple(step[axis] if dim == axis and moves else 0 for dim in range(rank)))
        if moves:
            step[axis] *= 2
    return tuple(rows)


def blocked(random: Random, rank: int, tile: Shape, lanes: int = 32) -> Blocked:
    sizes = split(random, random.choice([1, 2, 4, 8, 16]), rank)
    warps = split(random, random.choice([1, 2, 4, 8]), rank)
    return Blocked(sizes, split(random, lanes, rank), warps, order(random, rank), cga(random, rank, tile))


def nvidia_mma(random: Random, rank: int, tile: Shape) -> NvidiaMma:
    batch = (1,) * (rank - 2)
    if rank > 2 or random.random() < 0.6:
        instruction = (*batch, random.choice([16, 16, 8]), 8)
        return NvidiaMma(2, 0, split(random, random.choice([1, 2, 4, 8]), rank), instruction, cga(random, rank, tile))
    warps = (random.choice([4, 8]), random.choice([1, 2]))
    return NvidiaMma(3, 0, warps, (16, random.choice([8, 16, 32, 64, 128, 256]), 16), cga(random, rank, tile))


def nvidia_operand(random: Random, rank: int, tile: Shape) -> DotOperand:
    """The first factor of a product; that of `wgmma` may have three dimensions, though its results may not."""
    parent = nvidia_mma(random, rank, tile)
    if rank == 3 and random.random() < 0.3:
        warps = (random.choice([1, 4]), random.choice([1, 2]), random.choice([1, 2]))
        parent = NvidiaMma(3, 0, warps, (16, random.choice([8, 16, 32, 64]), 16), cga(random, rank, tile))
    side = 0 if parent.version_major == 3 else random.randrange(2)
    return DotOperand(side, parent, random.choice([1, 2, 4, 8]))


def mfma(random: Random, rank: int, tile: Shape) -> AmdMfma:
    rows, columns = random.choice([(32, 32), (16, 16), (64, 4), (4, 64)])
    tiles = random.choice([(), (), (1, 2), (2, 1), (2, 2)])
    return AmdMfma(
        random.choice([1, 2, 3, 4]),
        split(random, random.choice([1, 2, 4, 8]), rank),
        (rows, columns, 8),
        rows == 64 or random.random() < 0.5,
        tiles and ((1,) * (rank - 2) + tiles),
        32 if rows != 16 else random.choice([32, 64]),
        cga(random, rank, tile),
    )


def wmma(random: Random, rank: int, tile: Shape) -> AmdWmma:
    version = random.choice([1, 2, 3])
    rows: dict[str, list[tuple[int, ...]]] = {"register": [], "warp": []}
    step = [1] * rank
    for _ in range(random.choice([1, 2, 3, 4])):
        axis = random.randrange(rank)
        name = random.choice(["warp", "warp", "register"])
        rows[name].append(tuple(step[axis] if dim == axis else 0 for dim in range(rank)))
        step[axis] *= 2
    registers, warps = tuple(rows["register"]), tuple(rows["warp"])
    instruction = random.choice(AmdWmma.shapes[version])
    return AmdWmma(version, random.random() < 0.5, registers, warps, instruction, rank, cga(random, rank, tile))


def wmma_operand(random: Random, rank: int, tile: Shape) -> DotOperand:
    parent = wmma(random, rank, tile)
    widths = {1: [16], 2: [8], 3: [w for w in (2, 8, 16) if 2 * w <= parent.instr_shape[2]]}
    return DotOperand(random.randrange(2), parent, random.choice(widths[parent.version]))


def linear(random: Random, rank: int, tile: Shape) -> Linear:
    """Steps that cover `tile`, dealt out in any order, with some that change nothing."""
    steps = [
        tuple(1 << bit if dim == axis else 0 for dim in range(rank))
        for axis, size in enumerate(tile)
        for bit in range(size.bit_length() - 1)
    ]
    random.shuffle(steps)
    zero = (0,) * rank
    parts: list[list[tuple[int, ...]]] = [[], [], [], []]
    for part, count in ((1, 5), (2, random.choice([0, 1, 2])), (3, random.choice([0, 0, 1]))):
        parts[part] = [steps.pop() if steps and random.random() < 0.85 else zero for _ in range(count)]
    parts[0] = steps
    if random.random() < 0.2:
        parts[0].insert(random.randrange(len(steps) + 1), zero)
    return Linear(*(tuple(part) for part in parts))


def swizzled(random: Random, rank: int, tile: Shape) -> SwizzledShared:
    powers = [1, 2, 4, 8]
    return SwizzledShared(
        random.choice(powers),
        random.choice(powers),
        random.choice(powers),
        order(random, rank),
        cga(random, rank, tile),
    )


def nvmma(random: Random, rank: int) -> tuple[NvmmaShared, Shape]:
    """A layout with a shape whose blocks are large enough for it."""
    swizzle, bits = random.choice([0, 32, 64, 128]), random.choice([8, 16, 32])
    # Triton's layout of three dimensions, transposed and without swizzle, has copies and holes: left out.
    transposed = random.random() < 0.5 and (rank == 2 or swizzle > 0)
    tile = list(shape(random, rank, 8, 512 if rank == 2 else 32))
    least = max(8 * swizzle // bits, 8)
    fast = 0 if transposed else rank - 1
    tile[fast] = max(tile[fast], least)
    blocks = cga(random, rank, tuple(tile))
    for axis in range(rank):
        tile[axis] *= max(row[axis] for row in blocks) * 2 if any(row[axis] for row in blocks) else 1
    padded = bits == 8 and swizzle == 128 and rank == 2 and random.random() < 0.3
    return NvmmaShared(swizzle, transposed, bits, padded, rank, blocks), tuple(tile)


def rows_of(tile: Shape, dims: Shape) -> list[tuple[int, ...]]:
    return [
        tuple(1 << bit if dim == axis else 0 for dim in range(len(tile)))
        for axis in dims
        for bit in range(tile[axis].bit_length() - 1)
    ]


def padded(random: Random, rank: int, tile: Shape) -> PaddedShared:
    rows = rows_of(tile, order(random, rank))
    if random.random() < 0.5:
        random.shuffle(rows)
    return PaddedShared(((64, 4),), tuple(rows))


def shared_linear(random: Random, rank: int, tile: Shape) -> SharedLinear:
    """Plain rows, some with another one added."""
    rows = rows_of(tile, order(random, rank))
    for index in range(1, len(rows)):
        if random.random() < 0.3:
            other = rows[random.randrange(index)]
            rows[index] = tuple(a ^ b for a, b in zip(rows[index], other, strict=True))
    return SharedLinear(tuple(rows))


def random_layout(random: Random, kind: str) -> tuple[Encoding, Shape]:
    """A layout of a kind of `KINDS`, and a shape."""
    rank = random.choice([2, 2, 2, 3]) if kind != "blocked" else random.choice([1, 2, 2, 3])
    tile = shape(random, rank, 1, 256 if rank < 3 else 32)
    if kind == "nvmma":
        return nvmma(random, rank)
    if kind == "swizzled":
        tile = shape(random, rank, 16, 128)
    if kind in ("padded", "shared_linear", "linear"):
        tile = shape(random, rank, 2, 64)
    if kind == "slice":
        return slice_of(random, rank, tile)
    if kind == "blocked_operand":
        return DotOperand(random.randrange(2), blocked(random, rank, tile)), tile
    if kind == "mfma_operand":
        return DotOperand(random.randrange(2), mfma(random, rank, tile), random.choice([1, 2, 4, 8])), tile
    return BUILDERS[kind](random, rank, tile), tile


BUILDERS: dict[str, Any] = {
    "blocked": blocked,
    "nvidia_mma": nvidia_mma,
    "nvidia_operand": nvidia_operand,
    "mfma": mfma,
    "wmma": wmma,
    "wmma_operand": wmma_operand,
    "linear": linear,
    "swizzled": swizzled,
    "padded": padded,
    "shared_linear": shared_linear,
}
KINDS = (*BUILDERS, "slice", "blocked_operand", "mfma_operand", "nvmma")


def slice_of(random: Random, rank: int, tile: Shape) -> tuple[Slice, Shape]:
    parent: Any
    rank = max(rank, 2)
    wide = shape(random, rank, 1, 64)
    dim = random.randrange(rank)
    parent = random.choice([blocked, blocked, nvidia_mma, nvidia_operand, linear])(random, rank, wide)
    rest = wide[:dim] + wide[dim + 1 :]
    if rank == 3 and random.random() < 0.4:
        inner = random.randrange(2)
        return Slice(inner, Slice(dim, parent)), rest[:inner] + rest[inner + 1 :]
    return Slice(dim, parent), rest


def as_triton_call(layout: Encoding) -> list[Any]:
    """The call of `GluonOpBuilder` that makes `layout`, for triton_oracle.py."""
    call: list[Any]
    match layout:
        case Blocked(size_per_thread=a, threads_per_warp=b, warps_per_cta=c, order=d, cga=e):
            call = ["get_blocked_layout", a, b, c, d, e]
        case Slice(dim=dim, parent=parent):
            call = ["get_slice_layout", dim, as_triton_call(parent)]
        case DotOperand(op_index=index, parent=parent, k_width=width):
            call = ["get_dot_operand_layout", index, as_triton_call(parent), width]
        case NvidiaMma():
            version = (layout.version_major, layout.version_minor)
            call = ["get_mma_layout", version, layout.warps_per_cta, layout.cga, layout.instr_shape]
        case AmdMfma():
            tiles = layout.tiles_per_warp or (1,) * layout.rank
            shape = layout.warps_per_cta, layout.instr_shape, layout.is_transposed
            call = ["get_amd_mfma_layout", layout.version, *shape, layout.cga, tiles, layout.element_bit_width]
        case AmdWmma():
            steps = layout.warps, layout.registers, layout.cga
            call = [
                "get_amd_wmma_layout",
                layout.version,
                layout.is_transposed,
                *steps,
                layout.instr_shape,
                layout.rank,
            ]
        case Linear():
            shape = tuple(
                2 ** max(row[axis].bit_length() for rows in layout.all_bases for row in rows)
                for axis in range(layout.rank)
            )
            call = ["get_distributed_linear_layout", *layout.all_bases, shape]
        case SwizzledShared():
            call = [
                "get_swizzled_shared_layout",
                layout.vec,
                layout.per_phase,
                layout.max_phase,
                layout.order,
                layout.cga,
            ]
        case NvmmaShared():
            flags = layout.transposed, layout.fp4_padded
            call = [
                "get_nvmma_shared_layout",
                layout.swizzling_byte_width,
                layout.element_bit_width,
                *flags,
                layout.cga,
                layout.rank,
            ]
        case PaddedShared():
            intervals, paddings = zip(*layout.pads, strict=True)
            call = ["get_padded_shared_layout", intervals, paddings, layout.offset, layout.block, layout.shape]
        case SharedLinear():
            call = ["get_shared_linear_layout", layout.offset, layout.block, layout.byte_alignment]
        case _:
            raise AssertionError(layout)
    return call
