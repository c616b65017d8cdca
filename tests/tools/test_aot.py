"""`tilewright compile` and `tilewright link`: what they write is compiled by the machine's C compiler and run."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from aot_kernels import talking

from tilewright.backends.llvm.machine import host_target
from tilewright.support import knobs
from tilewright.support.diagnostics import Unsupported
from tilewright.tools.aot import c_text, compile_command
from tilewright.tools.aot.compile_command import CompileArgs
from tilewright.tools.aot.link_command import HeaderParser, LinkerError, link
from tilewright.tools.kernels import UsageError
from tilewright.tools.main import main

pytestmark = pytest.mark.quick

CC = shutil.which("cc")
FLAGS = ("-std=c11", "-O1", "-Wall", "-Wextra", "-Werror", "-pedantic", "-pthread")
KERNELS = str(Path(__file__).with_name("aot_kernels.py"))


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def compile_kernel(kernel: str, signature: str, grid: str, **others: object) -> tuple[str, list[Path]]:
    return compile_command.compile_kernel(CompileArgs(KERNELS, kernel, signature, grid, **others))


def build(program: str, *flags: str) -> str:
    """Compile and link `program` with everything in this folder; returns what the result prints."""
    Path("program.c").write_text(program)
    subprocess.run(
        [str(CC), *FLAGS, *flags, *map(str, Path().glob("*.[co]")), "-o", "program"], check=True, timeout=120
    )
    return subprocess.run(["./program"], check=True, capture_output=True, text=True, timeout=60).stdout


ADD = """
#include <assert.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include "%(header)s"

enum { n = 10007, parts = 5 };
static _Alignas(64) float x[n], y[n], out[n + 4], again[n], scratch[1 << 16];

typedef struct {
  void (*part)(void *, int64_t);
  void *launch;
  int64_t i;
} task;

static void *start(void *given) {
  task *this = given;
  this->part(this->launch, this->i);
  return NULL;
}

static void on_threads(void *pool, int64_t count, void (*part)(void *, int64_t), void *launch) {
  pthread_t threads[parts];
  task tasks[parts];
  *(int64_t *)pool += count;
  for (int64_t i = 0; i < count; ++i) {
    tasks[i] = (task){part, launch, i};
    assert(!pthread_create(&threads[i], NULL, start, &tasks[i]));
  }
  for (int64_t i = 0; i < count; ++i)
    pthread_join(threads[i], NULL);
}

static void check(float *found) {
  for (int i = 0; i < n; ++i) {
    assert(found[i] == x[i] + y[i]);
    found[i] = 0;
  }
}

