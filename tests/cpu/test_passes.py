"""Every pass of the CPU lowering, text to text: what it makes of a small function.

Each pass gets what the passes in front of it make of the input.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from functools import partial

import numpy as np
import pytest
from changed_costs import change_costs
from pass_kernels import CALLS, ttir_of

from code_counts import code_of
from loop_passes import TARGETS, Arrays, Trial, check_all_passes, check_every_pass, rounded_difference
from tilewright.backends.cpu.pipeline import cpu_passes, loop_passes, lower_to_loops
from tilewright.backends.llvm.machine import host_target
from tilewright.dialects.numpy_types import numpy_dtype
from tilewright.dialects.tt_function import Func
from tilewright.dialects.tt_memory import pointee_type
from tilewright.interpreter.run_ir import run_ir
from tilewright.ir.core import Op
from tilewright.ir.parser import parse_module
from tilewright.ir.pass_manager import run_passes
from tilewright.ir.printer import print_op
from tilewright.ir.types import PointerType
from tilewright.ir.verifier import verify

Golden = Callable[[str, str], None]

TARGET = host_target("znver4")
REPORTS = """
  tt.func public @kernel(%x: !tt.ptr<f16>, %n: i32) {
    %i = tt.make_range {end = 8 : i32, start = 0 : i32} : tensor<8xi32>
    %base = tt.splat %x : !tt.ptr<f16> -> tensor<8x!tt.ptr<f16>>
    %places = tt.addptr %base, %i : tensor<8x!tt.ptr<f16>>, tensor<8xi32>
    %v = tt.load %places : tensor<8x!tt.ptr<f16>>
    tt.print " v: " {hex = false, isSigned = array<i32: 0, 1>} : %v, %n : tensor<8xf16>, i32
    tt.print " bits: " {hex = true, isSigned = array<i32: 0>} : %v : tensor<8xf16>
    %sum = "tt.reduce"(%i) <{axis = 0 : i32}> ({
    ^bb0(%a: i32, %b: i32):
      %c = arith.addi %a, %b : i32
      %most = arith.constant 100 : i32
      %fits = arith.cmpi slt, %c, %most : i32
      tt.assert %fits, "small" : i1
      tt.reduce.return %c : i32
    }) : (tensor<8xi32>) -> i32
    %limit = tt.splat %n : i32 -> tensor<8xi32>
    %below = arith.cmpi slt, %i, %limit : tensor<8xi32>
    tt.assert %below, "in range" : tensor<8xi1>
    tt.return
  }
"""

MOVING_POINTERS = """
  tt.func public @kernel(%x: !tt.ptr<f32>, %out: !tt.ptr<f32>, %iterations: i32, %step: i32) {
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %four = arith.constant dense<4> : tensor<64xi32>
    %zero = arith.constant dense<0.0> : tensor<64xf32>
    %i = tt.make_range {end = 64 : i32, start = 0 : i32} : tensor<64xi32>
    %base = tt.splat %x : !tt.ptr<f32> -> tensor<64x!tt.ptr<f32>>
    %start = tt.addptr %base, %i : tensor<64x!tt.ptr<f32>>, tensor<64xi32>
    %steps = tt.splat %step : i32 -> tensor<64xi32>
    %r:2 = scf.for %k = %c0 to %iterations step %c1 iter_args(%p = %start, %sum = %zero)
        -> (tensor<64x!tt.ptr<f32>>, tensor<64xf32>) : i32 {
      %v = tt.load %p : tensor<64x!tt.ptr<f32>>
      %next = arith.addf %sum, %v : tensor<64xf32>
      %q = tt.addptr %p, %steps : tensor<64x!tt.ptr<f32>>, tensor<64xi32>
      %q1 = tt.addptr %q, %four : tensor<64x!tt.ptr<f32>>, tensor<64xi32>
      scf.yield %q1, %next : tensor<64x!tt.ptr<f32>>, tensor<64xf32>
    }
    %to = tt.splat %out : !tt.ptr<f32> -> tensor<64x!tt.ptr<f32>>
    %places = tt.addptr %to, %i : tensor<64x!tt.ptr<f32>>, tensor<64xi32>
    tt.store %places, %r#1 : tensor<64x!tt.ptr<f32>>
    tt.return
  }
"""


def sums_of(lanes: int) -> str:
    """A loop that adds up the elements that are `lanes` apart."""
    return f"""
  tt.func public @kernel(%x: !tt.ptr<f32>, %out: !tt.ptr<f32>, %n: i32) {{
    %c0 = arith.constant 0 : i32
    %c{lanes} = arith.constant {lanes} : i32
    %zero = arith.constant dense<0.0> : tensor<{lanes}xf32>
    %i = tt.make_range {{end = {lanes} : i32, start = 0 : i32}} : tensor<{lanes}xi32>
    %base = tt.splat %x : !tt.ptr<f32> -> tensor<{lanes}x!tt.ptr<f32>>
    %r = scf.for %k = %c0 to %n step %c{lanes} iter_args(%sum = %zero) -> (tensor<{lanes}xf32>) : i32 {{
      %first = tt.splat %k : i32 -> tensor<{lanes}xi32>
      %at = arith.addi %first, %i : tensor<{lanes}xi32>
      %p = tt.addptr %base, %at : tensor<{lanes}x!tt.ptr<f32>>, tensor<{lanes}xi32>
      %v = tt.load %p : tensor<{lanes}x!tt.ptr<f32>>
      %next = arith.addf %sum, %v : tensor<{lanes}xf32>
      scf.yield %next : tensor<{lanes}xf32>
    }}
    %to = tt.splat %out : !tt.ptr<f32> -> tensor<{lanes}x!tt.ptr<f32>>
    %q = tt.addptr %to, %i : tensor<{lanes}x!tt.ptr<f32>>, tensor<{lanes}xi32>
    tt.store %q, %r : tensor<{lanes}x!tt.ptr<f32>>
    tt.return
  }}
"""


SUMS_OF_NEIGHBOURS, SUMS_OF_ROWS = sums_of(64), sums_of(4096)
"""A row that registers hold, and one that they do not."""

SUMS_DOWN = """
  tt.func public @kernel(%x: !tt.ptr<f32>, %out: !tt.ptr<f32>) {
    %i = tt.make_range {end = 16 : i32, start = 0 : i32} : tensor<16xi32>
    %j = tt.make_range {end = 4 : i32, start = 0 : i32} : tensor<4xi32>
    %far = arith.constant dense<100> : tensor<1x4xi32>
    %columns = tt.expand_dims %i {axis = 1 : i32} : tensor<16xi32> -> tensor<16x1xi32>
    %rows = tt.expand_dims %j {axis = 0 : i32} : tensor<4xi32> -> tensor<1x4xi32>
    %starts = arith.muli %rows, %far : tensor<1x4xi32>
    %a = tt.broadcast %columns : tensor<16x1xi32> -> tensor<16x4xi32>
    %b = tt.broadcast %starts : tensor<1x4xi32> -> tensor<16x4xi32>
    %o = arith.addi %a, %b : tensor<16x4xi32>
    %base = tt.splat %x : !tt.ptr<f32> -> tensor<16x4x!tt.ptr<f32>>
    %p = tt.addptr %base, %o : tensor<16x4x!tt.ptr<f32>>, tensor<16x4xi32>
    %v = tt.load %p : tensor<16x4x!tt.ptr<f32>>
    %s = "tt.reduce"(%v) <{axis = 1 : i32}> ({
    ^bb0(%l: f32, %r: f32):
      %t = arith.addf %l, %r : f32
      tt.reduce.return %t : f32
    }) : (tensor<16x4xf32>) -> tensor<16xf32>
    %to = tt.splat %out : !tt.ptr<f32> -> tensor<16x!tt.ptr<f32>>
    %q = tt.addptr %to, %i : tensor<16x!tt.ptr<f32>>, tensor<16xi32>
    tt.store %q, %s : tensor<16x!tt.ptr<f32>>
    tt.return
  }
"""
"""Sums of columns, each a row of the tile."""

SUMS_SIDE_BY_SIDE = """
  tt.func public @kernel(%x: !tt.ptr<f32>, %out: !tt.ptr<f32>, %n: i32) {
    %c0 = arith.constant 0 : i32
    %c8 = arith.constant 8 : i32
    %zero = arith.constant dense<0.0> : tensor<32x8xf32>
    %pitch = arith.constant dense<4096> : tensor<32x1xi32>
    %i = tt.make_range {end = 8 : i32, start = 0 : i32} : tensor<8xi32>
    %j = tt.make_range {end = 32 : i32, start = 0 : i32} : tensor<32xi32>
    %rows = tt.expand_dims %j {axis = 1 : i32} : tensor<32xi32> -> tensor<32x1xi32>
    %starts = arith.muli %rows, %pitch : tensor<32x1xi32>
    %tall = tt.broadcast %starts : tensor<32x1xi32> -> tensor<32x8xi32>
    %columns = tt.expand_dims %i {axis = 0 : i32} : tensor<8xi32> -> tensor<1x8xi32>
    %wide = tt.broadcast %columns : tensor<1x8xi32> -> tensor<32x8xi32>
    %places = arith.addi %tall, %wide : tensor<32x8xi32>
    %base = tt.splat %x : !tt.ptr<f32> -> tensor<32x8x!tt.ptr<f32>>
    %r = scf.for %k = %c0 to %n step %c8 iter_args(%sum = %zero) -> (tensor<32x8xf32>) : i32 {
      %first = tt.splat %k : i32 -> tensor<32x8xi32>
      %at = arith.addi %first, %places : tensor<32x8xi32>
      %p = tt.addptr %base, %at : tensor<32x8x!tt.ptr<f32>>, tensor<32x8xi32>
      %v = tt.load %p : tensor<32x8x!tt.ptr<f32>>
      %next = arith.addf %sum, %v : tensor<32x8xf32>
      scf.yield %next : tensor<32x8xf32>
    }
    %sums = "tt.reduce"(%r) <{axis = 1 : i32}> ({
    ^bb0(%a: f32, %b: f32):
      %ab = arith.addf %a, %b : f32
      tt.reduce.return %ab : f32
    }) : (tensor<32x8xf32>) -> tensor<32xf32>
    %to = tt.splat %out : !tt.ptr<f32> -> tensor<32x!tt.ptr<f32>>
    %q = tt.addptr %to, %j : tensor<32x!tt.ptr<f32>>, tensor<32xi32>
    tt.store %q, %sums : tensor<32x!tt.ptr<f32>>
    tt.return
  }
