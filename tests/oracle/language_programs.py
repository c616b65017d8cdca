"""Kernels of a few lines that between them use every statement of the kernel language; see `language_cases.py`."""

HEADER = """
import math
from typing import NamedTuple
from enum import Enum

as_aggregate = getattr(triton, 'aggregate', None) or triton.language.core._aggregate

PLAIN = 3
CONSTEXPR = tl.constexpr(3)
ANNOTATED: tl.constexpr = 3
TUPLE = (1, 2)
LIST = [1, 2]
FLOAT_TYPE = tl.float32
STRING = "x"
NONE = None

class named(NamedTuple):
    x: object
    y: object = 0

class Enumeration(Enum):
    A = 1
    B = 2

@triton.constexpr_function
def constant(x):
    return x + 1

@triton.jit
def spread(x, y):
    return x + y

@triton.jit
def variadic(*values):
    total = 0
    for value in values:
        total += value
    return total

@triton.jit
def only_keyword(x, *, y):
    return x + y

@triton.jit
def defaults(x, y=1, z: tl.constexpr = 2):
    return x + y + z

def mul_add(x, y, _semantic=None):
    x = tl.to_tensor(x, _semantic=_semantic) if hasattr(tl, "to_tensor") else _semantic.to_tensor(x)
    return tl.maximum(x, y, _semantic=_semantic)
mul_add.__triton_builtin__ = True

def unmarked(x, y):
    return x * y

@triton.jit(noinline=True)
def outlined(x, y):
    return x + y

@triton.jit(noinline=True)
def outlined_pair(x):
    return x, x + 1

@triton.jit
def early(x):
    if x > 1:
        return x
    return x + 1

@triton.jit
def early_mixed(x):
    if x > 1:
        return x
    return 1.5

@triton.jit
def early_constant(x):
    if x > 1:
        return 1
    return 2

@triton.jit
def early_none(x):
    if x > 1:
        return
    x += 1

@triton.jit
def returns_nothing(x):
    x += 1

@triton.jit
def two(x):
    return x, x + 1

@triton.jit
def plus(x, y):
    return x + y

@triton.jit
def plus_one(x):
    return x + 1

@triton.jit
def recursive(n: tl.constexpr):
    if n == 0:
        return 0
    else:
        return recursive(n - 1) + 1

def plain_python(x):
    return x + 1

@triton.jit
def generic(x, kind: tl.constexpr):
    return x.to(kind)

@triton.jit
def swap(x, y):
    return y, x

@triton.jit
def takes_constexpr(n: tl.constexpr):
    return n + 1

@triton.jit
def takes_function(f: tl.constexpr, x):
    return f(x)

@triton.jit
def tuple_argument(t):
    return t[0] + t[1]

class Manager:
    def __init__(self, x, _semantic=None):
        self.x = x

    def __enter__(self, _semantic=None):
        return self

    def __exit__(self, kind, value, trace, _semantic=None):
        pass
Manager.__triton_builtin__ = True
Manager.__init__.__triton_builtin__ = True

@as_aggregate
class aggregate:
    x: tl.tensor
    y: tl.constexpr

    @triton.constexpr_function
    def __init__(self, x, y):
        self.x = x
        self.y = tl.constexpr(y)

    @triton.jit
    def method(self, z):
        return self.x + z
"""
PROGRAMS = r'''
note((b := a + 1) * 2)
note(b)
---
if (c := a) == c:
    note(c)
---
note(1 < a < 3)
---
note(1 < 2 < 3)
note(1 < 2 > 3)
---
t = (a, 1, 2)
note([x for x in t])
---
t = (a, 1, 2)
note([x + 1 for x in t if True])
---
t = (1, 2, 3)
note([x for x in t if x > 1])
---
t = (a, a)
note([x for x in t if x > 1])
---
note([i for i in range(3)])
---
note([i for i in tl.static_range(3)])
---
note([i + j for i in (1, 2) for j in (3, 4)])
---
note((x for x in (1, 2)))
---
note([y for y in [a, a]])
---
note(named(a, 2).x)
note(named(a, 2).y)
---
n = named(a, 2)
note(n)
note(n[0])
note(n.x + n.y)
---
n = named(y=a, x=3)
note(n.x)
---
n = named(a, 2)
for i in range(3):
    n = named(n.x, n.y)
note(n.x)
---
note(constant(3))
---
note(constant(a))
---
note(constant(constant(2)) + a)
---
BLOCK: tl.constexpr = constant(4)
note(tl.arange(0, BLOCK))
---
x: tl.constexpr = a
note(x)
---
x: tl.constexpr = 3
x = x + 1
note(x)
---
x: tl.constexpr = 3
x += a
note(x)
---
x: tl.int32 = 3
note(x)
---
note(spread(*(a, 2)))
---
t = (a, 2)
note(spread(*t))
---
note(spread(*[a, 2]))
---
note(spread(a, y=2))
---
note(spread(y=2, x=a))
---
note(spread(**{"x": a}))
---
note(variadic(a, 1, 2))
---
note(variadic(a))
---
note(variadic())
---
note(only_keyword(a, y=3))
---
note(only_keyword(a, 3))
---
note(only_keyword(a))
---
note(defaults(a))
---
note(defaults(a, 5))
---
note(defaults(a, z=5))
---
note(defaults(a, 1, 2, 3))
---
note(defaults())
---
note(defaults(a, x=a))
---
while a < 3:
    a += 1
note(a)
---
while a < 3:
    a += 1
else:
    a = 5
note(a)
---
for i in range(3):
    a += i
else:
    a = 5
note(a)
---
for i in range(3):
    return
---
for i in tl.static_range(3):
    return
---
while a < 3:
    return
---
for i in range(3):
    if i == a:
        break
---
for i in range(3):
    if i == a:
        continue
---
for i in tl.static_range(3):
    if i == 1:
        continue
---
def inner(x):
    return x
note(inner(a))
---
f = lambda x: x
note(f(a))
---
note((lambda x: x + 1)(a))
---
note(f"{constant(3)}")
---
x: tl.constexpr = 3
note(f"<{x}>")
---
x: tl.constexpr = 3.5
note(f"{x:.3f}")
---
note(f"{1 + 1}")
---
note(f"{a}")
---
note(f"{'x'!r}")
---
note(mul_add(a, 2))
---
note(mul_add(a, a))
---
note(mul_add(2, 3))
---
note(unmarked(a, 2))
---
note(unmarked(2, 3))
---
note(outlined(a, a))
---
note(outlined(a, 2))
---
note(outlined(tl.broadcast_to(a, [4]), a))
---
note(outlined_pair(a))
---
note(early(a))
---
note(early_mixed(a))
---
note(early_constant(a))
---
note(early_none(a))
---
note(returns_nothing(a))
---
x = returns_nothing(a)
note(x)
---
note(two(a))
x, y = two(a)
note(y)
---
x, y, z = two(a)
---
x, = (a,)
note(x)
---
(x, y), z = (a, 2), 3
note(x)
---
x, *y = (a, 2, 3)
note(y)
---
x = y = a
note(x)
---
for i in range(3):
    a = a + 1.0
note(a)
---
for i in range(3):
    a = tl.broadcast_to(a, [4])
note(a)
---
x = 1
for i in range(3):
    x = x + 1
note(x)
---
x = 1
for i in range(3):
    x = x + a
note(x)
---
x = 1.0
for i in range(a):
    x += i
note(x)
---
x = None
for i in range(3):
    x = a
note(x)
---
for i in range(3):
    x = a + i
note(x)
---
for i in range(a):
    x = a + i
note(x)
---
for i in range(3):
    pass
note(i)
---
for i in range(a, 10, 2):
    note(i)
---
for i in range(0, 10, a):
    note(i)
---
for i in range(10, 0, -1):
    note(i)
---
for i in range(0.5):
    note(i)
---
for i in tl.range(0, a, 1, num_stages=3, loop_unroll_factor=2):
    note(i)
---
for i in tl.range(3, warp_specialize=True, flatten=True, disallow_acc_multi_buffer=True, disable_licm=True):
    note(i)
---
for i in tl.static_range(a):
    note(i)
---
for i in tl.static_range(1, 5, 2):
    note(i)
---
for i in tl.static_range(5, 0, -2):
    note(i)
---
for i in (1, 2):
    note(i)
---
for i in [a, 2]:
    note(i)
---
for i, j in zip((1, 2), (3, 4)):
    note(i)
---
for i, j in enumerate((1, 2)):
    note(i)
---
for i in tl.broadcast_to(a, [4]):
    note(i)
---
for i in a:
    note(i)
---
for i in range(4):
    for j in range(i):
        a += j
note(a)
---
if a > 1:
    x = 1
else:
    x = 2
note(x)
---
if a > 1:
    x = 1
else:
    x = 2.0
note(x)
---
if a > 1:
    x = a
else:
    x = tl.broadcast_to(a, [4])
note(x)
---
if a > 1:
    x = 1
note(x)
---
if a > 1:
    x = None
else:
    x = None
note(x)
---
if a > 1:
    x = None
else:
    x = a
note(x)
---
if True:
    x = 1
else:
    x = a
note(x)
---
if a:
    note(a)
---
if not a:
    note(a)
---
if a is not None:
    note(a)
---
if tl.broadcast_to(a, [4]):
    note(a)
---
if a > 1 and a < 5:
    note(a)
---
if a > 1 or False:
    note(a)
---
if True and a > 1:
    note(a)
---
note(True and a)
---
note(False and a)
---
note(False or a)
---
note(1 and 2)
---
note(0 or 3)
---
note(a > 1 and 3)
---
note(1 if a > 1 else 2)
---
note(1 if a > 1 else 2.0)
---
note(a if a > 1 else None)
---
note(a if True else tl.broadcast_to(a, [4]))
---
note(a if tl.broadcast_to(a, [4]) > 1 else a)
---
if a > 1:
    return
note(a)
---
if a > 1:
    note(a)
    return
else:
    a += 1
note(a)
---
if a > 1:
    if a > 2:
        return
    a += 1
note(a)
---
return a
---
return None
---
note(PLAIN)
---
note(CONSTEXPR)
---
note(ANNOTATED)
---
note(TUPLE)
---
note(LIST)
---
note(FLOAT_TYPE)
note(a.to(FLOAT_TYPE))
---
note(STRING)
---
note(NONE)
---
note(UNKNOWN)
---
note(math.pi)
---
global PLAIN
PLAIN = 3
---
x = a
del x
---
assert a > 1
note(a)
---
assert a > 1, "text"
note(a)
---
assert 1 > 2, "text"
---
assert tl.broadcast_to(a, [4]) > 1
note(a)
---
raise ValueError("x")
---
try:
    a += 1
except ValueError:
    pass
---
with tl.broadcast_to(a, [4]):
    pass
---
with Manager(a):
    note(a)
---
with Manager(a) as m:
    note(a)
---
with Manager(1), Manager(2):
    a += 1
note(a)
---
import math
---
x = {"a": 1}
---
x = {1, 2}
---
x = [1, a]
note(x)
note(x[0])
---
x = [1, a]
x[0] = 3
---
a.x = 3
---
a[0] = 3
---
x = (1, 2)
x[0] = 3
---
x = (1, a)
note(x[1:])
---
note(a[0])
---
note(a[None, None])
---
note(tl.broadcast_to(a, [4])[None, :, None])
---
note(tl.broadcast_to(a, [4])[..., None])
---
note(tl.broadcast_to(a, [4])[a])
---
yield a
---
await a
---
match a:
    case 1:
        note(a)
---
pass
note(a)
---
"""A text."""
note(a)
---
...
note(a)
---
a
note(a)
---
a += 1.5
note(a)
---
a //= 2
note(a)
---
a **= 2
---
a @= a
---
a <<= 2
note(a)
---
a &= 1
a |= 2
a ^= 3
a %= 4
a >>= 1
note(a)
---
note(-a)
note(not a)
---
note(~a)
---
note(print)
---
note(tl)
---
note(tl.nothing)
---
note(a.nothing)
---
note(tl.load)
---
note(max)
---
note(len("abc"))
---
note(int(3.5))
---
note(float(3))
---
note(int(a))
---
note(isinstance(a, tl.tensor))
---
note(isinstance(3, int))
---
note(hasattr(a, "shape"))
---
note(getattr(a, "dtype"))
---
note(getattr(tl, "int32"))
---
note(a.dtype == tl.int32)
---
note(a.dtype in (tl.int32, tl.float32))
---
note(a.dtype is tl.int32)
---
note(a.dtype.is_int())
---
note(a.type.is_ptr())
---
note(a.dtype.primitive_bitwidth)
---
note(a.dtype.name)
---
note(tl.int32)
---
note(tl.dtype("int8"))
---
note(tl.constexpr(3) + 4)
---
note(tl.constexpr(3) / 2)
---
note(7 // 2)
note(-7 // 2)
note(-7 % 3)
---
note(2 ** 10)
---
note(1 / 0)
---
note("x" + "y")
---
note("x" * 3)
---
note("x" == "x")
---
note(1 == 1.0)
---
note(not 3)
---
note(-(3))
---
note(None is None)
---
note(3 in (1, 2, 3))
---
note(3 not in (1, 2, 3))
---
note(a not in (1, 2, 3))
---
note(2 ** a)
---
note(aggregate(a, 2).x)
---
g = aggregate(a, 2)
note(g.method(3))
---
g = aggregate(a, 2)
g.x = 3
---
g = aggregate(a, 2)
for i in range(3):
    g = aggregate(g.x + 1, 2)
note(g.x)
---
g = aggregate(a, 2.5)
---
g = aggregate(a)
---
note(tl.core.aggregate_replace(aggregate(a, 2), x=a).x)
---
note(recursive(3))
---
note(recursive(a))
---
note(plain_python(3))
---
note(plain_python(a))
---
note(generic(a, tl.float32))
---
note(generic(a, "x"))
---
note(swap(a, 1.5))
---
x, y = swap(a, 1.5)
x, y = y, x
note(x)
---
note(takes_constexpr(a))
---
note(takes_constexpr(3))
---
note(takes_function(plus_one, a))
---
note(tuple_argument((a, 2)))
---
note(Enumeration.B)
---
note(Enumeration.B.value)
---
note(Enumeration.B == Enumeration.B)
---
note(a if Enumeration.B.value == 2 else 1)
---
note(tl.reduce(tl.broadcast_to(a, [4]), 0, plus))
---
note(tl.reduce(tl.broadcast_to(a, [4]), 0, lambda x, y: x + y))
---
note(tl.reduce(tl.broadcast_to(a, [4]), 0, max))
---
tl.static_print("x", a)
note(a)
---
tl.device_print("x %d", a)
note(a)
---
tl.device_print(f"x{1}", a)
note(a)
---
print(f"x", a)
note(a)
---
print("a", "b", a)
note(a)
---
print(a, a)
note(a)
---
print(a, sep=",")
---
tl.device_assert(a > 1, "x")
note(a)
---
tl.device_assert(a > 1, a)
---
tl.static_assert(tl.constexpr(True))
note(a)
---
tl.static_assert(1 == 2, "one is two")
---
tl.static_assert(a > 1)
---
tl.multiple_of(a, 8)
note(a)
---
tl.sum(a, 0)
---
tl.load(a)
---
tl.inline_asm_elementwise("mov.b32 $0, $1;", "=r,r", [a], dtype=tl.int32, is_pure=True, pack=1)
---
note(tl.inline_asm_elementwise("mov.b32 $0, $1;", "=r,r", [a], dtype=tl.int32, is_pure=True, pack=1))
---
note(tl.inline_asm_elementwise("x", "=r,=r,r", [a], dtype=(tl.int32, tl.float32), is_pure=True, pack=1))
---
note(tl.map_elementwise(plus, tl.broadcast_to(a, [4]), tl.broadcast_to(a, [4])))
---
note(tl.cast(a, tl.float32).to(tl.float16))
---
note(tl.extra.libdevice.tanh(a.to(tl.float32)))
---
note(tl.math.exp(a.to(tl.float32)))
---
note(tl.extra.cuda.globaltimer())
---
note(tl.extra.cuda.smid())
---
note(tl.extra.cuda.num_threads())
---
note(tl.extra.cuda.num_warps())
---
tl.extra.cuda.gdc_wait()
tl.extra.cuda.gdc_launch_dependents()
note(a)
---
note(tl.target_info.is_hip())
---
note(tl.make_block_ptr(a, (4,), (1,), (0,), (4,), (0,)))
'''
