"""Launches that follow one another: `tt.grid_dependency_wait`, `tt.grid_dependency_launch_dependents`."""

from __future__ import annotations

from tilewright.dialects.assembly import assembly
from tilewright.ir.declare import Effect, declare

for _name in ("tt.grid_dependency_wait", "tt.grid_dependency_launch_dependents"):
    declare(_name, effect=Effect.READ_WRITE, **assembly("{}", ""))
