#!/usr/bin/env bash
# tools/python_env.sh FOLDER [--tests] -- a virtual environment in which the Python module is built:
# nanobind, numpy, mypy, scikit-build-core. With --tests also what its results are compared with:
# onnx and ONNX Runtime; tests are skipped where these cannot be installed. Exit code 0: it is there.
# 3: it cannot be made here (no network, no headers of Python); the reason has been told.
set -euo pipefail
folder=${1:?usage: tools/python_env.sh FOLDER [--tests]}
tests=${2-}
packages=("nanobind>=3.0,<4" "scikit-build-core>=0.11" "numpy" "mypy")
wanted="${packages[*]} $(python3 -c 'import sys; print(sys.version)')"
say() { echo "setup: $*" >&2; }

peers=("onnx>=1.16" "onnxruntime>=1.17")
install() {
  "$folder/bin/pip" install -q --disable-pip-version-check --retries 2 --timeout 15 "$@" >&2
}
with_peers() {
  if [ "$tests" = --tests ] && [ ! -f "$folder/peers" ]; then
    say "for the tests, in $folder: ${peers[*]}"
    if install --only-binary :all: "${peers[@]}"; then
      touch "$folder/peers"
    else
      say "these cannot be installed: the tests beside ONNX Runtime are skipped"
    fi
  fi
}

if [ -f "$folder/complete" ] && [ "$(cat "$folder/complete")" = "$wanted" ]; then
  with_peers
  exit 0
fi
headers='import os, sysconfig, sys
sys.exit(not os.path.exists(os.path.join(sysconfig.get_path("include"), "Python.h")))'
if ! python3 -c "$headers"; then
  say "no headers of $(command -v python3) (Debian, Ubuntu: python3-dev): the Python module is left out"
  exit 3
fi
say "a Python environment in $folder: ${packages[*]}"
rm -rf "$folder"
if ! python3 -m venv "$folder" >&2; then
  say "python3 -m venv failed (Debian, Ubuntu: python3-venv): the Python module is left out"
  rm -rf "$folder"
  exit 3
fi
if ! install "${packages[@]}"; then
  say "the package index cannot be reached, or lacks these: the Python module is left out"
  rm -rf "$folder"
  exit 3
fi
echo "$wanted" > "$folder/complete"
with_peers