"""
"""Rows of one vector, each of which would wait for its own sum."""

TILES_IN_BRANCHES = """
  tt.func public @kernel(%x: !tt.ptr<f32>, %out: !tt.ptr<f32>, %flag: i1) {
    %i = tt.make_range {end = 64 : i32, start = 0 : i32} : tensor<64xi32>
    %from = tt.splat %x : !tt.ptr<f32> -> tensor<64x!tt.ptr<f32>>
    %p = tt.addptr %from, %i : tensor<64x!tt.ptr<f32>>, tensor<64xi32>
    %v = tt.load %p : tensor<64x!tt.ptr<f32>>
    %r = scf.if %flag -> (tensor<64xf32>) {
      %a = arith.addf %v, %v : tensor<64xf32>
      scf.yield %a : tensor<64xf32>
    } else {
      scf.yield %v : tensor<64xf32>
    }
    %to = tt.splat %out : !tt.ptr<f32> -> tensor<64x!tt.ptr<f32>>
    %q = tt.addptr %to, %i : tensor<64x!tt.ptr<f32>>, tensor<64xi32>
    tt.store %q, %r : tensor<64x!tt.ptr<f32>>
    tt.return
  }
"""

ROWS = """
  tt.func public @kernel(%x: !tt.ptr<f32>, %out: !tt.ptr<f32>) {
    %row = tt.make_range {end = 4 : i32, start = 0 : i32} : tensor<4xi32>
    %column = tt.make_range {end = 32 : i32, start = 0 : i32} : tensor<32xi32>
    %width = arith.constant dense<32> : tensor<4x1xi32>
    %r = tt.expand_dims %row {axis = 1 : i32} : tensor<4xi32> -> tensor<4x1xi32>
    %rw = arith.muli %r, %width : tensor<4x1xi32>
    %rb = tt.broadcast %rw : tensor<4x1xi32> -> tensor<4x32xi32>
    %c = tt.expand_dims %column {axis = 0 : i32} : tensor<32xi32> -> tensor<1x32xi32>
    %cb = tt.broadcast %c : tensor<1x32xi32> -> tensor<4x32xi32>
    %offset = arith.addi %rb, %cb : tensor<4x32xi32>
    %from = tt.splat %x : !tt.ptr<f32> -> tensor<4x32x!tt.ptr<f32>>
    %p = tt.addptr %from, %offset : tensor<4x32x!tt.ptr<f32>>, tensor<4x32xi32>
    %v = tt.load %p : tensor<4x32x!tt.ptr<f32>>
    %e = math.exp %v : tensor<4x32xf32>
    %s = "tt.reduce"(%e) <{axis = 1 : i32}> ({
    ^bb0(%a: f32, %b: f32):
      %ab = arith.addf %a, %b : f32
      tt.reduce.return %ab : f32
    }) : (tensor<4x32xf32>) -> tensor<4xf32>
    %s1 = tt.expand_dims %s {axis = 1 : i32} : tensor<4xf32> -> tensor<4x1xf32>
    %sb = tt.broadcast %s1 : tensor<4x1xf32> -> tensor<4x32xf32>
    %d = arith.divf %e, %sb : tensor<4x32xf32>
    %to = tt.splat %out : !tt.ptr<f32> -> tensor<4x32x!tt.ptr<f32>>
    %q = tt.addptr %to, %offset : tensor<4x32x!tt.ptr<f32>>, tensor<4x32xi32>
    tt.store %q, %d : tensor<4x32x!tt.ptr<f32>>
    tt.return
  }
"""

TILES_IN_A_ROW = """
  tt.func public @kernel(%x: !tt.ptr<f32>, %n: i32) {
    %width = arith.constant 16 : i32
    %tile = tt.get_program_id x : i32
    %start = arith.muli %tile, %width : i32
    %i = tt.make_range {end = 4 : i32, start = 0 : i32} : tensor<4xi32>
    %j = tt.make_range {end = 16 : i32, start = 0 : i32} : tensor<16xi32>
    %row = tt.expand_dims %i {axis = 1 : i32} : tensor<4xi32> -> tensor<4x1xi32>
    %lane = tt.expand_dims %j {axis = 0 : i32} : tensor<16xi32> -> tensor<1x16xi32>
    %first = tt.splat %start : i32 -> tensor<1x16xi32>
    %column = arith.addi %first, %lane : tensor<1x16xi32>
    %row_step = tt.splat %n : i32 -> tensor<4x1xi32>
    %down = arith.muli %row, %row_step : tensor<4x1xi32>
    %far = tt.broadcast %down : tensor<4x1xi32> -> tensor<4x16xi32>
    %near = tt.broadcast %column : tensor<1x16xi32> -> tensor<4x16xi32>
    %at = arith.addi %far, %near : tensor<4x16xi32>
    %end = tt.splat %n : i32 -> tensor<1x16xi32>
    %below = arith.cmpi slt, %column, %end : tensor<1x16xi32>
    %on = tt.broadcast %below : tensor<1x16xi1> -> tensor<4x16xi1>
    %base = tt.splat %x : !tt.ptr<f32> -> tensor<4x16x!tt.ptr<f32>>
    %p = tt.addptr %base, %at : tensor<4x16x!tt.ptr<f32>>, tensor<4x16xi32>
    %v = tt.load %p, %on : tensor<4x16x!tt.ptr<f32>>
    %w = arith.addf %v, %v : tensor<4x16xf32>
    tt.store %p, %w, %on : tensor<4x16x!tt.ptr<f32>>
    tt.return
  }
"""

TILES_OF_FUNCTIONS = """
  tt.func public @kernel(%x: !tt.ptr<i32>) {
    %i = tt.make_range {end = 8 : i32, start = 0 : i32} : tensor<8xi32>
    %twice = tt.call @twice(%i) : (tensor<8xi32>) -> tensor<8xi32>
    %base = tt.splat %x : !tt.ptr<i32> -> tensor<8x!tt.ptr<i32>>
    %places = tt.addptr %base, %i : tensor<8x!tt.ptr<i32>>, tensor<8xi32>
    tt.store %places, %twice : tensor<8x!tt.ptr<i32>>
    tt.return
  }
  tt.func private @twice(%t: tensor<8xi32>) -> tensor<8xi32> attributes {noinline = true} {
    %r = arith.addi %t, %t : tensor<8xi32>
    tt.return %r : tensor<8xi32>
  }
"""
FUNCTIONS_OF_ELEMENTS = """
  tt.func public @kernel(%x: !tt.ptr<i32>, %out: !tt.ptr<i32>) {
    %i = tt.make_range {end = 8 : i32, start = 0 : i32} : tensor<8xi32>
    %mapped = "tt.map_elementwise"(%i) <{pack = 1 : i32}> ({
    ^bb0(%e: i32):
      %square = arith.muli %e, %e : i32
      tt.map_elementwise.return %square : i32
    }) : (tensor<8xi32>) -> tensor<8xi32>
    %bins = tt.histogram %mapped : tensor<8xi32> -> tensor<4xi32>
    %highest = "tt.reduce"(%bins) <{axis = 0 : i32}> ({
    ^bb0(%a: i32, %b: i32):
      %larger = arith.cmpi sgt, %a, %b : i32
      %r = scf.if %larger -> (i32) {
        scf.yield %a : i32
      } else {
        scf.yield %b : i32
      }
      tt.reduce.return %r : i32
    }) : (tensor<4xi32>) -> i32
    %one = tt.splat %x : !tt.ptr<i32> -> tensor<1x!tt.ptr<i32>>
    %first = tt.load %one : tensor<1x!tt.ptr<i32>>
    %number = tt.unsplat %first : tensor<1xi32>
    %sum = arith.addi %highest, %number : i32
    tt.store %out, %sum : !tt.ptr<i32>
    tt.return
  }
"""

EIGHT_BITS = """
  tt.func public @kernel(%x: !tt.ptr<f8E5M2>, %out: !tt.ptr<bf16>) {
    %i = tt.make_range {end = 32 : i32, start = 0 : i32} : tensor<32xi32>
    %base = tt.splat %x : !tt.ptr<f8E5M2> -> tensor<32x!tt.ptr<f8E5M2>>
    %p = tt.addptr %base, %i : tensor<32x!tt.ptr<f8E5M2>>, tensor<32xi32>
    %code = tt.load %p : tensor<32x!tt.ptr<f8E5M2>>
    %number = tt.fp_to_fp %code : tensor<32xf8E5M2> -> tensor<32xf32>
    %y = arith.truncf %number : tensor<32xf32> to tensor<32xbf16>
    %there = tt.splat %out : !tt.ptr<bf16> -> tensor<32x!tt.ptr<bf16>>
    %q = tt.addptr %there, %i : tensor<32x!tt.ptr<bf16>>, tensor<32xi32>
    tt.store %q, %y : tensor<32x!tt.ptr<bf16>>
    tt.return
  }
"""

TILES_OF_A_MATRIX = """
  tt.func public @kernel(%x: !tt.ptr<f32>, %stride: i32) {
    %row = tt.get_program_id x : i32
    %y = tt.get_program_id y : i32
    %c32 = arith.constant 32 : i32
    %column = arith.muli %y, %c32 : i32
    %start = arith.muli %row, %stride : i32
    %first = arith.addi %start, %column : i32
    %i = tt.make_range {end = 32 : i32, start = 0 : i32} : tensor<32xi32>
    %s = tt.splat %first : i32 -> tensor<32xi32>
    %offset = arith.addi %s, %i : tensor<32xi32>
    %base = tt.splat %x : !tt.ptr<f32> -> tensor<32x!tt.ptr<f32>>
    %p = tt.addptr %base, %offset : tensor<32x!tt.ptr<f32>>, tensor<32xi32>
    %v = tt.load %p : tensor<32x!tt.ptr<f32>>
    tt.store %p, %v : tensor<32x!tt.ptr<f32>>
    tt.return
  }
