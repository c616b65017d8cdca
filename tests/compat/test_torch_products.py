"""Products of torch's graphs as kernels: which ones are, with which blocks, and that they are right."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest

from tilewright.backends.llvm.machine import host_target
from tilewright.compat import torch_products
from tilewright.compat.torch_products import Block, block_of, outruns_mkl
from tilewright.support import knobs

pytestmark = pytest.mark.quick

Run = Callable[..., list[str]]


@pytest.mark.parametrize(
    ("cpu", "expected"),
    [
        pytest.param("znver5", True, id="wide vectors, and AVX2 in MKL"),
        pytest.param("znver4", False, id="wide vectors in halves"),
        pytest.param("znver3", False, id="no wide vectors"),
        pytest.param("sapphirerapids", False, id="MKL knows them"),
        pytest.param("x86-64-v3", False, id="any processor with AVX2"),
        pytest.param("neoverse-v1", False, id="another library"),
    ],
)
def test_kernels_take_products_where_mkl_leaves_half_of_the_vectors_unused(cpu: str, expected: bool) -> None:
    assert outruns_mkl(host_target(cpu)) == expected


@pytest.mark.parametrize(
    ("sizes", "batch", "threads", "expected"),
    [
        pytest.param((1024, 1024, 1024), 1, 1, Block(128, 64, 64), id="large"),
        pytest.param((9, 10, 20), 1, 1, Block(16, 16, 32), id="small"),
        pytest.param((5, 300, 512), 1, 1, Block(8, 64, 64), id="few rows, which are all in one block"),
        pytest.param((2, 300, 512), 1, 4, Block(2, 64, 64), id="two rows, and fewer programs than two for each thread"),
        pytest.param((1024, 256, 2), 1, 1, Block(128, 64, 2), id="two terms"),
        pytest.param((130, 512, 512), 1, 1, Block(16, 64, 64), id="two rows more than a high block"),
        pytest.param((100, 512, 512), 1, 1, Block(128, 64, 64), id="nearly a high block"),
        pytest.param((256, 256, 64), 1, 4, Block(128, 64, 64), id="two programs for each of four threads"),
        pytest.param((256, 256, 64), 1, 16, Block(32, 64, 64), id="lower blocks for more threads"),
        pytest.param((256, 256, 64), 8, 16, Block(128, 64, 64), id="eight of them for as many"),
        pytest.param((32, 16, 16), 1, 2, Block(16, 16, 16), id="the lowest where no block makes enough"),
        pytest.param((32, 16, 16), 1, 3, None, id="none where a thread would wait"),
        pytest.param((2, 256, 512), 1, 8, None, id="none where few rows would be divided"),
    ],
)
def test_blocks_waste_little_and_leave_work_for_all_threads(
    sizes: tuple[int, int, int], batch: int, threads: int, expected: Block | None
) -> None:
    assert block_of(*sizes, batch=batch, threads=threads) == expected


class Refused(Exception):
    """A stand-in for torch's error where no template fits."""


class Matrix(NamedTuple):
    """A stand-in for a matrix of a graph."""

    sizes: tuple[int, ...]
    dtype: str = "float32"

    def get_size(self) -> tuple[int, ...]:
        return self.sizes

    def get_dtype(self) -> str:
        return self.dtype


