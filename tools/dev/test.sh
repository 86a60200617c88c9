# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# ./dev test: builds and tests preset after preset. A failure is counted and the next part still
# runs, so that one run shows everything; the last line is the sum.

passed_count=0
failed_count=0
skipped_count=0
build_lines=""
table_lines=""
failure_lines=""

command_test() {
  local suite=${1:-default}
  ensure_packages build test
  ensure_python tools/requirements-build.txt tools/requirements-test.txt \
    tools/requirements-python.txt
  release_settings=(-DBP_BUILD_PYTHON=ON)
  [[ $suite != full ]] || asan_settings=(-DBP_BUILD_PYTHON=ON)

  test_preset release quick
  if [[ $suite != quick ]]; then
    test_headers
    test_preset asan quick
  fi
  if [[ $suite == full ]]; then
    test_preset asan full all '^python_'
    test_preset asan left_to_full
    test_preset clang quick
    test_preset tsan quick
    test_preset fuzz full fuzzers
    test_preset release full
    report_coverage
  fi
  say ""
  report_left_out "$suite"
  [[ -z $table_lines ]] || printf 'Tables, in build/*/reports/:\n%s' "$table_lines"
  [[ -z $build_lines ]] || printf 'Builds:\n%s' "$build_lines"
  ((skipped_count == 0)) || say "$skipped_count skipped: build/*/reports/tests-*.xml says why"
  [[ -z $failure_lines ]] || printf 'What failed:\n%s' "$failure_lines"
  say "$passed_count passed, $failed_count failed"
  ((failed_count == 0)) || exit "$exit_failed"
}

# test_preset PRESET LABEL [TARGET [NAMES]]: a build that fails counts as one failure. NAMES is an
# expression: of the others the run is left to other builds.
test_preset() {
  local preset=$1 label=$2
  if ! build_preset "$preset" "${3:-all}"; then
    failed_count=$((failed_count + 1))
    return 0
  fi
  add_lines build_lines "$venv/bin/python" tools/dev/compile_seconds.py "build/$preset"
  local reports="build/$preset/reports" started
  started=$(date +%s)
  local junit="$reports/tests-$label.xml"
  mkdir -p "$reports"
  rm -f "$junit"
  live_step "Test $preset ($label)" \
    "run one again: ctest --test-dir build/$preset -R NAME --output-on-failure" \
    run_ctest "$preset" "$label" "$root/$junit" "${4:-.}" || true
  count_results "$root/$junit"
  add_lines failure_lines "$venv/bin/python" tools/dev/list_failures.py "$root/$junit"
  add_lines table_lines "$venv/bin/python" tools/dev/table_totals.py "build/$preset" "$started"
}

# add_lines NAME COMMAND...: what COMMAND prints, indented, goes to the end of the variable NAME.
add_lines() {
  local -n lines=$1
  shift
  lines+=$("$@" | sed -n "/./s/^/  /p"; printf .)
  lines=${lines%.}
}

# The tests that run elsewhere only, each with its reason.
report_left_out() {  # report_left_out SUITE
  local list=tests/left_out_of_sanitizers.txt
  [[ $1 != quick ]] || return 0
  say "Left out of asan ($list):"
  sed -En 's/^([a-z0-9_]+) (asan|both):/  \1:/p' "$list"
  if [[ $1 != full ]]; then
    sed -En 's/^([a-z0-9_]+) asan_quick:/  \1:/p' "$list"
    return 0
  fi
  say "Left out of tsan ($list):"
  sed -En 's/^([a-z0-9_]+) (tsan|both):/  \1:/p' "$list"
}

# Two tests more than there are processors, for many of them wait for a deadline to pass. The end of
# each program's output is kept: GoogleTest's own sums stand there.
run_ctest() {  # run_ctest PRESET LABEL JUNIT NAMES
  env -u OMP_NUM_THREADS ctest --test-dir "build/$1" -L "^$2\$" -R "$4" -j "$(($(nproc) + 2))" \
    --output-on-failure --no-tests=error --output-junit "$3" \
    --test-output-truncation head --test-output-size-passed 4096
}

count_results() {  # count_results JUNIT
  local passed failed skipped
  read -r passed failed skipped < <("$venv/bin/python" tools/dev/count_tests.py "$1")
  passed_count=$((passed_count + passed))
  failed_count=$((failed_count + failed))
  skipped_count=$((skipped_count + skipped))
}

# What the core's own tests reach. Tests of files and symbols are left out: they look at what a
# build makes, and this one is made differently.
report_coverage() {
  if ! build_preset coverage; then
    failed_count=$((failed_count + 1))
    return 0
  fi
  find build/coverage -name '*.gcda' -delete
  live_step "Run the tests of the core for coverage" "they ran before: see there" \
    ctest --test-dir build/coverage -L '^quick$' -j 2 \
    -E 'lint|package|dev_command|symbols|^abi_|cli_test' || true
  live_step "Coverage" "read the error above" \
    "$venv/bin/python" tools/dev/coverage.py --build build/coverage --source "$root" || true
}

# The device API must compile alone, as C and as C++, with both compilers.
test_headers() {
  local log
  log=$(log_file_of "Headers through gcc and clang")
  live_step "Headers through gcc and clang" "read the first error above" \
    "$venv/bin/python" tools/dev/check_headers.py --compiler gcc --compiler clang \
    device_api/include core/api/include build/release/generated/include || true
  local passed failed
  read -r passed failed < <(sed -n 's/^\([0-9]*\) passed, \([0-9]*\) failed$/\1 \2/p' "$log" |
    tail -n 1 | grep . || printf '0 1\n')
  passed_count=$((passed_count + passed))
  failed_count=$((failed_count + failed))
}
