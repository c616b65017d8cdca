"""`triton._filecheck`."""

from tilewright.compat.filecheck import (
    MatchError,
    filecheck_test,
    run_filecheck,
    run_filecheck_test,
    run_parser,
    stub_target,
)