class Lowerings:
    """A stand-in for torch's module, whose product says with which block it was lowered, if its template fits."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, fits: bool) -> None:
        settings = {"max_autotune": False, "max_autotune_gemm": False, "cpu_backend": "triton"}
        self.config = SimpleNamespace(patch=lambda changed: self._patched(changed), **settings)
        self.torch = SimpleNamespace(float32="float32", get_num_threads=lambda: 1)
        self.ir = SimpleNamespace(is_cpu=lambda matrix: True)
        sizes = SimpleNamespace(optimization_hint=lambda size, fallback: size)
        self.V = SimpleNamespace(graph=SimpleNamespace(sizevars=sizes))
        operators = {name: SimpleNamespace(default=name) for name in torch_products.OPERATORS}
        self.aten = SimpleNamespace(**operators)
        self.lowerings = dict.fromkeys(operators, self._product)
        self._fits, self._backends = fits, "ATEN"
        modules = {torch_products.CANDIDATES: SimpleNamespace(NoValidChoicesError=Refused)}
        monkeypatch.setattr(torch_products, "import_module", modules.__getitem__)
        torch_products.take_products(self)

    @contextmanager
    def _patched(self, changed: dict[str, object]) -> Iterator[None]:
        self._backends = str(changed["max_autotune_gemm_backends"])
        try:
            yield
        finally:
            self._backends = "ATEN"

    def _product(self, *operands: Matrix, **named: object) -> Any:
        if self._backends != "ATEN" and not self._fits:
            raise Refused
        buffer = SimpleNamespace(made_by=self._backends, allow_prologue_fusion=None)
        return SimpleNamespace(data=SimpleNamespace(data=buffer))

    def made(self, *operands: Matrix, **named: object) -> tuple[str, bool | None]:
        """Lowers a product; tells who makes it, and whether what leads to it may be a part of that."""
        buffer = self.lowerings["addmm" if len(operands) == 3 else "mm"](*operands, **named).data.data
        return buffer.made_by, buffer.allow_prologue_fusion


LEFT_MATRIX, RIGHT_MATRIX = Matrix((40, 20)), Matrix((20, 50))


@pytest.fixture
def always(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(knobs.tilewright, "torch_products", True)


@pytest.mark.usefixtures("always")
def test_a_product_is_a_template_and_the_library_has_it_where_none_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    assert Lowerings(monkeypatch, fits=True).made(LEFT_MATRIX, RIGHT_MATRIX) == ("TRITON", False)
    assert Lowerings(monkeypatch, fits=False).made(LEFT_MATRIX, RIGHT_MATRIX) == ("ATEN", None)


@pytest.mark.usefixtures("always")
@pytest.mark.parametrize(
    ("operands", "named"),
    [
        pytest.param((Matrix((1, 20)), RIGHT_MATRIX), {}, id="one row"),
        pytest.param((LEFT_MATRIX, Matrix((20, 7))), {}, id="few columns"),
        pytest.param((LEFT_MATRIX, Matrix((20, 50), "float64")), {}, id="another dtype"),
        pytest.param((Matrix((50,)), LEFT_MATRIX, RIGHT_MATRIX), {"beta": 0}, id="a hidden sum"),
    ],
)
def test_other_products_are_the_library_s(
    monkeypatch: pytest.MonkeyPatch, operands: tuple[Matrix, ...], named: dict[str, object]
) -> None:
    assert Lowerings(monkeypatch, fits=True).made(*operands, **named) == ("ATEN", None)


@pytest.mark.usefixtures("always")
@pytest.mark.parametrize("setting", ["max_autotune", "max_autotune_gemm"])
def test_a_choice_that_the_user_asks_for_is_torch_s(monkeypatch: pytest.MonkeyPatch, setting: str) -> None:
    lowerings = Lowerings(monkeypatch, fits=True)
    setattr(lowerings.config, setting, True)
    assert lowerings.made(LEFT_MATRIX, RIGHT_MATRIX) == ("ATEN", None)


def test_the_one_candidate_has_the_block_and_says_whether_steps_are_full(monkeypatch: pytest.MonkeyPatch) -> None:
    class Parameters(dict[str, object]):
        def to_kwargs(self) -> dict[str, object]:
            return dict(self)

    class Choices:
        def _finalize_template_configs(self, offered: list[Any], inputs: object) -> list[Any]:
            return offered

    def candidates() -> list[Any]:
        library = SimpleNamespace(params=Parameters())
        return [library, *(SimpleNamespace(params=Parameters(BLOCK_M=size, num_warps=4)) for size in (16, 32))]

    torch_products.choose_blocks(SimpleNamespace(InductorChoices=Choices))
    assert len(Choices()._finalize_template_configs(candidates(), None)) == 3, "where nobody lowers a product"
    for terms, is_even in ((128, True), (100, False)):
        inputs = SimpleNamespace(mnk_symbolic=lambda terms=terms: (40, 50, terms))
        with torch_products._taken(Block(64, 32, 64)):
            (chosen,) = Choices()._finalize_template_configs(candidates(), inputs)
        blocks = {"BLOCK_M": 64, "BLOCK_N": 32, "BLOCK_K": 64}
        assert chosen.params == {**blocks, "num_warps": 4, "EVEN_K": is_even}


COMPILED = """
import sys
import torch
from torch._inductor.utils import run_and_get_code

