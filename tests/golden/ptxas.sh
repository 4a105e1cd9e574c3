#!/bin/sh
# Assembles the PTX of programs for every generation of GPU. Status 77 where there is no ptxas.
#
#   ptxas.sh BRAZE FILE...
set -eu
braze=$1
shift

PATH=$PATH:${CUDA_HOME:-/usr/local/cuda}/bin
if ! command -v ptxas >/dev/null; then
  echo "skipped: no ptxas on the path or in /usr/local/cuda/bin"
  exit 77
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

failed=0
for file in "$@"; do
  for target in sm_75 sm_80 sm_86 sm_89 sm_90 sm_100 sm_120; do
    "$braze" emit "$file" --stage=ptx --target=$target -o "$work/kernels.ptx"
    if ! ptxas -arch=$target -o "$work/kernels.cubin" "$work/kernels.ptx"; then
      echo "$file: ptxas refuses the PTX for $target"
      failed=1
    fi
  done
done
exit $failed
