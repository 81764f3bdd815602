#!/usr/bin/env bash
# run.sh -- from a fresh clone to the running program: installs what is missing, builds, and runs build/luminal with the
# arguments given. Without arguments it shows the built-in demo; `./run.sh help` lists what else there is.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/tools/build.sh"

luminal_setup
luminal_build release luminal
exec "$luminal_root/build/luminal" "$@"
