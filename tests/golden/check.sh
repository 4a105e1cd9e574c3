#!/bin/sh
# Runs the command lines of a golden file and checks what they print with LLVM's FileCheck.
#
#   check.sh BRAZE FILECHECK FILE
#
# A line `// RUN: emit --stage=ptx --target=sm_90` stands for `braze emit FILE --stage=ptx --target=sm_90`, checked by
# the lines `// CHECK: ...`; one that starts `// RUN(PTX): ` is checked by `// PTX: ...` instead.
set -eu
braze=$1
filecheck=$2
file=$3

output=$(mktemp)
trap 'rm -f "$output"' EXIT
count=$(grep -c '^// RUN' "$file") || { echo "$file: no line starts with '// RUN'"; exit 1; }

run() {
  prefix=$1 verb=$2
  shift 2
  "$braze" "$verb" "$file" "$@" >"$output"
  "$filecheck" "$file" --check-prefix="$prefix" --input-file="$output" --dump-input=fail
}

number=0
while [ $number -lt "$count" ]; do
  number=$((number + 1))
  line=$(grep '^// RUN' "$file" | sed -n "${number}p")
  prefix=$(expr "$line" : '// RUN(\([A-Z0-9-]*\)): ') || prefix=CHECK
  # shellcheck disable=SC2086  # a list of words
  run "$prefix" ${line#*: }
done
