#!/bin/sh
# Runs a test of the Python module with the first python3 that has NumPy. Status 77 where there is none.
#
#   run.sh LIBRARY TEST.py [FAKE_CUDA_LIBRARY]
set -eu
export BRAZE_LIBRARY="$1" FAKE_CUDA_LIBRARY="${3:-}"
here=$(cd "$(dirname "$0")" && pwd)
export PYTHONPATH="$here/../../frontends/python" PYTHONDONTWRITEBYTECODE=1

for python in python3 /usr/bin/python3; do
  if "$python" -c 'import numpy' 2>/dev/null; then exec "$python" "$here/$2"; fi
done
echo "skipped: no python3 with NumPy"
exit 77
