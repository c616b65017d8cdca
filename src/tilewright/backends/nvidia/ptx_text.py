"""Facts read from PTX text, and changes to the text before it is assembled.

finish(text, keeps_debugging=False)     # `.target sm_90a, debug` → `.target sm_90a`
kernel_name(text)                       # "add"
arguments(text)                         # ["*i8", "*i8", "i32"], the two pointers to scratch memory left out

The facts that a launch needs are the first line of a kernel's LLVM IR and of its PTX, so each text is complete by
itself.

    ; launch: {"entry": "add", "shared": 0, "arguments": ["*fp32", "i32"], "num_warps": 4}          in LLVM IR
    // launch: {"entry": "add", "shared": 0, "arguments": ["*fp32", "i32"], "num_warps": 4}         in PTX

Text from other compilers has no such line; then the list of parameters is used.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

_ENTRY = re.compile(r"\.entry\s+([\w$]+)\s*\(([^)]*)\)")
_THREADS = re.compile(r"\.(?:reqntid|maxntid)\s+(\d+)")
_PARAMETER = re.compile(r"\.param\s+(?:\.align\s+\d+\s+)?\.(\w+)\s*(\.ptr)?")
_TYPES = {
    **{f"{kind}{bits}": f"i{bits}" for kind in "usb" for bits in (8, 16, 32, 64)},
    "f16": "fp16",
    "f32": "fp32",
    "f64": "fp64",
}
SCRATCH_POINTERS = 2
WARP = 32


def finish(text: str, *, keeps_debugging: bool) -> str:
    """The text as it is assembled.

    Args:
        text: as LLVM writes it.
        keeps_debugging: ptxas is to keep all variables visible; it optimises nothing then.
    """
    if keeps_debugging:
        return text
    return bound_thread_bits(fold_offsets(re.sub(r"^(\.target \w+), debug$", r"\1", text, flags=re.M)))


def kernel_name(text: str) -> str:
    """The name of the kernel.

    Raises:
        ValueError: there is none, or there are several.
    """
    names = [match[1] for match in _ENTRY.finditer(text)]
    if len(names) != 1:
        raise ValueError(f"expected one .entry in the PTX, found {len(names)}")
    return names[0]


def facts(text: str) -> dict[str, Any]:
    """`entry`, `arguments` and `num_warps` of the kernel in the text; nothing without one."""
    match = _ENTRY.search(text)
    if not match:
        return {}
    threads = _THREADS.search(text, match.end())
    warps = {"num_warps": int(threads[1]) // WARP} if threads else {}
    return {"entry": match[1], "arguments": arguments(match[2]), **warps}


def arguments(parameters: str) -> list[str]:
    """The types of a kernel's run-time arguments, out of its list of parameters; what pointers point to is unknown."""
    found = [("*i8" if pointer else _TYPES.get(kind, kind)) for kind, pointer in _PARAMETER.findall(parameters)]
    return found[:-SCRATCH_POINTERS]


_MARK = " launch: "
_COMMENTS = {"llir": ";", "ptx": "//"}
_NAMES = (
    *("entry", "arguments", "stored", "reports", "shared", "num_warps", "num_ctas", "cluster_dims", "tmem_size"),
    "tensordesc_meta",
    *("global_scratch_size", "global_scratch_align", "profile_scratch_size", "profile_scratch_align"),
)


def launch_line(stage: str, metadata: Mapping[str, Any]) -> str:
    """The line for these facts in the text of a stage: `llir` or `ptx`."""
    return f"{_COMMENTS[stage]}{_MARK}{json.dumps({name: metadata[name] for name in _NAMES if name in metadata})}\n"


def launch_facts(stage: str, text: str) -> dict[str, Any]:
    """The facts in the text of a stage; none if it has none.

    Raises:
        ValueError: the line is no JSON object.
    """
    line, prefix = text.partition("\n")[0], _COMMENTS[stage] + _MARK
    if line.startswith(prefix):
        found: dict[str, Any] = json.loads(line.removeprefix(prefix))
        return {name: found[name] for name in _NAMES if name in found}
    return facts(text) if stage == "ptx" else {}


FUNCTION = re.compile(r"^(?=(?:\.visible |\.weak |\.extern )?\.(?:entry|func)\b)", re.MULTILINE)
"""The start of a function, whose registers are its own."""
_SUM = re.compile(r"\s*add\.s(?:64|32)\s+(%rd?\d+), (%rd?\d+), (-?\d+);\s*$")
_ADDRESS = re.compile(r"\[ ?(%rd?\d+)(?: ?\+ ?(-?\d+))? ?\]")
_REGISTER = re.compile(r"%rd?\d+")
_TARGET = re.compile(r"[\s{}]*(?:@!?[%$\w]+\s+)?[a-z][\w.:]*\s+(%rd?\d+)\b")
_IN_BRACES = re.compile(r"\{[^{}\[\]]*\}")
_BLOCK_ENDS = re.compile(r"\s*[$\w]+:|\s*(?:@!?[%$\w]+\s+)?(?:bra|brx|ret|call|exit)\b")


def fold_offsets(text: str) -> str:
    """PTX, in which addresses have their constant parts in the instructions.

        add.s64  %rd2, %rd1, 4;
        @%p2 ld.global.b32 { %r2 }, [ %rd2 + 0 ];            @%p2 ld.global.b32 { %r2 }, [ %rd1 + 4 ];

    LLVM does so for its own loads and stores, within a block. But those of tiles are inline assembly, which it does not
    see into, and matrices are loaded in loops from places in shared memory that were computed before. The addition is
    removed if its result is used in addresses only. Its first operand must be set by one instruction of the same block,
    so that it has the same value wherever the sum is used, and no use may stand between the two.

    An address of 32 bits wraps around as a sum does: ptxas folds sums into addresses itself, of any term.
    """
    return "".join(_folded(part) for part in FUNCTION.split(text))


