"""The shared objects of a kernel for a CPU, which run without Python; torch's AOTInductor asks for them.

kernel.asm["so"]              # a shared object that exports the kernel as kernel.metadata.name
kernel.asm["launcher.so"]     # one that exports what launches it: run_from_nativert
"so" in kernel.asm            # False: they are no stages of the way to the kernel
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tilewright.compiler.artifact import Metadata, Stage, Stages
from tilewright.compiler.signature import ArgumentSpec
from tilewright.runtime import lazy_imports


class StandaloneStages:
    """The two shared objects of one kernel, by name."""

    def __init__(self, metadata: Metadata, specs: Sequence[ArgumentSpec], otherwise: Callable[[str], Stage]) -> None:
        """The shared objects.

        Args:
            metadata: facts about the kernel.
            specs: its parameters, constants too.
            otherwise: gives all other stages.
        """
        self.metadata, self.specs, self.otherwise = metadata, specs, otherwise

    def __call__(self, name: str, stages: Stages) -> Stage:
        """A stage, made of the kernel's own.

        Raises:
            KeyError: there is no stage of that name.
            StandaloneError: the kernel needs Python while it runs.
        """
        if name == "so":
            return lazy_imports.kernel_stage(stages["obj"], self.metadata)
        if name == "launcher.so":
            return lazy_imports.launcher_stage(self.metadata, self.specs)
        return self.otherwise(name)