"""

TILES_BY_QUOTIENTS = """
  tt.func public @kernel(%x: !tt.ptr<f32>, %y: !tt.ptr<f32>, %out: !tt.ptr<f32>, %n: i32) {
    %pid = tt.get_program_id x : i32
    %row = arith.divsi %pid, %n : i32
    %column = arith.remsi %pid, %n : i32
    %c256 = arith.constant 256 : i32
    %zero = arith.constant dense<0.000000e+00> : tensor<16x16xf32>
    %i = tt.make_range {end = 16 : i32, start = 0 : i32} : tensor<16xi32>
    %k = tt.expand_dims %i {axis = 1 : i32} : tensor<16xi32> -> tensor<16x1xi32>
    %j = tt.expand_dims %i {axis = 0 : i32} : tensor<16xi32> -> tensor<1x16xi32>
    %c16 = arith.constant dense<16> : tensor<16x1xi32>
    %lines = arith.muli %k, %c16 : tensor<16x1xi32>
    %down = tt.broadcast %lines : tensor<16x1xi32> -> tensor<16x16xi32>
    %along = tt.broadcast %j : tensor<1x16xi32> -> tensor<16x16xi32>
    %place = arith.addi %down, %along : tensor<16x16xi32>
    %x0 = arith.muli %row, %c256 : i32
    %x1 = tt.addptr %x, %x0 : !tt.ptr<f32>, i32
    %x2 = tt.splat %x1 : !tt.ptr<f32> -> tensor<16x16x!tt.ptr<f32>>
    %x3 = tt.addptr %x2, %place : tensor<16x16x!tt.ptr<f32>>, tensor<16x16xi32>
    %a = tt.load %x3 : tensor<16x16x!tt.ptr<f32>>
    %y0 = arith.muli %column, %c256 : i32
    %y1 = tt.addptr %y, %y0 : !tt.ptr<f32>, i32
    %y2 = tt.splat %y1 : !tt.ptr<f32> -> tensor<16x16x!tt.ptr<f32>>
    %y3 = tt.addptr %y2, %place : tensor<16x16x!tt.ptr<f32>>, tensor<16x16xi32>
    %b = tt.load %y3 : tensor<16x16x!tt.ptr<f32>>
    %c = tt.dot %a, %b, %zero : tensor<16x16xf32> * tensor<16x16xf32> -> tensor<16x16xf32>
    %o0 = arith.muli %row, %n : i32
    %o1 = arith.addi %o0, %column : i32
    %o2 = arith.muli %o1, %c256 : i32
    %o3 = tt.addptr %out, %o2 : !tt.ptr<f32>, i32
    %o4 = tt.splat %o3 : !tt.ptr<f32> -> tensor<16x16x!tt.ptr<f32>>
    %o5 = tt.addptr %o4, %place : tensor<16x16x!tt.ptr<f32>>, tensor<16x16xi32>
    tt.store %o5, %c : tensor<16x16x!tt.ptr<f32>>
    tt.return
  }
"""

TILES_BY_TURNS = """
  tt.func public @kernel(%x: !tt.ptr<f32>, %out: !tt.ptr<f32>, %tiles: i32, %blocks: i32) {
    %pid = tt.get_program_id x : i32
    %programs = tt.get_num_programs x : i32
    %c2 = arith.constant 2 : i32
    %c16 = arith.constant 16 : i32
    scf.for %tile = %pid to %tiles step %programs : i32 {
      %down = arith.divsi %tile, %blocks : i32
      %top = arith.muli %down, %c2 : i32
      %across = arith.remsi %tile, %blocks : i32
      %first = arith.muli %across, %c16 : i32
      %row = tt.make_range {end = 2 : i32, start = 0 : i32} : tensor<2xi32>
      %above = tt.splat %top : i32 -> tensor<2xi32>
      %rows = arith.addi %above, %row : tensor<2xi32>
      %r = tt.expand_dims %rows {axis = 1 : i32} : tensor<2xi32> -> tensor<2x1xi32>
      %width = arith.constant dense<64> : tensor<2x1xi32>
      %start = arith.muli %r, %width : tensor<2x1xi32>
      %far = tt.broadcast %start : tensor<2x1xi32> -> tensor<2x16xi32>
      %lane = tt.make_range {end = 16 : i32, start = 0 : i32} : tensor<16xi32>
      %left = tt.splat %first : i32 -> tensor<16xi32>
      %column = arith.addi %left, %lane : tensor<16xi32>
      %c = tt.expand_dims %column {axis = 0 : i32} : tensor<16xi32> -> tensor<1x16xi32>
      %near = tt.broadcast %c : tensor<1x16xi32> -> tensor<2x16xi32>
      %at = arith.addi %far, %near : tensor<2x16xi32>
      %base = tt.splat %x : !tt.ptr<f32> -> tensor<2x16x!tt.ptr<f32>>
      %p = tt.addptr %base, %at : tensor<2x16x!tt.ptr<f32>>, tensor<2x16xi32>
      %v = tt.load %p : tensor<2x16x!tt.ptr<f32>>
      %w = arith.addf %v, %v : tensor<2x16xf32>
      %to = tt.splat %out : !tt.ptr<f32> -> tensor<2x16x!tt.ptr<f32>>
      %q = tt.addptr %to, %at : tensor<2x16x!tt.ptr<f32>>, tensor<2x16xi32>
      tt.store %q, %w : tensor<2x16x!tt.ptr<f32>>
    }
    tt.return
  }
"""

STEP_OF_A_SORT = """
  tt.func public @kernel(%x: !tt.ptr<f32>, %n: i32) {
    %inf = arith.constant dense<0x7F800000> : tensor<32xf32>
    %one = arith.constant dense<1> : tensor<32xi32>
    %sixteen = arith.constant dense<16> : tensor<32xi32>
    %zero = arith.constant dense<0> : tensor<32xi32>
    %i = tt.make_range {end = 32 : i32, start = 0 : i32} : tensor<32xi32>
    %limit = tt.splat %n : i32 -> tensor<32xi32>
    %mask = arith.cmpi slt, %i, %limit : tensor<32xi32>
    %base = tt.splat %x : !tt.ptr<f32> -> tensor<32x!tt.ptr<f32>>
    %p = tt.addptr %base, %i : tensor<32x!tt.ptr<f32>>, tensor<32xi32>
    %v = tt.load %p, %mask, %inf : tensor<32x!tt.ptr<f32>>
    %far = arith.xori %i, %sixteen : tensor<32xi32>
    %partner = tt.gather %v[%far] {axis = 0 : i32} : (tensor<32xf32>, tensor<32xi32>) -> tensor<32xf32>
    %bit = arith.andi %i, %sixteen : tensor<32xi32>
    %upper = arith.cmpi ne, %bit, %zero : tensor<32xi32>
    %is_larger = arith.cmpf ogt, %partner, %v : tensor<32xf32>
    %larger = arith.select %is_larger, %partner, %v : tensor<32xi1>, tensor<32xf32>
    %is_smaller = arith.cmpf olt, %partner, %v : tensor<32xf32>
    %smaller = arith.select %is_smaller, %partner, %v : tensor<32xi1>, tensor<32xf32>
    %w = arith.select %upper, %larger, %smaller : tensor<32xi1>, tensor<32xf32>
    %near = arith.xori %i, %one : tensor<32xi32>
    %u = tt.gather %w[%near] {axis = 0 : i32} : (tensor<32xf32>, tensor<32xi32>) -> tensor<32xf32>
    tt.store %p, %u, %mask : tensor<32x!tt.ptr<f32>>
    tt.return
  }
"""

CENTRED = """
  tt.func public @kernel(%x: !tt.ptr<f32>, %out: !tt.ptr<f32>) {
    %row = tt.get_program_id x : i32
    %width = arith.constant 256 : i32
    %start = arith.muli %row, %width : i32
    %from = tt.addptr %x, %start : !tt.ptr<f32>, i32
    %i = tt.make_range {end = 256 : i32, start = 0 : i32} : tensor<256xi32>
    %base = tt.splat %from : !tt.ptr<f32> -> tensor<256x!tt.ptr<f32>>
    %p = tt.addptr %base, %i : tensor<256x!tt.ptr<f32>>, tensor<256xi32>
    %v = tt.load %p : tensor<256x!tt.ptr<f32>>
    %largest = "tt.reduce"(%v) <{axis = 0 : i32}> ({
    ^bb0(%a: f32, %b: f32):
      %ab = arith.maximumf %a, %b : f32
      tt.reduce.return %ab : f32
    }) : (tensor<256xf32>) -> f32
    %all = tt.splat %largest : f32 -> tensor<256xf32>
    %below = arith.subf %v, %all : tensor<256xf32>
    %to = tt.addptr %out, %start : !tt.ptr<f32>, i32
    %to_base = tt.splat %to : !tt.ptr<f32> -> tensor<256x!tt.ptr<f32>>
    %q = tt.addptr %to_base, %i : tensor<256x!tt.ptr<f32>>, tensor<256xi32>
    tt.store %q, %below : tensor<256x!tt.ptr<f32>>
    tt.return
  }
"""

SPACED = """
  tt.func public @kernel(%x: !tt.ptr<f32>, %out: !tt.ptr<f32>, %stride: i32) {
    %i = tt.make_range {end = 32 : i32, start = 0 : i32} : tensor<32xi32>
    %s = tt.splat %stride : i32 -> tensor<32xi32>
    %offset = arith.muli %i, %s : tensor<32xi32>
    %from = tt.splat %x : !tt.ptr<f32> -> tensor<32x!tt.ptr<f32>>
    %p = tt.addptr %from, %offset : tensor<32x!tt.ptr<f32>>, tensor<32xi32>
    %v = tt.load %p : tensor<32x!tt.ptr<f32>>
    %sum = "tt.reduce"(%v) <{axis = 0 : i32}> ({
    ^bb0(%a: f32, %b: f32):
      %ab = arith.addf %a, %b : f32
      tt.reduce.return %ab : f32
    }) : (tensor<32xf32>) -> f32
    tt.store %out, %sum : !tt.ptr<f32>
    tt.return
  }
"""

PRODUCT = """
  tt.func public @kernel(%a: !tt.ptr<f32>, %b: !tt.ptr<f32>, %c: !tt.ptr<f32>, %rows: i64) {
    %c1 = arith.constant 1 : i64
    %c8 = arith.constant 8 : i64
    %c16 = arith.constant 16 : i64
    %c64 = arith.constant 64 : i64
    %true = arith.constant true
    %seen = arith.minsi %rows, %c8 : i64
    %soon = tt.addptr %a, %c64 : !tt.ptr<f32>, i64
    "cpu.matmul"(%a, %b, %c, %c64, %c1, %c16, %c1, %c16, %seen, %c16, %true, %soon, %c64) <{
      shape = array<i64: 8, 16, 16>, soon_extents = array<i64: 0, 8, 64>}> : (!tt.ptr<f32>, !tt.ptr<f32>, !tt.ptr<f32>,
      i64, i64, i64, i64, i64, i64, i64, i1, !tt.ptr<f32>, i64) -> ()
    tt.return
  }
