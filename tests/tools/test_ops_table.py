"""The page of ops: its own tables agree with those of the compiler."""

from __future__ import annotations

import pytest

from tilewright.backends.llvm.loops import LoopEmitter
from tilewright.backends.nvidia.lower.legality import UNSUPPORTED
from tilewright.backends.nvidia.lower.tables import LOWERINGS
from tilewright.ir.declare import OPS
from tilewright.tools.main import main
from tilewright.tools.ops_table import CPU_PASSES, NVIDIA_PASSES, ON_CPUS, page
from tilewright.tools.opt_passes import find_passes


def rows() -> dict[str, list[str]]:
    found = (line.strip("| ").split("|") for line in page().splitlines() if line.startswith("| `"))
    return {name.strip(" `"): [cell.strip() for cell in cells] for name, *cells in found}


def test_every_op_has_a_row() -> None:
    assert list(rows()) == sorted(OPS)


def test_passes_that_replace_ops_exist() -> None:
    for answer in {*CPU_PASSES.values(), *NVIDIA_PASSES.values()} - {"yes"}:
        assert find_passes(answer.strip("`"))


def test_what_passes_replace_has_no_lowering() -> None:
    of_kernels = [table for table in ON_CPUS if table is not LoopEmitter.TABLE]
    assert [name for name in CPU_PASSES if any(name in table for table in of_kernels)] == []
    assert NVIDIA_PASSES.keys() & (LOWERINGS.keys() | UNSUPPORTED.keys()) == set()


def test_gaps_have_their_reasons() -> None:
    found = rows()
    assert found["ttng.tmem_wait"][3] == f"**no**: {UNSUPPORTED['ttng.tmem_wait']}"
    assert found["ttng.tmem_copy"][2] == "**no**: for GPUs"
    assert found["cf.br"][2:4] == ["**no**", "yes"]


def test_accesses_name_their_operands() -> None:
    found = rows()
    assert found["tt.store"][-1] == "writes (address `pointer`, value `value`, mask `mask`)"
    assert found["tt.atomic_rmw"][-1].startswith("atomic, layout anchor, reads and writes (address `pointer`")
    assert found["scf.for"][-1] == "loop"


def test_command_prints_the_page(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ops"]) == 0
    assert capsys.readouterr().out == page()
