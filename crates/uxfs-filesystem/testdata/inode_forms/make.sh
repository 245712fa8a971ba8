#!/usr/bin/env bash
# Makes image.zst and manifest.txt: a file system of 1 KiB blocks made by mkfs.xfs 7.2 and Linux 6.18 with every form
# of inode, and what the kernel says of each. Needs root, loop devices, xfsprogs 7.2, zstd and python3.
# Run in an empty folder; the two files appear there.
set -euo pipefail
here=$(dirname "$(readlink -f "$0")")
mkdir -p mnt
rm -f image; truncate -s 96M image
mkfs.xfs -q --unsupported -b size=1024 -d agcount=3 image
mount -o loop image mnt
python3 "$here/fill.py" mnt
umount mnt; mount -o loop,ro image mnt
python3 "$here/manifest.py" mnt > manifest.txt
xfs_io -r -c 'bulkstat' mnt | awk '/bs_ino/ {print "inode", $3}' | sort -k2n > inodes.txt
umount mnt
cat inodes.txt >> manifest.txt
zstd -q -f -19 image -o image.zst
rm -rf mnt image inodes.txt