"""

PRODUCTS_IN_TURN = """
  tt.func public @kernel(%x: !tt.ptr<f32>, %out: !tt.ptr<f32>, %iterations: i32) {
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %zero = arith.constant dense<0.0> : tensor<16x16xf32>
    %i = tt.make_range {end = 16 : i32, start = 0 : i32} : tensor<16xi32>
    %r = tt.expand_dims %i {axis = 1 : i32} : tensor<16xi32> -> tensor<16x1xi32>
    %c = tt.expand_dims %i {axis = 0 : i32} : tensor<16xi32> -> tensor<1x16xi32>
    %pitch = arith.constant dense<16> : tensor<16x1xi32>
    %below = arith.muli %r, %pitch : tensor<16x1xi32>
    %rows = tt.broadcast %below : tensor<16x1xi32> -> tensor<16x16xi32>
    %columns = tt.broadcast %c : tensor<1x16xi32> -> tensor<16x16xi32>
    %place = arith.addi %rows, %columns : tensor<16x16xi32>
    %from = tt.splat %x : !tt.ptr<f32> -> tensor<16x16x!tt.ptr<f32>>
    %p = tt.addptr %from, %place : tensor<16x16x!tt.ptr<f32>>, tensor<16x16xi32>
    %sums = scf.for %k = %c0 to %iterations step %c1 iter_args(%sum = %zero) -> (tensor<16x16xf32>) : i32 {
      %a = tt.load %p : tensor<16x16x!tt.ptr<f32>>
      %next = tt.dot %a, %a, %sum, inputPrecision = ieee : tensor<16x16xf32> * tensor<16x16xf32> -> tensor<16x16xf32>
      scf.yield %next : tensor<16x16xf32>
    }
    %to = tt.splat %out : !tt.ptr<f32> -> tensor<16x16x!tt.ptr<f32>>
    %q = tt.addptr %to, %place : tensor<16x16x!tt.ptr<f32>>, tensor<16x16xi32>
    tt.store %q, %sums : tensor<16x16x!tt.ptr<f32>>
    tt.return
  }
"""

ROWS_BY_ROWS_IN_TURN = PRODUCTS_IN_TURN.replace(
    "%next = tt.dot %a, %a",
    """%rows_of_b = tt.load %p : tensor<16x16x!tt.ptr<f32>>
      %b = tt.trans %rows_of_b {order = array<i32: 1, 0>} : tensor<16x16xf32> -> tensor<16x16xf32>
      %next = tt.dot %a, %b""",
).replace("16", "32")

SHORT_LOOP = """
  tt.func public @kernel(%x: !tt.ptr<i8>, %out: !tt.ptr<i32>, %iterations: i32) {
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %zero = arith.constant dense<0> : tensor<64x128xi32>
    %i = tt.make_range {end = 64 : i32, start = 0 : i32} : tensor<64xi32>
    %j = tt.make_range {end = 128 : i32, start = 0 : i32} : tensor<128xi32>
    %r = tt.expand_dims %i {axis = 1 : i32} : tensor<64xi32> -> tensor<64x1xi32>
    %k = tt.expand_dims %i {axis = 0 : i32} : tensor<64xi32> -> tensor<1x64xi32>
    %c = tt.expand_dims %j {axis = 0 : i32} : tensor<128xi32> -> tensor<1x128xi32>
    %pitch = arith.constant dense<128> : tensor<64x1xi32>
    %below = arith.muli %r, %pitch : tensor<64x1xi32>
    %ra = tt.broadcast %below : tensor<64x1xi32> -> tensor<64x64xi32>
    %ka = tt.broadcast %k : tensor<1x64xi32> -> tensor<64x64xi32>
    %place_a = arith.addi %ra, %ka : tensor<64x64xi32>
    %rb = tt.broadcast %below : tensor<64x1xi32> -> tensor<64x128xi32>
    %cb = tt.broadcast %c : tensor<1x128xi32> -> tensor<64x128xi32>
    %place = arith.addi %rb, %cb : tensor<64x128xi32>
    %from_a = tt.splat %x : !tt.ptr<i8> -> tensor<64x64x!tt.ptr<i8>>
    %p = tt.addptr %from_a, %place_a : tensor<64x64x!tt.ptr<i8>>, tensor<64x64xi32>
    %from_b = tt.splat %x : !tt.ptr<i8> -> tensor<64x128x!tt.ptr<i8>>
    %q = tt.addptr %from_b, %place : tensor<64x128x!tt.ptr<i8>>, tensor<64x128xi32>
    %sums = scf.for %iteration = %c0 to %iterations step %c1 iter_args(%sum = %zero) -> (tensor<64x128xi32>) : i32 {
      %a = tt.load %p : tensor<64x64x!tt.ptr<i8>>
      %b = tt.load %q : tensor<64x128x!tt.ptr<i8>>
      %next = tt.dot %a, %b, %sum : tensor<64x64xi8> * tensor<64x128xi8> -> tensor<64x128xi32>
      scf.yield %next : tensor<64x128xi32>
    }
    %to = tt.splat %out : !tt.ptr<i32> -> tensor<64x128x!tt.ptr<i32>>
    %s = tt.addptr %to, %place : tensor<64x128x!tt.ptr<i32>>, tensor<64x128xi32>
    tt.store %s, %sums : tensor<64x128x!tt.ptr<i32>>
    tt.return
  }
"""

PART_OF_A_PRODUCT = """
  tt.func public @kernel(%x: !tt.ptr<f32>, %y: !tt.ptr<f32>, %out: !tt.ptr<f32>, %stride: i32, %rows: i32,
                         %depth: i32) {
    %i = tt.make_range {end = 16 : i32, start = 0 : i32} : tensor<16xi32>
    %r = tt.expand_dims %i {axis = 1 : i32} : tensor<16xi32> -> tensor<16x1xi32>
    %c = tt.expand_dims %i {axis = 0 : i32} : tensor<16xi32> -> tensor<1x16xi32>
    %k = tt.splat %depth : i32 -> tensor<1x16xi32>
    %inside = arith.cmpi slt, %c, %k : tensor<1x16xi32>
    %left = tt.broadcast %inside : tensor<1x16xi1> -> tensor<16x16xi1>
    %k2 = tt.splat %depth : i32 -> tensor<16x1xi32>
    %inside2 = arith.cmpi slt, %r, %k2 : tensor<16x1xi32>
    %right = tt.broadcast %inside2 : tensor<16x1xi1> -> tensor<16x16xi1>
    %m = tt.splat %rows : i32 -> tensor<16x1xi32>
    %below = arith.cmpi slt, %r, %m : tensor<16x1xi32>
    %shown = tt.broadcast %below : tensor<16x1xi1> -> tensor<16x16xi1>
    %apart = tt.splat %stride : i32 -> tensor<16x1xi32>
    %down = arith.muli %r, %apart : tensor<16x1xi32>
    %rb = tt.broadcast %down : tensor<16x1xi32> -> tensor<16x16xi32>
    %cb = tt.broadcast %c : tensor<1x16xi32> -> tensor<16x16xi32>
    %place = arith.addi %rb, %cb : tensor<16x16xi32>
    %zero = arith.constant dense<0.0> : tensor<16x16xf32>
    %from = tt.splat %x : !tt.ptr<f32> -> tensor<16x16x!tt.ptr<f32>>
    %p = tt.addptr %from, %place : tensor<16x16x!tt.ptr<f32>>, tensor<16x16xi32>
    %a = tt.load %p, %left, %zero : tensor<16x16x!tt.ptr<f32>>
    %other = tt.splat %y : !tt.ptr<f32> -> tensor<16x16x!tt.ptr<f32>>
    %q = tt.addptr %other, %place : tensor<16x16x!tt.ptr<f32>>, tensor<16x16xi32>
    %b = tt.load %q, %right, %zero : tensor<16x16x!tt.ptr<f32>>
    %d = tt.dot %a, %b, %zero, inputPrecision = ieee : tensor<16x16xf32> * tensor<16x16xf32> -> tensor<16x16xf32>
    %to = tt.splat %out : !tt.ptr<f32> -> tensor<16x16x!tt.ptr<f32>>
    %at = tt.addptr %to, %place : tensor<16x16x!tt.ptr<f32>>, tensor<16x16xi32>
    tt.store %at, %d, %shown : tensor<16x16x!tt.ptr<f32>>
    tt.return
  }
"""

TRANSPOSED = """
  tt.func public @kernel(%x: !tt.ptr<f32>, %out: !tt.ptr<f32>, %n: i32) {
    %row = tt.make_range {end = 16 : i32, start = 0 : i32} : tensor<16xi32>
    %width = arith.constant dense<16> : tensor<16x1xi32>
    %height = arith.constant dense<16> : tensor<1x16xi32>
    %r = tt.expand_dims %row {axis = 1 : i32} : tensor<16xi32> -> tensor<16x1xi32>
    %c = tt.expand_dims %row {axis = 0 : i32} : tensor<16xi32> -> tensor<1x16xi32>
    %limit = tt.splat %n : i32 -> tensor<16x1xi32>
    %below = arith.cmpi slt, %r, %limit : tensor<16x1xi32>
    %mask = tt.broadcast %below : tensor<16x1xi1> -> tensor<16x16xi1>
    %rows = arith.muli %r, %width : tensor<16x1xi32>
    %columns = arith.muli %c, %height : tensor<1x16xi32>
    %rb = tt.broadcast %rows : tensor<16x1xi32> -> tensor<16x16xi32>
    %cb = tt.broadcast %c : tensor<1x16xi32> -> tensor<16x16xi32>
    %along = arith.addi %rb, %cb : tensor<16x16xi32>
    %rs = tt.broadcast %r : tensor<16x1xi32> -> tensor<16x16xi32>
    %cs = tt.broadcast %columns : tensor<1x16xi32> -> tensor<16x16xi32>
    %across = arith.addi %rs, %cs : tensor<16x16xi32>
    %from = tt.splat %x : !tt.ptr<f32> -> tensor<16x16x!tt.ptr<f32>>
    %p = tt.addptr %from, %along : tensor<16x16x!tt.ptr<f32>>, tensor<16x16xi32>
    %v = tt.load %p, %mask : tensor<16x16x!tt.ptr<f32>>
    %to = tt.splat %out : !tt.ptr<f32> -> tensor<16x16x!tt.ptr<f32>>
    %q = tt.addptr %to, %across : tensor<16x16x!tt.ptr<f32>>, tensor<16x16xi32>
    tt.store %q, %v, %mask : tensor<16x16x!tt.ptr<f32>>
    tt.return
  }
