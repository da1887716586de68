#!/usr/bin/env bash
# quickstart.sh and test.sh say what they do, refuse unknown flags, and ask for rights only where they need them.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1
stubs=$(mktemp -d) || exit 1
trap 'rm -rf "$stubs"' EXIT
failures=0

# expect NAME STATUS TEXT COMMAND...: the command ends with STATUS and its output has TEXT (a regular expression).
expect() {
  local name=$1 status=$2 text=$3 output got
  shift 3
  output=$("$@" 2>&1 </dev/null)
  got=$?
  if [ "$got" != "$status" ] || ! grep -qE -- "$text" <<<"$output"; then
    echo "FAILED: $name: status $got (wanted $status), output (wanted /$text/):"
    echo "$output"
    failures=$((failures + 1))
  fi
}
stub() {
  printf '#!/bin/sh\n%s\n' "$2" >"$stubs/$1"
  chmod +x "$stubs/$1"
}
with_stubs() { PATH=$stubs:$PATH "$@"; }

for script in tools/quickstart.sh tools/setup_cuda.sh tools/gpu_suite.sh tests/gpu/run.sh tools/test.sh .ci/run; do
  expect "$script parses" 0 '' bash -n "$script"
  [ -x "$script" ] || { echo "FAILED: $script is not executable"; failures=$((failures + 1)); }
done
expect "dry run lists packages" 0 'libdnnl-dev .*oneDNN' tools/quickstart.sh --dry_run
expect "dry run lists the steps" 0 'partita plan alexnet' tools/quickstart.sh --dry-run
expect "dry run takes devices" 0 'devices 3' tools/quickstart.sh --dry_run --devices 3
expect "quickstart refuses unknown flags" 2 'unknown flag: --fast' tools/quickstart.sh --fast
expect "quickstart refuses a bad number" 2 'wants a number' tools/quickstart.sh --devices zero
expect "test refuses unknown flags" 2 'unknown flag: --fast' tools/test.sh --fast
expect "setup_cuda refuses unknown flags" 2 'unknown flag: --fast' tools/setup_cuda.sh --fast
expect "gpu_suite helps" 0 '--package FILE' tools/gpu_suite.sh --help
expect "gpu_suite refuses unknown flags" 2 'unknown flag: --fast' tools/gpu_suite.sh --build_only --fast
expect "gpu_suite wants a file" 2 'wants a file' tools/gpu_suite.sh --package
expect "setup_cuda helps" 0 'cuBLAS|CUDA libraries' tools/setup_cuda.sh --help
expect "quickstart helps" 0 '--packages_only' tools/quickstart.sh --help

# A machine with nothing installed, as seen through stand-ins for the tools that the scripts ask.
stub dpkg-query 'exit 1'
stub apt-get "echo apt-get \"\$@\" >>$stubs/log"
stub apt-cache 'exit 0'
stub sudo "echo sudo >>$stubs/log; exit 1"
stub id 'echo 1000'
for script in tools/quickstart.sh tools/test.sh; do
  expect "$script without rights prints the one line" 2 '^apt-get update && apt-get install -y .*libprotobuf-dev' \
    with_stubs "$script" --packages_only
  ! grep -q apt-get "$stubs/log" || { echo "FAILED: $script ran apt-get without rights"; failures=$((failures + 1)); }
done
expect "dry run changes nothing" 0 'missing' with_stubs tools/quickstart.sh --dry_run
! grep -q apt-get "$stubs/log" || { echo "FAILED: the dry run ran apt-get"; failures=$((failures + 1)); }

rm -f "$stubs/log"
stub id 'echo 0'
expect "as root it says what it installs" 0 'Installing: .*libabsl-dev' with_stubs tools/quickstart.sh --packages_only
grep -q 'apt-get .*install .*libabsl-dev' "$stubs/log" || { echo "FAILED: no apt-get install"; failures=$((failures + 1)); }
! grep -q sudo "$stubs/log" || { echo "FAILED: sudo as root"; failures=$((failures + 1)); }

rm -f "$stubs/log"
stub dpkg-query 'echo installed'
expect "a second run installs nothing" 0 'All packages are installed' with_stubs tools/quickstart.sh --packages_only
[ ! -e "$stubs/log" ] || { echo "FAILED: the second run called apt-get or sudo"; failures=$((failures + 1)); }

echo "$failures failures"
[ "$failures" = 0 ]
