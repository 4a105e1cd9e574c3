#!/bin/sh
# Installs Braze from its build folder to a temporary place and builds and runs this folder's project against it.
#
#   check.sh CMAKE BUILD_FOLDER [CONFIGURE_OPTION...]
set -eu
cmake=$1
build=$2
shift 2
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

"$cmake" --install "$build" --prefix "$work/prefix" >/dev/null
"$cmake" -S "$here" -B "$work/build" -DCMAKE_PREFIX_PATH="$work/prefix" "$@" >/dev/null
"$cmake" --build "$work/build"
"$work/build/app"
"$work/build/c_app"