"""

CHOSEN_ROWS = """
  tt.func public @kernel(%x: !tt.ptr<f32>, %index: !tt.ptr<i32>, %out: !tt.ptr<f32>, %stride: i32) {
    %c4_i32 = arith.constant 4 : i32
    %pid = tt.get_program_id x : i32
    %first = arith.muli %pid, %c4_i32 : i32
    %firsts = tt.splat %first : i32 -> tensor<4xi32>
    %range = tt.make_range {end = 4 : i32, start = 0 : i32} : tensor<4xi32>
    %row = arith.addi %firsts, %range : tensor<4xi32>
    %indices = tt.splat %index : !tt.ptr<i32> -> tensor<4x!tt.ptr<i32>>
    %at = tt.addptr %indices, %row : tensor<4x!tt.ptr<i32>>, tensor<4xi32>
    %chosen = tt.load %at : tensor<4x!tt.ptr<i32>>
    %strides = tt.splat %stride : i32 -> tensor<4xi32>
    %there = arith.muli %chosen, %strides : tensor<4xi32>
    %from = tt.expand_dims %there {axis = 1 : i32} : tensor<4xi32> -> tensor<4x1xi32>
    %here = arith.muli %row, %strides : tensor<4xi32>
    %to = tt.expand_dims %here {axis = 1 : i32} : tensor<4xi32> -> tensor<4x1xi32>
    %columns = tt.make_range {end = 16 : i32, start = 0 : i32} : tensor<16xi32>
    %one = tt.expand_dims %columns {axis = 0 : i32} : tensor<16xi32> -> tensor<1x16xi32>
    %column = tt.broadcast %one : tensor<1x16xi32> -> tensor<4x16xi32>
    %f = tt.broadcast %from : tensor<4x1xi32> -> tensor<4x16xi32>
    %t = tt.broadcast %to : tensor<4x1xi32> -> tensor<4x16xi32>
    %i = arith.addi %f, %column : tensor<4x16xi32>
    %o = arith.addi %t, %column : tensor<4x16xi32>
    %xs = tt.splat %x : !tt.ptr<f32> -> tensor<4x16x!tt.ptr<f32>>
    %p = tt.addptr %xs, %i : tensor<4x16x!tt.ptr<f32>>, tensor<4x16xi32>
    %v = tt.load %p : tensor<4x16x!tt.ptr<f32>>
    %outs = tt.splat %out : !tt.ptr<f32> -> tensor<4x16x!tt.ptr<f32>>
    %q = tt.addptr %outs, %o : tensor<4x16x!tt.ptr<f32>>, tensor<4x16xi32>
    tt.store %q, %v : tensor<4x16x!tt.ptr<f32>>
    tt.return
  }
"""

SUMS_OF_NARROW_ROWS = """
  tt.func public @kernel(%x: !tt.ptr<f32>, %out: !tt.ptr<f32>, %few: i32, %width: i32) {
    %c0_i32 = arith.constant 0 : i32
    %c4_i32 = arith.constant 4 : i32
    %zero = arith.constant dense<0.0> : tensor<4x32xf32>
    %rows = tt.make_range {end = 4 : i32, start = 0 : i32} : tensor<4xi32>
    %row = tt.expand_dims %rows {axis = 1 : i32} : tensor<4xi32> -> tensor<4x1xi32>
    %range = tt.make_range {end = 32 : i32, start = 0 : i32} : tensor<32xi32>
    %column = tt.expand_dims %range {axis = 0 : i32} : tensor<32xi32> -> tensor<1x32xi32>
    %columns = tt.broadcast %column : tensor<1x32xi32> -> tensor<4x32xi32>
    %widths = tt.splat %width : i32 -> tensor<1x32xi32>
    %shown = arith.cmpi slt, %column, %widths : tensor<1x32xi32>
    %shown_all = tt.broadcast %shown : tensor<1x32xi1> -> tensor<4x32xi1>
    %ends = tt.splat %few : i32 -> tensor<4x1xi32>
    %stride = tt.splat %width : i32 -> tensor<4x1xi32>
    %sums = scf.for %k = %c0_i32 to %few step %c4_i32 iter_args(%total = %zero) -> (tensor<4x32xf32>) : i32 {
      %first = tt.splat %k : i32 -> tensor<4x1xi32>
      %at = arith.addi %first, %row : tensor<4x1xi32>
      %counts = arith.cmpi slt, %at, %ends : tensor<4x1xi32>
      %counts_all = tt.broadcast %counts : tensor<4x1xi1> -> tensor<4x32xi1>
      %mask = arith.andi %counts_all, %shown_all : tensor<4x32xi1>
      %there = arith.muli %at, %stride : tensor<4x1xi32>
      %base = tt.splat %x : !tt.ptr<f32> -> tensor<4x1x!tt.ptr<f32>>
      %begin = tt.addptr %base, %there : tensor<4x1x!tt.ptr<f32>>, tensor<4x1xi32>
      %begins = tt.broadcast %begin : tensor<4x1x!tt.ptr<f32>> -> tensor<4x32x!tt.ptr<f32>>
      %p = tt.addptr %begins, %columns : tensor<4x32x!tt.ptr<f32>>, tensor<4x32xi32>
      %v = tt.load %p, %mask, %zero : tensor<4x32x!tt.ptr<f32>>
      %next = arith.addf %total, %v : tensor<4x32xf32>
      scf.yield %next : tensor<4x32xf32>
    } {tt.disable_licm}
    %sum = "tt.reduce"(%sums) <{axis = 0 : i32}> ({
    ^bb0(%a: f32, %b: f32):
      %ab = arith.addf %a, %b : f32
      tt.reduce.return %ab : f32
    }) : (tensor<4x32xf32>) -> tensor<32xf32>
    %outs = tt.splat %out : !tt.ptr<f32> -> tensor<32x!tt.ptr<f32>>
    %q = tt.addptr %outs, %range : tensor<32x!tt.ptr<f32>>, tensor<32xi32>
    tt.store %q, %sum : tensor<32x!tt.ptr<f32>>
    tt.return
  }
"""

PIXELS = """
  tt.func public @kernel(%x: !tt.ptr<f32>, %out: !tt.ptr<f32>, %width: i32, %pitch: i32, %image: i32) {
    %i = tt.make_range {end = 16 : i32, start = 0 : i32} : tensor<16xi32>
    %w = tt.splat %width : i32 -> tensor<16xi32>
    %y = arith.divsi %i, %w : tensor<16xi32>
    %p = tt.splat %pitch : i32 -> tensor<16xi32>
    %down = arith.muli %y, %p : tensor<16xi32>
    %right = arith.remsi %i, %w : tensor<16xi32>
    %pixel = arith.addi %down, %right : tensor<16xi32>
    %r = tt.expand_dims %pixel {axis = 1 : i32} : tensor<16xi32> -> tensor<16x1xi32>
    %c = tt.expand_dims %i {axis = 0 : i32} : tensor<16xi32> -> tensor<1x16xi32>
    %apart = tt.splat %image : i32 -> tensor<1x16xi32>
    %feature = arith.muli %c, %apart : tensor<1x16xi32>
    %rb = tt.broadcast %r : tensor<16x1xi32> -> tensor<16x16xi32>
    %cb = tt.broadcast %feature : tensor<1x16xi32> -> tensor<16x16xi32>
    %place = arith.addi %rb, %cb : tensor<16x16xi32>
    %from = tt.splat %x : !tt.ptr<f32> -> tensor<16x16x!tt.ptr<f32>>
    %n = arith.constant dense<16> : tensor<16x1xi32>
    %j = tt.expand_dims %i {axis = 1 : i32} : tensor<16xi32> -> tensor<16x1xi32>
    %jn = arith.muli %j, %n : tensor<16x1xi32>
    %jb = tt.broadcast %jn : tensor<16x1xi32> -> tensor<16x16xi32>
    %ib = tt.broadcast %c : tensor<1x16xi32> -> tensor<16x16xi32>
    %k = arith.addi %jb, %ib : tensor<16x16xi32>
    %q = tt.addptr %from, %k : tensor<16x16x!tt.ptr<f32>>, tensor<16x16xi32>
    %v = tt.load %q : tensor<16x16x!tt.ptr<f32>>
    %to = tt.splat %out : !tt.ptr<f32> -> tensor<16x16x!tt.ptr<f32>>
    %at = tt.addptr %to, %place : tensor<16x16x!tt.ptr<f32>>, tensor<16x16xi32>
    tt.store %at, %v : tensor<16x16x!tt.ptr<f32>>
    tt.return
  }
"""

SIDE_BY_SIDE = """
  tt.func public @kernel(%x: !tt.ptr<f32>, %y: !tt.ptr<f32>, %out: !tt.ptr<f32>, %few: i32, %width: i32) {
    %i = tt.make_range {end = 64 : i32, start = 0 : i32} : tensor<64xi32>
    %w = tt.splat %width : i32 -> tensor<64xi32>
    %row = arith.divsi %i, %w : tensor<64xi32>
    %column = arith.remsi %i, %w : tensor<64xi32>
    %first = tt.splat %few : i32 -> tensor<64xi32>
    %on = arith.cmpi slt, %column, %first : tensor<64xi32>
    %off = arith.cmpi sge, %column, %first : tensor<64xi32>
    %from_x = tt.splat %x : !tt.ptr<f32> -> tensor<64x!tt.ptr<f32>>
    %p = tt.addptr %from_x, %column : tensor<64x!tt.ptr<f32>>, tensor<64xi32>
    %v = tt.load %p, %on : tensor<64x!tt.ptr<f32>>
    %from_y = tt.splat %y : !tt.ptr<f32> -> tensor<64x!tt.ptr<f32>>
    %q = tt.addptr %from_y, %row : tensor<64x!tt.ptr<f32>>, tensor<64xi32>
    %u = tt.load %q, %off : tensor<64x!tt.ptr<f32>>
    %z = arith.select %on, %v, %u : tensor<64xi1>, tensor<64xf32>
    %to = tt.splat %out : !tt.ptr<f32> -> tensor<64x!tt.ptr<f32>>
    %at = tt.addptr %to, %i : tensor<64x!tt.ptr<f32>>, tensor<64xi32>
    tt.store %at, %z : tensor<64x!tt.ptr<f32>>
    tt.return
  }
