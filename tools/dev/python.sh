# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# Python packages live in .venv and nowhere else. A requirements file is installed again only when
# its content changed; the stamp beside the packages holds its hash. Any pip configuration of the
# user (mirror, certificates) stays in force: no index is named here.

venv=".venv"

# ensure_python FILE...: .venv with the packages of these requirements files.
ensure_python() {
  local file
  ensure_venv
  for file in "$@"; do
    ensure_requirements "$venv" "$file"
  done
}

ensure_venv() {
  ensure_venv_at "$venv"
}

ensure_venv_at() {  # ensure_venv_at FOLDER
  local folder=$1 python=/usr/bin/python3
  ! "$folder/bin/python" -c 'import pip' 2>/dev/null || return 0
  # Debian's own interpreter first: python3-venv belongs to it and to no other on the PATH.
  [[ -x $python ]] || python=python3
  if ((install_missing == 0)); then
    say "./dev: $folder is missing or doesn't run"
    say "  next: run this line, then ./dev again"
    say "$python -m venv --clear $folder"
    exit "$exit_environment"
  fi
  step "Make $folder" "see whether $python -m venv works (package python3-venv)" \
    "$python" -m venv --clear "$folder" || exit "$exit_environment"
}

ensure_requirements() {  # ensure_requirements VENV FILE
  local folder=$1 file=$2 stamp hash
  stamp="$folder/.installed-$(basename "$file")"
  hash=$(sha256sum <"$file")
  [[ ! -f $stamp || $(<"$stamp") != "$hash" ]] || return 0
  if ((install_missing == 0)); then
    say "./dev: the packages of $file are not installed"
    say "  next: run this line, then ./dev again"
    say "$folder/bin/python -m pip install -r $file && sha256sum <$file >$stamp"
    exit "$exit_environment"
  fi
  step "Install $file" \
    "see whether pip reaches its index ($folder/bin/python -m pip config list); run ./dev again" \
    "$folder/bin/python" -m pip install --no-input --disable-pip-version-check -r "$file" ||
    exit "$exit_environment"
  printf '%s\n' "$hash" >"$stamp"
}
