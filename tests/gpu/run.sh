#!/usr/bin/env bash
# Runs the GPU suite of this folder: finds NVIDIA's libraries and a Python that may have PyTorch, and passes the flags on.
set -uo pipefail
folder=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

python=$(command -v python3 || true) libraries=() flags=()
while [ $# -gt 0 ]; do
  case $1 in
    --python) python=${2-} && shift ;;
    --search_path) libraries+=("${2-}") && shift ;;
    *) flags+=("$1") ;;
  esac
  shift
done
# Where it is not said, in this order: the Python wheels of that Python, which are what its PyTorch uses, then toolkits.
if [ -n "$python" ]; then
  wheels=$("$python" -c 'import nvidia; print(":".join(nvidia.__path__))' 2>/dev/null) && libraries+=("$wheels")
  flags+=(--python "$python")
fi
for toolkit in /usr/local/cuda/lib64 /usr/local/cuda/lib /usr/lib/x86_64-linux-gnu; do
  [ ! -d "$toolkit" ] || libraries+=("$toolkit")
done
path=$(IFS=:; echo "${libraries[*]-}")
exec "$folder/gpu_suite" ${path:+--search_path "$path"} ${flags[@]+"${flags[@]}"}