def _folded(function: str) -> str:
    lines = function.splitlines(keepends=True)
    found = {target: (base, distance) for target, base, distance in _sums(lines)}
    if not found:
        return function

    def address(match: re.Match[str]) -> str:
        if match[1] not in found:
            return match[0]
        base, distance = found[match[1]]
        return f"[ {base} + {_signed(distance + int(match[2] or 0), 64 if base.startswith('%rd') else 32)} ]"

    kept = [line for line in lines if (match := _SUM.match(line)) is None or match[1] not in found]
    return _ADDRESS.sub(address, "".join(kept))


def _sums(lines: list[str]) -> Iterator[tuple[str, str, int]]:
    """The sums to be left out: their registers, first terms and distances."""
    text = "".join(lines)
    addressed = Counter(match[1] for match in _ADDRESS.finditer(text))
    if not any(match[1] in addressed for line in lines if (match := _SUM.match(line)) is not None):
        return
    used = Counter(_REGISTER.findall(text))
    packed = {register for braces in _IN_BRACES.findall(text) for register in _REGISTER.findall(braces)}
    targets = Counter(target for line in lines for target in _targets(line))
    fresh: dict[str, int] = {}
    for number, line in enumerate(lines):
        if _BLOCK_ENDS.match(line):
            fresh.clear()
        if (match := _SUM.match(line)) is not None:
            target, base, distance = match[1], match[2], int(match[3])
            alone = targets[target] == targets[base] == 1 and used[target] == 1 + addressed[target]
            between = lines[fresh.get(base, number) : number]
            if alone and base in fresh and base not in packed and not any(target in _registers(one) for one in between):
                yield target, base, distance
        fresh.update(dict.fromkeys(_targets(line), number))


def _signed(number: int, bits: int) -> int:
    """The number as one of so many bits, of which the first is the sign."""
    half = 1 << bits - 1
    return (number + half) % (2 * half) - half


def _targets(line: str) -> list[str]:
    """The registers that the instructions of a line set."""
    return [match[1] for statement in line.split(";") if (match := _TARGET.match(statement)) is not None]


def _registers(line: str) -> list[str]:
    return _REGISTER.findall(line)


MANY = 16
"""The least number of places for which it pays."""
MANY_WIDE = 3
"""The least number of places of 64 bits for which it pays."""
_CTA_SIZE = re.compile(r"^\.reqntid (\d+)\s*$", re.MULTILINE)
_WIDENED = re.compile(r"\bcvt\.u64\.u32\s+%rd\d+, (%r\d+);")
_THREAD = re.compile(r"^\s*mov\.u32\s+(%r\d+), %tid\.x;", re.MULTILINE)


def bound_thread_bits(text: str) -> str:
    """PTX, in which parts of the thread's number that many places are made of have a width.

        .reqntid 128
        mov.u32  %r1, %tid.x;
        shr.u32  %r2, %r1, 6;            bfe.u32  %r2, %r1, 6, 1;
        or.b32   %r3, %r2, 2;            or.b32   %r3, %r2, 2;

    LLVM knows the number of threads of a CTA, and removes masks that change nothing. ptxas does not use it, and treats
    an `or` as an addition only where it sees that the operands have no common bits. If it does, the addresses of a
    thread are one register and constant offsets; otherwise they take a register each: 79 registers instead of 56 for a
    transposition of 64x64. Threads with few addresses, as in matrix products, are left as they are: the change cost
    them up to 26 registers. Where addresses are widened to 64 bits, and so take two registers each, the limit is lower:
    64 instead of 80 registers for paged attention.
    """
    return "".join(map(_bounded, FUNCTION.split(text)))


def _bounded(text: str) -> str:
    """One function, whose registers are its own; it is a kernel if it says how many threads a block has."""
    threads, thread = _CTA_SIZE.search(text), _THREAD.search(text)
    if threads is None or thread is None or not _is_set_once(text, thread[1]):
        return text
    bits = (int(threads[1]) - 1).bit_length()

    def with_width(shift: re.Match[str]) -> str:
        start, target, moved = shift[1], shift[2], int(shift[3])
        if moved >= bits or not _has_many_places(text, target):
            return shift[0]
        return f"{start}bfe.u32 \t{target}, {thread[1]}, {moved}, {bits - moved};"

    return re.sub(rf"(?m)^(\s*)shr\.u32\s+(%r\d+), {thread[1]}, (\d+);", with_width, text)


def _is_set_once(text: str, register: str) -> bool:
    """Whether no other instruction, such as the step of a loop, has the register for its result."""
    target = rf"(?m)(?:^|[;{{}}])[ \t]*(?:@!?%p\d+[ \t]+)?[a-z][\w.:]*[ \t]+(?:\{{[^}}\n]*)?{register}\b"
    return len(re.findall(target, text)) == 1


def _has_many_places(text: str, base: str) -> bool:
    """Whether many numbers are put beside the bits of this register, or some and all of them in 64 bits."""
    places = re.findall(rf"\bor\.b32\s+(%r\d+), {base}, \d+;", text)
    if len(places) >= MANY:
        return True
    widened = set(_WIDENED.findall(text))
    return len(places) >= MANY_WIDE and widened.issuperset(places)
