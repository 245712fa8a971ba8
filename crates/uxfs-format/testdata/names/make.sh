#!/usr/bin/env bash
# Makes the golden blocks beside it: mkfs.xfs 7.2.0 and Linux 6.18 write them, dd copies them out. Needs root.
# Block size 1 KiB, so that a directory block (4 KiB) is several blocks.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
image=$work/image
truncate -s 300M "$image"
mkfs.xfs -q -b size=1024 -m uuid=5eed0000-1111-2222-3333-444455556666 "$image"
mkdir "$work/mnt"
mount -o loop "$image" "$work/mnt"
trap 'mountpoint -q "$work/mnt" && umount "$work/mnt"; rm -rf "$work"' EXIT
cd "$work/mnt"
mkdir short block leaf node
for name in a bb ccc; do : > "short/$name"; done
rm short/bb
for i in $(seq 1 30); do : > "block/name_$i"; done
rm block/name_3 block/name_7 block/name_8 block/name_20
for i in $(seq 1 240); do : > "leaf/a_longer_name_$i"; done
rm leaf/a_longer_name_11 leaf/a_longer_name_12 leaf/a_longer_name_33
for i in $(seq 1 1200); do : > "node/a_longer_name_$i"; done
for i in $(seq 3 7 1200); do rm "node/a_longer_name_$i"; done
: > attr_short; : > attr_leaf; : > attr_node
python3 - <<'PYTHON'
import os
os.setxattr("attr_short", "user.one", b"1")
os.setxattr("attr_short", "trusted.two", b"22")
os.setxattr("attr_leaf", "user.remote", bytes(range(256)) * 10)
for i in range(8):
    os.setxattr("attr_leaf", "user.local%d" % i, b"v" * (20 + i))
os.removexattr("attr_leaf", "user.local3")
os.setxattr("attr_leaf", "trusted.t", b"")
for i in range(60):
    os.setxattr("attr_node", "user.local%d" % i, b"v" * (20 + i))
PYTHON
cd "$work"
umount mnt
sector() { # PATH FORK FILE_BLOCK
    xfs_db -r -c "path $1" -c "$2 $3" -c daddr "$image" | sed -n 's/.*daddr is \([0-9]*\).*/\1/p'
}
copy() { # NAME SECTOR SECTORS
    dd if="$image" of="$here/$1.bin" bs=512 skip="$2" count="$3" status=none
}
leaf=$((1 << 25)); free=$((1 << 26))
copy superblock 0 1
copy directory_block "$(sector /block dblock 0)" 8
copy directory_data "$(sector /node dblock 4)" 8
copy directory_leaf "$(sector /leaf dblock $leaf)" 8
copy directory_node "$(sector /node dblock $leaf)" 8
copy directory_leaf_node "$(sector /node dblock $((leaf + 4)))" 8
copy directory_free_index "$(sector /node dblock $free)" 8
copy attribute_leaf "$(sector /attr_leaf ablock 0)" 2
copy attribute_remote "$(sector /attr_leaf ablock 1)" 6
copy attribute_node "$(sector /attr_node ablock 0)" 2
inode() { # NAME PATH: the inode's 512 bytes
    xfs_db -r -c "path $2" -c "type text" -c "print" "$image" | python3 -c '
import sys
out = bytearray()
for line in sys.stdin:
    for word in line[5:].split()[:16]:
        if len(word) == 2:
            out.append(int(word, 16))
sys.stdout.buffer.write(out[:512])' > "$here/$1.bin"
}
inode directory_shortform_inode /short
inode attribute_shortform_inode /attr_short
