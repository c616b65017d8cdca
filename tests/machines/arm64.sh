#!/usr/bin/env bash
# arm64.sh [OPTION OF PYTEST...]
#
# Runs tests on an emulated AArch64 Linux with a Python of its own, without being root and without changing this system:
# qemu, Debian's Python and wheels for AArch64 are unpacked into build/machines once; a namespace with a binfmt_misc of
# its own (Linux 6.7) emulates programs that tests start, too. QEMU_CPU chooses the processor (neoverse-n1; max,sve256=on or
# max,sve512=on for scalable vectors of that length), TESTS the files. first_use.py is run in front of the tests unless TESTS
# is set; PYTHON=1 makes the arguments Python's own instead of pytest's.
set -euo pipefail
cd "$(dirname "$0")/../.."
here=$PWD/build/machines
read -ra tests <<< "${TESTS:-$(echo tests/{cpu,drivers,exactness,examples,interpreter,llvm,runtime,vectorize,frontends})}"
root=$here/arm64
qemu=$here/qemu/usr/bin/qemu-aarch64
magic='\x7f\x45\x4c\x46\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\xb7\x00'
mask='\xff\xff\xff\xff\xff\xff\xff\x00\xff\xff\xff\xff\xff\xff\xff\xff\xfe\xff\xff\xff'

setup() {
  [ -e "$qemu" ] || tests/machines/unpack.sh trixie amd64 "$here/qemu" qemu-user
  tests/machines/unpack.sh bookworm arm64 "$root" python3 python3.11 libstdc++6 bash coreutils binutils
  mapfile -t wanted < <(.venv/bin/python - <<-'END'
		import tomllib
		project = tomllib.load(open("pyproject.toml", "rb"))["project"]
		known = ("ruff", "mypy")  # programs of which tests need nothing
		names = [*project["dependencies"], *project["optional-dependencies"]["test"]]
		print(*(name for name in names if not name.startswith(known)), sep="\n")
		END
  )
  platforms=()
  for version in 2_28 2_27 2_17 2014; do platforms+=(--platform "manylinux${version/#2_/_2_}_aarch64"); done
  .venv/bin/python -m pip install --quiet --only-binary=:all: --python-version 3.11 "${platforms[@]}" \
    --target "$root/usr/local/lib/python3.11/dist-packages" "${wanted[@]}"
  [ -e "$root/bin/sh" ] || ln -s bash "$root/bin/sh"
  mkdir -p "$root"/{proc,dev,sys,tmp,root,project}
  cp /etc/passwd /etc/group "$root/etc/"
  touch "$root/complete"
}

inside() { # in the namespace
  mount -t binfmt_misc binfmt_misc /proc/sys/fs/binfmt_misc
  echo ":aarch64:M::$magic:$mask:$qemu:F" > /proc/sys/fs/binfmt_misc/register
  for folder in proc dev sys; do mount --rbind "/$folder" "$root/$folder"; done
  mount --bind "$PWD" "$root/project"
  exec env -i PATH=/usr/local/bin:/usr/bin:/bin HOME=/root PYTHONPATH=/project/src QEMU_CPU="${QEMU_CPU:-neoverse-n1}" \
    /usr/sbin/chroot "$root" /bin/bash -c 'cd /project && exec python3 "$@"' python "$@"
}

if [ "${1-}" = --inside ]; then
  shift
  inside "$@"
fi
# What measures times, and what gives files away to users that the namespace does not have.
left_out=(--deselect tests/runtime/test_start_up.py)
for test in test_a_folder_of_somebody_else_is_not_used test_a_link_of_somebody_else_is_not_followed; do
  left_out+=(--deselect "tests/runtime/test_disk_cache.py::$test")
done
[ -e "$root/complete" ] || setup
[ -z "${SETUP_ONLY-}" ] || exit 0
unshare --user --map-root-user --mount true || { echo "no user namespaces here: nothing was run" >&2; exit 1; }
run=(unshare --user --map-root-user --mount --fork "$0" --inside)
if [ -n "${PYTHON-}" ]; then exec "${run[@]}" "$@"; fi
used=0
[ -n "${TESTS-}" ] || "${run[@]}" tests/machines/first_use.py || used=$?
"${run[@]}" -m pytest -p no:cacheprovider -n "${WORKERS:-2}" \
  --dist worksteal -m "not slow and not spared" "${left_out[@]}" "$@" \
  "${tests[@]}"
exit "$used"
