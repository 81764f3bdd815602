#!/usr/bin/env bash
# bench.sh -- builds and runs a benchmark: ours and the peers side by side, in ratios and fractions of the machine.
#
#   ./bench.sh                     the benchmarks there are
#   ./bench.sh NAME [--json FILE]  runs bench/NAME.cpp (or NAME_bench.cpp); other arguments go to the program
#   ./bench.sh peers               installs the peers (PyTorch, ONNX Runtime) into ~/.cache/luminal/peers
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/tools/build.sh"

names() {
  local file name
  for file in "$luminal_root"/bench/*.cpp; do
    [ -f "$file" ] || continue
    name=$(basename "$file")
    name=${name%.*}
    echo "${name%_bench}"
  done | sort -u
}

peers="${XDG_CACHE_HOME:-$HOME/.cache}/luminal/peers"
make_peers() {
  if [ ! -x "$peers/bin/python" ]; then
    if ! python3 -m venv "$peers"; then
      rm -rf "$peers"
      echo "bench.sh: python3 cannot make a virtual environment (Debian, Ubuntu: python3-venv)" >&2
      exit 1
    fi
  fi
  # The builds for CPUs are ten times smaller where their index can be reached; the usual ones work as well.
  "$peers/bin/python" -c 'import torch' 2> /dev/null ||
    "$peers/bin/pip" install --quiet --index-url https://download.pytorch.org/whl/cpu 'torch==2.13.0' >&2 ||
    "$peers/bin/pip" install --quiet 'torch==2.13.0' >&2
  "$peers/bin/pip" install --quiet onnxruntime numpy >&2
  "$peers/bin/python" -c 'import torch, onnxruntime, numpy
print("torch", torch.__version__, " onnxruntime", onnxruntime.__version__, " numpy", numpy.__version__)'
}

case "${1-}" in
"")
  echo "usage: ./bench.sh NAME [--json FILE] [argument...]   or   ./bench.sh peers"
  echo "benchmarks:"
  names | sed 's/^/  /'
  exit 0
  ;;
-h | --help)
  sed -n '2,/^set/{/^#/{s/^# \{0,1\}//p}}' "$luminal_root/bench.sh"
  exit 0
  ;;
peers)
  make_peers
  exit 0
  ;;
esac

name=$1
shift
if ! names | grep -qFx -- "$name"; then
  echo "bench.sh: there is no benchmark '$name'. There are: $(names | tr '\n' ' ')" >&2
  exit 2
fi
export LUMINAL_PEERS_PYTHON="$peers/bin/python" # where a benchmark finds its peers; it says so when they are absent
luminal_setup
luminal_build release "bench_$name"
exec "$luminal_root/build/bench/$name" "$@"
