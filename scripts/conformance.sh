#!/usr/bin/env bash
# Builds .conformance/venv: stock SGLang for the CPU, about 7 GB; called by `make conformance`.
# Does its work again only when the requirements or this file change.
set -euo pipefail
cd "$(dirname "$0")/.."
here=.conformance
wants=tests/conformance

say() { printf 'conformance: %s\n' "$*"; }

# 1. It compiles kernels when it starts, and has no wheel for every machine.
command -v g++ >/dev/null 2>&1 ||
  { say "SGLang compiles for the CPU when it starts and needs g++ (Debian and Ubuntu: g++)" >&2; exit 1; }
[ "$(uname -sm)" = "Linux x86_64" ] ||
  { say "SGLang 0.5.23 runs on a CPU under Linux on x86_64 only" >&2; exit 1; }

# 2. The environment. SGLang and cache-dit come without their dependencies, which are for GPUs.
if ! "$here/venv/bin/python" -c 'import pip' 2>/dev/null; then
  rm -rf "$here"
  mkdir -p "$here"
  "${PYTHON:-python3}" -m venv "$here/venv"
fi
say "installing SGLang (the first time takes several minutes and about 7 GB)"
pip=("$here/venv/bin/python" -m pip install --quiet --quiet --disable-pip-version-check --no-input)
"${pip[@]}" --constraint "$wants/constraints.txt" --requirement "$wants/requirements.txt"
"${pip[@]}" --no-deps sglang==0.5.23 cache-dit==1.5.1
touch "$here/ready"
say "ready"
