#!/usr/bin/env bash
# tools/check_format.sh -- every C++ file is as clang-format 19 would write it. --fix rewrites them.
# Exit code 77 (skipped) where clang-format 19 is not installed: other versions format differently.
set -euo pipefail
root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)"
mode=(--dry-run -Werror)
while [ $# -gt 0 ]; do
  case "$1" in
  --fix) mode=(-i) ;;
  --root)
    root=$2
    shift
    ;;
  *)
    echo "usage: tools/check_format.sh [--fix] [--root FOLDER]" >&2
    exit 2
    ;;
  esac
  shift
done
format=clang-format-19
if ! command -v "$format" > /dev/null; then
  if ! clang-format --version 2> /dev/null | grep -q 'version 19\.'; then
    echo "skipped: clang-format-19 is not installed (tools/setup.sh --checks)"
    exit 77
  fi
  format=clang-format
fi
cd "$root"
list() {
  if [ -e .git ] &&
    git -c "safe.directory=$root" ls-files -z -co --exclude-standard -- '*.h' '*.cpp' 2> /dev/null; then
    return
  fi
  find . \( -name 'build*' -o -name '.?*' \) -prune -o \( -name '*.h' -o -name '*.cpp' \) -print0
}
# A file that git lists may have been deleted since.
list | while IFS= read -r -d '' file; do
  if [ -f "$file" ]; then printf '%s\0' "$file"; fi
done | xargs -0 -r -n 8 -P "$(getconf _NPROCESSORS_ONLN)" bash -c '
  # The places without the code, which --fix mends anyway; printed at once, since several run side by side.
  status=0
  found=$("$@" --style=file 2>&1) || status=1
  says="not as clang-format 19 writes it (tools\/check_format.sh --fix)"
  places=$(sed -n "s/^\(.*:[0-9]*\):[0-9]*: error: .*/\1: $says/p" <<< "$found" | uniq)
  [ "$status" -eq 0 ] || printf "%s\n" "${places:-$found}"
  exit "$status"' _ "$format" "${mode[@]}"