"""

SHUFFLED_ROWS = """
  tt.func public @kernel(%x: !tt.ptr<f32>, %out: !tt.ptr<f32>, %low: i32, %high: i32, %pitch: i32) {
    %i = tt.make_range {end = 32 : i32, start = 0 : i32} : tensor<32xi32>
    %j = tt.make_range {end = 8 : i32, start = 0 : i32} : tensor<8xi32>
    %seven = arith.constant dense<7> : tensor<32xi32>
    %three = arith.constant dense<3> : tensor<32xi32>
    %left = arith.andi %i, %seven : tensor<32xi32>
    %down = arith.shrui %i, %three : tensor<32xi32>
    %p = tt.splat %pitch : i32 -> tensor<32xi32>
    %start = arith.muli %down, %p : tensor<32xi32>
    %place = arith.addi %start, %left : tensor<32xi32>
    %l = tt.splat %low : i32 -> tensor<32xi32>
    %h = tt.splat %high : i32 -> tensor<32xi32>
    %a = arith.cmpi sge, %left, %l : tensor<32xi32>
    %b = arith.cmpi slt, %down, %h : tensor<32xi32>
    %e = arith.cmpi ne, %place, %l : tensor<32xi32>
    %be = arith.andi %b, %e : tensor<32xi1>
    %ab = arith.andi %a, %be : tensor<32xi1>
    %row = tt.expand_dims %j {axis = 1 : i32} : tensor<8xi32> -> tensor<8x1xi32>
    %length = arith.constant dense<1024> : tensor<8x1xi32>
    %rows = arith.muli %row, %length : tensor<8x1xi32>
    %rb = tt.broadcast %rows : tensor<8x1xi32> -> tensor<8x32xi32>
    %c = tt.expand_dims %place {axis = 0 : i32} : tensor<32xi32> -> tensor<1x32xi32>
    %cb = tt.broadcast %c : tensor<1x32xi32> -> tensor<8x32xi32>
    %at = arith.addi %rb, %cb : tensor<8x32xi32>
    %on = tt.expand_dims %ab {axis = 0 : i32} : tensor<32xi1> -> tensor<1x32xi1>
    %mask = tt.broadcast %on : tensor<1x32xi1> -> tensor<8x32xi1>
    %none = arith.constant dense<0.0> : tensor<8x32xf32>
    %from = tt.splat %x : !tt.ptr<f32> -> tensor<8x32x!tt.ptr<f32>>
    %q = tt.addptr %from, %at : tensor<8x32x!tt.ptr<f32>>, tensor<8x32xi32>
    %v = tt.load %q, %mask, %none : tensor<8x32x!tt.ptr<f32>>
    %k = tt.expand_dims %i {axis = 0 : i32} : tensor<32xi32> -> tensor<1x32xi32>
    %kb = tt.broadcast %k : tensor<1x32xi32> -> tensor<8x32xi32>
    %there = arith.addi %rb, %kb : tensor<8x32xi32>
    %to = tt.splat %out : !tt.ptr<f32> -> tensor<8x32x!tt.ptr<f32>>
    %r = tt.addptr %to, %there : tensor<8x32x!tt.ptr<f32>>, tensor<8x32xi32>
    tt.store %r, %v : tensor<8x32x!tt.ptr<f32>>
    tt.return
  }
"""
"""Rows whose elements lie in an order that all of them have."""

COUNTS = """
  tt.func public @kernel(%sums: !tt.ptr<i32>) {
    %i = tt.make_range {end = 8 : i32, start = 0 : i32} : tensor<8xi32>
    %base = tt.splat %sums : !tt.ptr<i32> -> tensor<8x!tt.ptr<i32>>
    %p = tt.addptr %base, %i : tensor<8x!tt.ptr<i32>>, tensor<8xi32>
    %old = tt.atomic_rmw add, relaxed, launch, %p, %i : (tensor<8x!tt.ptr<i32>>, tensor<8xi32>) -> tensor<8xi32>
    tt.return
  }
"""

MASKED_SUM = """
  tt.func public @kernel(%x: !tt.ptr<f32>, %out: !tt.ptr<f32>, %n: i32) {
    %i = tt.make_range {end = 256 : i32, start = 0 : i32} : tensor<256xi32>
    %end = tt.splat %n : i32 -> tensor<256xi32>
    %on = arith.cmpi slt, %i, %end : tensor<256xi32>
    %base = tt.splat %x : !tt.ptr<f32> -> tensor<256x!tt.ptr<f32>>
    %p = tt.addptr %base, %i : tensor<256x!tt.ptr<f32>>, tensor<256xi32>
    %least = arith.constant dense<0xFF800000> : tensor<256xf32>
    %v = tt.load %p, %on, %least : tensor<256x!tt.ptr<f32>>
    %e = math.exp %v : tensor<256xf32>
    %total = "tt.reduce"(%e) <{axis = 0 : i32}> ({
    ^bb0(%a: f32, %b: f32):
      %ab = arith.addf %a, %b : f32
      tt.reduce.return %ab : f32
    }) : (tensor<256xf32>) -> f32
    %all = tt.splat %total : f32 -> tensor<256xf32>
    %share = arith.divf %v, %all : tensor<256xf32>
    %to = tt.splat %out : !tt.ptr<f32> -> tensor<256x!tt.ptr<f32>>
    %q = tt.addptr %to, %i : tensor<256x!tt.ptr<f32>>, tensor<256xi32>
    tt.store %q, %share, %on : tensor<256x!tt.ptr<f32>>
    tt.return
  }
"""

FILLED = """
  tt.func public @kernel(%x: !tt.ptr<f32>, %out: !tt.ptr<f32>, %n: i32) {
    %i = tt.make_range {end = 64 : i32, start = 0 : i32} : tensor<64xi32>
    %zero = arith.constant dense<0.0> : tensor<64xf32>
    %end = tt.splat %n : i32 -> tensor<64xi32>
    %inside = arith.cmpi slt, %i, %end : tensor<64xi32>
    %from = tt.splat %x : !tt.ptr<f32> -> tensor<64x!tt.ptr<f32>>
    %p = tt.addptr %from, %i : tensor<64x!tt.ptr<f32>>, tensor<64xi32>
    %v = tt.load %p, %inside : tensor<64x!tt.ptr<f32>>
    %true = arith.constant dense<true> : tensor<64xi1>
    %fill = arith.cmpf olt, %v, %zero : tensor<64xf32>
    %kept = arith.xori %fill, %true : tensor<64xi1>
    %one = arith.andi %inside, %kept : tensor<64xi1>
    %other = arith.andi %fill, %inside : tensor<64xi1>
    %to = tt.splat %out : !tt.ptr<f32> -> tensor<64x!tt.ptr<f32>>
    %q = tt.addptr %to, %i : tensor<64x!tt.ptr<f32>>, tensor<64xi32>
    tt.store %q, %v, %one : tensor<64x!tt.ptr<f32>>
    tt.store %q, %zero, %other : tensor<64x!tt.ptr<f32>>
    tt.return
  }
"""
SUMS_OF_PAIRS = """
  tt.func public @kernel(%x: !tt.ptr<f32>, %out: !tt.ptr<f32>) {
    %i = tt.make_range {end = 64 : i32, start = 0 : i32} : tensor<64xi32>
    %from = tt.splat %x : !tt.ptr<f32> -> tensor<64x!tt.ptr<f32>>
    %p = tt.addptr %from, %i : tensor<64x!tt.ptr<f32>>, tensor<64xi32>
    %v = tt.load %p : tensor<64x!tt.ptr<f32>>
    %pairs = tt.reshape %v : tensor<64xf32> -> tensor<8x2x4xf32>
    %side = tt.make_range {end = 2 : i32, start = 0 : i32} : tensor<2xi32>
    %side1 = tt.expand_dims %side {axis = 0 : i32} : tensor<2xi32> -> tensor<1x2xi32>
    %side2 = tt.expand_dims %side1 {axis = 2 : i32} : tensor<1x2xi32> -> tensor<1x2x1xi32>
    %is_right = arith.sitofp %side2 : tensor<1x2x1xi32> to tensor<1x2x1xf32>
    %all = tt.broadcast %is_right : tensor<1x2x1xf32> -> tensor<8x2x4xf32>
    %one = arith.mulf %pairs, %all : tensor<8x2x4xf32>
    %sum = "tt.reduce"(%one) <{axis = 1 : i32}> ({
    ^bb0(%a: f32, %b: f32):
      %ab = arith.addf %a, %b : f32
      tt.reduce.return %ab : f32
    }) : (tensor<8x2x4xf32>) -> tensor<8x4xf32>
    %thin = tt.expand_dims %sum {axis = 1 : i32} : tensor<8x4xf32> -> tensor<8x1x4xf32>
    %wide = tt.broadcast %thin : tensor<8x1x4xf32> -> tensor<8x2x4xf32>
    %right = tt.reshape %wide : tensor<8x2x4xf32> -> tensor<64xf32>
    %to = tt.splat %out : !tt.ptr<f32> -> tensor<64x!tt.ptr<f32>>
    %q = tt.addptr %to, %i : tensor<64x!tt.ptr<f32>>, tensor<64xi32>
    tt.store %q, %right : tensor<64x!tt.ptr<f32>>
    tt.return
  }
"""


def steps_of_a_sort(distances: list[int], turns: list[int]) -> str:
    """Steps on 64 elements, each of which is put in order with the one at a distance, backwards where a bit is set."""
    tile, steps = "tensor<64xf32>", []
    for number, (distance, turn) in enumerate(zip(distances, turns, strict=True)):
        x, y = f"%x{number}", f"%x{number + 1}"
        steps.append(f"""
    %d{number} = arith.constant dense<{distance}> : tensor<64xi32>
    %t{number} = arith.constant dense<{turn}> : tensor<64xi32>
    %there{number} = arith.xori %i, %d{number} : tensor<64xi32>
    %p{number} = tt.gather {x}[%there{number}] {{axis = 0 : i32}} : ({tile}, tensor<64xi32>) -> {tile}
    %da{number} = arith.andi %i, %d{number} : tensor<64xi32>
    %db{number} = arith.cmpi ne, %da{number}, %zero : tensor<64xi32>
    %ta{number} = arith.andi %i, %t{number} : tensor<64xi32>
    %tb{number} = arith.cmpi ne, %ta{number}, %zero : tensor<64xi32>
    %wants{number} = arith.xori %db{number}, %tb{number} : tensor<64xi1>
    %gt{number} = arith.cmpf ogt, %p{number}, {x} : {tile}
    %larger{number} = arith.select %gt{number}, %p{number}, {x} : tensor<64xi1>, {tile}
    %lt{number} = arith.cmpf olt, %p{number}, {x} : {tile}
    %smaller{number} = arith.select %lt{number}, %p{number}, {x} : tensor<64xi1>, {tile}
    {y} = arith.select %wants{number}, %larger{number}, %smaller{number} : tensor<64xi1>, {tile}""")
    return f"""
  tt.func public @kernel(%x: !tt.ptr<f32>, %out: !tt.ptr<f32>) {{
    %i = tt.make_range {{end = 64 : i32, start = 0 : i32}} : tensor<64xi32>
    %zero = arith.constant dense<0> : tensor<64xi32>
    %from = tt.splat %x : !tt.ptr<f32> -> tensor<64x!tt.ptr<f32>>
    %p = tt.addptr %from, %i : tensor<64x!tt.ptr<f32>>, tensor<64xi32>
    %x0 = tt.load %p : tensor<64x!tt.ptr<f32>>{"".join(steps)}
    %to = tt.splat %out : !tt.ptr<f32> -> tensor<64x!tt.ptr<f32>>
    %q = tt.addptr %to, %i : tensor<64x!tt.ptr<f32>>, tensor<64xi32>
    tt.store %q, %x{len(distances)} : tensor<64x!tt.ptr<f32>>
    tt.return
  }}