torch.manual_seed(0)
torch.set_num_threads(1)  # small products make no work for many

def taken(function, *inputs, **settings):
    '''Compares results with eager's; the numbers of products that kernels compute, and that the library does.'''
    torch._dynamo.reset()
    compiled = torch.compile(function, backend="tilewright", **settings)
    result, code = run_and_get_code(compiled, *inputs)
    expected = function(*inputs)
    torch.testing.assert_close(result, expected, atol=2e-4, rtol=2e-4)
    lines = "".join(code).splitlines()
    kernels = [line for line in lines if line.lstrip().startswith("triton_tem_") and ".run(" in line]
    return len(kernels), len([line for line in lines if "extern_kernels." in line and "mm(" in line])

normal = torch.randn
"""
SHAPES = (
    COMPILED
    + """
def products(a, b, bias, third, fourth, wide):
    m, k, n = len(a), a.size(1), b.size(1)
    return (
        torch.mm(a, b),
        torch.mm(a.T.clone().T, b.T.clone().T),
        torch.mm(wide[:m, : 2 * k : 2], wide[: 2 * k : 2, :n]),
        torch.addmm(bias, a, b),
        torch.bmm(third, fourth.mT),
        torch.baddbmm(bias[None, None], third, b.expand(3, k, n)),
    )

sizes = [(8, 8, 8), (33, 70, 17), (130, 65, 129), (256, 8, 300), (9, 1000, 8)]
few = [(2, 100, 70), (7, 3, 33), (100, 2, 8)]
for m, k, n in sizes + few:
    wide = normal(max(m, 2 * k), max(2 * k, n))
    inputs = normal(m, k), normal(k, n), normal(n), normal(3, m, k), normal(3, n, k), wide
    print(*taken(products, *inputs, dynamic=False))
scaled = lambda c, a, b: torch.addmm(c, a, b, alpha=0.5, beta=-2.0)
assert taken(scaled, normal(40, 1), normal(40, 20), normal(20, 50)) == (1, 0)
for number in (float("nan"), float("inf")):
    a = normal(40, 20)
    a[3, 4] = number
    result = torch.compile(torch.mm, backend="tilewright")(a, normal(20, 50))
    assert not result[3].isfinite().any() and result[4:].isfinite().all()
print("right")
"""
)


@pytest.mark.needs_torch
@pytest.mark.slow
def test_products_of_ragged_transposed_and_strided_matrices(run: Run) -> None:
    *counts, right = run(SHAPES, TILEWRIGHT_TORCH_PRODUCTS="1")
    assert counts == ["6 0"] * 8
    assert right == "right"


LEFT = (
    COMPILED
    + """
