# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# What all commands share: exit codes, steps that show progress and keep a log, nearest match.

exit_failed=1
exit_usage=2
exit_environment=3

log_dir="build/logs"
step_child=""
export LC_ALL=C.UTF-8
export PYTHONDONTWRITEBYTECODE=1

# A step runs in a process group of its own, out of reach of the terminal's interrupt: end the
# whole group, compilers included.
stop_step() {
  if [[ -n $step_child ]]; then
    kill -TERM -- "-$step_child" 2>/dev/null || true
    wait "$step_child" 2>/dev/null || true
  fi
  printf '\n./dev: stopped\n' >&2
  exit 130
}
trap stop_step INT TERM

say() { printf '%s\n' "$*"; }

log_file_of() {  # log_file_of LABEL: where a step keeps its output
  local slug=${1,,}
  slug=${slug//[^a-z0-9]/-}
  mkdir -p "$log_dir"
  printf '%s/%s.log' "$log_dir" "$slug"
}

# step LABEL ADVICE COMMAND...: runs COMMAND quietly with its output in a log, showing that it
# lives; prints one line with the time. On failure prints the end of the log, where the rest is,
# and ADVICE, and returns 1.
step() {
  local label=$1 advice=$2 log started=$SECONDS
  shift 2
  log=$(log_file_of "$label")
  [[ ! -t 1 ]] || printf '%-48s …' "$label"
  set -m
  "$@" >"$log" 2>&1 </dev/null &
  step_child=$!
  set +m
  show_progress "$label" "$log" "$started"
  if wait "$step_child"; then
    step_child=""
    [[ ! -t 1 ]] || printf '\r\033[K'
    printf '%-48s ok (%d s)\n' "$label" "$((SECONDS - started))"
    return 0
  fi
  step_child=""
  [[ ! -t 1 ]] || printf '\r\033[K'
  report_failure "$label" "$log" "$advice" "$((SECONDS - started))"
  return 1
}

# On a terminal the step's line is rewritten each second; elsewhere a line comes every 30 s.
show_progress() {  # show_progress LABEL LOG STARTED
  local label=$1 log=$2 started=$3 shown=$SECONDS last
  while kill -0 "$step_child" 2>/dev/null; do
    sleep 0.2
    if [[ -t 1 ]] && ((SECONDS > shown)); then
      shown=$SECONDS
      last=$(tail -n 1 "$log" | tr -d '\r' | cut -c 1-60)
      printf '\r\033[K%-48s … %d s  %s' "$label" "$((SECONDS - started))" "$last"
    elif ((SECONDS >= shown + 30)); then
      shown=$SECONDS
      last=$(tail -n 1 "$log" | tr -d '\r' | cut -c 1-90)
      printf '%-48s … %d s  %s\n' "$label" "$((SECONDS - started))" "$last"
    fi
  done
}

report_failure() {  # report_failure LABEL LOG ADVICE SECONDS
  printf '%-48s FAILED (%d s)\n' "$1" "$4"
  tail -n 40 "$2" | sed 's/^/  | /'
  printf 'Step failed: %s\n  log:  %s\n  next: %s\n' "$1" "$root/$2" "$3"
}

# live_step LABEL ADVICE COMMAND...: like step, but its output is for the reader.
live_step() {
  local label=$1 advice=$2 log started=$SECONDS
  shift 2
  log=$(log_file_of "$label")
  printf '%s\n' "$label"
  if "$@" 2>&1 </dev/null | tee "$log"; then
    printf '%-48s ok (%d s)\n' "$label" "$((SECONDS - started))"
    return 0
  fi
  printf '%-48s FAILED (%d s)\n' "$label" "$((SECONDS - started))"
  printf 'Step failed: %s\n  log:  %s\n  next: %s\n' "$label" "$root/$log" "$advice"
  return 1
}

nearest_match() {  # nearest_match WORD CANDIDATE...: the candidate with the least edit distance
  local word=$1
  shift
  printf '%s\n' "$@" | awk -v a="$word" '
    function min(x, y) { return x < y ? x : y }
    function distance(b,   i, j, d) {
      for (i = 0; i <= length(a); i++) d[i, 0] = i
      for (j = 0; j <= length(b); j++) d[0, j] = j
      for (i = 1; i <= length(a); i++)
        for (j = 1; j <= length(b); j++)
          d[i, j] = min(min(d[i - 1, j], d[i, j - 1]) + 1,
                        d[i - 1, j - 1] + (substr(a, i, 1) != substr(b, j, 1)))
      return d[length(a), length(b)]
    }
    { n = distance($0); if (NR == 1 || n < best) { best = n; name = $0 } }
    END { print name }'
}
