# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# Configure and build one preset, and the commands run and build over it.

presets=(release clang asan tsan fuzz coverage dev)
job_count=""
# Further settings of these builds, by who needs more of them.
release_settings=()
asan_settings=()

# A compiler process of this tree takes up to about 1.5 GB under the sanitizers: a small machine
# must not swap.
default_job_count() {
  local processors memory_kib by_memory
  processors=$(nproc)
  memory_kib=$(awk '/^MemAvailable:/ { print $2 }' /proc/meminfo)
  by_memory=$((${memory_kib:-4000000} / 1500000))
  ((by_memory > 0)) || by_memory=1
  printf '%d' "$((processors < by_memory ? processors : by_memory))"
}

# configure_preset PRESET. A build folder that came from another place is configured afresh, and so
# is one whose compiler lies elsewhere now: CMake would forget the preset's other settings.
configure_preset() {
  local preset=$1 cache="build/$1/CMakeCache.txt" home="" compiler="" fresh=() settings=()
  [[ $preset != release ]] || settings=("${release_settings[@]}")
  [[ $preset != asan ]] || settings=("${asan_settings[@]}")
  if [[ -f $cache ]]; then
    home=$(sed -n 's/^CMAKE_HOME_DIRECTORY:INTERNAL=//p' "$cache")
    compiler=$(sed -n 's/^CMAKE_CXX_COMPILER:[A-Z]*=//p' "$cache")
    [[ $home == "$root" ]] || fresh=(--fresh)
    [[ $(command -v "${compiler##*/}") == "$compiler" ]] || fresh=(--fresh)
  fi
  step "Configure $preset" "read the log; ./dev clean gives a fresh start" \
    cmake "${fresh[@]}" --preset "$preset" "${settings[@]}"
}

build_preset() {  # build_preset PRESET [TARGET]
  local preset=$1 target=${2:-all}
  [[ -n $job_count ]] || job_count=$(default_job_count)
  configure_preset "$preset" || return 1
  rm -f "build/$preset/ccache.log"
  step "Build $preset" "read the first error in the log, then run the same command again" \
    env CCACHE_STATSLOG="$root/build/$preset/ccache.log" \
    cmake --build "build/$preset" --target "$target" --parallel "$job_count"
}

command_build() {
  local preset=${1:-release}
  case $preset in
    clang | fuzz) ensure_packages build test ;;
    *) ensure_packages build ;;
  esac
  ensure_python tools/requirements-build.txt
  build_preset "$preset" || exit "$exit_failed"
  say "Built: build/$preset/bin, build/$preset/lib"
}

command_run() {
  ensure_packages build
  ensure_python tools/requirements-build.txt
  build_preset release backplane_product || exit "$exit_failed"
  say ""
  live_step "Classify the shipped digits on cpu, npu and xpu" \
    "build/release/bin/backplane doctor says what each plugin and device lacks" \
    build/release/bin/digits docs/examples/digits || exit "$exit_failed"
}
