# Sourced by quickstart.sh and test.sh: the one list of Debian and Ubuntu packages that Partita needs, and how
# they are installed. A row is "package|reason".

readonly PARTITA_PROGRAM_PACKAGES=(
  "g++|the compiler (C++20)"
  "cmake|configures the build"
  "ninja-build|runs the build"
  "pkg-config|finds libraries that ship no CMake files"
  "protobuf-compiler|generates the file formats' code"
  "libprotobuf-dev|file formats: models, machines, plans, ONNX"
  "libabsl-dev|status values, hash tables, strings"
  "libdnnl-dev|oneDNN, the kernels of the cpu backend"
  "ocl-icd-opencl-dev|oneDNN's CMake files ask for it"
  "opencl-headers|oneDNN's CMake files ask for it"
  "libcli11-dev|the command line"
  "nlohmann-json3-dev|JSON output and timelines"
  "libssl-dev|checksums of checkpoints (SHA-256)"
  "libsqlite3-dev|the profile database"
  "libturbojpeg0-dev|decodes JPEG images"
  "libpng-dev|decodes PNG images"
  "libhwloc-dev|finds this machine's cores"
)
# Used where they are present; a distribution without one of them is no reason to stop.
readonly PARTITA_FASTER_PACKAGES=(
  "ccache|rebuilds only what changed"
  "mold|a faster linker"
  "libjemalloc-dev|an allocator, with which searches are a sixth faster"
  "coinor-libcbc-dev|integer programs, for the search 'ilp'"
)
readonly PARTITA_TEST_PACKAGES=(
  "libgtest-dev|the test framework"
  "libgmock-dev|matchers for the tests"
  "libbenchmark-dev|the benchmarks"
  "python3|layering and size checks, the summary of the tests"
)
readonly PARTITA_TEST_OPTIONAL_PACKAGES=(
  "clang-format-19|checks the format of the sources"
  "libopenmpi-dev|plans over several processes"
  "openmpi-bin|starts these processes"
)

# Prints the names of the given rows' packages that are not installed, one on a line.
missing_packages() {
  local row name
  for row in "$@"; do
    name=${row%%|*}
    if [ "$(dpkg-query -W -f '${db:Status-Status}' "$name" 2>/dev/null)" != installed ]; then
      echo "$name"
    fi
  done
}

# Prints the given rows as a table: package, installed or missing, reason.
list_packages() {
  local row name state
  for row in "$@"; do
    name=${row%%|*}
    state=installed
    [ -z "$(missing_packages "$row")" ] || state=missing
    printf '  %-20s %-10s %s\n' "$name" "$state" "${row#*|}"
  done
}

# Runs a command up to three times, with a pause between.
retry() {
  local attempt
  for attempt in 1 2 3; do
    "$@" && return 0
    echo "attempt $attempt of 3 failed: $*" >&2
    [ "$attempt" = 3 ] || sleep $((attempt * 5))
  done
  return 1
}

# install_packages REQUIRED_ARRAY OPTIONAL_ARRAY (names of arrays of rows). Installs what is missing, says what it
# installs, does nothing where all is there. Exits with 2 where the rights are missing, 1 where apt fails.
install_packages() {
  local -n required_rows=$1 optional_rows=$2
  local needed wanted known=() name
  if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
    echo "This is no Debian or Ubuntu; the packages below have to be there already:" >&2
    printf '  %s\n' "${required_rows[@]/|/: }" >&2
    return 0
  fi
  mapfile -t needed < <(missing_packages "${required_rows[@]}")
  mapfile -t wanted < <(missing_packages "${optional_rows[@]}")
  if [ ${#needed[@]} = 0 ] && [ ${#wanted[@]} = 0 ]; then
    echo "All packages are installed."
    return 0
  fi
  local -a as_root=()
  if [ "$(id -u)" != 0 ]; then
    as_root=(sudo)
    if ! command -v sudo >/dev/null || { [ ! -t 0 ] && ! sudo -n true 2>/dev/null; }; then
      if [ ${#needed[@]} = 0 ]; then
        echo "Going on without the optional packages: ${wanted[*]}"
        return 0
      fi
      echo "Packages are missing and there are no rights to install them. Run this as root:" >&2
      echo "apt-get update && apt-get install -y --no-install-recommends ${needed[*]} ${wanted[*]}" >&2
      exit 2
    fi
  fi
  echo "Installing: ${needed[*]} ${wanted[*]}"
  retry "${as_root[@]}" apt-get -q update </dev/null || echo "apt-get update failed; trying with the old lists" >&2
  for name in "${wanted[@]}"; do
    if apt-cache show "$name" >/dev/null 2>&1; then
      known+=("$name")
    else
      echo "This distribution has no $name; going on without it."
    fi
  done
  local -a all=("${needed[@]}" "${known[@]}")
  [ ${#all[@]} != 0 ] || return 0
  retry "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
    apt-get install -y -q --no-install-recommends "${all[@]}" </dev/null || {
    echo "apt-get could not install: ${all[*]}" >&2
    exit 1
  }
}
