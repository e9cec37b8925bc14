#!/usr/bin/env bash
# Builds the virtual environment .venv from pyproject.toml and constraints.txt.
# Called by make; does its work again only when one of those files changes.
# With the argument `tests` it installs the JavaScript SDK that the tests drive, too.
set -euo pipefail
what=${1:-environment}
cd "$(dirname "$0")/.."

say() { printf 'setup: %s\n' "$*"; }
fail() { printf 'setup: %s\n' "$*" >&2; exit 1; }

# 1. A Python that is new enough.
python=""
for candidate in ${PYTHON:-python3 python3.14 python3.13 python3.12 python3.11}; do
  if command -v "$candidate" >/dev/null 2>&1 &&
    "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
    python=$candidate
    break
  fi
done
[ -n "$python" ] || fail "Turnout needs Python 3.11 or newer and found none; install it (on Debian and Ubuntu: apt-get install python3 python3-venv) or name one with PYTHON=/path/to/python."

# 2. What Debian and Ubuntu pack separately: Python's venv module, curl for the README's lines, and
#    for the tests npm, which brings the JavaScript SDK.
packages=()
"$python" -c 'import ensurepip, venv' 2>/dev/null ||
  packages+=("python$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')-venv")
command -v curl >/dev/null 2>&1 || packages+=(curl)
[ "$what" != tests ] || command -v npm >/dev/null 2>&1 || packages+=(npm)
if [ "${#packages[@]}" -gt 0 ]; then
  if [ "$(id -u)" = 0 ]; then as_root=(); else as_root=(sudo -n); fi
  if command -v apt-get >/dev/null 2>&1 && "${as_root[@]}" true 2>/dev/null; then
    say "installing ${packages[*]}"
    output=$("${as_root[@]}" apt-get update -qq 2>&1 &&
      "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq "${packages[@]}" 2>&1) ||
      { printf '%s\n' "$output" >&2; fail "apt-get could not install ${packages[*]}; install it and run the command again."; }
  else
    fail "${packages[*]} is missing; install it (on Debian and Ubuntu: sudo apt-get install ${packages[*]}) and run the command again."
  fi
fi

# 3. The environment itself.
if ! .venv/bin/python -c 'import pip' 2>/dev/null; then
  say "creating .venv with $("$python" --version)"
  rm -rf .venv
  "$python" -m venv .venv
fi
say "installing the pinned packages (the first time takes a minute or more)"
.venv/bin/python -m pip install --quiet --disable-pip-version-check --no-input \
  --constraint constraints.txt --editable '.[worker,dev]' ||
  fail "pip could not install the packages above; see its message, then run the command again."
touch .venv/ready
if [ "$what" = tests ]; then
  npm install --prefix tests/js --no-package-lock --no-audit --no-fund --loglevel error >/dev/null ||
    fail "npm could not install the JavaScript SDK; see its message above, then run the command again."
  touch tests/js/node_modules/ready
fi
say "ready"