"""


DECAYING_ROWS = """
  tt.func public @kernel(%x: !tt.ptr<f32>, %out: !tt.ptr<f32>) {
    %row = tt.make_range {end = 8 : i32, start = 0 : i32} : tensor<8xi32>
    %column = tt.make_range {end = 16 : i32, start = 0 : i32} : tensor<16xi32>
    %width = arith.constant dense<16> : tensor<8x1xi32>
    %r = tt.expand_dims %row {axis = 1 : i32} : tensor<8xi32> -> tensor<8x1xi32>
    %rw = arith.muli %r, %width : tensor<8x1xi32>
    %rb = tt.broadcast %rw : tensor<8x1xi32> -> tensor<8x16xi32>
    %c = tt.expand_dims %column {axis = 0 : i32} : tensor<16xi32> -> tensor<1x16xi32>
    %cb = tt.broadcast %c : tensor<1x16xi32> -> tensor<8x16xi32>
    %offset = arith.addi %rb, %cb : tensor<8x16xi32>
    %from = tt.splat %x : !tt.ptr<f32> -> tensor<8x16x!tt.ptr<f32>>
    %p = tt.addptr %from, %offset : tensor<8x16x!tt.ptr<f32>>, tensor<8x16xi32>
    %v = tt.load %p : tensor<8x16x!tt.ptr<f32>>
    %number = arith.sitofp %row : tensor<8xi32> to tensor<8xf32>
    %share = math.exp2 %number : tensor<8xf32>
    %s = tt.expand_dims %share {axis = 1 : i32} : tensor<8xf32> -> tensor<8x1xf32>
    %sb = tt.broadcast %s : tensor<8x1xf32> -> tensor<8x16xf32>
    %y = arith.mulf %v, %sb : tensor<8x16xf32>
    %to = tt.splat %out : !tt.ptr<f32> -> tensor<8x16x!tt.ptr<f32>>
    %q = tt.addptr %to, %offset : tensor<8x16x!tt.ptr<f32>>, tensor<8x16xi32>
    tt.store %q, %y : tensor<8x16x!tt.ptr<f32>>
    tt.return
  }
"""


MAXIMA = """
  tt.func public @kernel(%x: !tt.ptr<f32>, %y: !tt.ptr<f32>, %n: i32) {
    %range = tt.make_range {end = 64 : i32, start = 0 : i32} : tensor<64xi32>
    %ns = tt.splat %n : i32 -> tensor<64xi32>
    %on = arith.cmpi slt, %range, %ns : tensor<64xi32>
    %xs = tt.splat %x : !tt.ptr<f32> -> tensor<64x!tt.ptr<f32>>
    %ps = tt.addptr %xs, %range : tensor<64x!tt.ptr<f32>>, tensor<64xi32>
    %v = tt.load %ps, %on : tensor<64x!tt.ptr<f32>>
    %ys = tt.splat %y : !tt.ptr<f32> -> tensor<64x!tt.ptr<f32>>
    %qs = tt.addptr %ys, %range : tensor<64x!tt.ptr<f32>>, tensor<64xi32>
    %w = tt.load %qs, %on : tensor<64x!tt.ptr<f32>>
    %more = arith.cmpf ogt, %v, %w : tensor<64xf32>
    %nan = arith.cmpf une, %v, %v : tensor<64xf32>
    %first = arith.ori %more, %nan : tensor<64xi1>
    %r = arith.select %first, %v, %w : tensor<64xi1>, tensor<64xf32>
    tt.store %qs, %r, %on : tensor<64x!tt.ptr<f32>>
    tt.return
  }
"""

ELEMENTS_BY_NUMBER = """
  tt.func public @kernel(%x: !tt.ptr<f32>, %y: !tt.ptr<f32>, %n: !tt.ptr<i64>) {
    %range = tt.make_range {end = 16 : i32, start = 0 : i32} : tensor<16xi32>
    %ns = tt.splat %n : !tt.ptr<i64> -> tensor<16x!tt.ptr<i64>>
    %ps = tt.addptr %ns, %range : tensor<16x!tt.ptr<i64>>, tensor<16xi32>
    %at = tt.load %ps : tensor<16x!tt.ptr<i64>>
    %xs = tt.splat %x : !tt.ptr<f32> -> tensor<16x!tt.ptr<f32>>
    %qs = tt.addptr %xs, %at : tensor<16x!tt.ptr<f32>>, tensor<16xi64>
    %v = tt.load %qs : tensor<16x!tt.ptr<f32>>
    %ys = tt.splat %y : !tt.ptr<f32> -> tensor<16x!tt.ptr<f32>>
    %rs = tt.addptr %ys, %range : tensor<16x!tt.ptr<f32>>, tensor<16xi32>
    tt.store %rs, %v : tensor<16x!tt.ptr<f32>>
    tt.return
  }
"""

CHOICES_WITHIN_CHOICES = """
  tt.func public @kernel(%x: !tt.ptr<f32>, %y: !tt.ptr<f32>, %out: !tt.ptr<f32>) {
    %range = tt.make_range {end = 128 : i32, start = 0 : i32} : tensor<128xi32>
    %wide = arith.extsi %range : tensor<128xi32> to tensor<128xi64>
    %c67 = arith.constant dense<67> : tensor<128xi64>
    %c-64 = arith.constant dense<-64> : tensor<128xi64>
    %c3 = arith.constant dense<3> : tensor<128xi64>
    %none = arith.constant dense<0.0> : tensor<128xf32>
    %in = arith.cmpi sge, %wide, %c67 : tensor<128xi64>
    %moved = arith.addi %wide, %c-64 : tensor<128xi64>
    %first = arith.cmpi slt, %moved, %c3 : tensor<128xi64>
    %both = arith.andi %first, %in : tensor<128xi1>
    %xs = tt.splat %x : !tt.ptr<f32> -> tensor<128x!tt.ptr<f32>>
    %ps = tt.addptr %xs, %range : tensor<128x!tt.ptr<f32>>, tensor<128xi32>
    %v = tt.load %ps, %both, %none : tensor<128x!tt.ptr<f32>>
    %ys = tt.splat %y : !tt.ptr<f32> -> tensor<128x!tt.ptr<f32>>
    %qs = tt.addptr %ys, %range : tensor<128x!tt.ptr<f32>>, tensor<128xi32>
    %w = tt.load %qs, %in, %none : tensor<128x!tt.ptr<f32>>
    %t = arith.select %first, %v, %w : tensor<128xi1>, tensor<128xf32>
    %r = arith.select %in, %t, %none : tensor<128xi1>, tensor<128xf32>
    %outs = tt.splat %out : !tt.ptr<f32> -> tensor<128x!tt.ptr<f32>>
    %rs = tt.addptr %outs, %range : tensor<128x!tt.ptr<f32>>, tensor<128xi32>
    tt.store %rs, %r : tensor<128x!tt.ptr<f32>>
    tt.return
  }
"""


SUMS_OF_LONG_ROWS = """
  tt.func public @kernel(%x: !tt.ptr<f32>, %out: !tt.ptr<f32>, %iterations: i32, %width: i32) {
    %c0_i32 = arith.constant 0 : i32
    %c1_i32 = arith.constant 1 : i32
    %c512_i32 = arith.constant 512 : i32
    %zero = arith.constant dense<0.0> : tensor<2x512xf32>
    %rows = tt.make_range {end = 2 : i32, start = 0 : i32} : tensor<2xi32>
    %row = tt.expand_dims %rows {axis = 1 : i32} : tensor<2xi32> -> tensor<2x1xi32>
    %stride = tt.splat %width : i32 -> tensor<2x1xi32>
    %there = arith.muli %row, %stride : tensor<2x1xi32>
    %range = tt.make_range {end = 512 : i32, start = 0 : i32} : tensor<512xi32>
    %column = tt.expand_dims %range {axis = 0 : i32} : tensor<512xi32> -> tensor<1x512xi32>
    %columns = tt.broadcast %column : tensor<1x512xi32> -> tensor<2x512xi32>
    %sums = scf.for %k = %c0_i32 to %iterations step %c1_i32 iter_args(%total = %zero) -> (tensor<2x512xf32>) : i32 {
      %start = arith.muli %k, %c512_i32 : i32
      %first = tt.splat %start : i32 -> tensor<2x1xi32>
      %at = arith.addi %there, %first : tensor<2x1xi32>
      %base = tt.splat %x : !tt.ptr<f32> -> tensor<2x1x!tt.ptr<f32>>
      %begin = tt.addptr %base, %at : tensor<2x1x!tt.ptr<f32>>, tensor<2x1xi32>
      %begins = tt.broadcast %begin : tensor<2x1x!tt.ptr<f32>> -> tensor<2x512x!tt.ptr<f32>>
      %p = tt.addptr %begins, %columns : tensor<2x512x!tt.ptr<f32>>, tensor<2x512xi32>
      %v = tt.load %p : tensor<2x512x!tt.ptr<f32>>
      %next = arith.addf %total, %v : tensor<2x512xf32>
      scf.yield %next : tensor<2x512xf32>
    }
    %sum = "tt.reduce"(%sums) <{axis = 1 : i32}> ({
    ^bb0(%a: f32, %b: f32):
      %ab = arith.addf %a, %b : f32
      tt.reduce.return %ab : f32
    }) : (tensor<2x512xf32>) -> tensor<2xf32>
    %outs = tt.splat %out : !tt.ptr<f32> -> tensor<2x!tt.ptr<f32>>
    %q = tt.addptr %outs, %rows : tensor<2x!tt.ptr<f32>>, tensor<2xi32>
    tt.store %q, %sum : tensor<2x!tt.ptr<f32>>
    tt.return
  }
