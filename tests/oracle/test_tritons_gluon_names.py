"""Every public name of Triton's Gluon is here, functions and classes with the same parameters, or there is a reason."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from fnmatch import fnmatch
from pathlib import Path

import pytest

MISSING = {
    "language amd": "AMD's GPUs",
    "language.amd *": "AMD's GPUs",
    "language fpsan": "floats that are replaced by integers, for a sanitizer of Triton's",
    "language.fpsan *": "as above",
    "language base_*": "classes behind Triton's values",
    "language *.to_ir": "how Triton makes its own types",
    "language *.mangle": "how Triton names its own functions",
    "language block_type.*": "constants of Triton's numbers, which `dtype` has",
    "language distributed_type.*": "as above",
    "language tuple_type.name": "Triton's own",
    "language PaddedSharedLayout.verify": "layouts check themselves when they are made",
    "language CachePolicy.type": "of constants in general",
    "language.nvidia* *Policy.type": "as above",
    "language.nvidia rubin": "GPUs behind sm_100, whose instructions are not in PTX's public manual",
    "language.nvidia.rubin* *": "as above",
    "language.nvidia.*.tma tensor_descriptor_*type.*": "how Triton makes its own types",
    "language.nvidia.hopper.tma tensor_descriptor_im2col*.*": "as above; descriptors of images are of the one class",
    "language.nvidia.blackwell tensor_memory_descriptor_type.to_ir": "as above",
    "nvidia.* TensorDescriptor*.mode": "two classes say it",
}
"""Names that are not here, as patterns behind their modules, and why."""
OTHERWISE = {
    "language *shared_memory_descriptor*": "values of programs, which these do not make themselves",
    "language.nvidia.*.tma tensor_descriptor*": "as above",
    "language.nvidia.blackwell tensor_memory_descriptor*": "as above",
    "language.nvidia.blackwell.clc clc_result": "as above",
    "language.nvidia.*.async_copy async_copy_global_to_shared": "`*args, **kwargs` there: an old name",
    "language.nvidia.*.tma async_copy_*": "as above",
}
"""Names with other parameters, as patterns behind their modules, and why."""


def names(*command: str) -> dict[str, dict[str, list[str] | None]]:
    path = str(Path(__file__).parent / "tritons_gluon_names.py")
    done = subprocess.run([*command, path], text=True, capture_output=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    found: dict[str, dict[str, list[str] | None]] = json.loads(done.stdout)
    return found


def allowed(name: str, patterns: dict[str, str], used: set[str]) -> bool:
    fitting = [pattern for pattern in patterns if fnmatch(name, pattern)]
    used.update(fitting)
    return bool(fitting)


@pytest.mark.needs_triton_python
def test_every_name_is_here_or_there_is_a_reason() -> None:
    theirs, ours = names(os.environ["TRITON_PYTHON"]), names(sys.executable, "-m", "tilewright", "run")
    missing, otherwise, used = [], [], set[str]()
    for module, found in theirs.items():
        for name, parameters in found.items():
            full = f"{module} {name}"
            if name not in ours[module]:
                missing += [] if allowed(full, MISSING, used) else [full]
            elif parameters is not None and ours[module][name] != parameters:
                given = f"{full}: {ours[module][name]} instead of {parameters}"
                otherwise += [] if allowed(full, OTHERWISE, used) else [given]
    assert (missing, otherwise) == ([], [])
    assert used == MISSING.keys() | OTHERWISE.keys(), "each exception has a use"
