#!/usr/bin/env bash
# test.sh -- from a fresh clone to the verdict: installs what is missing, builds, runs the tests.
#
#   ./test.sh                 all tests but those labelled gpu and slow
#   ./test.sh --label L       the tests of one label: unit golden backend python gpu slow
#   ./test.sh --all           every label
#   ./test.sh --changed COMMIT  the tests that what has changed since then can reach, such as --changed HEAD~1
#   ./test.sh --asan          in a build with AddressSanitizer; likewise --ubsan, --tsan, --dev; several may
#                             be named
#   ./test.sh --fuzz SECONDS  each fuzz target that long under libFuzzer (clang 19)
#   ./test.sh -- -R matmul    what follows -- goes to ctest
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/tools/build.sh"

usage() {
  sed -n '2,/^set/{/^#/{s/^# \{0,1\}//p}}' "$luminal_root/test.sh" >&2
  exit "$1"
}

presets=()
selection=(-LE '^(gpu|slow)$')
extra=()
fuzz_seconds=""
since=""
while [ $# -gt 0 ]; do
  case "$1" in
  --asan | --ubsan | --tsan | --dev) presets+=("${1#--}") ;;
  --all) selection=() ;;
  --label)
    [ $# -ge 2 ] || usage 2
    selection=(-L "^($2)\$")
    shift
    ;;
  --changed)
    [ $# -ge 2 ] || usage 2
    since=$2
    git -C "$luminal_root" rev-parse --verify --quiet "$since^{commit}" > /dev/null || {
      echo "test.sh: $since is not a commit of this tree" >&2
      exit 2
    }
    shift
    ;;
  --fuzz)
    if [[ ! "${2-}" =~ ^[0-9]+$ ]]; then usage 2; fi
    fuzz_seconds=$2
    shift
    ;;
  --)
    shift
    extra=("$@")
    break
    ;;
  -h | --help) usage 0 ;;
  *) usage 2 ;;
  esac
  shift
done

if [ -n "$fuzz_seconds" ]; then
  luminal_setup --fuzz
  luminal_build fuzz fuzzers
  exec python3 "$luminal_root/tools/run_fuzzers.py" --seconds "$fuzz_seconds" --jobs "$(luminal_jobs)" \
    --build "$(luminal_build_dir fuzz)" --corpus "$luminal_root/tests/fuzz/corpus" ${extra[@]+"${extra[@]}"}
fi

[ "${#presets[@]}" -gt 0 ] || presets=(release)
luminal_setup --checks --python
export CTEST_OUTPUT_ON_FAILURE=1
export ASAN_OPTIONS=${ASAN_OPTIONS:-detect_stack_use_after_return=1}
export UBSAN_OPTIONS=${UBSAN_OPTIONS:-print_stacktrace=1}
export TSAN_OPTIONS=${TSAN_OPTIONS:-second_deadlock_stack=1}
for preset in "${presets[@]}"; do
  # A sanitizer would have to be loaded before Python.
  case "$preset" in release | dev) luminal_python_env "$preset" --tests ;; esac
  luminal_build "$preset"
  run=(ctest --test-dir "$(luminal_build_dir "$preset")" -j "$(luminal_jobs)" --no-tests=error
    --output-junit "$(luminal_build_dir "$preset")/tests.xml")
  # ThreadSanitizer of g++ 12 does not start where the kernel moves addresses far; without moving
  # them it does.
  if [ "$preset" = tsan ] && setarch "$(uname -m)" -R true 2> /dev/null; then
    run=(setarch "$(uname -m)" -R "${run[@]}")
  fi
  if [ -n "$since" ]; then
    reached=$(python3 "$luminal_root/tools/changed_tests.py" --build "$(luminal_build_dir "$preset")" \
      --since "$since")
    run+=(-R "$reached")
    export LUMINAL_TIDY_SINCE=$since
  fi
  status=0
  "${run[@]}" ${selection[@]+"${selection[@]}"} ${extra[@]+"${extra[@]}"} || status=$?
  python3 "$luminal_root/tools/test_summary.py" "$(luminal_build_dir "$preset")/tests.xml" || true
  [ "$status" -eq 0 ] || exit "$status"
done
