#!/usr/bin/env bash
# part.sh
#
# A chosen part of test-arm64 and test-windows, less than ten minutes each on two cores: the launcher, threads, faults,
# what is asked of the system, and kernels of each kind. MACHINES="arm64" leaves the other one out. Says so where one of them cannot be run: without user namespaces
# (and for AArch64 a binfmt_misc of their own, Linux 6.7), or where Debian's packages cannot be had.
set -euo pipefail
cd "$(dirname "$0")/../.."
common=(tests/drivers/test_pool.py tests/drivers/test_process.py tests/drivers/test_native_is_there.py
  tests/runtime/test_faults_of_any_system.py tests/support/test_system.py tests/exactness)

machines=" ${MACHINES:-arm64 windows} "

namespaces() { unshare --user --map-root-user --mount "$@" 2>/dev/null; }

if [[ $machines != *" arm64 "* ]]; then
  :
elif ! namespaces mount -t binfmt_misc binfmt_misc /proc/sys/fs/binfmt_misc; then
  echo "AArch64 is not tested: no binfmt_misc of one's own here (user namespaces, Linux 6.7)"
elif ! SETUP_ONLY=1 tests/machines/arm64.sh; then
  echo "AArch64 is not tested: what it takes could not be had"
else
  more=(tests/runtime/test_access_violations.py tests/drivers/test_launcher.py tests/cpu/test_dot_numerics.py
    tests/llvm/test_llvm_elementwise.py tests/examples/test_elementwise_examples.py)
  TESTS="${common[*]} ${more[*]}" tests/machines/arm64.sh "$@"
fi

if [[ $machines != *" windows "* ]]; then
  :
elif ! namespaces true; then
  echo "Windows is not tested: no user namespaces here"
elif ! SETUP_ONLY=1 tests/machines/windows.sh; then
  echo "Windows is not tested: what it takes could not be had"
else
  TESTS="${common[*]} tests/vectorize/test_calls.py" tests/machines/windows.sh "$@"
fi
