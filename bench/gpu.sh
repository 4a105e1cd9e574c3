#!/usr/bin/env bash
# Checks and times Braze on a CUDA device, beside PyTorch where python3 has it. Prints a report; see bench/results/.
#
#   bench/gpu.sh FOLDER [check|sanitize|time|torch ...]      FOLDER holds the executables braze and the examples
#
# check     every example at full size, as the C++ program and as `braze run --check`
# sanitize  small sizes of the same under compute-sanitizer, memory and races
# time      `braze bench` of the examples and of rows, columns and full reductions
# torch     the same programs in PyTorch, eager and compiled
set -uo pipefail
bin=$1
shift
here=$(cd "$(dirname "$0")" && pwd)
examples="logsumexp_dim0 log_softmax_rows gn_tail attention_softmax hand_written_softmax"
failed=0

check() {
  for e in $examples; do
    echo "== $e"
    if [ -x "$bin/$e" ]; then "$bin/$e" --device=cuda | tail -n 2 || failed=1; fi
    "$bin/braze" run "$e" --device=cuda --check | tail -n 1 || failed=1
  done
}

sanitize() {
  while read -r program; do
    for tool in memcheck racecheck; do
      echo "== $tool: $program"
      # shellcheck disable=SC2086
      compute-sanitizer --tool "$tool" --error-exitcode 9 "$bin/braze" run $program --device=cuda --check 2>&1 | tail -n 2 || failed=1
    done
  done <<'LIST'
logsumexp_dim0
hand_written_softmax --size R=64 --size D=1000
attention_softmax --size B=1 --size H=2 --size Q=33 --size K=100
gn_tail --size N=2 --size H=13 --size W=7
log_softmax_rows --size R=3 --size D=100003
log_softmax_rows --size R=300 --size D=30011
LIST
}

line() { # NAME ARGUMENTS: one line of the report
  local name=$1
  shift
  "$bin/braze" bench "$@" --device=cuda --json |
    python3 -c 'import json,sys; r=json.load(sys.stdin); print("%-34s %10.1f us %8.0f GB/s %6.1f %% of copy" % (sys.argv[1], r["median_us"], r["bytes_per_second"]/1e9, 100*r["copy_share"]))' "$name" || failed=1
}

time_all() {
  for e in $examples; do line "$e" "$e"; done
  for d in 1000 1024 4096 16384 30522 32768 49152 65536 262144; do
    for p in softmax_f32 softmax_bf16 layer_norm; do line "$p rows of $d" "$here/programs/$p.braze" --size "R=$((268435456 / d))" --size "D=$d"; done
  done
  line "sum of 2^30" "$here/programs/sum.braze"
  line "softmax of (16,1024,4096) axis 1" "$here/programs/softmax_columns.braze"
  line "softmax of (1024,64,4096) axis 1" "$here/programs/softmax_columns.braze" --size N=1024 --size C=64
}

nvidia-smi --query-gpu=name,driver_version --format=csv,noheader
for part in "${@:-check}"; do
  case $part in
    check) check ;;
    sanitize) sanitize ;;
    time) time_all ;;
    torch) python3 "$here/torch_reference.py" ;;
    *) echo "no part $part" >&2; exit 2 ;;
  esac
done
exit $failed
