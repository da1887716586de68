#!/usr/bin/env bash
# Installs what is missing, builds everything, runs every test, then the unit tests under sanitizers, then the checks of
# the sources. The last line of output is "N passed, N failed, N skipped"; the exit status is 0 when nothing failed.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1
source tools/packages.sh

usage() {
  cat <<'TEXT'
tools/test.sh: the same set-up as tools/quickstart.sh, then every test.

  tools/test.sh                   what continuous integration runs
  tools/test.sh --long            the longer campaigns too, each source compiled by itself
  tools/test.sh --no_sanitizers   without the address and undefined-behaviour run
  tools/test.sh --jobs 4          compile with 4 jobs (default: one for each core)
  tools/test.sh --packages_only   install the packages and stop
TEXT
}

long=no unity=ON sanitizers=yes packages_only=no jobs=$(nproc)
while [ $# -gt 0 ]; do
  case ${1//-/_} in
    __long) long=yes unity=OFF ;;
    __no_sanitizers) sanitizers=no ;;
    __packages_only) packages_only=yes ;;
    __jobs)
      jobs=${2-}
      [[ $jobs =~ ^[1-9][0-9]*$ ]] || { echo "--jobs wants a number from 1 on, got '$jobs'" >&2; exit 2; }
      shift ;;
    __help | _h) usage; exit 0 ;;
    *) echo "unknown flag: $1" >&2; usage >&2; exit 2 ;;
  esac
  shift
done

required=("${PARTITA_PROGRAM_PACKAGES[@]}" "${PARTITA_TEST_PACKAGES[@]}")
optional=("${PARTITA_FASTER_PACKAGES[@]}" "${PARTITA_TEST_OPTIONAL_PACKAGES[@]}")
install_packages required optional
[ "$packages_only" = no ] || exit 0

# Every check adds one line "passed|failed|skipped NAME[: reason]" here; tools/count_tests.py adds those of the test
# programs and prints the total.
results=$(mktemp -d) || exit 1
trap 'rm -rf "$results"' EXIT
checks=$results/checks
: >"$checks"

heading() { printf '\n== %s (%d min %02d s since the start)\n' "$1" $((SECONDS / 60)) $((SECONDS % 60)); }

# record NAME COMMAND...: runs it and notes whether it passed.
record() {
  local name=$1
  shift
  if "$@"; then
    echo "passed $name" >>"$checks"
  else
    echo "failed $name" >>"$checks"
    return 1
  fi
}

# Sources are compiled eight at a time, in a third of the time; --long finds those that lack an include of their own.
configure_and_build() {  # FOLDER TARGET FLAGS...
  local folder=$1 target=$2
  shift 2
  cmake -S . -B "$folder" -G Ninja -DPARTITA_TESTS=ON -DPARTITA_BENCH=ON -DPARTITA_PRECOMPILE=ON -DCMAKE_UNITY_BUILD="$unity" \
    -DCMAKE_UNITY_BUILD_BATCH_SIZE=8 "$@" </dev/null &&
    cmake --build "$folder" --target "$target" -j "$jobs" -- -k 0 </dev/null
}

# run_tests FOLDER NAME CTEST_FLAGS...: runs them; count_tests.py judges by the reports, not by the exit status.
run_tests() {
  local folder=$1 name=$2
  shift 2
  rm -rf "$folder/test_results"
  ctest --test-dir "$folder" --parallel 2 --timeout "$timeout" --output-on-failure --no-tests=ignore \
    --output-junit "$results/$name.xml" "$@" </dev/null
  [ -f "$results/$name.xml" ] || echo "failed $name: ctest wrote no report" >>"$checks"
  [ ! -d "$folder/test_results" ] || mv "$folder/test_results" "$results/$name.cases"
}

check_format() {
  local sources
  mapfile -t sources < <(find graph cost_model planner runtime tools tests -name '*.cc' -o -name '*.h' -o -name '*.cu' \
    -o -name '*.cuh' 2>/dev/null)
  clang-format-19 --dry-run --Werror "${sources[@]}"
}

# What the build left out: skip_without LIBRARY WHAT REASON
skip_without() {
  [ -e "build/$1" ] || echo "skipped $2: $3" >>"$checks"
}

timeout=900
heading "Build"
# Where something does not build, the rest is still tested; a program that is missing counts as failed.
record "build" configure_and_build build all -DCMAKE_BUILD_TYPE=RelWithDebInfo -DPARTITA_WERROR=ON
if [ -f build/CTestTestfile.cmake ]; then
  heading "Tests"
  run_tests build tests -LE long
  skip_without runtime/backend/cuda/libpartita_cuda_backend.a "the cuda backend" "there is no CUDA toolkit on this machine"
  skip_without runtime/comm/libpartita_mpi.a "plans over several processes" "there is no MPI on this machine"
  if [ "$long" = yes ]; then
    heading "Long campaigns"
    timeout=36000
    run_tests build long_campaigns -L long
    heading "Tests of threads with the thread sanitizer"
    record "build with the thread sanitizer" configure_and_build build-threads threads_tests -DCMAKE_BUILD_TYPE=RelWithDebInfo \
      "-DCMAKE_CXX_FLAGS_RELWITHDEBINFO=-O1 -g1" -DPARTITA_SANITIZE=thread -DPARTITA_CUDA=OFF -DPARTITA_MPI=OFF
    TSAN_OPTIONS="suppressions=$PWD/tests/thread_sanitizer.txt history_size=7" run_tests build-threads threads -L '^threads$'
    timeout=900
  fi
fi

if [ "$sanitizers" = yes ]; then
  # Checks of each pointer that is followed take half of the time to compile: the long run has them. The address sanitizer
  # sees what goes wrong by such a one, but for a place that is not aligned.
  without=null,alignment,vptr
  [ "$long" = no ] || without=
  heading "Build of the unit tests with the address and undefined-behaviour sanitizers"
  record "build with sanitizers" configure_and_build build-sanitized unit_tests -DCMAKE_BUILD_TYPE=RelWithDebInfo \
    "-DCMAKE_CXX_FLAGS_RELWITHDEBINFO=-Og -g1 -D_GLIBCXX_ASSERTIONS" -DPARTITA_SANITIZE=address,undefined \
    -DPARTITA_SANITIZE_WITHOUT="$without" -DPARTITA_CUDA=OFF -DPARTITA_MPI=OFF
  if [ -f build-sanitized/CTestTestfile.cmake ]; then
    heading "Unit tests with sanitizers"
    run_tests build-sanitized sanitized -L '^unit$'
  fi
else
  echo "skipped sanitizers: --no_sanitizers was given" >>"$checks"
fi

heading "Format"
if ! command -v clang-format-19 >/dev/null; then
  echo "NOT CHECKED: there is no clang-format-19 here."
  echo "skipped clang-format: there is no clang-format-19 on this machine" >>"$checks"
else
  record "clang-format" check_format || echo "to mend it: clang-format-19 -i FILES"
fi

heading "Result"
python3 tools/count_tests.py "$results"
