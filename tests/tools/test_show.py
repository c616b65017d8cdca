"""`python -m tilewright show`."""

from __future__ import annotations

from pathlib import Path

import pytest

import tilewright
from tilewright.tools.main import main

KERNEL = """
import tilewright as tw
import tilewright.language as tl


@tw.jit
def double(x_ptr, out_ptr, n, BLOCK: tl.constexpr = 64):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + offsets, tl.load(x_ptr + offsets, mask=offsets < n) * 2, mask=offsets < n)


@tw.autotune([tw.Config({"BLOCK": 128})], key=["n"])
@tw.jit
def tuned(x_ptr, n, BLOCK: tl.constexpr):
    tl.store(x_ptr + tl.arange(0, BLOCK), n)


@tw.jit
def broken(x_ptr):
    tl.store(x_ptr, nothing)


not_a_kernel = 3
"""


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "cache"))
    path = tmp_path / "kernels_to_show.py"
    path.write_text(KERNEL)
    return str(path)


def test_all_stages(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", f"{file}:double"]) == 0
    text = capsys.readouterr().out
    places = [text.index(f"// ----- {stage} -----") for stage in ("source", "ttir", "ttcir", "llir", "asm")]
    assert places == sorted(places)
    assert "%x_ptr: !tt.ptr<f32> {tt.divisibility = 16 : i32}" in text
    assert "tensor<64xi32>" in text


def test_one_stage_and_a_signature(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", f"{file}:double", "--stage", "ttir", "-s", "*fp16, *fp32:16, i64, 128"]) == 0
    text = capsys.readouterr().out
    assert text.startswith("module {")
    assert "(%x_ptr: !tt.ptr<f16>, %out_ptr: !tt.ptr<f32> {tt.divisibility = 16 : i32}, %n: i64)" in text
    assert "tensor<128x" in text


def test_stages_of_a_gpu(file: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("TILEWRIGHT_GPU_ARCH", "80")
    assert main(["show", f"{file}:double", "--stage", "ttgir"]) == 0
    assert "cuda:80" in capsys.readouterr().out
    monkeypatch.setenv("TILEWRIGHT_GPU_ARCH", "12")
    assert main(["show", f"{file}:double", "--stage", "ttgir"]) != 0
    assert "no asm['ttgir'] of it for 12" in capsys.readouterr().err


def test_tuned_kernels_and_named_constants(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", f"{file}:tuned", "--stage", "ttir", "-c", "BLOCK=32"]) == 0
    assert "tensor<32x" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["{file}:broken"], "nothing"),
        (["{file}:missing"], "no kernel 'missing'"),
        (["{file}:not_a_kernel"], "no kernel 'not_a_kernel'"),
        (["{file}"], "FILE.py:KERNEL"),
        (["nowhere.py:x"], "FILE.py:KERNEL"),
        (["{file}:tuned"], "-c BLOCK=VALUE"),
        (["{file}:double", "-s", "what"], "'what'"),
        (["{file}:double", "-s", "i32, i32, i32, 64, 5"], "4 parameters"),
        (["{file}:double", "-c", "SIZE=3"], "SIZE"),
        (["{file}:double", "-c", "BLOCK"], "NAME=VALUE"),
        (["{file}:double", "-c", "BLOCK=big"], "-c BLOCK=big: expected a number"),
    ],
)
def test_mistakes_are_one_message(
    file: str, arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["show", *(argument.format(file=file) for argument in arguments)]) == 1
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "message"), [("import nothing_of_that_name", "ModuleNotFoundError"), ("def f(x:\n", "SyntaxError")]
)
def test_a_file_that_cannot_be_executed(
    tmp_path: Path, text: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "wrong.py"
    path.write_text(text)
    assert main(["show", f"{path}:f"]) == 1
    errors = capsys.readouterr().err
    assert errors.startswith(f"{path} cannot be executed:\n")
    assert message in errors
    assert "exec_module" not in errors, "frames of the command"


def test_no_command_prints_the_commands(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    assert "print what a kernel becomes at each stage" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["link", "nowhere/k.h", "-o", "out"], "nowhere/k.h: No such file"),
        (["explain", "{file}:double", "--html", "nowhere/p.html"], "nowhere/p.html: No such file"),
    ],
)
def test_files_that_are_not_there(
    file: str, arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([argument.format(file=file) if argument[0] == "{" else argument for argument in arguments]) == 1
    assert capsys.readouterr().err.startswith(message)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [("TILEWRIGHT_CPU", "pentium", "'pentium'"), ("TILEWRIGHT_CACHE_SIZE", "large", "'large'")],
)
def test_settings_that_are_wrong(
    file: str, name: str, value: str, message: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(name, value)
    assert main(["show", f"{file}:double"]) == 1
    assert message in capsys.readouterr().err


def test_settings(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["settings"]) == 0
    assert "TRITON_CACHE_DIR" in capsys.readouterr().out


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--version"])
    assert (ended.value.code, capsys.readouterr().out) == (0, f"tilewright {tilewright.__version__}\n")


def test_a_file_with_one_kernel_needs_no_name(file: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    alone = tmp_path / "one_kernel.py"
    alone.write_text(KERNEL[: KERNEL.index("@tw.autotune")])
    assert main(["show", str(alone), "--stage", "ttir"]) == 0
    assert "@double" in capsys.readouterr().out
    assert main(["show", file]) == 1
    assert f"{file} has double, tuned, broken: expected FILE.py:KERNEL" in capsys.readouterr().err
    empty = tmp_path / "no_kernel.py"
    empty.write_text("x = 1\n")
    assert main(["show", str(empty)]) == 1
    assert "has no function with @jit: expected FILE.py:KERNEL" in capsys.readouterr().err