int main(void) {
  int64_t used = 0;
  TT_Stream stream = {parts, on_threads, &used}, serial = {3, NULL, NULL};
  for (int i = 0; i < n; ++i) {
    x[i] = (float)i;
    y[i] = (float)(n - i * 3);
  }
  load_%(name)s();
  assert(%(name)s(NULL, x, y, out, n) == TT_SUCCESS);
  check(out);
  assert(%(name)s(&serial, x, y, out, n) == TT_SUCCESS);
  check(out);
  assert(%(name)s(&stream, x, y, again, n) == TT_SUCCESS);
  check(again);
  assert(used == parts);
  assert(%(name)s_programs(x, y, out, n) == (n + 127) / 128);
  assert(%(name)s_scratch_bytes() <= (int64_t)sizeof scratch);
  assert(%(name)s_range(0, 40, scratch, x, y, out, n) == TT_SUCCESS);
  assert(%(name)s_range(40, (n + 127) / 128, scratch, x, y, out, n) == TT_SUCCESS);
  check(out);
  assert(%(name)s_range(0, 1000, scratch, x, y, out, n) == TT_ERROR_INVALID_VALUE);
  assert(%(name)s(NULL, x, y, out + 1, n) == TT_ERROR_INVALID_VALUE);
  assert(%(name)s(NULL, x, y, out, -n) == TT_ERROR_INVALID_VALUE);
  assert(%(name)s_programs(x, y, out, -n) == -1);
  assert(%(name)s(NULL, x, y, out, 0) == TT_SUCCESS);
  unload_%(name)s();
  puts("right");
  return 0;
}
"""


def test_a_string_of_c_has_what_could_end_or_change_it_in_octal() -> None:
    assert c_text._quoted('a "b" c:\\d ??= é~\n') == r'"a \042b\042 c:\134d \077\077= \303\251~\012"'


@pytest.mark.needs_cc
@pytest.mark.slow
@pytest.mark.parametrize("flags", [(), ("-no-pie",), ("-fsanitize=undefined", "-fno-sanitize-recover")])
def test_vector_add(flags: tuple[str, ...]) -> None:
    """As position-independent executable, as the other kind, and with checks of undefined behaviour."""
    name, files = compile_kernel("add", "*fp32:16, *fp32:16, *fp32:16, i32, BLOCK=128", "(n + BLOCK - 1) / BLOCK, 1, 1")
    assert [file.name for file in files] == [f"add.{name[4:]}.{suffix}" for suffix in ("h", "c", "kernel.o")]
    assert build(ADD % {"name": name, "header": files[0].name}, *flags) == "right\n"


MATMUL = """
#include <stdio.h>
#include <stdlib.h>
#include "linked.h"

