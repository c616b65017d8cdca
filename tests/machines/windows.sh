#!/usr/bin/env bash
# windows.sh [OPTION OF PYTEST...]
#
# Runs tests on Windows' own Python under Wine, without being root and without changing this system. Wine and Python's
# standard library are Debian's, unpacked into build/machines once; Python's DLL for Windows stands in a wheel that
# brings it along for programs to take with them, and python.exe is written here. windows.txt has the tests, TESTS chooses
# others. first_use.py is run in front of the tests unless TESTS is set; PYTHON=1 makes the arguments Python's own instead of
# pytest's.
set -euo pipefail
cd "$(dirname "$0")/../.."
here=$PWD/build/machines
root=$here/wine
windows=$here/windows
mapfile -t chosen < <(grep -v '^#' tests/machines/windows.txt | grep .)
read -ra tests <<< "${TESTS:-${chosen[*]}}"
numpy=numpy==2.1.3 # newer ones call `crealf`, which Wine 10 lacks

setup() {
  rm -rf "$windows"
  mkdir -p "$windows/DLLs" "$windows/Lib/site-packages"
  tests/machines/unpack.sh trixie amd64 "$root" wine wine64 bash coreutils libpython3.13-minimal libpython3.13-stdlib
  .venv/bin/python -m pip download --quiet --no-deps --only-binary=:all: --platform win_amd64 --python-version 3.13 \
    --dest "$windows" panda3d==1.10.16
  .venv/bin/python - "$windows" <<-'END'
		import pathlib, sys, zipfile
		folder = pathlib.Path(sys.argv[1])
		[wheel] = folder.glob("*.whl")
		with zipfile.ZipFile(wheel) as archive:
		    for name in archive.namelist():
		        place, _, file = name.rpartition("/")
		        if place == "deploy_libs" and file.endswith((".dll", ".pyd")) and ".cp313t" not in file:
		            target = folder / file if file.startswith(("python", "VC", "vc")) else folder / "DLLs" / file
		            if not file.startswith("api-ms"):  # Wine has its own
		                target.write_bytes(archive.read(name))
		wheel.unlink()
		END
  mkdir -p "$here/wine-prefix/drive_c/windows/system32" # where Wine's own libraries look for one of Debian's
  cp "$root"/usr/x86_64-w64-mingw32/lib/*.dll "$here/wine-prefix/drive_c/windows/system32"
  cp -r "$root"/usr/lib/python3.13/. "$windows/Lib"
  rm -f "$windows"/Lib/EXTERNALLY-MANAGED "$windows"/Lib/sitecustomize.py
  .venv/bin/python tests/machines/python_exe.py "$windows/python.exe" python313.dll
  mapfile -t wanted < <(.venv/bin/python - <<-'END'
		import tomllib
		project = tomllib.load(open("pyproject.toml", "rb"))["project"]
		known = ("ruff", "mypy", "numpy")  # programs of which tests need nothing, and what is chosen above
		names = [*project["dependencies"], *project["optional-dependencies"]["test"]]
		print(*(name for name in names if not name.startswith(known)), "colorama", sep="\n")
		END
  )
  .venv/bin/python -m pip install --quiet --only-binary=:all: --python-version 3.13 --platform win_amd64 \
    --target "$windows/Lib/site-packages" "$numpy" "${wanted[@]}"
  [ -e "$root/bin/sh" ] || ln -s bash "$root/bin/sh"
  mkdir -p "$root"/{proc,dev,sys,tmp,root,project}
  touch "$windows/complete"
}

inside() { # in the namespace
  for folder in proc dev sys; do mount --rbind "/$folder" "$root/$folder"; done
  mount --bind "$PWD" "$root/project"
  export -n LD_LIBRARY_PATH
  exec env -i PATH=/usr/bin:/bin HOME=/root LANG=C.UTF-8 WINEPREFIX=/project/build/machines/wine-prefix \
    WINEDEBUG="${WINEDEBUG:--all}" WINEDLLOVERRIDES="mscoree,mshtml,winedbg.exe=" PYTHONPATH='Z:\project\src' PYTHONUTF8=1 XDG_RUNTIME_DIR=/tmp \
    PYTHONDONTWRITEBYTECODE="${PYTHONDONTWRITEBYTECODE:-}" \
    /usr/sbin/chroot "$root" /bin/bash -c 'cd /project && exec /usr/lib/wine/wine64 /project/build/machines/windows/python.exe "$@"' python "$@"
}

if [ "${1-}" = --inside ]; then
  shift
  inside "$@"
fi
[ -e "$windows/complete" ] || setup
[ -z "${SETUP_ONLY-}" ] || exit 0
unshare --user --map-root-user --mount true || { echo "no user namespaces here: nothing was run" >&2; exit 1; }
run=(unshare --user --map-root-user --mount --fork "$0" --inside)
if [ -n "${PYTHON-}" ]; then exec "${run[@]}" "$@"; fi

# A process for each folder: collecting takes long under Wine, and worker processes that end in a fault hang there.
one() {
  local log="$here/windows-logs/${1//\//-}.log" status=0
  "${run[@]}" -m pytest -p no:cacheprovider -n 0 -m "not slow and not spared" "${@:2}" "$1" > "$log" 2>&1 || status=$?
  grep -aE "^(FAILED|ERROR) " "$log" || true
  echo "$1: $(grep -av "^$" "$log" | tail -n 1)"
  return "$status"
}
if [ "${1-}" = --one ]; then
  one "${@:2}"
  exit
fi
mkdir -p "$here/windows-logs"
used=0
[ -n "${TESTS-}" ] || "${run[@]}" tests/machines/first_use.py || used=$?
mapfile -t folders < <(printf '%s\n' "${tests[@]}" | grep -v '^--')
mapfile -t options < <(printf '%s\n' "${tests[@]}" | grep '^--')
printf '%s\n' "${folders[@]}" | xargs -P "${WORKERS:-2}" -I '{}' "$0" --one '{}' "${options[@]}" "$@"
exit "$used"
