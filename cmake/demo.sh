#!/bin/sh
# Runs the example programs, each of which checks its own results, on the GPU if there is one, else in the simulator.
#
#   demo.sh FOLDER_OF_EXECUTABLES
#
# Of what each prints, the kernels and schedules that the compiler chose and the verdict are shown.
set -eu
bin=$1
output=$(mktemp)
trap 'rm -f "$output"' EXIT

"$bin/braze" devices
failed=0
for example in gn_tail log_softmax_rows hand_written_softmax attention_softmax logsumexp_dim0; do
  echo
  if "$bin/$example" >"$output" 2>&1; then
    awk 'NR == 1 || /^kernel [^(]*$/ || /^  (schedule|residency) /; /^on /, 0' "$output"
  else
    cat "$output"
    echo "$example failed"
    failed=1
  fi
done
[ $failed -eq 1 ] || printf '\nall examples gave the right values\n'
exit $failed
