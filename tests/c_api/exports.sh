#!/bin/sh
# The shared library shows the functions of its header and nothing else, so that it can share a process with another
# LLVM.
#
#   exports.sh NM LIBRARY HEADER
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

"$1" -D --defined-only "$2" | awk '{ print $NF }' | sort >"$work/shown"
grep '^BRAZE_API' "$3" | grep -o 'braze_[a-z_]*(' | tr -d '(' | sort >"$work/declared"
[ -s "$work/declared" ]
diff "$work/declared" "$work/shown"
