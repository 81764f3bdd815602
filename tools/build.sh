# tools/build.sh -- what run.sh, test.sh and bench.sh share: set-up, configuration, build. Sourced, not run.
# Everything it prints goes to standard error; standard output belongs to the program that is run.

luminal_root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)"

# luminal_setup [option...]: a machine that lacks something goes on, and CMake has the last word.
luminal_setup() {
  "$luminal_root/tools/setup.sh" "$@" || [ $? -eq 3 ]
}

# One job a core, and no more than memory carries: a file with LLVM's headers takes about a gigabyte.
luminal_jobs() {
  local cores memory
  cores=$(getconf _NPROCESSORS_ONLN 2> /dev/null || echo 2)
  memory=$(sed -n 's/^MemAvailable: *\([0-9]*\) kB/\1/p' /proc/meminfo 2> /dev/null || true)
  if [ -n "$memory" ] && [ $((memory / 1000000)) -lt "$cores" ]; then
    cores=$((memory / 1000000 > 0 ? memory / 1000000 : 1))
  fi
  echo "$cores"
}

# luminal_build_dir PRESET: where that preset builds.
luminal_build_dir() {
  if [ "$1" = release ]; then echo "$luminal_root/build"; else echo "$luminal_root/build-$1"; fi
}

# luminal_python_env PRESET [--tests]: what the Python module is built (and tested) with, in that
# preset's folder. Without it the rest is built.
luminal_python_env() {
  local folder before
  folder=$(luminal_build_dir "$1")
  mkdir -p "$folder"
  before=$(cat "$folder/python-env/complete" 2> /dev/null || true)
  "$luminal_root/tools/python_env.sh" "$folder/python-env" "${@:2}" || [ $? -eq 3 ]
  # CMake looks for it when it configures.
  if [ "$(cat "$folder/python-env/complete" 2> /dev/null || true)" != "$before" ]; then
    rm -f "$folder/build.ninja"
  fi
}

# luminal_build PRESET [target...]: configures where that has not been done for this place, builds,
# and is silent where there is nothing to do. One build at a time in one folder.
luminal_build() {
  local preset=$1 folder fresh=()
  shift
  folder=$(luminal_build_dir "$preset")
  mkdir -p "$folder"
  if [ -f "$folder/CMakeCache.txt" ] &&
    ! grep -qFx "CMAKE_HOME_DIRECTORY:INTERNAL=$luminal_root" "$folder/CMakeCache.txt"; then
    fresh=(--fresh) # the tree has been moved or copied with its build
  fi
  if [ ! -f "$folder/build.ninja" ] || [ "${#fresh[@]}" -gt 0 ]; then
    cmake ${fresh[@]+"${fresh[@]}"} -S "$luminal_root" --preset "$preset" >&2
  fi
  local run=(ninja -C "$folder" -j "$(luminal_jobs)" "$@")
  if command -v flock > /dev/null; then
    run=(flock "$folder/.lock" "${run[@]}")
  fi
  "${run[@]}" 2>&1 | sed -u -e '/^ninja: Entering directory/d' -e '/^ninja: no work to do/d' \
    -e '/Re-checking globbed directories/d' -e '/Reading the commit$/d' >&2
}