"""

COLUMNS_OF_PROGRAMS = """
  tt.func public @kernel(%x: !tt.ptr<f32>, %out: !tt.ptr<f32>, %few: i32) {
    %c0 = arith.constant 0 : i32
    %c8 = arith.constant 8 : i32
    %zero = arith.constant dense<0.0> : tensor<8x16xf32>
    %pitch = arith.constant dense<4096> : tensor<8x1xi32>
    %j = tt.make_range {end = 8 : i32, start = 0 : i32} : tensor<8xi32>
    %down = tt.expand_dims %j {axis = 1 : i32} : tensor<8xi32> -> tensor<8x1xi32>
    %pid = tt.get_program_id x : i32
    %c16 = arith.constant 16 : i32
    %first = arith.muli %pid, %c16 : i32
    %firsts = tt.splat %first : i32 -> tensor<16xi32>
    %i = tt.make_range {end = 16 : i32, start = 0 : i32} : tensor<16xi32>
    %column = arith.addi %firsts, %i : tensor<16xi32>
    %columns = tt.expand_dims %column {axis = 0 : i32} : tensor<16xi32> -> tensor<1x16xi32>
    %along = tt.broadcast %columns : tensor<1x16xi32> -> tensor<8x16xi32>
    %base = tt.splat %x : !tt.ptr<f32> -> tensor<8x16x!tt.ptr<f32>>
    %sums = scf.for %start = %c0 to %few step %c8 iter_args(%total = %zero) -> (tensor<8x16xf32>) : i32 {
      %starts = tt.splat %start : i32 -> tensor<8x1xi32>
      %row = arith.addi %starts, %down : tensor<8x1xi32>
      %far = arith.muli %row, %pitch : tensor<8x1xi32>
      %rows = tt.broadcast %far : tensor<8x1xi32> -> tensor<8x16xi32>
      %at = arith.addi %rows, %along : tensor<8x16xi32>
      %p = tt.addptr %base, %at : tensor<8x16x!tt.ptr<f32>>, tensor<8x16xi32>
      %v = tt.load %p : tensor<8x16x!tt.ptr<f32>>
      %next = arith.addf %total, %v : tensor<8x16xf32>
      scf.yield %next : tensor<8x16xf32>
    }
    %sum = "tt.reduce"(%sums) <{axis = 0 : i32}> ({
    ^bb0(%a: f32, %b: f32):
      %ab = arith.addf %a, %b : f32
      tt.reduce.return %ab : f32
    }) : (tensor<8x16xf32>) -> tensor<16xf32>
    %outs = tt.splat %out : !tt.ptr<f32> -> tensor<16x!tt.ptr<f32>>
    %q = tt.addptr %outs, %column : tensor<16x!tt.ptr<f32>>, tensor<16xi32>
    tt.store %q, %sum : tensor<16x!tt.ptr<f32>>
    tt.return
  }
"""


INPUTS = {
    "add_short_tiles": STEP_OF_A_SORT,
    "inline_tiles": TILES_OF_FUNCTIONS,
    "order_programs": TILES_OF_A_MATRIX,
    "interchange_programs": TILES_BY_TURNS,
    "if_conversion": FUNCTIONS_OF_ELEMENTS,
    "expand_map": FUNCTIONS_OF_ELEMENTS,
    "narrow_exactly": EIGHT_BITS,
    "simplify_masks": CHOICES_WITHIN_CHOICES,
    "merge_stores": FILLED,
    "exchange_pairs": SUMS_OF_PAIRS,
    "expand_histogram": FUNCTIONS_OF_ELEMENTS,
    "expand_unsplat": FUNCTIONS_OF_ELEMENTS,
    "pointer_induction": MOVING_POINTERS,
    "transpose_tiles": SUMS_DOWN,
    "version_single_trips": SUMS_OF_ROWS,
    "interchange_loops": SUMS_OF_NEIGHBOURS,
    "bound_rows": CHOSEN_ROWS,
    "bufferize_carried": TILES_IN_BRANCHES,
    "find_networks": steps_of_a_sort([1, 2, 1], [2, 4, 4]),
    "fuse_loops": ROWS,
    "split_reductions": ROWS,
    "distribute_loops": DECAYING_ROWS,
    "expand_reports": REPORTS,
    "add_alias_checks": ROWS,
    "allocate_buffers": TILES_IN_BRANCHES,
    "version_atomics": COUNTS,
    "version_strides": SPACED,
    "store_columns": PIXELS,
    "blocked_transpose": TRANSPOSED,
    "merge_programs": TILES_IN_A_ROW,
    "choose_widths": SUMS_SIDE_BY_SIDE,
    "join_rows": SUMS_SIDE_BY_SIDE,
    "clip_to_mask": MASKED_SUM,
    "demanded_lanes": PART_OF_A_PRODUCT,
    "elide_zero_fill": PRODUCTS_IN_TURN,
    "copy_elision": PART_OF_A_PRODUCT,
    "keep_panels": ROWS_BY_ROWS_IN_TURN,
    "merge_iterations": SHORT_LOOP,
    "redirect_stores": ROWS,
    "split_index_sets": SIDE_BY_SIDE,
    "version_loops": MASKED_SUM,
    "lower_nests": ROWS,
    "interchange_rows": SUMS_OF_LONG_ROWS,
    "expand_dots": PRODUCT,
    "expand_networks": steps_of_a_sort([1, 2, 1], [2, 4, 4]),
    "keep_lanes": SHUFFLED_ROWS,
    "stream_stores": TILES_OF_A_MATRIX,
    "prefetch_rows": CENTRED,
    "unroll_and_jam": ROWS,
    "scalarize_gathers": ELEMENTS_BY_NUMBER,
    "version_single_vectors": SUMS_OF_NARROW_ROWS,
    "split_maxima": MAXIMA,
    "control_flow_sink": MAXIMA,
    "group_programs": TILES_BY_QUOTIENTS,
    "widen_programs": COLUMNS_OF_PROGRAMS,
}
STEPS = (*cpu_passes(TARGET), *loop_passes(TARGET))
LOOP_PASSES = [step.name for step in loop_passes(TARGET)]


@pytest.fixture(autouse=True)
def _small_panels(monkeypatch: pytest.MonkeyPatch) -> None:
    """Panels of small tiles are kept, too, and those of short turns; two of the three programs of a grid run as one."""
    change_costs(monkeypatch, kept_rows=4096, kept_groups=8192, merged_groups=16, merged_row=128)


def module_of(text: str) -> Op:
    """The verified module with the function `text`."""
    module = parse_module(f"module {{{text}}}\n")
    verify(module)
    return module


@pytest.mark.quick
@pytest.mark.parametrize("name", INPUTS)
def test_pass(name: str, golden: Golden) -> None:
    module = module_of(INPUTS[name])
    last = next(place for place, step in enumerate(STEPS) if step.name == name)
    run_passes(module, STEPS[: last + 1])
    golden(print_op(module), f"cpu/passes/{name}.ttcir")


def test_every_pass_has_an_example() -> None:
    changing = {step.name for step in STEPS} - {"check_legality"}  # see test_refused.py
    assert set(INPUTS) == changing


NEVER_IDLE = {"fuse_loops", "version_strides"}
"""The passes that do not look whether they changed anything, as nearly all kernels have something for them."""


@pytest.mark.parametrize("name", INPUTS)
def test_a_pass_says_whether_it_changed_anything(name: str) -> None:
    """The module is not verified again where it has not; and ops are found wherever a pass has put them."""
    module = module_of(INPUTS[name])
    idle = set()
    for step in STEPS if name in LOOP_PASSES else cpu_passes(TARGET):
        before = print_op(module)
        changed = step.function(module) is not False
        assert changed == (print_op(module) != before) or step.name in NEVER_IDLE, step.name
        for kind in {type(op) for op in module.walk()}:
            assert module.ops_of(kind) == [op for op in module.walk() if isinstance(op, kind)], step.name
        if not changed:
            idle.add(step.name)
    assert {"check_legality"} <= idle
    assert name not in idle


def launch_of(number: int, grid: tuple[int, int], module: Op) -> Arrays:
    """The arrays of the kernel after a launch with `number` for each number, but 2 for `turns` and 7 for `few`."""
    rng = np.random.default_rng(number)
    numbers: dict[str, int] = defaultdict(lambda: number, iterations=2, few=7)
    kernel = next(op for op in module.walk() if isinstance(op, Func) and op.symbol == "kernel")
    arguments: dict[str, np.ndarray | int] = {}
    for parameter in kernel.body.args:
        assert parameter.name is not None, "it has one in the text"
        if isinstance(parameter.type, PointerType):
            values = rng.integers(1, 9, 1 << 17)
            arguments[parameter.name] = values.astype(numpy_dtype(pointee_type(parameter.type)))
        else:
            arguments[parameter.name] = numbers[parameter.name]
    run_ir(module, arguments, grid)
    return {name: array for name, array in arguments.items() if isinstance(array, np.ndarray)}


EXECUTED = {text: name for name, text in INPUTS.items() if text is not REPORTS}.values()
"""One of the passes for each kernel; `REPORTS` asserts in a sum, which `run_ir` does not execute."""
LARGE = "keep_panels"
"""Its products of large tiles are run for one number only."""
GRIDS = {LARGE: (2, 1), "merge_iterations": (1, 1)}
"""Grids of large products; others have six programs. The second one finds what is kept; of equal ones there is one."""


@pytest.mark.parametrize(
    ("name", "number"),
    [
        *((name, 40) for name in EXECUTED),
        *(pytest.param(name, 300, marks=pytest.mark.slow) for name in EXECUTED if name != LARGE),
    ],
)
def test_every_loop_pass_keeps_what_a_kernel_computes(name: str, number: int) -> None:
    """Each kernel is lowered for one processor, with other numbers (slow) for all.

    On one of them it is run behind every pass, on the others behind the last one, and step by step if that differs.
    """
    some = TARGETS[list(INPUTS).index(name) % len(TARGETS)]
    launch = partial(launch_of, number, GRIDS.get(name, (3, 2)))
    for target in TARGETS if number == 300 else [some]:
        module = module_of(INPUTS[name])
        run_passes(module, cpu_passes(target))
        text, trial = print_op(module), Trial(launch, rounded_difference)
        if target is some:
            assert check_every_pass(text, target, trial)[0]
        else:
            check_all_passes(text, target, trial)


@pytest.mark.quick
@pytest.mark.parametrize("name", INPUTS)
def test_code(name: str, golden: Golden) -> None:
    """How much code each kernel becomes on one of the processors."""
    target = TARGETS[list(INPUTS).index(name) % len(TARGETS)]
    golden(f"{target.cpu}: {code_of(module_of(INPUTS[name]), target)}\n", f"cpu/counts/passes/{name}.txt")


@pytest.mark.parametrize("name", ["softmax", "matmul", "flash_attention"])
def test_whole_lowering(name: str, golden: Golden) -> None:
    module = parse_module(ttir_of(name))
    scratch = lower_to_loops(module, TARGET)
    verify(module)
    golden(f"// {scratch} bytes of scratch\n{print_op(module)}", f"cpu/{name}.ttcir")


@pytest.mark.parametrize("name", CALLS)
def test_buffers_that_live_together_do_not_overlap(name: str) -> None:
    module = parse_module(ttir_of(name))
    scratch = lower_to_loops(module, TARGET)
    places = [op.attributes["offset"].value for op in module.walk() if op.name == "cpu.alloc"]
    assert all(place % 64 == 0 and place < scratch for place in places)
