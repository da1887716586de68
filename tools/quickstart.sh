#!/usr/bin/env bash
# From a bare Debian or Ubuntu to AlexNet planned, compared, verified and trained on this machine's cores.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source tools/packages.sh

usage() {
  cat <<'TEXT'
tools/quickstart.sh: install packages, build partita, run the main job on this machine's cores.

  tools/quickstart.sh                    all of it
  tools/quickstart.sh --dry_run          list what would be installed and run, change nothing
  tools/quickstart.sh --packages_only    install the packages and stop
  tools/quickstart.sh --build_only       install, build and stop
  tools/quickstart.sh --devices 2        plan for 2 devices (default: as many as cores, at most 4)
TEXT
}

dry_run=no packages_only=no build_only=no devices=
while [ $# -gt 0 ]; do
  case ${1//-/_} in
    __dry_run) dry_run=yes ;;
    __packages_only) packages_only=yes ;;
    __build_only) build_only=yes ;;
    __devices)
      devices=${2-}
      [[ $devices =~ ^[1-9][0-9]*$ ]] || { echo "--devices wants a number from 1 on, got '$devices'" >&2; exit 2; }
      shift ;;
    __help | _h) usage; exit 0 ;;
    *) echo "unknown flag: $1" >&2; usage >&2; exit 2 ;;
  esac
  shift
done

cores=$(nproc)
build=build
out=$build/quickstart
partita=$build/tools/partita
model=alexnet
plan=$out/$model.plan.textproto

# Sets devices, where they are not given, and the steps, for a machine of so many cores.
choose_steps() {
  local own=$1
  shared=
  if [ -z "$devices" ]; then
    devices=$own
    [ "$devices" -le 4 ] || devices=4
  fi
  [ "$devices" -le "$own" ] || shared=" --oversubscribe"
  local job="--batch 32 --devices $devices$shared --profile $out/$model.profile.db"
  steps=(
    "profile what is missing, search|plan $model $job -o $plan"
    "the plan beside the expert strategies, predicted and measured|compare $model $plan $job --measure"
    "the plan computes what the serial model computes|verify $plan --quick"
    "five training steps under the plan|run $plan --steps 5"
  )
}

if [ "$dry_run" = yes ]; then
  choose_steps "$cores"
  echo "Packages (as root, or with sudo, where one is missing):"
  list_packages "${PARTITA_PROGRAM_PACKAGES[@]}"
  echo "Packages that make the build faster (optional):"
  list_packages "${PARTITA_FASTER_PACKAGES[@]}"
  echo "Then: build $partita and run"
  for step in "${steps[@]}"; do printf '  %s %s\n' "$partita" "${step#*|}"; done
  exit 0
fi

install_packages PARTITA_PROGRAM_PACKAGES PARTITA_FASTER_PACKAGES
[ "$packages_only" = no ] || exit 0

echo "Building $partita (RelWithDebInfo, $cores jobs)"
cmake -S . -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=RelWithDebInfo -DPARTITA_TESTS=OFF -DPARTITA_CUDA=OFF \
  -DPARTITA_WERROR=OFF -DPARTITA_PRECOMPILE=ON
cmake --build "$build" --target partita -j "$cores"
[ "$build_only" = no ] || exit 0

# Cores as the program counts them: it leaves second threads of a core, and what a quota takes, away.
choose_steps "$("$partita" machine show local | grep -c 'device_class: ')"

mkdir -p "$out"
for step in "${steps[@]}"; do
  read -ra arguments <<<"${step#*|}"
  printf '\n== %s\n$ %s %s\n' "${step%%|*}" "$partita" "${step#*|}"
  "$partita" "${arguments[@]}"
done

cat <<TEXT

Done: $model (batch 32) planned for $devices devices of this machine, compared, verified and trained.
Try next:
  $partita plan resnet18 --batch 32 --devices $devices$shared       another model of the zoo (see: $partita list models)
  $partita plan your_model.onnx                            your own model
  $partita compare $model --machine p100-4x4 --batch 256    a machine that you do not have
  $partita verify $plan    the full proof, integer ring included
  $partita simulate $plan --profile $out/$model.profile.db -o timeline.json
                                                           the predicted timeline: open it in Perfetto
  $partita doctor                                          what works on this machine, and why the rest does not
  cmake --install $build --prefix /usr/local                 program and libraries, for use from anywhere and from C++
  tools/test.sh                                            every test
TEXT
