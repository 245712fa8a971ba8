#!/usr/bin/env bash
# Makes the fixtures beside it: inodes as mkfs.xfs 7.2 and Linux 6.18 write them, and what xfs_db prints of them.
# Needs root, loop devices and xfsprogs 7.2. Run in an empty folder; the fixtures appear there.
set -euo pipefail
export DETERMINISTIC_SEED=1 SOURCE_DATE_EPOCH=1700000000 TZ=UTC
uuid() { printf '00000000-0000-4000-8000-%012d' "$1"; }
mkdir -p mnt

inode() { # image name inode-number
    local bytes address
    bytes=$(xfs_db -r -c 'sb 0' -c 'p inodesize' "$1" | awk '{print $3}')
    address=$(xfs_db -r -c "inode $3" -c 'stack' "$1" | awk '/byte offset/ {gsub(",", ""); print $3}' | tail -1)
    dd if="$1" of="$2.bin" bs=1 skip="$address" count="$bytes" status=none
    { echo "number $3"; xfs_db -r -c "inode $3" -c print "$1" | grep '^core\.\|^next\|^v3\.'; } > "$2.txt" 2>/dev/null
}

# Default features.
rm -f a.img; truncate -s 300M a.img
mkfs.xfs -q -m uuid="$(uuid 1)" a.img
mount -o loop a.img mnt
(
    cd mnt
    mkdir directory; touch directory/a
    head -c 20000 /dev/zero > extents
    for i in $(seq 0 2 100); do dd if=/dev/zero of=btree bs=4096 count=1 seek="$i" conv=notrunc status=none; done
    sync -f btree
    cp --reflink=always extents shared
    touch hint; xfs_io -c 'extsize 64k' -c 'cowextsize 128k' hint
    ln -s target symlink
    ln -s "$(printf 'x%.0s' $(seq 1 900))" long_symlink
    mknod character c 5 1; mknod block b 8 17; mkfifo fifo
    touch gone
    for name in directory extents btree shared hint symlink long_symlink character block fifo gone; do
        echo "$name $(stat -c %i $name)"
    done > ../numbers
    rm gone
)
umount mnt
dd if=a.img of=superblock.bin bs=512 count=1 status=none
while read -r name number; do inode a.img "$name" "$number"; done < numbers
root=$(xfs_db -r -c 'sb 0' -c 'p rootino' a.img | awk '{print $3}')
inode a.img root "$root"
last=$((root + 63))
inode a.img never_used "$last"
address=$(xfs_db -r -c "inode $root" -c stack a.img | awk '/byte offset/ {gsub(",", ""); print $3}' | tail -1)
dd if=a.img of=cluster.bin bs=512 skip=$((address / 512)) count=32 status=none
number=$(awk '$1 == "long_symlink" {print $2}' numbers)
address=$(xfs_db -r -c "inode $number" -c 'dblock 0' -c stack a.img | awk '/byte offset/ {gsub(",", ""); print $3}' | tail -1)
dd if=a.img of=symlink_block.bin bs=4096 skip=$((address / 4096)) count=1 status=none
echo "$((address / 512))" > symlink_block.sector

# Old times and counters; a link over two blocks.
rm -f b.img; truncate -s 300M b.img
mkfs.xfs -q -m uuid="$(uuid 2)",bigtime=0,reflink=0,rmapbt=0 -i nrext64=0 -b size=1024 b.img
mount -o loop b.img mnt
(
    cd mnt
    head -c 20000 /dev/zero > old_extents; touch -d 1950-01-02T03:04:05.678901234Z old_extents
    setfattr -n user.big -v "$(printf 'v%.0s' $(seq 1 900))" old_extents
    ln -s "$(printf 'y%.0s' $(seq 1 1023))" old_symlink
    for name in old_extents old_symlink; do echo "$name $(stat -c %i $name)"; done > ../numbers
)
umount mnt
dd if=b.img of=old_superblock.bin bs=512 count=1 status=none
while read -r name number; do inode b.img "$name" "$number"; done < numbers
number=$(awk '$1 == "old_symlink" {print $2}' numbers)
address=$(xfs_db -r -c "inode $number" -c 'dblock 0' -c stack b.img | awk '/byte offset/ {gsub(",", ""); print $3}' | tail -1)
dd if=b.img of=old_symlink_blocks.bin bs=1024 skip=$((address / 1024)) count=2 status=none
echo "$((address / 512))" > old_symlink_blocks.sector

# Metadata directory and realtime groups, which this kernel cannot mount: as mkfs writes them.
rm -f c.img rt.img; truncate -s 300M c.img rt.img
mkfs.xfs -q -m uuid="$(uuid 3)",metadir=1 -i size=1024 -r rtdev=rt.img c.img
dd if=c.img of=meta_superblock.bin bs=512 count=1 status=none
inode c.img meta_root "$(xfs_db -r -c 'sb 0' -c 'p metadirino' c.img | awk '{print $3}')"
number=$(xfs_db -r -c 'path -m /rtgroups/0.rmap' -c 'p v3.inumber' c.img | awk '{print $3}')
inode c.img meta_btree "$number"
rm -rf mnt ./*.img numbers
