"""The machine: names of CPUs, host detection without LLVM, errors instead of aborts."""

import subprocess
import sys
from pathlib import Path

import pytest

from tilewright.backends.llvm import cpu_costs, machine
from tilewright.backends.llvm.machine import (
    ARM_CPUS,
    SVE_BITS,
    X86_CPUS,
    LlvmError,
    UnknownCpuError,
    compile_object,
    emit_assembly,
    host_identity,
    host_target,
)

pytestmark = pytest.mark.quick

ADD_SEVEN = "define i32 @f(i32 %x) {\n  %y = add i32 %x, 7\n  ret i32 %y\n}"
MULTIPLYING = """define void @f(ptr %x, i64 %n, i64 %step) {
entry:
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %loop ]
  %offset = mul i64 %i, %step
  %at = getelementptr i8, ptr %x, i64 %offset
  store i64 %i, ptr %at
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %n
  br i1 %more, label %loop, label %end
end:
  ret void
}
"""
"""A loop that loop strength reduction takes the product out of."""


@pytest.mark.parametrize("cpu", [*X86_CPUS, *ARM_CPUS])
def test_every_named_cpu_compiles_to_elf(cpu):
    assert compile_object(ADD_SEVEN, host_target(cpu))[:4] == b"\x7fELF"


def test_vectors_of_arm_are_neons_or_sves():
    assert {bits for _, _, bits in ARM_CPUS.values()} == {128, *SVE_BITS}


def test_host_identity_does_not_load_llvmlite():
    code = (
        "import sys; from tilewright.backends.llvm.machine import host_identity; "
        "assert host_identity(); assert not any(m.startswith('llvmlite') for m in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_identity_separates_cpus():
    cpus = ("x86-64-v2", "x86-64-v3", "x86-64-v4", "znver4", "aarch64", "apple-m1", "neoverse-v1")
    identities = {host_target(cpu).identity for cpu in cpus}
    assert len(identities) == len(cpus)
    assert host_identity() == host_target().identity


def test_foreign_target_does_not_run_here():
    foreign = "neoverse-v1" if not host_target().neon else "x86-64-v2"
    assert not host_target(foreign).runs_here()
    assert host_target().runs_here()


def test_unknown_cpu_names_the_known_ones():
    with pytest.raises(UnknownCpuError, match=r"pentium.*x86-64-v3"):
        host_target("pentium")


@pytest.mark.parametrize(
    ("cpu", "costs"),
    [
        ("x86-64-v2", cpu_costs.X86),
        ("x86-64-v3", cpu_costs.X86),
        ("x86-64-v4", cpu_costs.AVX512),
        ("skylake-avx512", cpu_costs.AVX512),
        ("icelake-server", cpu_costs.INTEL),
        ("sapphirerapids", cpu_costs.SAPPHIRE_RAPIDS),
        ("znver4", cpu_costs.ZEN4),
        ("neoverse-n1", cpu_costs.NEON),
        ("neoverse-v1", cpu_costs.SVE_256),
        ("neoverse-v2", cpu_costs.NEON_WIDE),
        ("a64fx", cpu_costs.SVE_512),
        ("apple-m1", cpu_costs.NEON_WIDE),
    ],
)
def test_choices_are_made_by_the_row_of_the_cpu(cpu, costs):
    assert host_target(cpu).costs is costs


def test_the_least_block_of_a_product_fits_into_the_registers():
    """Accumulators, a row of B and one of A; and as many accumulators as hide the latency."""
    for cpu in (*X86_CPUS, *ARM_CPUS):
        costs = host_target(cpu).costs
        assert costs.chains + max(costs.product_columns, costs.grouped_columns) < costs.registers


def test_parse_error_shows_the_line():
    with pytest.raises(LlvmError) as caught:
        compile_object(ADD_SEVEN.replace("%x, 7", "%z, 7"), host_target())
    assert caught.value.line is not None
    assert "%z, 7" in caught.value.line


def test_verifier_error_is_raised():
    with pytest.raises(LlvmError, match="dominate"):
        compile_object("define i32 @f() {\n  %a = add i32 %b, 7\n  %b = add i32 1, 1\n  ret i32 %a\n}", host_target())


def test_assembly_is_of_the_target():
    assert "w0" in emit_assembly(ADD_SEVEN, host_target("aarch64"))
    assert "eax" in emit_assembly(ADD_SEVEN, host_target("x86-64-v3"))


@pytest.mark.parametrize("is_long", [False, True])
@pytest.mark.parametrize("has_files", [False, True])
@pytest.mark.parametrize("fails", [False, True])
def test_options_of_llvm_are_put_back(is_long, has_files, fails, monkeypatch, tmp_path):
    """Others in this process use LLVM, too; and a text never has the options of the one before."""
    wanted = emit_assembly(ADD_SEVEN, host_target())
    tables = (*machine.SETTINGS, *machine.LONG_TEXT_SETTINGS)
    binding, named, defaults = machine._llvm(), [], dict(parted(off) for _, off in tables)
    settings, now = tables if is_long else machine.SETTINGS, dict(defaults)

    def record(_: str, option: str) -> None:
        named.append(option)
        options = Path(option[1:]).read_text().split() if option.startswith("@") else [option]
        now.update(map(parted, options))

    def interrupt(*_: object) -> bytes:
        assert now == defaults | dict(parted(on) for on, _ in settings)
        raise KeyboardInterrupt

    if not has_files:
        monkeypatch.setattr(machine, "FILES_OF_SETTINGS", (str(tmp_path / "a"), str(tmp_path / "b")))
    monkeypatch.setattr(binding, "set_option", record)
    text = ADD_SEVEN + "\n;" * (machine.LONG_TEXT if is_long else 0)
    if fails:
        monkeypatch.setattr(binding.TargetMachine, "emit_object", interrupt)
        with pytest.raises(KeyboardInterrupt):
            compile_object(text + "\n; that no test has compiled", host_target())
    else:
        assert emit_assembly(text, host_target()) == wanted
    assert now == defaults
    assert len(named) == 2 * (len(settings) - (len(machine.SETTINGS) - 1) * has_files)


def test_files_of_options_are_the_table(request):
    for file, options in zip(machine.FILES_OF_SETTINGS, zip(*machine.SETTINGS, strict=True), strict=True):
        if request.config.getoption("--update-goldens"):
            Path(file).write_text("\n".join(options) + "\n")
        assert Path(file).read_text().split() == list(options)


def test_llvm_reads_the_files_of_options(monkeypatch, tmp_path):
    """They do what the options do one by one: without them, this loop becomes another one."""
    by_files = emit_assembly(MULTIPLYING, host_target("x86-64-v3"))
    monkeypatch.setattr(machine, "FILES_OF_SETTINGS", (str(tmp_path / "a"), str(tmp_path / "b")))
    assert emit_assembly(MULTIPLYING, host_target("x86-64-v3")) == by_files
    monkeypatch.setattr(machine, "SETTINGS", (("--disable-lsr=false", "--disable-lsr=false"),))
    assert emit_assembly(MULTIPLYING, host_target("x86-64-v3")) != by_files


def parted(option: str) -> tuple[str, str]:
    """The name and the value of an option."""
    name, _, value = option.partition("=")
    return name, value or "true"
