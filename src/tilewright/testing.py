"""Measuring and comparing kernels, under Triton's names.

import tilewright as tw

milliseconds = tw.testing.do_bench(lambda: add[grid](x, y, out, n, BLOCK=1024))
tw.testing.assert_close(out, x + y)
"""

from tilewright.runtime.testing.compare import assert_close
from tilewright.runtime.testing.measure import do_bench
from tilewright.runtime.testing.report import Benchmark, Mark, perf_report

__all__ = ["Benchmark", "Mark", "assert_close", "do_bench", "perf_report"]
