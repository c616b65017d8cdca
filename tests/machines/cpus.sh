#!/usr/bin/env bash
# cpus.sh [OPTION OF PYTEST...]
#
# Runs tests on x86-64 processors that have less than this machine, emulated by qemu: Nehalem (SSE 4.2, no AVX) and
# Haswell (AVX2, no AVX-512). Programs that tests start are emulated, too, since `sys.executable` is the emulator's.
# qemu is unpacked into build/machines once, unless this system has one; CPUS="Nehalem" chooses the
# processors, TESTS the files. first_use.py is run in front of the tests unless TESTS is set.
set -euo pipefail
cd "$(dirname "$0")/../.."
here=$PWD/build/machines
read -ra tests <<< "${TESTS:-$(echo tests/{cpu,drivers,exactness,examples,interpreter,llvm,runtime,vectorize})}"
mkdir -p "$here"

qemu=$(command -v qemu-x86_64 || echo "$here/qemu/usr/bin/qemu-x86_64")
[ -e "$qemu" ] || tests/machines/unpack.sh trixie amd64 "$here/qemu" qemu-user
python=$(realpath .venv/bin/python)

# What measures times.
left_out=(--deselect tests/runtime/test_start_up.py --deselect tests/drivers/test_blob.py::test_loading_takes_microseconds)
# qemu's `vmaskmov` reads what the mask leaves out, too: what a mask keeps off a page that nobody may touch stops the process.
at_ends=(--ignore=tests/cpu/test_dot_{columns,copies,depth,rows,wraps}.py)
at_ends+=(--deselect tests/cpu/test_merge_programs.py::test_lanes_that_are_masked_off_touch_nothing)
at_ends+=(--deselect tests/cpu/test_widen_programs.py::test_lanes_that_are_masked_off_touch_nothing)
for file in interchange_loops single_trip_loops; do
  at_ends+=(--deselect "tests/cpu/test_$file.py::test_no_lane_that_is_masked_off_touches_memory")
done

status=0
for cpu in ${CPUS:-Nehalem Haswell-noTSX}; do
  venv=$here/$cpu
  mkdir -p "$venv/bin"
  cp .venv/pyvenv.cfg "$venv/"
  ln -sfn "$PWD/.venv/lib" "$venv/lib"
  printf '#!/bin/sh\nexec "%s" -cpu %s -0 "%s" "%s" "$@"\n' "$qemu" "$cpu" "$venv/bin/python" "$python" > "$venv/bin/python"
  chmod +x "$venv/bin/python"
  own=("${left_out[@]}")
  if [[ $cpu = Haswell* ]]; then own+=("${at_ends[@]}"); fi
  echo "tests on $cpu"
  [ -n "${TESTS-}" ] || "$venv/bin/python" tests/machines/first_use.py || status=1
  "$venv/bin/python" -m pytest -p no:cacheprovider -n "${WORKERS:-2}" --dist worksteal \
    -m "not slow and not spared" "${own[@]}" "$@" "${tests[@]}" || status=1
done
exit "$status"