int main(void) {
  int M = %(M)d, N = %(N)d, K = %(K)d;
  float *a = aligned_alloc(64, 1 << 16), *b = aligned_alloc(64, 1 << 16), *c = aligned_alloc(64, 1 << 16);
  FILE *file = fopen("operands", "rb");
  if (!file || fread(a, 4, (size_t)(M * K), file) + fread(b, 4, (size_t)(K * N), file) != (size_t)(M * K + K * N))
    return 1;
  fclose(file);
  load_my_matmul();
  printf("%%d\\n", my_matmul_get_num_algos());
  printf("%%d\\n", my_matmul(NULL, c, a, b, M, N, K, N, 1, K, 1, N, 1, %(algorithm)d));
  printf("%%d\\n", my_matmul(NULL, c, a, b, M, N, K, N, 1, K, 1, N, 1, 99));
  printf("%%d\\n", my_matmul_default(NULL, c, a, b, M, N, K, N, 1, K, 2, N, 1));
  if (%(algorithm)d == 0)
    printf("%%d\\n", my_matmul_default(NULL, c, a, b, M, N, K, N, 1, K, 1, N, 1));
  file = fopen("product", "wb");
  if (!file || fwrite(c, 4, (size_t)(M * N), file) != (size_t)(M * N))
    return 1;
  fclose(file);
  free(a), free(b), free(c);
  unload_my_matmul();
  return 0;
}
"""


@pytest.mark.needs_cc
@pytest.mark.slow
@pytest.mark.parametrize("algorithm", [0, 1])
def test_linked_matmul(algorithm: int) -> None:
    """Two sets of constants with three sets of hints each; the strides along rows have to be 1."""
    for block_m, block_n, block_k in ((16, 16, 16), (32, 64, 32)):
        for a_hint, b_hint in ((":16", ":16"), (":16", ""), ("", "")):
            signature = (
                f"*fp32:16, *fp32:16, *fp32:16, i32, i32, i32, i32, i32:1, i32{a_hint}, i32:1, i32{b_hint}, i32:1, "
                f"{block_m}, {block_n}, {block_k}"
            )
            grid = f"(M + {block_m - 1}) / {block_m}, (N + {block_n - 1}) / {block_n}, 1"
            compile_kernel("matmul", signature, grid, out_name="matmul", num_warps=2)
    link(sorted(Path().glob("matmul.*.h")), Path("linked"), prefix="my_")
    M, N, K = 50, 44, 36
    random = np.random.default_rng(0)
    a, b = random.standard_normal((M, K)).astype(np.float32), random.standard_normal((K, N)).astype(np.float32)
    Path("operands").write_bytes(a.tobytes() + b.tobytes())
    printed = build(MATMUL % {"M": M, "N": N, "K": K, "algorithm": algorithm}).split()
    assert printed == ["2", "0", "1", "1", *(["0"] if algorithm == 0 else [])]
    product = np.frombuffer(Path("product").read_bytes(), np.float32).reshape(M, N)
    np.testing.assert_allclose(product, (a @ b) ** 2, rtol=1e-4, atol=1e-4)


CPUS = {"x86-64-v4": "avx512f", "x86-64-v3": "avx2", "x86-64-v2": "sse4.2"}
"""Targets, and a feature of each that the next one does without."""

ADD_ONE = """
#include "linked.h"
int main(void) {
  static int x[64] = {1}, y[64] = {2};
  const int status = add_default(0, x, y, y, 64);
  return status == TT_SUCCESS ? y[0] - 3 : status;
}
"""


@pytest.mark.needs_cc
@pytest.mark.slow
@pytest.mark.skipif(platform.machine() != "x86_64", reason="code for x86")
def test_code_for_several_cpus() -> None:
    """The largest CPU whose features are there is taken; the C files are made to believe that some are not."""
    names = {cpu: compile_kernel("add", "*i32, *i32, *i32, i32, 64", "1", target=f"cpu:{cpu}:0")[0] for cpu in CPUS}
    link(sorted(Path().glob("add.*.h")), Path("linked"))
    for cpu, name in names.items():  # each says that it ran
        path = Path(f"add.{name.removeprefix('add_')}.c")
        says = f"#include <stdio.h>\n{path.read_text()}".replace(
            "tt_this.parts = tt_stream", f'puts("{cpu}");\n  tt_this.parts = tt_stream'
        )
        path.write_text(says)
    for cpu, feature in CPUS.items():
        if feature in host_target().features:
            assert build(ADD_ONE) == f"{cpu}\n"
        for path in Path().glob("add.*.c"):
            path.write_text(path.read_text().replace(f'__builtin_cpu_supports("{feature}")', "0"))
    with pytest.raises(subprocess.CalledProcessError) as caught:
        build(ADD_ONE)
    assert caught.value.returncode == 3, "TT_ERROR_NOT_SUPPORTED"


@pytest.mark.needs_cc
@pytest.mark.slow
def test_shared_library_and_types() -> None:
    """The object goes into a shared library; each type of scalar arrives as it is."""
    signature = "*fp64:16, i32, i8, u8, i16, i64:16, fp32, fp64, fp16, bf16, HALF=0.5"
    name, _ = compile_kernel("everything", signature, "1", out_name="all", out_path=Path("sub"))
    files = map(str, Path().glob("sub.*.[co]"))
    subprocess.run([str(CC), *FLAGS, "-fPIC", "-shared", *files, "-o", "lib.so"], check=True, timeout=120)
    program = f"""
    #include <stdio.h>
    #include "{next(Path().glob("sub.*.h")).name}"
    int main(void) {{
      static _Alignas(16) double out[10];
      int status = {name}(0, out, -100000, -7, 200, -300, INT64_C(1) << 40, 0.25f, 1e100, 1.5f, 2.0f);
      printf("%d", status);
      for (int i = 0; i < 10; ++i)
        printf(" %.17g", out[i]);
      return 0;
    }}
    """
    Path("use.c").write_text(program)
    subprocess.run([str(CC), *FLAGS, "use.c", "./lib.so", "-o", "use"], check=True, timeout=120)
    found = subprocess.run(["./use"], check=True, capture_output=True, text=True, timeout=60).stdout.split()
    assert list(map(float, found)) == [0, -100000, -7, 200, -300, 2**40, 0.25, 1e100, 1.5, 2, 0.5]


@pytest.mark.needs_cc
@pytest.mark.slow
def test_kernel_without_parameters() -> None:
    name, files = compile_kernel("nothing", "", "3, 2")
    program = f'#include "{files[0].name}"\nint main(void) {{ return {name}(0) + ({name}_programs() != 6); }}\n'
    assert build(program) == ""


@pytest.mark.needs_cc
@pytest.mark.slow
def test_prints(capfd: pytest.CaptureFixture[str]) -> None:
    """C prints what Python does."""
    name, files = compile_kernel("talking", "u32, *fp32, BLOCK=16", "2")
    values = ", ".join(f"{value}.25f" for value in range(16))
    main = f"int main(void) {{ static float x[] = {{{values}}}; return {name}(0, 4294967295u, x); }}"
    printed = build(f'#include "{files[0].name}"\n{main}\n')
    x = np.arange(16, dtype=np.float32) + np.float32(0.25)
    talking[(2,)](np.uint32(2**32 - 1), x, BLOCK=16)
    sys.stdout.flush()
    assert sorted(printed.splitlines()) == sorted(capfd.readouterr().out.splitlines())
    assert "pid (1, 0, 0) idx (7, 1) tile" in printed.replace(": ", " ")


def test_assertions_that_are_on() -> None:
    with knobs.runtime.scope():
        knobs.runtime.debug = True
        with pytest.raises(UsageError, match="checking has assertions that are on"):
            compile_kernel("checking", "*fp32", "1")


@pytest.mark.needs_cc
@pytest.mark.slow
@pytest.mark.needs_gdb
def test_a_debugger_knows_lines_and_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LLVM_EXTRACT_DI_LOCAL_VARIABLES", "1")
    name, files = compile_kernel("add", "*fp32, *fp32, *fp32, i32, BLOCK=16", "n / BLOCK")
    main = f"int main(void) {{ static float x[32]; return {name}(0, x, x, x, 32); }}"
    assert build(f'#include "{files[0].name}"\n{main}\n') == ""
    lines = Path(KERNELS).read_text().splitlines()
    line = next(number for number, text in enumerate(lines, 1) if "tl.store(out_ptr + " in text)
    commands = [f"break aot_kernels.py:{line}", "run", "info locals", "backtrace"]
    asked = ["gdb", "-batch", *(part for command in commands for part in ("-ex", command)), "./program"]
    told = subprocess.run(asked, capture_output=True, text=True, timeout=60, check=True).stdout
    assert f"{name}_programs_from_to () at {KERNELS}:{line}" in told or f"aot_kernels.py:{line}" in told
    assert "offsets = " in told


def test_files_are_the_same_each_time(golden: Callable[[str, str], None]) -> None:
    signature = "*fp32:16, *fp32:16, *fp32:16, i32, BLOCK=128"
    _, (header, source, _) = compile_kernel("add", signature, "n / BLOCK + 1", target="cpu:x86-64-v3:0")
    golden(header.read_text(), "aot/add.h")
    golden(source.read_text(), "aot/add.c")
    compile_kernel("add", signature.replace(":16", ""), "n / BLOCK + 1", target="cpu:x86-64-v3:0")
    link(sorted(Path().glob("add.*.h")), Path("linked"))
    golden(Path("linked.h").read_text(), "aot/linked.h")
    golden(Path("linked.c").read_text(), "aot/linked.c")


def test_another_machine() -> None:
    _, (_, source, machine_code) = compile_kernel("add", "*i32, *i32, *i32, i32, 64", "1", target="cpu:neoverse-v1:0")
    assert machine_code.read_bytes()[18:20] == (183).to_bytes(2, "little"), "not an object for AArch64"
    assert "__builtin_cpu_supports" not in source.read_text()


def test_command_line(capsys: pytest.CaptureFixture[str], folder: Path) -> None:
    signature, out = "*fp32:16, *fp32, *fp32, i32:16, 128", os.fspath(folder / "out" / "plus")
    (folder / "out").mkdir()
    assert (
        main(["compile", KERNELS, "-n", "add", "-s", signature, "-g", "1,1,1", "-on", "plus", "-o", out, "-w", "4"])
        == 0
    )
    files = capsys.readouterr().out.split()
    assert [Path(file).suffixes[-1] for file in files] == [".h", ".c", ".o"]
    assert all(Path(file).parent == folder / "out" and Path(file).exists() for file in files)
    assert main(["link", files[0], "-o", str(folder / "both"), "--prefix", "p_"]) == 0
    assert capsys.readouterr().out.split() == [str(folder / "both.h"), str(folder / "both.c")]
    assert "TT_ResultTy p_plus_default(" in (folder / "both.h").read_text()


WRONG = {
    "kernel": ("missing", "i32", "1", {}),
    "too many": ("nothing", "i32", "1", {}),
    "missing entry": ("add", "*fp32, *fp32, *fp32", "1", {}),
    "type": ("add", "*fp31, *fp32, *fp32, i32, 128", "1", {}),
    "hint": ("add", "*fp32:8, *fp32, *fp32, i32, 128", "1", {}),
    "hint of a pointer": ("add", "*fp32:1, *fp32, *fp32, i32, 128", "1", {}),
    "name": ("add", "*fp32, *fp32, *fp32, BLOCK=128", "1", {}),
    "grid": ("add", "*fp32, *fp32, *fp32, i32, 128", "1,,1", {}),
    "grid of unknown names": ("add", "*fp32, *fp32, *fp32, i32, 128", "m / BLOCK", {}),
    "long grid": ("add", "*fp32, *fp32, *fp32, i32, 128", "1,1,1,1", {}),
    "target": ("add", "*fp32, *fp32, *fp32, i32, 128", "1", {"target": "cpu:x86-64-v3:many"}),
    "CPU": ("add", "*fp32, *fp32, *fp32, i32, 128", "1", {"target": "cpu:pentium:0"}),
    "back end": ("add", "*fp32, *fp32, *fp32, i32, 128", "1", {"target": "cuda:80:32"}),
    "out name": ("add", "*fp32, *fp32, *fp32, i32, 128", "1", {"out_name": "a-b"}),
}


def test_mistakes(golden: Callable[[str, str], None]) -> None:
    lines = []
    for case, (kernel, signature, grid, others) in WRONG.items():
        with pytest.raises((UsageError, Unsupported)) as caught:
            compile_kernel(kernel, signature, grid, **others)
        lines.append(f"{case}: {str(caught.value).replace(KERNELS, 'aot_kernels.py')}\n")
    golden("".join(lines), "errors/signatures.txt")


def test_mistakes_of_headers(folder: Path, golden: Callable[[str, str], None]) -> None:
    good = "// tt-linker: k_12345678_0d:TT_Pointer x, int32_t n:128_warps1\n// tt-linker-backend: cpu\n"
    texts = {
        "nothing": "int x;\n",
        "signature": good + good.replace("int32_t n", "int64_t n"),
        "back ends": good + "// tt-linker-backend: cuda\n",
        "other back end": good.replace("cpu", "cuda"),
        "name": good.replace("k_12345678_0d", "k"),
        "hints": good.replace("0d", "2d"),
        "parameters": good.replace("TT_Pointer x", "TT_Pointer"),
    }
    lines = []
    for case, text in texts.items():
        (folder / "k.h").write_text(text)
        with pytest.raises(LinkerError) as caught:
            link([Path("k.h")], Path("out"))
        lines.append(f"{case}: {caught.value}\n")
    golden("".join(lines), "errors/linking.txt")


def test_const_where_no_specialization_stores() -> None:
    parser = HeaderParser()
    parser.extract_linker_meta("// tt-linker: k_1_:TT_ConstPointer x, TT_ConstPointer y:a\n// tt-linker-backend: cpu")
    parser.extract_linker_meta("// tt-linker: k_2_:TT_Pointer x, TT_ConstPointer y:b")
    assert [len(group) for group in parser.kernels.values()] == [1, 1]
    Path("k.h").write_text(
        "// tt-linker: k_1_:TT_ConstPointer x, TT_ConstPointer y:a\n// tt-linker-backend: cpu\n"
        "// tt-linker: k_2_:TT_Pointer x, TT_ConstPointer y:b\n"
    )
    header = link([Path("k.h")], Path("out"))[0].read_text()
    assert "k_default(TT_StreamTy tt_stream, TT_Pointer x, TT_ConstPointer y);" in header


# Several signatures at once

SIGNATURES = [f"*fp32:16, *fp32:16, *fp32:16, i32, BLOCK={block}" for block in (16, 32, 64, 128)]


def test_several_signatures_are_compiled_by_workers(folder: Path) -> None:
    """Each worker's kernel comes through the cache; the files are those that one call for each would write."""
    hits: list[bool] = []
    all_args = [CompileArgs(KERNELS, "add", text, "n / BLOCK", target="cpu:x86-64-v3:0") for text in SIGNATURES]
    with knobs.compilation.scope():
        knobs.compilation.listener = lambda *, cache_hit, **_: hits.append(cache_hit)
        made = compile_command.compile_kernels(all_args)
    assert hits == [True] * 8, "found when the workers are done, and when the files are written"
    contents = {file: file.read_bytes() for _, files in made for file in files}
    assert len(contents) == 12
    shutil.rmtree(folder / "cache")
    assert [compile_command.compile_kernel(args) for args in all_args] == made
    assert {file: file.read_bytes() for file in contents} == contents


