"""Images in graphs: folds that gather, borders that stay torch's own, and variances of groups of channels."""

from __future__ import annotations

from collections.abc import Callable

import pytest

pytestmark = [pytest.mark.needs_torch, pytest.mark.slow]

Run = Callable[..., list[str]]

FOLDS = """
import torch
import torch.nn.functional as F
from torch._inductor.utils import run_and_get_code

torch.manual_seed(0)
cases = [  # size, kernel, dilation, padding, stride
    ((9, 7), 3, 1, 1, 1), ((9, 7), (3, 2), 1, (1, 0), 1), ((9, 8), 4, 1, 1, 2), ((11, 10), 3, 1, 0, 2),
    ((9, 9), 3, 2, 2, 1), ((12, 11), 3, 2, 1, 3), ((8, 8), 4, 1, 0, 4), ((9, 7), 1, 1, 0, 1), ((16, 16), 7, 1, 3, 1),
]
for size, *rest in cases:
    kernel, dilation, padding, stride = rest
    for dtype in (torch.float32, torch.bfloat16):
        image = torch.randn(2, 3, *size, dtype=dtype)
        blocks = F.unfold(image, kernel, dilation, padding, stride)
        blocks.view(-1)[::97] = float("nan")
        blocks.view(-1)[::89] = float("inf")
        fold = lambda x: F.fold(x, size, kernel, dilation, padding, stride)
        torch.compiler.reset()
        got, (text,) = run_and_get_code(torch.compile(fold, backend="tilewright"), blocks)
        allowed = {"rtol": 2e-2, "atol": 0.1} if dtype.itemsize < 4 else {"rtol": 1e-5, "atol": 1e-5}
        torch.testing.assert_close(got, fold(blocks.double()).to(dtype), equal_nan=True, **allowed)
    print("index_put" in text)
fold = torch.compile(lambda x, height: F.fold(x, (height, 8), 3, padding=1), backend="tilewright", dynamic=True)
for height in (6, 9):
    blocks = torch.randn(2, 27, height * 8)
    torch.testing.assert_close(fold(blocks, height), F.fold(blocks, (height, 8), 3, padding=1))
x = torch.randn(2, 3, 9, 7, requires_grad=True)
weight = torch.randn(2, 27, 63)
unfold = lambda x: (F.unfold(x, 3, padding=1) * weight).sum()
ours, = torch.autograd.grad(torch.compile(unfold, backend="tilewright")(x), x)
torch.testing.assert_close(ours, *torch.autograd.grad(unfold(x), x))
print("done")
"""


def test_pixels_gather_the_blocks_that_cover_them(run: Run) -> None:
    """One block per pixel, or more than 36, stay sums by index."""
    assert run(FOLDS) == [*["False"] * 6, *["True"] * 3, "done"]


PADDINGS = """
import torch
import torch.nn.functional as F
from torch._inductor.utils import run_and_get_code
import tilewright.torch_compile

torch.manual_seed(0)
def is_whole(function, *args, **settings):
    torch.compiler.reset()
    compiled = torch.compile(function, backend="tilewright", **settings)
    got, text = run_and_get_code(compiled, *args)
    expected = function(*args)
    torch.testing.assert_close(got, expected, equal_nan=True, rtol=1e-4, atol=1e-4)
    assert got.stride() == expected.stride()
    return any("aten." + name + ".default(" in line for line in "".join(text).splitlines() for name in NAMES)

NAMES = ("reflection_pad2d", "replication_pad2d")
x = torch.randn(2, 4, 9, 7)
x[0, 0, 0] = torch.tensor([float("nan"), float("inf"), -float("inf"), -0.0, 0.0, 1e-45, 1.0])
convolution = torch.nn.Conv2d(4, 6, 3, bias=False)
for mode in ("reflect", "replicate"):
    pad = lambda x, *sizes: F.pad(x, sizes or (1, 2, 3, 2), mode=mode)
    print(
        is_whole(pad, x), is_whole(pad, x.bfloat16()), is_whole(pad, x[0]), is_whole(pad, x, dynamic=True),
        is_whole(lambda x: pad(x, 0, 0, 1, 2), x), is_whole(pad, x.to(memory_format=torch.channels_last)),
        is_whole(lambda x: pad(x.relu().transpose(2, 3)), x),
    )
    with torch.no_grad():
        print(is_whole(lambda x: convolution(pad(x.sin())), torch.randn(2, 4, 33, 35)))
    ours, eager = x.nan_to_num(0, 1, 1).requires_grad_(), x.nan_to_num(0, 1, 1).requires_grad_()
    torch.compile(lambda x: pad(x).sin().sum(), backend="tilewright")(ours).backward()
    pad(eager).sin().sum().backward()
    torch.testing.assert_close(ours.grad, eager.grad)
torch.compiler.reset()
_, (text,) = run_and_get_code(torch.compile(pad), x)
print(any("aten." + name + ".default(" in text for name in NAMES))
"""


