#!/usr/bin/env bash
# Builds the GPU suite as a portable program and runs it, or makes the folder to carry to a machine with a GPU.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

usage() {
  cat <<'TEXT'
tools/gpu_suite.sh: the GPU suite, a report in JSON.

  tools/gpu_suite.sh [FLAGS]          build, then run here; FLAGS are the program's (--help shows them), for example
                                      --sections conformance,alexnet --output report.json
  tools/gpu_suite.sh --build_only     build into build-portable
  tools/gpu_suite.sh --package FILE   build, then make FILE, a .tar.xz of at most 64 MiB: program, libraries, data and
                                      run.sh, for a machine that has a GPU and its driver, cuDNN, cuBLAS and NCCL
                                      (NVIDIA's packages or Python wheels), and needs nothing else but tar and xz
  On that machine: tar -xJf FILE; gpu_suite/run.sh [--search_path FOLDER:FOLDER] [--python PYTHON] [FLAGS]

  --jobs N   compile with N jobs (default: one for each core)

Exit status of a run: 0 all that could run passed; 1 something failed; 77 nothing could run (no GPU).
TEXT
}

mode=run package= jobs=$(nproc) flags=()
while [ $# -gt 0 ]; do
  case ${1//-/_} in
    __build_only) mode=build_only ;;
    __package)
      mode=package package=${2-}
      [ -n "$package" ] || { echo "--package wants a file to make" >&2; exit 2; }
      shift ;;
    __jobs)
      jobs=${2-}
      [[ $jobs =~ ^[1-9][0-9]*$ ]] || { echo "--jobs wants a number from 1 on, got '$jobs'" >&2; exit 2; }
      shift ;;
    __help | _h) [ "$mode" = run ] && { usage; exit 0; } ;;
    *) flags+=("$1") ;;
  esac
  shift
done
if [ "$mode" != run ] && [ ${#flags[@]} -gt 0 ]; then
  echo "unknown flag: ${flags[0]}" >&2
  usage >&2
  exit 2
fi

build=build-portable
cmake -S . -B $build -G Ninja -DCMAKE_BUILD_TYPE=RelWithDebInfo -DPARTITA_PORTABLE=ON >&2
cmake --build $build --target gpu_suite_package -j "$jobs" >&2
folder=$build/tests/gpu/package
case $mode in
  run) exec "$folder/run.sh" "${flags[@]}" ;;
  package)
    tar --transform 's,^\.,gpu_suite,' -C $folder -cf - . | xz -T0 >"$package"
    size=$(stat -c %s "$package")
    echo "$package: $((size >> 20)) MiB" >&2
    [ "$size" -le $((64 << 20)) ] || { echo "that is more than 64 MiB" >&2; exit 1; } ;;
esac
