#!/usr/bin/env bash
# run.sh -- from a fresh clone to the running program: installs what is missing, builds, and runs
# build/luminal with the arguments given. Without arguments it shows the built-in demo; `./run.sh
# help` lists what else there is.
#
#   ./run.sh python [FILE]    Python with the module luminal
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/tools/build.sh"

if [ "${1-}" = python ]; then
  shift
  luminal_setup --python
  luminal_python_env release
  if [ ! -f "$luminal_root/build/python-env/complete" ]; then exit 3; fi # the reason has been told
  luminal_build release luminal_core
  export PYTHONPATH="$luminal_root/build/python/package${PYTHONPATH:+:$PYTHONPATH}"
  exec "$luminal_root/build/python-env/bin/python" "$@"
fi
luminal_setup
luminal_build release luminal
exec "$luminal_root/build/luminal" "$@"
