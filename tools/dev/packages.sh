# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# Debian packages: the only list of them, and their installation. Nothing calls apt when all are
# there. Groups: build (every user), test (./dev test), bench (./dev bench ccl), format
# (./dev format).

debian_packages=(
  "build  g++                 the default compiler"
  "build  cmake               configures the build"
  "build  ninja-build         runs it"
  "build  ccache              makes a repeated build cheap"
  "build  python3             runs the generators"
  "build  python3-venv        keeps Python packages out of the system"
  "build  patchelf            gives the shipped copy of oneDNN its own name"
  "build  libboost-dev        Boost.DLL opens plugins"
  "build  libfmt-dev          text formatting"
  "build  nlohmann-json3-dev  plugin manifests and --json output"
  "build  libcli11-dev        the command line of backplane"
  "build  libzip-dev          reads .npz files"
  "build  libsodium-dev       HMAC-SHA256 and random bytes for the token of a job (ccl/store)"
  "build  libucx-dev          the engine of collectives between processes (ccl/engine/ucx)"
  "build  libhwy-dev          vector code of plugins/cpu for each instruction set"
  "build  libsleef-dev        logarithms, sines, powers of whole vectors"
  "build  libgtest-dev        test framework"
  "build  libgmock-dev        its matchers"
  "build  libbenchmark-dev    speed tables"
  "build  opencl-headers      plugins/xpu compiles against them"
  "build  ocl-icd-opencl-dev  the loader library that plugins/xpu opens"
  "build  pocl-opencl-icd     an OpenCL device on the processor, so that xpu:0 exists everywhere"
  "build  libpython3-dev      headers for the Python package"
  "test   clang               second compiler: headers, and the clang build of test full"
  "test   libclang-rt-dev     its sanitizer runtimes"
  "test   shellcheck          checks ./dev itself"
  "test   openmpi-bin         mpirun, under which ranks start too (tests/launch)"
  "test   libopenmpi-dev      collectives are repeated by it (tests/ccl)"
  "test   libgloo-dev         and by Gloo, likewise"
  "test   libsimgrid-dev      a simulated network for schedules (test full)"
  "test   mpich               mpiexec, likewise"
  "bench  openmpi-bin         mpirun, for the peer of ./dev bench ccl"
  "bench  libopenmpi-dev      that peer, Open MPI"
  "bench  libgloo-dev         and another one"
  "bench  iproute2            ip and tc: the wire between two hosts of ./dev bench ccl"
  "test   iproute2            ip and ss: the wire between two hosts (tests/ccl_faults)"
  "format clang-format        one style for all sources"
)

packages_of() {  # packages_of GROUP...: names in these groups
  local entry group name wanted
  for entry in "${debian_packages[@]}"; do
    read -r group name _ <<<"$entry"
    for wanted in "$@"; do
      [[ $group != "$wanted" ]] || printf '%s\n' "$name"
    done
  done
}

missing_packages() {  # missing_packages NAME...: those that are not installed
  local installed name
  installed=$(dpkg-query -W -f '${db:Status-Status} ${Package}\n' "$@" 2>/dev/null |
    sed -n 's/^installed //p') || true
  for name in "$@"; do
    grep -qxF -- "$name" <<<"$installed" || printf '%s\n' "$name"
  done
}

# ensure_packages GROUP...: installs what is missing, or says exactly what to run and exits 3.
ensure_packages() {
  local wanted missing as_root=()
  mapfile -t wanted < <(packages_of "$@")
  if ! command -v dpkg-query >/dev/null; then
    say "./dev: this is not a Debian system, so packages can't be checked or installed."
    say "  next: install the equivalents of: ${wanted[*]}"
    say "        then use the presets: cmake --preset release && cmake --build --preset release"
    exit "$exit_environment"
  fi
  mapfile -t missing < <(missing_packages "${wanted[@]}")
  ((${#missing[@]} > 0)) || return 0

  if ((EUID != 0)); then
    as_root=(sudo -n)
  fi
  if ((install_missing == 0)) || { ((EUID != 0)) && ! sudo -n true 2>/dev/null; }; then
    say "./dev: missing packages: ${missing[*]}"
    say "  next: run this line, then ./dev again"
    say "sudo apt-get update && sudo apt-get install -y --no-install-recommends ${missing[*]}"
    exit "$exit_environment"
  fi
  install_packages "${as_root[@]}"
}

# Uses the caller's list `missing`. A failed update alone is no reason to stop: the lists that are
# already there may do.
install_packages() {  # install_packages [sudo -n]
  local apt=("$@" env DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=120)
  say "Installing from Debian: ${missing[*]}"
  step "Update package lists" "continuing with the lists that are there" "${apt[@]}" update || true
  step "Install ${#missing[@]} packages" \
    "see whether the network and the Debian mirror answer (apt-get update); then run ./dev again" \
    "${apt[@]}" install -y --no-install-recommends "${missing[@]}" || exit "$exit_environment"
}
