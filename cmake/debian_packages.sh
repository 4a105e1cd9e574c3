#!/bin/sh
# Installs what Braze is built with on Debian 12 and its relatives: only what is missing, as root or through sudo.
# On other systems it does nothing, and CMake names what it does not find.
set -eu

required="g++ cmake ninja-build llvm-22-dev llvm-22-tools libfmt-dev libboost-context-dev libzstd-dev zlib1g-dev
  nlohmann-json3-dev libcli11-dev catch2"

command -v apt-get >/dev/null && command -v dpkg-query >/dev/null || exit 0

missing=
for package in $required; do
  dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null | grep -qx installed || missing="$missing $package"
done
# These make builds faster and test the Python module, and can be done without.
optional=
command -v ccache >/dev/null || optional="$optional ccache"
command -v ld.lld >/dev/null || [ -x /usr/lib/llvm-22/bin/ld.lld ] || optional="$optional lld-22"
python3 -c 'import numpy' 2>/dev/null || /usr/bin/python3 -c 'import numpy' 2>/dev/null ||
  optional="$optional python3 python3-numpy"
[ -n "$missing$optional" ] || exit 0

if [ "$(id -u)" -eq 0 ]; then
  as_root=
elif command -v sudo >/dev/null; then
  as_root=sudo
elif [ -z "$missing" ]; then
  exit 0
else
  echo "missing packages; install them as root: apt-get install$missing" >&2
  exit 1
fi
install() {
  $as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "$@"
}

echo "installing$missing$optional"
# shellcheck disable=SC2086  # lists of words
install $missing $optional && exit 0
$as_root apt-get update -q
if [ -n "$missing" ]; then
  install $missing
fi
if [ -n "$optional" ]; then
  install $optional || echo "going on without$optional"
fi
