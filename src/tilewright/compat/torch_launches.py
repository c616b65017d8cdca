"""Compiling and launching the kernels of torch's graphs on a CPU: changes of its module `triton_heuristics`.

The text of each kernel makes these changes (`TEXT`), because torch's compile workers get only the text.

Launches bypass Triton's `run`, whose arguments Python packs and unpacks.

    def launcher(in_ptr0, out_ptr0, xnumel, stream):
        if entering or leaving: …                                    # with hooks it calls `run`
        launches[-(xnumel // -1024), 1, 1](in_ptr0, out_ptr0, xnumel, 1024)

Kernels with assertions, such as those that load from indices, have one listener for all their launches: a launch during
which another thread has the listener goes to `run`, which makes one of its own.
"""

from __future__ import annotations

import sys
from _thread import allocate_lock
from collections.abc import Sequence
from typing import Any

from tilewright.compat.torch_inductor import time_briefly, try_whole_kernels
from tilewright.runtime.kernel import CompiledKernel

Names = Sequence[str]
HOOKS = ("launch_enter_hook", "launch_exit_hook")
"""The names that torch's launcher has for chains of hooks; its kernel's arguments follow the last."""

TEXT = f"from {__name__} import change_heuristics\nchange_heuristics(triton_heuristics)\n"
"""The lines behind the imports of a kernel for a CPU."""
CHANGED = "_is_changed_by_tilewright"
"""The name in the module that says that the changes are made."""


def change_heuristics(heuristics: Any) -> None:
    """Make the changes of the module `triton_heuristics`, or of a copy, once."""
    if CHANGED in vars(heuristics):
        return
    for change in (time_briefly, try_whole_kernels, launch_directly):
        change(heuristics)
    setattr(heuristics, CHANGED, True)


def launch_directly(heuristics: Any) -> None:
    """Let the module `triton_heuristics` write launchers that call the native launches of our kernels for CPUs."""
    result = heuristics.TritonCompileResult
    original = result._gen_launcher_code

    def _gen_launcher_code(self: Any, scope: dict[str, Any], def_args: Names, runner_args: Names) -> Any:
        by_run = original(self, scope, def_args, runner_args)
        kernel = scope.get("bin")
        found = kernel.launches() if isinstance(kernel, CompiledKernel) else None
        if found is None or not scope.keys() >= set(HOOKS) or HOOKS[-1] not in runner_args:
            return by_run
        launches, listener = found
        entering, leaving = (() if scope[name] is None else scope[name].calls for name in HOOKS)
        scope.update(by_run=by_run, launches=launches, entering=entering, leaving=leaving)
        if listener is not None:
            scope.update(free=allocate_lock(), failures=listener.failures, finish=listener.finish)
        passed = runner_args[runner_args.index(HOOKS[-1]) + 1 :]
        grid = heuristics.GridExpr.from_meta(self.inductor_meta, self.config)
        exec(_text(grid, def_args, passed, asserts=listener is not None), scope)
        scope["launcher"]._expected_positional_count = len(def_args)
        return scope["launcher"]

    result._gen_launcher_code = _gen_launcher_code
    _run_sooner(heuristics)


def _run_sooner(heuristics: Any) -> None:
    """Let torch's `run` come to a launcher that it has kept, without asking for a mode that it counts anyway."""
    modes, tuner = sys.modules[heuristics.get_active_debug_mode.__module__], heuristics.CachingAutotuner
    profiler, original = heuristics.autograd_profiler, tuner.run
    if not hasattr(modes, "_ACTIVE_DEBUG_MODE_COUNT"):
        return

    def run(self: Any, *args: Any, stream: Any, **settings: Any) -> Any:
        kept = self._cached_launcher
        if kept is None or settings or profiler._is_profiler_enabled or modes._ACTIVE_DEBUG_MODE_COUNT:
            return original(self, *args, stream=stream, **settings)
        return kept(*args, stream=stream)

    tuner.run = run


def _text(grid: Any, parameters: Names, passed: Names, *, asserts: bool) -> str:
    """The launcher's source.

    Args:
        grid: torch's expressions for the extents, and the lines before them.
        parameters: the names of the launcher's; passed: an expression per parameter of the kernel.
    """
    names = ", ".join(parameters)
    launch = f"launches[{grid.x_grid}, {grid.y_grid}, {grid.z_grid}]({', '.join(passed)})"
    lines = [
        *grid.prefix,
        f"if entering or leaving{' or not free.acquire(False)' if asserts else ''}:",
        f"    return by_run({names}, stream=stream)",
        *(_ASSERTING.format(launch=launch).splitlines() if asserts else [launch]),
    ]
    return "\n    ".join([f"def launcher({names}, stream):", *lines])


_ASSERTING = """\
try:
    {launch}
    if failures:
        finish()
except BaseException:
    failures.clear()
    raise
finally:
    free.release()"""
