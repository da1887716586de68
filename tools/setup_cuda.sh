#!/usr/bin/env bash
# Fetches what this machine's CUDA toolkit lacks (cuBLAS, cuDNN, NCCL) from NVIDIA's Python wheels into .venv-cuda, where
# CMake then finds it.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

usage() {
  cat <<'TEXT'
tools/setup_cuda.sh: fetch the CUDA libraries that this machine's toolkit lacks, into .venv-cuda.

  tools/setup_cuda.sh              fetch what is missing (from PyPI; several hundred MB each)
  tools/setup_cuda.sh --dry_run    say what is missing and what would be fetched, change nothing
  tools/setup_cuda.sh --check      exit status 0 if nothing is missing, 1 if something is, 2 without nvcc
TEXT
}

mode=fetch
while [ $# -gt 0 ]; do
  case ${1//-/_} in
    __dry_run) mode=dry_run ;;
    __check) mode=check ;;
    __help | _h) usage; exit 0 ;;
    *) echo "unknown flag: $1" >&2; usage >&2; exit 2 ;;
  esac
  shift
done

nvcc=$(command -v nvcc || true)
[ -n "$nvcc" ] || nvcc=/usr/local/cuda/bin/nvcc
if ! [ -x "$nvcc" ]; then
  echo "There is no CUDA compiler (nvcc) on this machine: install NVIDIA's toolkit first (apt: cuda-toolkit)." >&2
  exit 2
fi
major=$("$nvcc" --version | sed -n 's/.*release \([0-9]*\)\..*/\1/p')
toolkit=$(dirname "$(dirname "$(readlink -f "$nvcc")")")
environment=.venv-cuda

# found HEADER LIBRARY: both are in the toolkit, the system, or fetched already.
found() {
  local folder header= library=
  for folder in "$toolkit" "$toolkit"/targets/* /usr /usr/local $environment/lib/python3*/site-packages/nvidia/*; do
    [ ! -e "$folder/include/$1" ] || header=yes
    ! compgen -G "$folder/lib*/lib$2.so*" >/dev/null || library=yes
    ! compgen -G "$folder/lib/*/lib$2.so*" >/dev/null || library=yes
  done
  [ -n "$header" ] && [ -n "$library" ]
}

suffix=-cu$major
cublas=nvidia-cublas$suffix
[ "$major" -lt 13 ] || cublas=nvidia-cublas
wheels=()
found cublasLt.h cublasLt || wheels+=("$cublas")
found cudnn.h cudnn || wheels+=("nvidia-cudnn$suffix")
found nccl.h nccl || wheels+=("nvidia-nccl$suffix")

if [ ${#wheels[@]} = 0 ]; then
  echo "CUDA $major in $toolkit: cuBLAS, cuDNN and NCCL are there."
  exit 0
fi
echo "CUDA $major in $toolkit lacks: ${wheels[*]}"
[ "$mode" != check ] || exit 1
echo "to fetch: python3 -m venv $environment && $environment/bin/pip install ${wheels[*]}"
[ "$mode" != dry_run ] || exit 0
[ -x $environment/bin/pip ] || python3 -m venv $environment
$environment/bin/pip install --quiet "${wheels[@]}"
echo "They are in $environment, where CMake finds them: configure again."
