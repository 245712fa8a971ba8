#!/usr/bin/env bash
# Makes image.zst and manifest.zst: a file system of 1 KiB blocks made by mkfs.xfs 7.2 and Linux 6.18 with every form of
# directory and attribute fork, and what the kernel says of every name. Needs root, loop devices, xfsprogs 7.2, zstd and
# python3. Run in an empty folder; the two files appear there.
set -euo pipefail
here=$(dirname "$(readlink -f "$0")")
mkdir -p mnt
rm -f image; truncate -s 40M image
mkfs.xfs -q --unsupported -b size=1024 -d agcount=2 -l size=10m image
mount -o loop image mnt
python3 "$here/fill.py" mnt
umount mnt; mount -o loop,ro image mnt
python3 "$here/manifest.py" mnt > manifest
umount mnt
xfs_repair -n image > /dev/null 2>&1
xfs_db -x -c 'logformat -c 100' image > /dev/null
zstd -q -f -19 image -o image.zst
zstd -q -f -19 manifest -o manifest.zst
rmdir mnt; rm image manifest
