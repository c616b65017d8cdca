"""Questions about the target, outside of kernels; tests/nvidia/test_front_end.py asks inside."""

from __future__ import annotations

import tilewright as tw
import tilewright.language as tl


def test_programs_ask_about_the_device_that_launches_go_to() -> None:
    info = tl.target_info
    assert (info.is_cuda(), info.is_cpu(), info.current_target()) == (False, True, None)
    assert not info.cuda_capability_geq(0)
    with tw.simulate("cuda:90"):
        assert (info.is_cuda(), info.is_cpu()) == (True, False)
        assert info.current_target() == ("cuda", 90, 32)
        assert (info.cuda_capability_geq(9), info.cuda_capability_geq(9, 1)) == (True, False)
    assert not info.is_cuda()
