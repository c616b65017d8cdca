"""The messages about arguments that a launch, or what makes a kernel, cannot take, word for word."""

import numpy as np
import pytest

import tilewright as tw
import tilewright.language as tl


@tw.jit
def scale(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    tl.store(out_ptr + offsets, tl.load(x_ptr + offsets, mask=offsets < n), mask=offsets < n)


def array(dtype=np.float32, *, writable=True):
    made = np.ones(64, dtype)
    made.flags.writeable = writable
    return made


LAUNCHES = {
    "unhashable constexpr": lambda: scale[(1,)](array(), array(), 64, BLOCK={64}),
    "read-only target": lambda: scale[(1,)](array(), array(writable=False), 64, BLOCK=64),
    "text": lambda: scale[(1,)](array(), "out", 64, BLOCK=64),
    "complex numbers": lambda: scale[(1,)](array(np.complex128), array(), 64, BLOCK=64),
    "missing argument": lambda: scale[(1,)](array(), array(), BLOCK=64),
    "unknown keyword": lambda: scale[(1,)](array(), array(), 64, BLOCK=64, block=64),
    "number too large": lambda: scale[(1,)](array(), array(), 2**64, BLOCK=64),
    "grid of four axes": lambda: scale[(1, 1, 1, 2)](array(), array(), 64, BLOCK=64),
}


def test_numbers_beyond_64_bits_overflow():
    with pytest.raises(OverflowError, match="does not fit into 64 bits"):
        scale[(1,)](array(), array(), -(2**63) - 1, BLOCK=64)


def said_of(calls):
    said = []
    for name, call in calls.items():
        with pytest.raises((TypeError, ValueError, KeyError, OverflowError, tw.TilewrightError)) as caught:
            call()
        said.append(f"{name}\n    {type(caught.value).__name__}: {caught.value}\n")
    return "".join(said)


def test_words(golden):
    golden(said_of(LAUNCHES), "runtime/argument_errors.txt")


def tuned(configs=({"BLOCK": 64}, {"BLOCK": 128}), **options):
    made = [tw.Config(config) for config in configs]
    kernel = tw.autotune(configs=made, key=["n"], do_bench=lambda launch, quantiles: [launch() or 1.0] * 3, **options)
    return kernel(scale)[(1,)](array(), array(), 64)


SIGNATURE = {"x_ptr": "*fp32", "out_ptr": "*fp32", "n": "i32", "BLOCK": "constexpr"}
MADE = {
    "a number as configuration": lambda: tw.autotune(configs=[3], key=["n"])(scale),
    "a dict as configuration": lambda: tw.autotune(configs=[{"BLOCK": 64}], key=["n"])(scale),
    "one configuration": lambda: tw.autotune(configs=tw.Config({"BLOCK": 64}), key=["n"])(scale),
    "constants that are no dict": lambda: tw.Config(64),
    "autotune of a number": lambda: tw.autotune(configs=[], key=["n"])(3),
    "pruning to nothing": lambda: tuned(prune_configs_by={"early_config_prune": lambda *_, **__: None}),
    "no configuration of the best": lambda: tuned(prune_configs_by={"perf_model": lambda **_: 1, "top_k": 0}),
    "a number that is zeroed": lambda: tuned(reset_to_zero=["n"]),
    "a number that is restored": lambda: tuned(restore_value=["n"]),
    "heuristics that are numbers": lambda: tw.heuristics({"BLOCK": 64})(scale),
    "heuristics that are a list": lambda: tw.heuristics([64])(scale),
    "heuristics of a number": lambda: tw.heuristics({})(3),
    "a compiled number": lambda: tw.compile(3),
    "a compiled kernel": lambda: tw.compile(scale),
    "a target that is text": lambda: tw.compile(tw.ASTSource(scale, SIGNATURE, {"BLOCK": 64}), target="cpu"),
    "a source of a number": lambda: tw.ASTSource(3, SIGNATURE),
    "a signature that is text": lambda: tw.ASTSource(scale, "*fp32,*fp32,i32"),
}


def test_words_of_what_makes_kernels(golden):
    golden(said_of(MADE), "runtime/making_errors.txt")


def test_a_key_may_be_one_name_and_a_share_leaves_one_configuration():
    kernel = tw.autotune(configs=[tw.Config({"BLOCK": 64})], key="n")(scale)
    assert kernel.keys == ("n",)
    assert tuned(prune_configs_by={"perf_model": lambda **given: given["BLOCK"], "top_k": 0.1}) is not None
