#!/usr/bin/env bash
# Makes the log dumps of this folder with mkfs.xfs and the kernel, and asks xfs_logprint and the kernel what they
# think of each. Needs root, loop devices, tracefs at /sys/kernel/tracing, xfsprogs 7.2, python3 and zstd.
#
# Usage: make.sh SCRATCH_DIRECTORY [NAME...]
#
# NAME.zst is the image's first 4096 bytes (the superblock) followed by its whole log. expected.txt says, for each,
# what xfs_logprint -t and the kernel (at a mount of a copy) hold to be tail and head:
#   NAME logprint TAIL HEAD STATE kernel TAIL HEAD     (512-byte units; "-" where the kernel recovered nothing)
# items.txt says how many items of each kind xfs_logprint finds in the whole log, and their checksum: the sum of the
# numbers of all buffers and inodes, but for those that it does not print because they are split over records. Logs
# that it cannot print to the end are left out.
#   NAME KIND COUNT KIND COUNT … unprinted COUNT sum SUM
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
scratch=$1
shift
wanted=("$@")
mkdir -p "$scratch"
trace=/sys/kernel/tracing
image=$scratch/image
point=$scratch/mount
mkdir -p "$point"
: > "$scratch/expected.txt"
: > "$scratch/items.txt"

wanted() { [ ${#wanted[@]} = 0 ] || [[ " ${wanted[*]} " == *" $1 "* ]]; }

format() { rm -f "$image"; truncate -s "$1" "$image"; shift; mkfs.xfs -q -f --unsupported -m uuid=5f75786a-0000-4000-8000-00006c6f6731 "$@" "$image" >/dev/null 2>&1; }
attach() { mount -o "loop,nouuid${1:+,$1}" "$image" "$point"; }
detach() { umount "$point"; }
churn() { python3 "$here/churn.py" "$point" "$1"; }
work() { python3 "$here/operations.py" "$point" "$1" "$2"; }
kill_with_flush() { xfs_io -x -c 'shutdown -f' "$point"; detach; }
kill_without_flush() { xfs_io -x -c 'shutdown' "$point"; detach; }

intents() { python3 "$here/intents.py" "$point" "$1" "$2"; }

# See damage.py.
damage() { python3 "$here/damage.py" "$image" "$(log_byte)" "$(log_length)" "$1" "$2"; }
field() { xfs_db -r -c 'sb 0' -c "p $1" "$image" | sed 's/.*= //'; }
log_byte() {
    local daddr
    daddr=$(xfs_logprint -t "$image" 2>/dev/null | sed -n 's/.*daddr: \([0-9]*\).*/\1/p' | head -1)
    echo $((daddr * 512))
}
log_length() { echo $(($(field logblocks) * $(field blocksize))); }

items() {
    # It gives up at extension headers behind the end of the ring.
    xfs_logprint "$image" > "$scratch/logprint" 2>/dev/null || return 0
    { grep -aE '^([A-Z_]+: *#regs:|ICR: )' "$scratch/logprint" || true; } | awk -v name="$1" '
        { kind = $1; sub(":", "", kind); sub("^ICR$", "ICREATE", kind); count[kind]++ }
        /Not printing/ { unprinted++; next }
        kind == "BUF" { sum += $6 }
        kind == "INODE" { for (i = 1; i < NF; i++) if ($i == "ino:") inode = $(i + 1); sum += hex(inode) }
        function hex(text, value, i) {
            value = 0
            for (i = 3; i <= length(text); i++)
                value = value * 16 + index("0123456789abcdef", substr(text, i, 1)) - 1
            return value
        }
        END {
            printf "%s", name
            for (kind in count) printf " %s %d", kind, count[kind]
            printf " unprinted %d sum %d\n", unprinted, sum
        }'
}

judge() {
    local name=$1 logprint state kernel loop start length
    logprint=$(xfs_logprint -t "$image" 2>/dev/null | grep -a 'log tail:' | head -1 || true)
    state=$(sed -n 's/.*log tail: \([0-9]*\) head: \([0-9]*\) state: <\(.*\)>.*/\1 \2 \3/p' <<<"$logprint")
    start=$(log_byte); length=$(log_length)
    { head -c 4096 "$image"; tail -c +$((start + 1)) "$image" | head -c "$length"; } > "$scratch/dump" || true
    zstd -q -f --ultra -22 --long=27 "$scratch/dump" -o "$scratch/$name.zst"
    items "$name" >> "$scratch/items.txt"
    cp --sparse=always "$image" "$scratch/copy"
    echo > "$trace/trace"; echo 1 > "$trace/events/xfs/xfs_log_recover/enable"
    # Mounted read-only, but over a writable loop device: recovery needs one.
    loop=$(losetup -f --show "$scratch/copy")
    if mount -o nouuid,ro "$loop" "$point" 2>"$scratch/mount.err"; then
        umount "$point"
        kernel=$(sed -n 's/.*headblk 0x\([0-9a-f]*\) tailblk 0x\([0-9a-f]*\).*/\1 \2/p' "$trace/trace" | tail -1)
        if [ -n "$kernel" ]; then kernel="$((0x${kernel#* })) $((0x${kernel% *}))"; else kernel="- -"; fi
    else
        kernel="refused refused"
    fi
    losetup -d "$loop"
    echo 0 > "$trace/events/xfs/xfs_log_recover/enable"
    rm -f "$scratch/copy" "$scratch/dump"
    echo "$name logprint ${state:-none none none} kernel $kernel" | tee -a "$scratch/expected.txt"
}

small=(-b size=4096 -d size=320m,agcount=2 -l size=2100b)
tiny=(-b size=1024 -d size=320m,agcount=2 -l size=5000b)

if wanted fresh; then format 512m; judge fresh; fi
if wanted fresh-su256k; then format 512m -b size=4096 -l su=256k,size=4224b; judge fresh-su256k; fi
if wanted clean; then format 320m "${small[@]}"; attach; work 3 1; detach; judge clean; fi
if wanted clean-wrapped; then
    format 320m "${tiny[@]}"; for turn in 1 2 3; do attach; churn 2500; detach; done; judge clean-wrapped
fi
if wanted killed-without-flush; then format 320m "${small[@]}"; attach; work 6 1; kill_without_flush; judge killed-without-flush; fi
if wanted killed-with-flush; then format 320m "${small[@]}"; attach; work 6 1; kill_with_flush; judge killed-with-flush; fi
if wanted killed-after-clean; then
    format 320m "${small[@]}"; attach; work 3 1; detach; attach; work 2 2; kill_with_flush; judge killed-after-clean
fi
if wanted killed-wrapped; then format 320m "${tiny[@]}"; attach; churn 6007; kill_with_flush; judge killed-wrapped; fi
if wanted killed-wrapped-without-flush; then
    format 320m "${tiny[@]}"; attach; churn 2000; detach; attach logbsize=256k; churn 3001; work 3 1; kill_without_flush
    judge killed-wrapped-without-flush
fi
if wanted killed-wrapped-often; then
    format 320m "${tiny[@]}"; attach; churn 20000; work 4 7; kill_with_flush; judge killed-wrapped-often
fi
if wanted killed-wrapped-sector4k; then
    format 320m -s size=4096 "${small[@]}"; attach; churn 3500; work 4 7; kill_with_flush; judge killed-wrapped-sector4k
fi
if wanted killed-wrapped-su32k; then
    format 320m -b size=4096 -d size=320m,agcount=2 -l su=32k,size=2112b; attach; churn 700; kill_with_flush
    judge killed-wrapped-su32k
fi
if wanted killed-wrapped-su256k; then
    format 320m -b size=4096 -d size=320m,agcount=2 -l su=256k,size=4224b; attach logbsize=256k; churn 150
    kill_with_flush; judge killed-wrapped-su256k
fi
if wanted killed-su32k; then format 320m -b size=4096 -d size=320m,agcount=2 -l su=32k,size=2112b; attach; work 20 1; kill_with_flush; judge killed-su32k; fi
if wanted killed-su256k; then
    format 320m -b size=4096 -d size=320m,agcount=2 -l su=256k,size=4224b; attach logbsize=256k; work 40 1; kill_with_flush; judge killed-su256k
fi
if wanted killed-logbsize256k; then
    format 320m "${small[@]}"; attach logbsize=256k; work 25 1; kill_with_flush; judge killed-logbsize256k
fi
if wanted killed-logbsize32k; then
    format 320m "${small[@]}"; attach logbsize=32k; work 25 1; kill_with_flush; judge killed-logbsize32k
fi
if wanted killed-sector4k; then
    format 320m -s size=4096 "${small[@]}"; attach; work 20 1; kill_with_flush; judge killed-sector4k
fi
if wanted killed-block1k; then
    format 320m -b size=1024 -d size=320m,agcount=2 -l size=5376b; attach; work 20 1; kill_with_flush; judge killed-block1k
fi
if wanted killed-block64k; then
    format 512m -b size=65536 -l size=1200b; attach; work 8 1; kill_with_flush; judge killed-block64k
fi
if wanted exchange; then format 320m "${small[@]}"; attach; intents 400 60; kill_with_flush; judge exchange; fi
if wanted intents; then format 320m "${small[@]}"; attach; intents 1500 400; kill_with_flush; judge intents; fi
if wanted torn-last; then format 320m "${small[@]}"; attach; work 8 1; kill_with_flush; damage 0 flip; judge torn-last; fi
if wanted torn-third; then format 320m "${small[@]}"; attach; work 40 1; kill_with_flush; damage 2 flip; judge torn-third; fi
if wanted torn-wrapped; then format 320m "${tiny[@]}"; attach; churn 6100; kill_with_flush; damage 1 flip; judge torn-wrapped; fi
if wanted hole; then format 320m "${small[@]}"; attach; work 30 1; kill_with_flush; damage 2 hole; judge hole; fi
if wanted hole-wrapped; then format 320m "${tiny[@]}"; attach; churn 6200; kill_with_flush; damage 3 hole; judge hole-wrapped; fi
if wanted cut; then format 320m "${small[@]}"; attach; work 30 1; kill_with_flush; damage 0 cut; judge cut; fi
if wanted cut-wrapped; then format 320m "${tiny[@]}"; attach; churn 6100; work 4 7; kill_with_flush; damage 1 cut; judge cut-wrapped; fi
if wanted front; then format 320m "${small[@]}"; attach; work 30 1; kill_with_flush; damage 1 front; judge front; fi
if wanted front-su32k; then
    format 320m -b size=4096 -d size=320m,agcount=2 -l su=32k,size=2112b; attach; churn 700; kill_with_flush
    damage 2 front; judge front-su32k
fi
