#!/usr/bin/env bash
# Checks Braze on a CUDA device and prints a report; bench/compare.py measures it.
#
#   bench/gpu.sh FOLDER [check|sanitize ...]      FOLDER holds the executables braze and the examples; run it from the repository
#
# check     every example at full size, as the C++ program and as `braze run --check`, with --fast-math too
# sanitize  small sizes of the same under compute-sanitizer, memory and races. It takes an asynchronous copy of a vector that begins in
#           its buffer and ends outside for a read of all 16 bytes, where those that are there are read (ptxas 13.0 puts their number
#           into the low bits of the address), so that the sizes here end with whole vectors
set -uo pipefail
bin=$1
shift
examples="logsumexp_dim0 log_softmax_rows gn_tail attention_softmax hand_written_softmax"
failed=0

check() {
  for e in $examples; do
    echo "== $e"
    if [ -x "$bin/$e" ]; then "$bin/$e" --device=cuda | tail -n 2 || failed=1; fi
    "$bin/braze" run "$e" --device=cuda --check | tail -n 1 || failed=1
    "$bin/braze" run "$e" --device=cuda --check --fast-math | tail -n 1 || failed=1
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
hand_written_softmax --size R=40 --size D=5000 --schedule=lanes=reduced,vector=4,reduced=64,unroll=4,cluster=2,spill=4,keep=registers
hand_written_softmax --size R=400 --size D=5000 --schedule=lanes=reduced,vector=4,reduced=64,unroll=4,cluster=4,prefetch=1,keep=registers
tests/fusion/bf16_layer_norm.braze --size R=700 --size D=4096 --schedule=lanes=reduced,vector=8,reduced=64,unroll=2,cluster=4,prefetch=1,parameters=shared,keep=registers
tests/fusion/softmax_transposed.braze --size R=512 --size D=768
log_softmax_rows --size R=300 --size D=20001 --schedule=lanes=reduced,vector=4,reduced=128,unroll=4,cluster=4,prefetch=1,spill=4,keep=registers
hand_written_softmax --size R=300 --size D=6000 --schedule=lanes=reduced,vector=4,reduced=64,unroll=2,cluster=2,prefetch=1,spill=6,keep=registers
tests/golden/unaligned_scales.braze --size R=100
tests/golden/eviction.braze --size R=2048
tests/golden/bf16_rows.braze --size R=100 --size D=30522
tests/golden/bf16_rows.braze --size R=100 --size D=65536
tests/golden/bf16_rows.braze --size R=20 --size D=262144
tests/golden/spill_in_place.braze --size R=40 --schedule=lanes=reduced,vector=8,reduced=128,unroll=1,cluster=2,spill=2,keep=registers
tests/golden/bf16_logsumexp.braze --size R=400 --size D=5003
log_softmax_rows --size R=5 --size D=1048576
tests/fusion/bf16_layer_norm.braze --size R=70 --size D=65536
tests/fusion/bf16_layer_norm.braze --size R=200 --size D=8191 --schedule=lanes=reduced,vector=8,reduced=64,unroll=8,gang=4,prefetch=2,parameters=registers,keep=shared
hand_written_softmax --size R=64 --size D=4098 --schedule=lanes=reduced,vector=4,reduced=64,unroll=2,gang=4,lag=2,prefetch=2,align=32,keep=shared
tests/golden/gang_legs.braze --schedule=lanes=reduced,vector=4,reduced=64,unroll=4,gang=8,lag=2,prefetch=2,keep=shared
hand_written_softmax --size R=9 --size D=1048576
tests/golden/bf16_rows.braze --size R=104 --size D=65535
tests/golden/bf16_rows.braze --size R=3000 --size D=64
tests/golden/columns_of_cluster.braze --size C=96
tests/golden/columns_of_cluster.braze --size R=600 --size C=130
tests/golden/batch_statistics.braze --size N=32 --size C=16 --size H=64
tests/fusion/column_max.braze --size R=100000
gn_tail --size N=6 --size H=25 --size W=25 --schedule=logsumexp_1:lanes=kept,vector=1,kept=128,unroll=8,queue=2
LIST
}

nvidia-smi --query-gpu=name,driver_version --format=csv,noheader
for part in "${@:-check}"; do
  case $part in
    check) check ;;
    sanitize) sanitize ;;
    *) echo "no part $part" >&2; exit 2 ;;
  esac
done
exit $failed