a, b = normal(40, 20), normal(20, 50)
hidden = lambda c, a, b: torch.addmm(c, a, b, beta=0)
print("beta = 0", taken(hidden, torch.full((50,), float("nan")), a, b))
print("a row", taken(torch.mm, a[:1], b))
print("few columns", taken(torch.mm, a, b[:, :7]))
print("no terms", taken(torch.mm, a[:, :0], b[:0]))
print("nothing", taken(torch.bmm, normal(0, 20, 20), normal(0, 20, 20)))
print("bfloat16", taken(torch.mm, a.bfloat16(), b.bfloat16()))
print("int32", taken(torch.mm, a.int(), b.int()))
print("any size", taken(torch.mm, a, b, dynamic=True))
print("any batch", taken(torch.bmm, a.expand(4, 40, 20), b.expand(4, 20, 50), dynamic=True))
print("tuned", taken(torch.mm, a, b, options={"max_autotune": True, "max_autotune_gemm_backends": "ATEN"}))
"""
)


@pytest.mark.needs_torch
@pytest.mark.slow
def test_other_products_stay_calls_of_the_library(run: Run) -> None:
    found = run(LEFT, TILEWRIGHT_TORCH_PRODUCTS="1")
    assert len(found) == 10
    assert {line[line.index("(") :] for line in found} == {"(0, 1)"}, found


ROWS = (
    COMPILED
    + """
a, b = normal(40, 20), normal(20, 50)
torch._dynamo.mark_dynamic(a, 0)
print(*taken(torch.mm, a, b))
compiled = torch.compile(lambda a, b: torch.mm(a, b).relu(), backend="tilewright")
for rows in (40, 7, 300, 129, 2, 1):
    a = normal(rows, 20)
    torch._dynamo.mark_dynamic(a, 0)
    torch.testing.assert_close(compiled(a, b), torch.mm(a, b).relu(), atol=1e-4, rtol=1e-4)

torch._dynamo.config.capture_dynamic_output_shape_ops = True
chosen = lambda a, b: torch.mm(a[(a[:, 0] > 0).nonzero()[:, 0]], b)
a = normal(100, 20)
print(*taken(chosen, a, b))
compiled = torch.compile(chosen, backend="tilewright")
for shift in (10, 0, -10):  # all rows, some of them, none
    torch.testing.assert_close(compiled(a + shift, b), chosen(a + shift, b), atol=1e-3, rtol=1e-3)
"""
)


@pytest.mark.needs_torch
@pytest.mark.slow
def test_any_number_of_rows(run: Run) -> None:
    assert run(ROWS, TILEWRIGHT_TORCH_PRODUCTS="1") == ["1 0", "1 0"]


MODEL = (
    COMPILED
    + """
first, second = torch.nn.Linear(48, 100), torch.nn.Linear(100, 24)
x = normal(64, 48)

def train(x):
    for each in (first, second):
        each.zero_grad()
    second(torch.nn.functional.gelu(first(x.sin()))).square().mean().backward()
    return [each.weight.grad.clone() for each in (first, second)]

expected = train(x)
body = lambda x: second(torch.nn.functional.gelu(first(x.sin())))
compiled = torch.compile(body, backend="tilewright")
for each in (first, second):
    each.zero_grad()
compiled(x).square().mean().backward()
for each, gradient in zip((first, second), expected):
    torch.testing.assert_close(each.weight.grad, gradient, atol=1e-4, rtol=1e-4)
with torch.no_grad():
    print(*taken(body, x))
    code = run_and_get_code(torch.compile(lambda x: body(x), backend="tilewright"), x)[1][0]
    names = sorted({line.split()[1].split("(")[0] for line in code.splitlines() if line.startswith("def triton_")})
    print(*names)
"""
)


@pytest.mark.needs_torch
@pytest.mark.slow
def test_what_follows_a_product_is_part_of_its_kernel_and_what_leads_to_it_is_not(run: Run) -> None:
    counts, names = run(MODEL, TILEWRIGHT_TORCH_PRODUCTS="1")
    assert counts == "2 0"
    assert [name.split("_")[1] for name in names.split()] == ["poi", "tem", "tem"]
    assert "sin" in names.split()[0]
    assert "gelu" in names.split()[1]


SETTING = COMPILED + "print(*taken(torch.mm, normal(40, 20), normal(20, 50)))"


@pytest.mark.needs_torch
@pytest.mark.slow
@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        pytest.param({"TILEWRIGHT_TORCH_PRODUCTS": "0"}, "0 1", id="never"),
        pytest.param({"TILEWRIGHT_CPU": "x86-64-v3"}, "0 1", id="MKL is as fast"),
        pytest.param({"TILEWRIGHT_CPU": "x86-64-v3", "TILEWRIGHT_TORCH_PRODUCTS": "1"}, "1 0", id="always"),
    ],
)
def test_the_setting_says_whether_products_are_kernels(run: Run, variables: dict[str, str], expected: str) -> None:
    assert run(SETTING, **variables) == [expected]


SUMS = (
    COMPILED
    + """