def test_the_command_takes_several_signatures(capsys: pytest.CaptureFixture[str]) -> None:
    signatures = [part for signature in SIGNATURES[:2] for part in ("-s", signature)]
    assert main(["compile", KERNELS, "-n", "add", "-g", "n / BLOCK", *signatures]) == 0
    files = capsys.readouterr().out.split()
    assert len(files) == 6
    assert all(Path(file).exists() for file in files)


def test_one_wrong_signature_of_several(capsys: pytest.CaptureFixture[str]) -> None:
    signatures = ["-s", SIGNATURES[0], "-s", "*fp32, *fp32, *fp32, i32, BLOCK=3"]
    assert main(["compile", KERNELS, "-n", "add", "-g", "1", *signatures]) == 1
    assert "must be a power of two" in capsys.readouterr().err


@pytest.mark.parametrize("shape", [(7,), (2, 4), (2, 3, 4)])
def test_places_of_printed_elements(shape: tuple[int, ...]) -> None:
    """The texts of C, whose quotients of positive integers are Python's `//`."""
    texts = [text.removeprefix("(int)").replace("/", "//") for text in c_text._places(shape)]
    for number, place in enumerate(np.ndindex(shape)):
        assert tuple(eval(text, {"tt_i": number}) for text in texts) == place


@pytest.mark.parametrize(
    ("dtype", "format", "shown"),
    [
        ("uint8", "%3d", "%3llu (unsigned long long)"),
        ("int8", "%3d", "%3lld (long long)"),
        ("uint32", "0x%08x", "0x%08llx (unsigned long long)"),
        ("float32", "%f", "%f (double)"),
    ],
)
def test_formats_of_printed_elements(dtype: str, format: str, shown: str) -> None:
    """C is told how many bytes a number has, and that one has no sign."""
    text = c_text.prints_text([{"text": "x", "dtype": dtype, "shape": (16,), "format": format}])
    value, kind = shown.split(" ", 1)
    assert f'printf("pid (%d, %d, %d) idx (%2d)%s{value}\\n"' in text
    assert f"{kind}tt_values[tt_i]" in text
