#!/usr/bin/env bash
# bench.sh -- builds and runs a benchmark: ours and the peers side by side, in ratios and fractions
# of the machine.
#
#   ./bench.sh                     the benchmarks there are
#   ./bench.sh NAME [--json FILE]  runs bench/NAME.cpp (or NAME_bench.cpp); other arguments go to the program
#   ./bench.sh kernelbench         KernelBench's problems through torch.compile (bench/kernelbench.py)
#   ./bench.sh models              whole networks for images and texts (bench/models.py)
#   ./bench.sh flex                variants of attention beside flex_attention (bench/flex.py)
#   ./bench.sh serve               the server beside llama-server (bench/serve.py)
#   ./bench.sh peers               installs the peers into ~/.cache/luminal/peers: PyTorch, ONNX Runtime,
#                                  OpenVINO, llama.cpp; and the packages of OpenBLAS and oneDNN
#                                  (tools/setup.sh --peers). What cannot be had is named
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
  printf '%s\n' kernelbench models flex serve
}

peers="${XDG_CACHE_HOME:-$HOME/.cache}/luminal/peers"
# A peer that cannot be had is named, and the others are made all the same.
peer() { # NAME WHERE-A-LOG-IS COMMAND...
  local name=$1 log=$2
  shift 2
  if "$@" > "$log" 2>&1; then
    echo "$name: present"
  else
    why=$(grep -iE 'error|fatal|not found' "$log" | tail -1 | cut -c1-160)
    echo "$name: absent ($why; the rest is in $log)"
  fi
}
python_package() { # MODULE PIP-ARGUMENT...: installed where it is not there yet
  local module=$1
  shift
  "$peers/bin/python" -c "import $module" 2> /dev/null || "$peers/bin/pip" install "$@" &&
    "$peers/bin/python" -c "import $module"
}
# The builds of PyTorch for CPUs are ten times smaller where their index can be reached; the usual
# ones work as well.
torch() {
  python_package torch --index-url https://download.pytorch.org/whl/cpu 'torch==2.13.0' ||
    python_package torch 'torch==2.13.0'
  python_package expecttest expecttest # its operator data base needs it
}
# Networks of `./bench.sh models`, how they are written as ONNX files, and what problems of KernelBench need.
networks() {
  python_package torchvision torchvision 'torch==2.13.0' && python_package transformers transformers &&
    python_package onnxscript onnxscript && python_package einops einops
}
# Tests of the ONNX export check its files with the package onnx where they find this environment.
onnx_runtime() { python_package onnxruntime onnxruntime && python_package onnx.helper onnx; }
# The PyPI source package of llama-cpp-python holds llama.cpp.
llama_cpp() {
  local sources jobs
  luminal_setup >&2 || return 1 # a compiler, CMake and Ninja
  if [ ! -d "$peers/llama/sources" ]; then
    rm -rf "$peers/llama"
    mkdir -p "$peers/llama/package" || return 1
    "$peers/bin/pip" download --no-binary :all: --no-deps -d "$peers/llama" "llama-cpp-python==0.3.36" &&
      tar xzf "$peers"/llama/llama_cpp_python-*.tar.gz -C "$peers/llama/package" --strip-components 1 &&
      mv "$peers/llama/package" "$peers/llama/sources" || return 1
  fi
  sources=$peers/llama/sources/vendor/llama.cpp
  jobs=$(luminal_jobs)
  cmake -S "$luminal_root/bench/peers" -B "$peers/llama/build" -G Ninja \
    -DCMAKE_BUILD_TYPE=Release "-DLLAMA_CPP=$sources" &&
    cmake --build "$peers/llama/build" -j "$jobs" --target llama_peer llama-bench llama-server
}
# A library that benchmarks load: there under one of these names.
shared_library() {
  local name
  for name in "$@"; do
    if "$peers/bin/python" -c 'import ctypes, sys; ctypes.CDLL(sys.argv[1])' "$name" 2> /dev/null; then
      return 0
    fi
  done
  echo "error: $* not found"
  return 1
}
make_peers() {
  if [ ! -x "$peers/bin/python" ]; then
    if ! python3 -m venv "$peers"; then
      rm -rf "$peers"
      echo "bench.sh: python3 cannot make a virtual environment (Debian, Ubuntu: python3-venv)" >&2
      exit 1
    fi
  fi
  peer numpy "$peers/numpy.log" python_package numpy numpy
  peer "PyTorch 2.13" "$peers/torch.log" torch
  peer "torchvision, transformers" "$peers/networks.log" networks
  peer "ONNX Runtime" "$peers/onnxruntime.log" onnx_runtime
  peer OpenVINO "$peers/openvino.log" python_package openvino openvino
  "$luminal_root/tools/setup.sh" --peers || true
  peer OpenBLAS "$peers/openblas.log" shared_library libopenblas.so.0 libopenblas.so
  peer oneDNN "$peers/onednn.log" shared_library libdnnl.so.3 libdnnl.so.2 libdnnl.so
  echo "llama.cpp: building, 5 to 20 minutes the first time"
  peer llama.cpp "$peers/llama.log" llama_cpp
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
if ! grep -qFx -- "$name" <<< "$(names)"; then # (names in a pipe would be ended by its signal)
  echo "bench.sh: there is no benchmark '$name'. There are: $(names | tr '\n' ' ')" >&2
  exit 2
fi
# Where a benchmark finds its peers; it says so when they are absent.
export LUMINAL_PEERS_PYTHON="${LUMINAL_PEERS_PYTHON:-$peers/bin/python}"
export LUMINAL_PEERS_LLAMA="${LUMINAL_PEERS_LLAMA:-$peers/llama/build/bin/llama_peer}"
luminal_setup
if [ "$name" = serve ]; then
  luminal_build release luminal
  exec "$LUMINAL_PEERS_PYTHON" "$luminal_root/bench/serve.py" "$@"
fi
# In Python, in the peers' environment.
if [ "$name" = kernelbench ] || [ "$name" = models ] || [ "$name" = flex ]; then
  luminal_python_env release
  luminal_build release luminal_core
  export PYTHONPATH="$luminal_root/build/python/package"
  exec "$LUMINAL_PEERS_PYTHON" "$luminal_root/bench/$name.py" "$@"
fi
luminal_build release "bench_$name"
exec "$luminal_root/build/bench/$name" "$@"
