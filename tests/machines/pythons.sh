#!/usr/bin/env bash
# pythons.sh [OPTION OF PYTEST...]
#
# Runs the fast tests on other versions of Python, each in an environment of its own (interpreter.sh says where they
# come from). VERSIONS="3.13 3.14" chooses versions, TESTS files. first_use.py is run in front of the
# tests unless TESTS is set. A version that cannot be had is named and left out; if there is none, the status is 3.
set -euo pipefail
cd "$(dirname "$0")/../.."
read -ra tests <<< "${TESTS:-tests}"
ran=0 status=0

for version in ${VERSIONS:-3.12 3.13 3.14 3.14t}; do
  if ! python=$(tests/machines/interpreter.sh "$version"); then
    echo "Python $version cannot be had here: its tests were not run" >&2
    continue
  fi
  echo "tests on Python $version"
  [ -n "${TESTS-}" ] || "$python" tests/machines/first_use.py || status=1
  "$python" -m pytest -p no:cacheprovider -n "${WORKERS:-2}" --dist worksteal \
    -m "not slow and not spared" "$@" "${tests[@]}" || status=1
  ran=$((ran + 1))
done
[ "$ran" -gt 0 ] || exit 3
exit "$status"