a, b, c, d = normal(64, 3), normal(3, 96), normal(64, 5), normal(5, 96)
bias, other = normal(96), normal(64, 96)
many, of_many = normal(64, 40), normal(40, 96)
long = [(normal(64, 2), normal(2, 96)) for _ in range(40)]
cases = {
    "two": lambda: a @ b + c @ d,
    "transposed": lambda: a.T.clone().T @ b.T.clone().T + c.T.clone().T @ d.T.clone().T,
    "one of them transposed": lambda: a.T.clone().T @ b + c @ d,
    "others between": lambda: other - 1 + (a @ b + bias) + (c @ d + other),
    "twice the same": lambda: (lambda x: x + x)(a @ b) + c @ d,
    "a sum that is used again": lambda: (lambda x: (x, x + a.sin() @ b + c.cos() @ d))(a @ b + c @ d),
    "a product that is used again": lambda: (lambda x: (x + c @ d, x))(a @ b),
    "a factor": lambda: torch.add(a @ b, c @ d, alpha=2),
    "a sum of more axes": lambda: (a @ b)[None].expand(2, 64, 96) + (c @ d)[None],
    "many terms": lambda: a @ b + many @ of_many,
    "doubles": lambda: a.double() @ b.double() + c.double() @ d.double(),
    "two dtypes": lambda: a @ b + c.double() @ d.double(),
    "integers": lambda: a.int() @ b.int() + c.int() @ d.int(),
    "very many": lambda: sum(x @ y for x, y in long),
}
for name, function in cases.items():
    print(name, *taken(function, dynamic=False))
print("any size", *taken(lambda a, b, c, d: a @ b + c @ d, a, b, c, d, dynamic=True))
"""
)


@pytest.mark.needs_torch
@pytest.mark.slow
def test_a_sum_of_products_with_few_terms_is_one_product(run: Run) -> None:
    found = run(SUMS, TILEWRIGHT_TORCH_PRODUCTS="0")
    assert found == [
        "two 0 1",
        "transposed 0 1",
        "one of them transposed 0 1",
        "others between 0 1",
        "twice the same 0 1",
        "a sum that is used again 0 2",
        "a product that is used again 0 2",
        "a factor 0 2",
        "a sum of more axes 0 2",
        "many terms 0 2",
        "doubles 0 1",
        "two dtypes 0 2",
        "integers 0 2",
        "very many 0 1",
        "any size 0 2",
    ]


FACTORS = (
    COMPILED
    + """
a, b, c = normal(64, 30), normal(30, 96), normal(64, 96)
for function in (
    lambda: torch.add(c, a @ b, alpha=2),
    lambda: torch.add(a @ b, c, alpha=2),
    lambda: torch.add(a @ b, c[0], alpha=-3),
    lambda: torch.add(a @ b, c.double(), alpha=2),
    lambda: torch.add((a * 9).long() @ (b * 9).long(), (c * 9).int(), alpha=2),
    lambda: torch.sub(a @ b, c, alpha=2),
):
    taken(function)
print("right")
"""
)


@pytest.mark.needs_torch
@pytest.mark.slow
def test_a_sum_with_a_product_keeps_its_factor(run: Run) -> None:
    assert run(FACTORS, TILEWRIGHT_TORCH_PRODUCTS="0") == ["right"]
