"""Policies for caches as values: what instructions say, and what is refused."""

from __future__ import annotations

from typing import Any

import gluon_programs as programs
import numpy as np
import pytest
from descriptors import aligned, described
from gluon_assembly import assembled_text

import tilewright
from tilewright import gluon
from tilewright.gluon import language as gl
from tilewright.language.gluon.nvidia import blackwell
from tilewright.language.gluon.nvidia.hopper import CachePolicy, FractionalEvictionPolicy, mbarrier, tma

pytestmark = pytest.mark.quick

SOME = FractionalEvictionPolicy("evict_last", 0.5)


def test_accesses_say_what_they_are_told() -> None:
    x, out = aligned((512,), np.float32), aligned((1536,), np.float32)
    x[...] = np.arange(512)
    with tilewright.simulate("cuda:90"):
        text = assembled_text(programs.told_to_caches[(1,)](x, out, MODIFIER="cg"), 90)
    np.testing.assert_array_equal(out, np.concatenate([4 * x, np.where(np.arange(512) < 500, x, 0), x]))
    for expected in (
        "createpolicy.fractional.L2::evict_last.L2::evict_first.b64",
        ", 0.300000012;",
        "createpolicy.fractional.L2::evict_normal.b64",
        "ld.global.L1::evict_first.L2::cache_hint.v4.b32",
        "ld.global.L1::no_allocate.v4.b32",
        "ld.global.L1::evict_last.L2::128B.L2::cache_hint.v4.b32",
        "ld.global.cg.L2::cache_hint.v4.b32",
        "st.global.L2::cache_hint.v4.b32",
        "st.global.wt.v4.b32",
        "cp.async.cg.shared.global.L2::256B.L2::cache_hint",
        "cp.async.ca.shared.global.L2::cache_hint",
    ):
        assert expected in text, expected
    assert text.count("createpolicy") == 4, "each once"


def test_copies_by_descriptors_tell_the_second_cache() -> None:
    a, b = aligned((64, 64), np.float16), aligned((64, 64), np.float16)
    a[...] = np.arange(64)
    blocks = [described(array, [64, 64], programs.ROWS) for array in (a, b)]
    with tilewright.simulate("cuda:90"):
        text = assembled_text(programs.copy_with_policies[(1,)](*blocks), 90)
    np.testing.assert_array_equal(a, b)
    assert "complete_tx::bytes.L2::cache_hint" in text
    assert "bulk_group.L2::cache_hint" in text


@gluon.jit
def reads(x, out, POLICY: gl.constexpr):
    places = gl.arange(0, 128, layout=gl.BlockedLayout([1], [32], [4], [0]))
    gl.store(out + places, gl.load(x + places, cache_policy=POLICY))


@gluon.jit
def writes(x, out, POLICY: gl.constexpr):
    places = gl.arange(0, 128, layout=gl.BlockedLayout([1], [32], [4], [0]))
    gl.store(out + places, gl.load(x + places), cache_policy=POLICY)


@gluon.jit
def both(x, out, POLICY: gl.constexpr):
    gl.store(out, gl.load(x, eviction_policy="evict_last", cache_policy=POLICY))


@gluon.jit
def copies(x, out, POLICY: gl.constexpr):
    layout: gl.constexpr = gl.NVMMASharedLayout(swizzle_byte_width=0, element_bitwidth=32, rank=1)
    source = tma.make_tensor_descriptor(x, [128], [1], [128], layout)
    buffer = gl.allocate_shared_memory(gl.float32, [128], layout)
    bar = mbarrier.allocate_mbarrier()
    mbarrier.init(bar, count=1)
    tma.async_load(source, [0], bar, buffer, cache_policy=POLICY)


@pytest.mark.parametrize(
    ("kernel", "policy", "target", "problem"),
    [
        (reads, CachePolicy("wb"), "cuda:90", "load has the cache modifiers ca, cg, cs, cv, and not wb"),
        (writes, CachePolicy("cv"), "cuda:90", "store has the cache modifiers wb, cg, cs, wt, and not cv"),
        (reads, CachePolicy("ca", l1="evict_first"), "cuda:90", "hardware takes a cache modifier or l1"),
        (writes, CachePolicy(l2_prefetch_size=64), "cuda:90", "store fetches nothing"),
        (both, gl.CachePolicy("ca"), "cuda:90", "load takes cache_policy, or cache_modifier and eviction_policy"),
        (reads, "evict_last", "cuda:90", "cache_policy is a CachePolicy, not 'evict_last'"),
        (copies, gl.CachePolicy("ca"), "cuda:90", "async_load has no cache modifiers, and here is ca"),
        (copies, CachePolicy(l1="evict_last"), "cuda:90", "leave l1 and l2_prefetch_size out"),
        (copies, CachePolicy(l2=SOME, l2_prefetch_size=64), "cuda:90", "leave l1 and l2_prefetch_size out"),
        (reads, CachePolicy(l2=SOME), "cuda:75", "a policy for the L2 cache is not supported"),
    ],
)
def test_what_no_instruction_says_is_refused(kernel: Any, policy: Any, target: str, problem: str) -> None:
    x, out = aligned((128,), np.float32), aligned((128,), np.float32)
    with tilewright.simulate(target), pytest.raises(tilewright.CompilationError) as caught:
        kernel[(1,)](x, out, POLICY=policy)
    assert problem in caught.value.diagnostic.headline
    assert "cache_policy=POLICY" in str(caught.value)


def test_one_word_for_both_caches_is_dropped_where_there_is_no_policy() -> None:
    x, out = aligned((128,), np.float32), aligned((128,), np.float32)
    with tilewright.simulate("cuda:75"):
        text = reads[(1,)](x, out, POLICY=gl.CachePolicy(eviction_policy="evict_last")).asm["ptx"]
    assert "ld.global.L1::evict_last.b32" in text
    assert "createpolicy" not in text


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: gl.CachePolicy("xx"),
        lambda: gl.CachePolicy(eviction_policy="never"),
        lambda: FractionalEvictionPolicy("no_allocate", 0.5),
        lambda: FractionalEvictionPolicy("evict_last", 0),
        lambda: FractionalEvictionPolicy("evict_last", 1.5),
        lambda: FractionalEvictionPolicy("evict_last", float("nan")),
        lambda: FractionalEvictionPolicy("evict_last", 0.5, "evict_last"),
        CachePolicy,
        lambda: CachePolicy(l1="never"),
        lambda: CachePolicy(l2_prefetch_size=32),
        lambda: CachePolicy("xx"),
    ],
)
def test_words_that_are_none(wrong: Any) -> None:
    with pytest.raises(ValueError, match=r" (is|has) "):
        wrong()


def test_a_word_is_no_policy_for_the_second_cache() -> None:
    with pytest.raises(TypeError, match="l2 is a FractionalEvictionPolicy"):
        CachePolicy(l2="evict_last")


def test_all_modules_have_the_same_policies() -> None:
    assert blackwell.CachePolicy is CachePolicy
    assert CachePolicy(".cg").cache_modifier == gl.CachePolicy(".cg").cache_modifier == "cg"
    some = "FractionalEvictionPolicy_evict_last_0d5_evict_unchanged"
    assert CachePolicy("cg", l2=SOME).mangle() == f"NvidiaCachePolicy_cg_None_{some}_None"
    assert hash(CachePolicy(l2=SOME)) == hash(CachePolicy(l2=FractionalEvictionPolicy("evict_last", 0.5)))
