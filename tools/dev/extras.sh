# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# The smaller commands: bench, models, wheel, format, clean.

# bench ccl: the speed of collectives.
bench_ccl() {
  ensure_packages build bench
  ensure_python tools/requirements-build.txt tools/requirements-test.txt
  build_preset release || exit "$exit_failed"
  ensure_yardstick .cache/oneccl-venv tests/perf/ccl/oneccl-requirements.txt "500 MB"
  live_step "Measure collectives, in turns with Open MPI, Gloo and oneCCL" \
    "read the rows that are MISSED or NOT RUN" \
    "$venv/bin/python" -B tests/perf/ccl/ccl_speed.py --build build/release \
    --oneccl-venv .cache/oneccl-venv || exit "$exit_failed"
}

# bench python: the speed of the Python package.
bench_python() {
  ensure_packages build test
  ensure_python tools/requirements-build.txt tools/requirements-test.txt \
    tools/requirements-python.txt
  release_settings=(-DBP_BUILD_PYTHON=ON)
  build_preset release || exit "$exit_failed"
  ensure_models_venv
  ensure_requirements "$models_venv" tests/perf/peers-requirements.txt
  live_step "Measure the Python package, in turns with NumPy, PyTorch and ONNX Runtime" \
    "read the rows that are MISSED, NOT MEASURED or NOT RUN" \
    "$venv/bin/python" -B tests/perf/python/python_speed.py --build build/release \
    --peers-venv "$models_venv" || exit "$exit_failed"
}

# bench [--against BUILD_DIR]: the speed table, or this build beside another one.
command_bench() {
  local digits=docs/examples/digits/digits.onnx
  if [[ ${1:-} == ccl ]]; then
    bench_ccl
    return
  fi
  if [[ ${1:-} == python ]]; then
    bench_python
    return
  fi
  ensure_packages build
  ensure_python tools/requirements-build.txt tools/requirements-test.txt
  build_preset release || exit "$exit_failed"
  if [[ -n $bench_against ]]; then
    live_step "Measure, in turns with $bench_against" "read the rows that are SLOWER or NOT RUN" \
      "$venv/bin/python" -B tests/perf/against.py --build build/release \
      --against "$bench_against" --digits "$digits" || exit "$exit_failed"
    return
  fi
  ensure_yardstick .cache/torch-venv tests/perf/torch-requirements.txt "500 MB"
  local failed=0 words="read the rows that are MISSED, NOT MEASURED or NOT RUN"
  live_step "Measure, in turns with ONNX Runtime and libtorch" "$words" \
    "$venv/bin/python" -B tests/perf/report.py --build build/release --digits "$digits" \
    --torch-venv .cache/torch-venv || failed=1
  ensure_models_venv
  ensure_requirements "$models_venv" tests/perf/peers-requirements.txt
  live_step "Make the measured models" "read the error above" \
    "$models_venv/bin/python" -B tests/perf/speed_models.py .cache/speed-models ||
    exit "$exit_failed"
  live_step "Measure operators, in turns with ONNX Runtime, PyTorch and oneDNN" "$words" \
    "$venv/bin/python" -B tests/perf/ops_speed.py --build build/release \
    --peers-venv "$models_venv" || failed=1
  live_step "Measure models, in turns with ONNX Runtime, OpenVINO and PyTorch" "$words" \
    "$venv/bin/python" -B tests/perf/model_speed.py --build build/release \
    --peers-venv "$models_venv" --models .cache/speed-models || failed=1
  ((failed == 0)) || exit "$exit_failed"
}

# The venv in which PyTorch makes models, and is compared with.
models_venv=.cache/torch-models-venv
ensure_models_venv() {
  mkdir -p .cache
  ensure_venv_at "$models_venv"
  ensure_requirements "$models_venv" tests/models/requirements.txt
}

# ensure_yardstick FOLDER FILE SIZE: the packages that FILE names in a venv of its own, and not what
# these name, such as libraries for other processors. A table without their rows is still worth
# having, so failing here ends nothing: the rows say NOT RUN.
ensure_yardstick() {
  local folder=$1 file=$2 size=$3
  local stamp="$1/.installed-yardstick" hash
  hash=$(sha256sum <"$file")
  [[ ! -f $stamp || $(<"$stamp") != "$hash" ]] || return 0
  if ((install_missing == 0)); then
    say "./dev: $file is not installed in $folder; its rows will say NOT RUN"
    return 0
  fi
  mkdir -p "$(dirname "$folder")"
  ensure_venv_at "$folder"
  if step "Install $file ($size)" "see whether pip reaches its index" \
    "$folder/bin/python" -m pip install --no-input --disable-pip-version-check --no-deps \
    -r "$file"; then
    printf '%s\n' "$hash" >"$stamp"
  fi
}

# wheel: the Python package for other machines.
command_wheel() {
  ensure_packages build test
  ensure_python tools/requirements-build.txt tools/requirements-python.txt
  build_preset release backplane_product || exit "$exit_failed"
  live_step "Make the wheel" "read the error above" \
    "$venv/bin/python" -B python/make_wheel.py build/release build/wheel || exit "$exit_failed"
}

# models digits: the example's model, which is committed, from scratch. models [DIR]: those of
# tests/models. Each has a venv of its own, apart from .venv.
command_models() {
  local folder=.cache/models-venv
  ensure_packages build
  mkdir -p .cache
  if [[ ${1:-} == digits ]]; then
    ensure_venv_at "$folder"
    ensure_requirements "$folder" docs/examples/digits/requirements.txt
    live_step "Train and write the digits model" "read the error above" \
      "$folder/bin/python" docs/examples/digits/make_digits.py || exit "$exit_failed"
    return
  fi
  ensure_models_venv
  live_step "Make the models of tests/models" "read the lines that say FAILED" \
    "$models_venv/bin/python" -B tests/models/make_models.py "${1:-.cache/models}" ||
    exit "$exit_failed"
}

# Sources that git tracks or would track: build output and downloads are never touched.
command_format() {
  local files
  ensure_packages format
  mapfile -d '' -t files < <(git ls-files -z --cached --others --exclude-standard -- \
    '*.c' '*.h' '*.cpp' '*.hpp')
  ((${#files[@]} > 0)) || { say "./dev: no sources found"; return 0; }
  if ((format_check == 1)); then
    step "Check the format of ${#files[@]} sources" "./dev format" \
      clang-format --dry-run --Werror "${files[@]}" || exit "$exit_failed"
  else
    step "Format ${#files[@]} sources" "read the log" clang-format -i "${files[@]}" ||
      exit "$exit_failed"
  fi
}

command_clean() {
  rm -rf build
  ((clean_all == 0)) || rm -rf .venv .cache
  say "Removed build/$( ((clean_all == 0)) || printf ', .venv/, .cache/')"
}
