"""Errors of the simulator: behaviour of a kernel that is undefined or not deterministic on a GPU.

out of bounds: load of 16 bytes at 0x1000040010, 16 bytes behind the 64 bytes of `x`
  kernel `add`, thread (4, 0, 0) of CTA (0, 0, 0)
  PTX line 31: ld.global.v4.b32 {%r1, %r2, %r3, %r4}, [%rd4];
  source: kernel.py:12:9
"""

from __future__ import annotations

from tilewright.support.diagnostics import TilewrightError
from tilewright.support.ptx_syntax import SourcePlace


class SimulationError(TilewrightError, RuntimeError):
    """A kernel did something wrong, or something that the simulator does not know.

    Attributes:
        kind: what sort of mistake: `out of bounds`, `race`, `deadlock`, `unsupported`, …
        text: what happened, in one sentence.
        line: of the PTX text, from 1; 0 where no instruction is to blame.
        instruction: its text.
        thread, cta: coordinates of the first thread that did it, and of its CTA.
        source: the place in the kernel's source.
        waiting: of a deadlock, a line for each run of warps, with what they wait for.
    """

    def __init__(
        self,
        kind: str,
        text: str,
        *,
        line: int = 0,
        instruction: str = "",
        kernel: str = "",
        thread: tuple[int, int, int] | None = None,
        cta: tuple[int, int, int] | None = None,
        source: SourcePlace | None = None,
        waiting: tuple[str, ...] = (),
    ) -> None:
        self.kind, self.text, self.line, self.instruction = kind, text, line, instruction
        self.kernel, self.thread, self.cta, self.source, self.waiting = kernel, thread, cta, source, waiting
        super().__init__(self._message())

    def _message(self) -> str:
        lines = [f"{self.kind}: {self.text}"]
        who = f"kernel `{self.kernel}`" if self.kernel else ""
        if self.thread is not None:
            who += f", thread {self.thread} of CTA {self.cta}"
        if who:
            lines.append(f"  {who}")
        if self.line:
            lines.append(f"  PTX line {self.line}: {self.instruction}")
        if self.source:
            lines.append(f"  source: {self.source}")
        lines += [f"  {line}" for line in self.waiting]
        return "\n".join(lines)
