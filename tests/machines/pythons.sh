#!/usr/bin/env bash
# pythons.sh [OPTION OF PYTEST...]
#
# Runs the fast tests on other versions of Python, each in an environment of its own (interpreter.sh says where they
# come from). VERSIONS="3.14 3.14t" chooses versions, TESTS files. A version that cannot be had is named and left out; if
# there is none, the status is 3.
set -euo pipefail
cd "$(dirname "$0")/../.."
read -ra tests <<< "${TESTS:-tests}"
ran=0

for version in ${VERSIONS:-3.12 3.13 3.14}; do
  if ! python=$(tests/machines/interpreter.sh "$version"); then
    echo "Python $version cannot be had here: its tests were not run" >&2
    continue
  fi
  echo "tests on Python $version"
  "$python" -m pytest -p no:cacheprovider -n "${WORKERS:-2}" --dist worksteal \
    -m "not slow and not spared" "$@" "${tests[@]}"
  ran=$((ran + 1))
done
[ "$ran" -gt 0 ] || exit 3