def test_contiguous_images_are_padded_by_torch(run: Run) -> None:
    """Images that are, or become, `channels_last` are padded in kernels, as all are by torch's own back end."""
    whole = "True True True True False False True"
    assert run(PADDINGS) == [whole, "False", whole, "False", "False"]


CIRCLES = """
import torch
import torch.nn.functional as F
from torch._inductor.utils import run_and_get_code
import tilewright.torch_compile

torch.manual_seed(0)
four, last = (2, 3, 8, 9), torch.channels_last
cases = [  # size, borders, dtype, layout
    (four, (1, 2, 3, 0), torch.float32, None), (four, (0, 0, 8, 8), torch.int64, None),
    ((3, 8), (2, 3), torch.bfloat16, None), ((1, 2, 4, 5, 6), (1, 1, 2, 0, 0, 3), torch.float32, None),
    (four, (1, 2, 3, 0), torch.float32, last), (four, (1, -1, 2, 2), torch.float32, None),
]
for number, (size, borders, dtype, layout) in enumerate([*cases, cases[0]]):
    image = torch.randn(size).mul(9).to(dtype)
    image = image if layout is None else image.to(memory_format=layout)
    pad = lambda x: F.pad(x, borders, mode="circular")
    torch.compiler.reset()
    backend = "tilewright" if number < len(cases) else "inductor"
    got, (text,) = run_and_get_code(torch.compile(pad, backend=backend), image)
    expected = pad(image)
    assert torch.equal(got, expected) and got.stride() == expected.stride()
    print("_cat_" in text)
pad = torch.compile(lambda x: F.pad(x, (1, 2, 3, 4), mode="circular"), backend="tilewright", dynamic=True)
for height in (6, 9):
    image = torch.randn(2, 3, height, 8)
    assert torch.equal(pad(image), F.pad(image, (1, 2, 3, 4), mode="circular"))
x, weight = torch.randn(four, requires_grad=True), torch.randn(2, 3, 12, 12)
weigh = lambda x: (F.pad(x, (1, 2, 3, 1), mode="circular") * weight).sum()
ours, = torch.autograd.grad(torch.compile(weigh, backend="tilewright")(x), x)
torch.testing.assert_close(ours, *torch.autograd.grad(weigh(x), x))
print("done")
"""


def test_circular_borders_are_joined(run: Run) -> None:
    """`channels_last` images, borders that cut and other back ends have what torch makes of them."""
    assert run(CIRCLES) == [*["True"] * 4, *["False"] * 3, "done"]


VARIANCES = """
import torch
import torch.nn.functional as F
from torch._inductor.utils import run_and_get_code

torch.manual_seed(0)
weight, bias = torch.randn(2, 24)
norm = lambda x: F.group_norm(x, 6, weight, bias)
def images(*sizes, far=0.0):
    return (torch.randn(sizes) + far).to(memory_format=torch.channels_last)

for x in (images(2, 24, 9, 7), images(1, 24, 33, 31), images(2, 24, 16, 16, far=1000.0), images(2, 24, 5, 5).double()):
    torch.compiler.reset()
    function = (lambda x: F.group_norm(x, 6, weight.double(), bias.double())) if x.dtype == torch.double else norm
    got, (text,) = run_and_get_code(torch.compile(function, backend="tilewright"), x)
    exact = F.group_norm(x.double(), 6, weight.double(), bias.double())
    error, allowed = ((each.double() - exact).abs().max() for each in (got, function(x)))
    assert error <= 2 * allowed + 1e-6, (error, allowed)
    assert got.stride() == x.stride()
    print("r1_numel" in text)
x[0, 3, 2, 2] = float("nan")
x[1, 7, 2, 2] = float("inf")
torch.testing.assert_close(torch.compile(function, backend="tilewright")(x), function(x), equal_nan=True)
x = images(2, 24, 9, 7)
ours, eager = x.clone().requires_grad_(), x.clone().requires_grad_()
torch.compile(lambda x: norm(x).square().sum(), backend="tilewright")(ours).backward()
norm(eager).square().sum().backward()
torch.testing.assert_close(ours.grad, eager.grad, rtol=1e-3, atol=1e-3)
compiled = torch.compile(norm, backend="tilewright", dynamic=True)
for size in (7, 11):
    x = images(2, 24, size, 9)
    torch.testing.assert_close(compiled(x), norm(x), rtol=1e-4, atol=1e-4)
spread = torch.compile(lambda x: torch.var_mean(x, (2, 3), correction=1, keepdim=True), backend="tilewright")
for ours, eager in zip(spread(x), torch.var_mean(x, (2, 3), correction=1, keepdim=True)):
    torch.testing.assert_close(ours, eager)
print("done")
"""


def test_variances_of_groups_are_those_of_channels(run: Run) -> None:
    """No kernel adds up along two axes, and numbers far from zero lose no more digits than in eager."""
    assert run(VARIANCES) == [*["False"] * 4, "done"]
