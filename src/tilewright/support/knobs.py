"""All settings of Tilewright: knobs in groups, set by programs or by environment variables; and the hooks.

    from tilewright import knobs

    knobs.cache.dir = "/tmp/kernels"            # also TRITON_CACHE_DIR, which child processes inherit
    with knobs.compilation.scope():
        knobs.compilation.always_compile = True
    knobs.runtime.launch_enter_hook.add(print)

Groups and names are Triton's, but for the group `tilewright`. `knob_groups.py` describes each knob. A knob reads the
environment each time it is read, so nothing that runs per launch reads one: `observe` tells the launcher of changes.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

from tilewright.support.knob_groups import (
    amd_knobs,
    autotuning_knobs,
    build_knobs,
    cache_knobs,
    compilation_knobs,
    language_knobs,
    nvidia_knobs,
    proton_knobs,
    redis_knobs,
    runtime_knobs,
    tilewright_knobs,
)
from tilewright.support.knob_kinds import (
    CompileTimes,
    Env,
    HookChain,
    KnobError,
    Propagation,
    base_knobs,
    changed,
    env,
    env_base,
    env_bool,
    env_class,
    env_int,
    env_opt_bool,
    env_opt_str,
    env_str,
    env_str_callable_default,
    observe,
    setenv,
    toenv,
)
from tilewright.support.nvidia_tools import NvidiaTool, env_nvidia_tool

__all__ = [
    "CompileTimes",
    "Env",
    "HookChain",
    "KnobError",
    "NvidiaTool",
    "amd",
    "autotuning",
    "base_knobs",
    "build",
    "cache",
    "compilation",
    "env",
    "env_base",
    "env_bool",
    "env_class",
    "env_int",
    "env_nvidia_tool",
    "env_opt_bool",
    "env_opt_str",
    "env_str",
    "env_str_callable_default",
    "language",
    "nvidia",
    "observe",
    "propagate_env",
    "proton",
    "redis",
    "refresh_knobs",
    "runtime",
    "setenv",
    "tilewright",
    "toenv",
]

build = build_knobs()
redis = redis_knobs()
cache = cache_knobs()
compilation = compilation_knobs()
autotuning = autotuning_knobs()
runtime = runtime_knobs()
language = language_knobs()
nvidia = nvidia_knobs()
amd = amd_knobs()
proton = proton_knobs()
tilewright = tilewright_knobs()

propagate_env: bool
"""Whether a knob that is set also sets its environment variable."""


def refresh_knobs() -> None:
    """Notify observers that keep a knob's value, such as the launcher, of a change of the environment."""
    changed()


class _Knobs(ModuleType):
    """This module: it can be set what to propagate, and notices when a group is replaced (as Triton's fixtures do)."""

    @property
    def propagate_env(self) -> bool:
        return Propagation.on

    @propagate_env.setter
    def propagate_env(self, value: bool) -> None:
        Propagation.on = value

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, value)
        if isinstance(value, base_knobs):
            changed()


sys.modules[__name__].__class__ = _Knobs
