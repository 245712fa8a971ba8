#!/usr/bin/env bash
# Makes image.zst and manifest.zst: a file system of 1 KiB blocks made by mkfs.xfs 7.2 and Linux 6.18 with every form of
# directory and attribute fork, and what the kernel says of every name. Needs root, loop devices, xfsprogs 7.2, zstd and
# python3. Run in an empty folder; the files appear there. Linux 6.18 does not mount case-insensitive file systems:
# mkfs.xfs alone makes and fills case_folded.zst.
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

mkdir tree tree/Short tree/BLOCK tree/Leaf
python3 - << 'PYTHON'
for name in (b"ReadMe", b"MAKEFILE", b"\xc4\xd6\xdc\xd7\xdf.txt", b"x" * 255):
    open(b"tree/Short/" + name, "wb").close()
for index in range(40):
    open(b"tree/BLOCK/File_%d" % index, "wb").close()
for index in range(300):
    open(b"tree/Leaf/Longer_File_NAME_%d_\xd7\xc0" % index, "wb").close()
PYTHON
for index in $(seq 80); do ln tree/Short/ReadMe "tree/Short/Link_$index"; done
truncate -s 40M image
mkfs.xfs -q --unsupported -b size=1024 -d agcount=2 -l size=10m -n version=ci -p tree image
zstd -q -f -19 image -o case_folded.zst
rm -r tree image
