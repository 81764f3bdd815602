#!/usr/bin/env bash
# tools/check_bare.sh -- does a stranger's machine suffice? Makes a bare root file system, clones
# the last commit into it and runs ./test.sh and ./run.sh there, each twice, with times. Needs root,
# debootstrap and the network.
#
#   tools/check_bare.sh [bookworm|noble] [FOLDER]     Debian 12 (default) or Ubuntu 24.04
set -euo pipefail
release=${1:-bookworm}
folder=${2:-$(mktemp -d)}/$release
mkdir -p "$folder"
source_tree="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)"
here="/usr/src/luminal tree" # with a space, on purpose

case "$release" in
bookworm) debootstrap --variant=minbase "$release" "$folder" http://deb.debian.org/debian ;;
noble)
  # debootstrap of Debian 12 knows every Ubuntu by the script of an old one; the keys come with the
  # file system.
  debootstrap --no-check-gpg --variant=minbase --components=main,universe "$release" "$folder" \
    http://archive.ubuntu.com/ubuntu /usr/share/debootstrap/scripts/gutsy
  echo "deb http://archive.ubuntu.com/ubuntu noble-updates main universe" >> "$folder/etc/apt/sources.list"
  ;;
*)
  echo "usage: tools/check_bare.sh [bookworm|noble] [FOLDER]" >&2
  exit 2
  ;;
esac > "$folder.log"
cp /etc/resolv.conf "$folder/etc/resolv.conf"
mount -t proc proc "$folder/proc"
trap 'umount "$folder/proc"' EXIT
git clone -q "$source_tree" "$folder$here"

inside() {
  local started=$SECONDS
  chroot "$folder" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8 \
    bash -c "cd / && $1" < /dev/null
  echo "=== $release: $1: $((SECONDS - started)) s"
}
inside "'$here/run.sh'"
inside "'$here/run.sh'"
inside "'$here/test.sh'"
inside "'$here/test.sh'"
inside "git -c 'safe.directory=$here' -C '$here' status --porcelain | { ! grep .; }"
echo "the file system stays in $folder"
