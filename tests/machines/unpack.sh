#!/usr/bin/env bash
# unpack.sh SUITE ARCHITECTURE FOLDER PACKAGE...
#
# Downloads packages of Debian with all that they depend on and unpacks them into a folder, by an apt of its own: nothing
# on this system changes, and nobody needs to be root. Packages come from where this system's own packages come from, or
# from $MIRROR. With `source` as the architecture, the last argument is the path of an archive in the mirror's pool.
set -euo pipefail
suite=$1 architecture=$2 folder=$(realpath -m "$3")
shift 3

mirror=${MIRROR:-$(sed -nE 's/^(URIs:|deb( \[[^]]*\])?) +(https?:[^ ]*\/debian)\/?( .*)?$/\3/p' \
  /etc/apt/sources.list /etc/apt/sources.list.d/* 2>/dev/null | head -n 1 || true)}
[ -n "$mirror" ] || { echo "no mirror of Debian is known to this system: set MIRROR" >&2; exit 1; }

if [ "$architecture" = source ]; then
  mkdir -p "$folder"
  /usr/lib/apt/apt-helper download-file "$mirror/pool/main/$1" "$folder.tar" >&2
  tar --extract --directory "$folder" --strip-components 1 --no-same-owner --file "$folder.tar"
  rm "$folder.tar"
  exit
fi

root=$(realpath -m "$folder/../apt-$suite-$architecture")
mkdir -p "$root"/{etc/preferences.d,etc/apt.conf.d,state/lists/partial,cache/archives/partial} "$folder"
: > "$root/status"
echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror $suite main" > "$root/etc/sources.list"
apt=(apt-get --quiet --yes
  -o Dir::Etc="$root/etc" -o Dir::Etc::SourceParts=/dev/null
  -o Dir::State="$root/state" -o Dir::State::status="$root/status" -o Dir::Cache="$root/cache"
  -o APT::Architecture="$architecture" -o APT::Architectures::="$architecture" -o APT::Install-Recommends=false
  -o APT::Sandbox::User="$(id -un)" -o Debug::NoLocking=true -o Acquire::Languages=none)
"${apt[@]}" update >&2
"${apt[@]}" install --download-only "$@" >&2
for package in "$root"/cache/archives/*.deb; do
  dpkg-deb --fsys-tarfile "$package" | tar --extract --directory "$folder" --keep-directory-symlink --no-same-owner
done
rm -r "$root"
