#!/usr/bin/env bash
# tools/setup.sh -- installs what is missing to build Luminal, on Debian 12, Ubuntu 24.04 and their kin.
#
#   tools/setup.sh             compilers, LLVM, libraries, test libraries
#   tools/setup.sh --checks    and clang-format 19, clang-tidy 19, a compiler for aarch64 and qemu, OpenCL
#                              on the processor (PoCL): their tests are skipped without them
#   tools/setup.sh --python    and headers of Python (tools/python_env.sh makes the environment of the module)
#   tools/setup.sh --fuzz      and clang 19 for the preset `fuzz`
#   tools/setup.sh --peers     and OpenBLAS and oneDNN, which benchmarks load (./bench.sh peers calls this)
#
# With nothing to do it ends within a few hundredths of a second. It asks no question; as a user it
# goes through sudo, which may ask for a password on a terminal. Exit code 0: everything is there.
# 3: something is missing and cannot be installed here; it has been named, and the build may still
# find it elsewhere.
set -euo pipefail
export LC_ALL=C

# Programs, whoever installed them: command:package.
tools=(c++:g++ cmake:cmake ninja:ninja-build pkg-config:pkg-config ccache:ccache git:git python3:python3)
libraries=(libfmt-dev libspdlog-dev libcli11-dev nlohmann-json3-dev libsqlite3-dev libxxhash-dev
  libpcre2-dev libboost-dev libstb-dev libtomlplusplus-dev libutf8proc-dev libgtest-dev libgmock-dev
  libbenchmark-dev librapidcheck-dev
  zlib1g-dev libzstd-dev libsndfile1-dev libcpp-httplib-dev ca-certificates)
llvm_versions=(19 20 18 21 17) # the preferred one first
for option in "$@"; do
  case "$option" in
  --checks)
    tools+=(clang-format-19:clang-format-19 clang-tidy-19:clang-tidy-19)
    libraries+=(python3-mpmath) # the test of the polynomials' coefficients
    libraries+=(pocl-opencl-icd ocl-icd-libopencl1)
    if [ "$(uname -m)" != aarch64 ]; then
      tools+=(aarch64-linux-gnu-gcc:gcc-aarch64-linux-gnu qemu-aarch64:qemu-user)
      libraries+=(libc6-dev-arm64-cross)
    fi
    ;;
  --python)
    headers=$(python3 -c 'import sysconfig; print(sysconfig.get_path("include"))' 2> /dev/null || true)
    [ -e "$headers/Python.h" ] || libraries+=(python3-dev)
    python3 -c 'import ensurepip' 2> /dev/null || libraries+=(python3-venv)
    ;;
  --fuzz) tools+=(clang++-19:clang-19) libraries+=(libclang-rt-19-dev) ;;
  # libdnnl-dev brings the library, whose package is called otherwise from release to release.
  --peers) libraries+=(libopenblas0-pthread libdnnl-dev) ;;
  *)
    echo "usage: tools/setup.sh [--checks] [--python] [--fuzz] [--peers]" >&2
    exit 2
    ;;
  esac
done

say() { echo "setup: $*" >&2; }

missing=()
for tool in "${tools[@]}"; do
  command -v "${tool%%:*}" > /dev/null || missing+=("${tool#*:}")
done

if ! command -v dpkg-query > /dev/null || ! command -v apt-get > /dev/null; then
  say "this is neither Debian nor Ubuntu, so nothing is installed. Luminal needs:"
  say "  a C++20 compiler (g++ 12, clang 16 or newer), CMake 3.25, Ninja, pkg-config, Python 3, git,"
  say "  and if possible ccache"
  say "  LLVM 17 to 21 with headers; fmt, spdlog, CLI11, nlohmann-json, SQLite 3, xxhash, PCRE2, utf8proc,"
  say "  Boost, stb, libsndfile, toml++"
  say "  for tests and benchmarks GoogleTest, RapidCheck, Google Benchmark; clang-format 19 and clang-tidy 19"
  [ "${#missing[@]}" -eq 0 ] || say "not in the path: ${missing[*]}"
  exit 3
fi

# One query for all packages.
llvm_packages=()
for version in "${llvm_versions[@]}"; do llvm_packages+=("llvm-$version-dev"); done
installed=" $(dpkg-query -W -f '${db:Status-Status}:${Package} ' "${libraries[@]}" "${llvm_packages[@]}" \
  2> /dev/null || true)"
has() { [[ "$installed" == *" installed:$1 "* ]]; }

for library in "${libraries[@]}"; do
  has "$library" || missing+=("$library")
done
llvm=""
for version in "${llvm_versions[@]}"; do
  if has "llvm-$version-dev"; then
    llvm=$version
    break
  fi
done
[ -n "$llvm" ] && [ "${#missing[@]}" -eq 0 ] && exit 0

# Something is missing: who installs it?
as_root=()
if [ "$(id -u)" -ne 0 ]; then
  if command -v sudo > /dev/null && sudo -n true 2> /dev/null; then
    as_root=(sudo -n)
  elif command -v sudo > /dev/null && [ -t 0 ]; then
    as_root=(sudo)
  else
    [ -n "$llvm" ] || missing+=("llvm-${llvm_versions[0]}-dev")
    say "missing: ${missing[*]}"
    say "this user is not root and sudo is not there (or wants a password). As root:"
    say "  apt-get update && apt-get install -y --no-install-recommends ${missing[*]}"
    exit 3
  fi
fi
apt() {
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive NEEDRESTART_MODE=l LC_ALL=C \
    apt-get -q -y -o Dpkg::Use-Pty=0 -o DPkg::Lock::Timeout=300 "$@" >&2
}

say "missing: ${missing[*]-}${llvm:+}$([ -n "$llvm" ] || echo ' LLVM 17 to 21')"
apt update || say "the package lists could not be renewed (no network?); trying with what is there"

available() { [ -n "$(apt-cache policy "$1" 2> /dev/null | sed -n '/Candidate: *[^( ]/p')" ]; }
if [ -z "$llvm" ]; then
  for version in "${llvm_versions[@]}"; do
    if available "llvm-$version-dev"; then
      missing+=("llvm-$version-dev")
      ! available "lld-$version" || missing+=("lld-$version") # links six times as fast as GNU ld
      llvm=$version
      break
    fi
  done
fi
wanted=()
absent=()
for package in "${missing[@]}"; do
  if available "$package"; then wanted+=("$package"); else absent+=("$package"); fi
done
[ -n "$llvm" ] || absent+=("llvm-${llvm_versions[0]}-dev (or 17 to 21)")
if [ "${#wanted[@]}" -gt 0 ]; then
  say "installing ${wanted[*]}"
  if ! apt install --no-install-recommends "${wanted[@]}"; then
    say "could not be installed: ${wanted[*]}"
    exit 3
  fi
fi
if [ "${#absent[@]}" -gt 0 ]; then
  say "not in the package lists of this machine: ${absent[*]}"
  exit 3
fi
