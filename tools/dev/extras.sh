# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# The smaller commands: bench, models, format, clean.

command_bench() {
  ensure_packages build
  ensure_python tools/requirements-build.txt tools/requirements-test.txt
  build_preset release || exit "$exit_failed"
  live_step "Measure, in turns with ONNX Runtime" "read the error above" \
    "$venv/bin/python" tests/perf/report.py --build build/release \
    --digits docs/examples/digits/digits.onnx || exit "$exit_failed"
}

# The model is committed; this makes it again with its own packages, apart from .venv.
command_models() {
  local folder=.cache/models-venv
  ensure_packages build
  mkdir -p .cache
  ensure_venv_at "$folder"
  ensure_requirements "$folder" docs/examples/digits/requirements.txt
  live_step "Train and write the digits model" "read the error above" \
    "$folder/bin/python" docs/examples/digits/make_digits.py || exit "$exit_failed"
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
