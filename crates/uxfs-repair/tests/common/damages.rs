//! Damages that `xfs_db` plants in golden images, with the numbers of all findings that each gives.

/// A change by `xfs_db`, and the numbers of all findings that it must give.
pub struct Damage {
    pub name: &'static str,
    pub image: &'static str,
    pub commands: &'static [&'static str],
    pub expected: &'static [u16],
    /// A part of what the repair says; empty where that is not looked at.
    pub action: &'static str,
}

const fn damage(
    name: &'static str,
    image: &'static str,
    commands: &'static [&'static str],
    expected: &'static [u16],
) -> Damage {
    Damage { name, image, commands, expected, action: "" }
}

const fn field(
    name: &'static str,
    image: &'static str,
    commands: &'static [&'static str],
    expected: &'static [u16],
    action: &'static str,
) -> Damage {
    Damage { name, image, commands, expected, action }
}

const FILE: &str = "path /link-into-the-deep";
const SHORTFORM: &str = "path /directories/shortform";
const LEAF: &str = "dblock 8388608";

const LINK: &str = "path /special/symlinks/of-900-bytes";
const FREE: &str = "inode 186";

/// Contradictions between structures.
#[rustfmt::skip]
pub const CONTRADICTIONS: &[Damage] = &[
    damage("superblock-icount", "default", &["sb 0", "write -d icount 1"], &[11]),
    damage("superblock-fdblocks", "default", &["sb 0", "write -d fdblocks 77"], &[11]),
    damage("superblock-copy", "default", &["sb 1", "write -d logblocks 5000"], &[10]),
    damage("agf-freeblks", "default", &["agf 1", "write -d freeblks 6000"], &[20]),
    damage("agf-longest", "default", &["agf 1", "write -d longest 17"], &[20]),
    damage("agf-btreeblks", "block-1k", &["agf 1", "write -d btreeblks 77"], &[20]),
    damage("agf-rmapblocks", "block-1k", &["agf 1", "write -d rmapblocks 77"], &[20]),
    damage("agi-count", "default", &["agi 0", "write -d count 128"], &[20]),
    damage("agi-freecount", "default", &["agi 0", "write -d freecount 3"], &[20]),
    damage("agi-unlinked", "default", &["agi 0", "write -d unlinked[3] 131"], &[25, 27]),
    damage("agi-unlinked-twice", "default", &["agi 0", "write -d unlinked[3] 131", "write -d unlinked[4] 132", "inode 132", "write -d next_unlinked 131"], &[25, 26, 27]),
    damage("agi-unlinked-circle", "default", &["agi 0", "write -d unlinked[3] 131", "inode 131", "write -d next_unlinked 131"], &[25, 26, 27]),
    damage("agi-unlinked-free", "default", &["agi 0", "write -d unlinked[58] 186"], &[25, 28]),
    damage("no-links-and-a-name", "default", &["inode 131202", "write -d core.nlinkv2 0"], &[29, 70]),
    damage("no-links-and-no-name", "default", &["inode 131202", "write -d core.nlinkv2 0", "path /directories/block", "dblock 0", "write -d bu[2].inumber 250"], &[29, 50, 62]),
    damage("no-links-in-a-list", "default", &["inode 131202", "write -d core.nlinkv2 0", "agi 1", "write -d unlinked[2] 130"], &[25, 70]),
    damage("next-in-no-list", "default", &["inode 131202", "write -d next_unlinked 130"], &[43]),
    damage("next-behind-the-end", "default", &["inode 131202", "write -d next_unlinked 0"], &[43]),
    damage("free-too-short", "default", &["agf 0", "addr bnoroot", "write -d recs[5].blockcount 6"], &[11, 20, 22, 32]),
    damage("free-too-long", "default", &["agf 0", "addr bnoroot", "write -d recs[5].blockcount 8"], &[11, 20, 22, 30]),
    damage("free-by-length", "default", &["agf 2", "addr cntroot", "write -d recs[1].startblock 3000"], &[22]),
    damage("owner", "default", &["agf 2", "addr rmaproot", "addr ptrs[1]", "write -d recs[16].owner 278496"], &[36, 37]),
    damage("owner-unwritten", "default", &["agf 2", "addr rmaproot", "addr ptrs[1]", "write -d recs[11].extentflag 1"], &[36, 37]),
    damage("btree-fill", "default", &["agf 2", "addr rmaproot", "addr ptrs[7]", "write -d numrecs 40"], &[21, 37, 81]),
    damage("reference-count", "default", &["agf 2", "addr refcntroot", "addr ptrs[1]", "write -d recs[1].refcount 9"], &[33]),
    damage("free-inodes-differ", "default", &["agi 0", "addr free_root", "write -d recs[1].free 0x3"], &[23]),
    damage("inode-not-in-use", "default", &["agi 0", "addr root", "write -d recs[1].free 0x0800000000000000", "write -d recs[1].freecount 1"], &[1, 11, 20, 23]),
    damage("inode-not-free", "default", &["agi 0", "addr root", "write -d recs[1].free 0x0c00000080000000", "write -d recs[1].freecount 3"], &[11, 20, 23, 24, 32, 36, 50]),
    damage("inode-checksum", "default", &["path /directories", "write -c core.size 9"], &[1]),
    damage("inode-blocks", "default", &[FILE, "write -d core.nblocks 9"], &[40]),
    damage("links-of-directory", "default", &["path /directories", "write -d core.nlinkv2 7"], &[70]),
    damage("links-of-file", "default", &["path /directories/node/linked", "write -d core.nlinkv2 812"], &[70]),
    damage("cross-link", "default", &[FILE, "write -d u3.bmx[0].startblock 1"], &[31, 32, 36, 37]),
    damage("cross-link-without-reverse-map", "no-rmapbt", &[FILE, "write -d u3.bmx[0].startblock 1"], &[31, 32]),
    damage("file-in-free-space", "no-rmapbt", &[FILE, "write -d u3.bmx[0].startblock 16000"], &[30, 32]),
    damage("entry-of-other-inode", "default", &["path /directories/block", "dblock 0", "write -d bu[2].inumber 131203"], &[61, 62, 70, 72]),
    damage("entry-of-no-inode", "default", &["path /directories/block", "dblock 0", "write -d bu[2].inumber 250"], &[50, 62, 72]),
    damage("entry-named-as-parent", "default", &[SHORTFORM, "write -d u3.sfdir3.list[0].name \"..\""], &[53, 54, 62, 72]),
    damage("entry-type", "default", &["path /directories/block", "dblock 0", "write -d bu[2].filetype 2"], &[51]),
    damage("entry-without-parent-pointers", "no-parent", &["path /directories/block", "dblock 0", "write -d bu[2].inumber 250"], &[50, 72]),
    damage("leaf-hash", "default", &["path /directories/leaf", LEAF, "write -d lents[3].hashval 0x647c2950"], &[55, 56]),
    damage("leaf-best", "default", &["path /directories/leaf", LEAF, "write -d lbests[1] 0x100"], &[57]),
    damage("node-hash", "default", &["path /directories/node", LEAF, "write -d nbtree[1].hashval 0x6fd1750d"], &[58]),
    damage("free-index", "default", &["path /directories/node", "dblock 16777216", "write -d fbests[4] 0x100"], &[57]),
    damage("dot-dot", "default", &[SHORTFORM, "write -d u3.sfdir3.hdr.parent.i4 128"], &[53]),
    damage("name-twice", "default", &[SHORTFORM, "write -d u3.sfdir3.list[0].name \"f1\""], &[54, 61, 62]),
    damage("parent-generation", "default", &["path /special/symlinks/of-30-bytes", "write -d a.sfattr.list[0].parent_dir.gen 5"], &[61, 62]),
    damage("parent-directory", "default", &["path /special/symlinks/of-30-bytes", "write -d a.sfattr.list[0].parent_dir.inumber 131"], &[61, 62]),
    damage("internal-inode", "default", &["sb 0", "write -d rsumino 186"], &[12, 72, 78]),
    damage("superblock-unfinished", "default", &["sb 0", "write -d inprogress 1"], &[6]),
    damage("copy-on-write", "default", &["agf 2", "addr refcntroot", "addr ptrs[1]", "write -d recs[336].cowflag 1", "write -d recs[336].refcount 1"], &[1, 31, 34, 37]),
    damage("dot", "default", &["path /directories/block", "dblock 0", "write -d bu[0].inumber 128"], &[52]),
    damage("attribute-half-set", "default", &["path /attributes/leaf", "ablock 0", "write -d entries[1].incomplete 1"], &[60]),
    damage("directory-named-twice", "default", &["path /deep/level-0/level-1/level-2", "write -d u3.sfdir3.list[0].inumber.i4 278514"], &[61, 62, 71, 72]),
    damage("directory-below-itself", "default", &["path /deep/level-0/level-1/level-2", "write -d u3.sfdir3.list[0].inumber.i4 278514", "path /deep/level-0", "write -d u3.sfdir3.list[0].inumber.i4 136"], &[53, 61, 62, 73]),
    damage("attribute-first-name", "default", &["path /attributes/leaf", "ablock 0", "write -d hdr.firstused 1000"], &[1]),
    damage("names-that-cannot-be", "default", &[SHORTFORM, "write -d u3.sfdir3.list[0].name \"a/\"", "path /directories/block", "dblock 0", "write -d bu[2].name \"a-file\\000in-a-block-00\""], &[1]),
    damage("fields-that-verifiers-know", "default", &["path /directories/leaf", "dblock 0", "write -d dhdr.bestfree[0].length 0x100", "agf 1", "write -d lsn 0x20000000001", FILE, "write -d core.extsz 1", "write -d core.extsize 9000", "path /special/symlinks/of-30-bytes", "write -d u3.symlink \"0123\\00056789/0123456789/01234567\"", "path /attributes/leaf", "ablock 0", "write -d nvlist[1].name \"leaf\\000008\""], &[1]),
    damage("holes-of-an-inode-chunk", "default", &["agi 1", "addr root", "write -d recs[1].holemask 0x1"], &[1, 50, 53, 62, 70]),
];

/// Single fields that no verifier looks at, and whose repair keeps the whole tree.
#[rustfmt::skip]
pub const FIELDS: &[Damage] = &[
    field("free-blocks", "default", &[FREE, "write -d core.nblocks 5"], &[74], "make free inode"),
    field("free-version", "default", &[FREE, "write -d core.version 0xf4"], &[74], "make free inode"),
    field("free-number", "default", &[FREE, "write -d v3.inumber 5"], &[74], "make free inode"),
    field("free-checksum", "default", &[FREE, "write -c core.uid 5"], &[74], "make free inode"),
    field("free-next", "default", &[FREE, "write -d next_unlinked 5"], &[74], "make free inode"),
    field("free-flags", "default", &[FREE, "write -d core.flags 1"], &[75], "clear flags 0x1 "),
    field("bitmap-flag", "default", &[FILE, "write -d core.newrtbm 1"], &[75], "clear flags 0x4 "),
    field("directory-flag", "default", &[FILE, "write -d core.rtinherit 1"], &[75], "clear flags 0x100 "),
    field("unknown-flag", "default", &["path /directories", "write -d core.flags 0x8000"], &[75], "clear flags 0x8000 "),
    field("unknown-flag-2", "default", &[FILE, "write -d v3.flags2 0x98"], &[75], "0x80 of the second word"),
    field("nanoseconds", "default", &[FILE, "write -d v3.bigtime 0"], &[76], "numbers of 64 bits"),
    field("hint-without-flag", "default", &[FILE, "write -d core.extsize 5"], &[1], "neutral values"),
    field("flag-without-hint", "default", &[FILE, "write -d core.extsz 1"], &[1], "neutral values"),
    field("copy-flag-without-hint", "default", &[FILE, "write -d v3.cowextsz 1"], &[1], "neutral values"),
    field("reflink-of-directory", "default", &["path /directories", "write -d v3.reflink 1"], &[1], "neutral values"),
    field("realtime", "default", &[FILE, "write -d core.realtime 1"], &[1], "neutral values"),
    field("metadata", "default", &[FILE, "write -d v3.metadata 1"], &[1], "neutral values"),
    field("magic", "default", &[FILE, "write -d core.magic 5"], &[1], "neutral values"),
    field("direct-access", "default", &["path /special/fifo", "write -d v3.dax 1"], &[75], "0x1 of the second word"),
    field("size-of-fifo", "default", &["path /special/fifo", "write -d core.size 77"], &[41], "clear the size"),
    field("unwritten-link", "default", &[LINK, "write -d u3.bmx[0].extentflag 1"], &[36, 37, 77], "as written"),
    field("unwritten-link-without-reverse-map", "no-rmapbt", &[LINK, "write -d u3.bmx[0].extentflag 1"], &[77], "as written"),
    field("link-too-long", "default", &[LINK, "write -d u3.bmx[0].blockcount 2"], &[33, 37, 40, 79], "the block count of the inode agrees"),
    field("stripe-width", "default", &["sb 0", "write -d width 5"], &[78], "superblock"),
    field("realtime-extents", "default", &["sb 0", "write -d rextents 5"], &[78], "superblock"),
    field("unused-bytes", "default", &["sb 1", "write -d meta_uuid 0cd00d0b-6d9a-4a26-b7f7-d7a1e7b0c1e5"], &[78], "superblock in group 1"),
    field("quota-in-a-copy", "default", &["sb 1", "write -d uquotino 5"], &[78], "superblock in group 1"),
    field("log-features-in-a-copy", "default", &["sb 1", "write -d features_log_incompat 2"], &[78], "superblock in group 1"),
    field("second-word-of-features", "default", &["sb 0", "write -d bad_features2 0x18b"], &[78], "superblock"),
    field("free-region-over-entries", "default", &["path /attributes/leaf", "ablock 0", "write -d hdr.freemap[0].base 80"], &[1], "correct a field"),
    field("free-regions-overlap", "default", &["path /attributes/leaf", "ablock 0", "write -d hdr.freemap[1].base 2000", "write -d hdr.freemap[1].size 64"], &[1], "correct a field"),
    field("hash-of-an-attribute", "default", &["path /attributes/leaf", "ablock 0", "write -d entries[3].hashval 0x66d58f3a"], &[1], "correct a field"),
    field("place-of-an-attribute", "default", &["path /attributes/leaf", "ablock 0", "write -d entries[3].nameidx 3356"], &[1], "correct a field"),
    field("count-of-attributes", "default", &["path /attributes/leaf", "ablock 0", "write -d hdr.count 9"], &[1], "correct a field"),
    field("used-bytes-of-attributes", "default", &["path /attributes/leaf", "ablock 0", "write -d hdr.usedbytes 9"], &[1], "correct a field"),
    field("uuid-of-an-inode", "default", &[FILE, "write -d v3.uuid 0cd00d0b-6d9a-4a26-b7f7-d7a1e7b0c1e5"], &[1], "neutral values"),
    field("number-of-an-inode", "default", &[FILE, "write -d v3.inumber 5"], &[1], "neutral values"),
    field("fork-offset", "default", &["path /special/symlinks/of-30-bytes", "write -d core.forkoff 0"], &[1], "neutral values"),
    field("realtime-summary", "default", &["sb 0", "write -d rsumino 131"], &[41, 72, 78], "superblock"),
    field("sparse-alignment", "default", &["sb 0", "write -d spino_align 1"], &[1, 6], "superblock"),
    field("unwritten-and-shared", "default", &["path /extents/shared/copy-0", "write -d u3.bmx[0].extentflag 1"], &[36, 37, 77], "as written"),
    field("features-against-all-copies", "default", &["sb 0", "write -d features_compat 0x80"], &[10], "as its copies say"),
    field("sequence-number", "default", &["agf 1", "write -d lsn 0x9000000000000001"], &[1], "clear the log sequence number"),
    field("sequence-numbers-of-indexes", "default", &["path /attributes/node", "ablock 1", "write -d hdr.info.lsn 0x9000000000000001", "path /directories/node", "dblock 8388608", "write -d nhdr.info.lsn 0x9000000000000001"], &[1], "clear the log sequence number of the directory"),
    field("sequence-number-of-a-link", "default", &[LINK, "dblock 0", "write -d lsn 0x9000000000000001"], &[1], "clear the log sequence number of the remote symbolic link"),
    field("access-list-permissions", "default", &["path /attributes/acl-access", "write -d a.sfattr.list[1].value \"\\000\\000\\000\\006\\000\\000\\000\\001\\377\\377\\377\\377\\000\\006\\000\\000\\000\\000\\000\\002\\000\\000\\003\\350\\001\\004\\000\\000\\000\\000\\000\\004\\377\\377\\377\\377\\000\\004\\000\\000\\000\\000\\000\\010\\000\\000\\000\\144\\000\\007\\000\\000\\000\\000\\000\\020\\377\\377\\377\\377\\000\\006\\000\\000\\000\\000\\000\\040\\377\\377\\377\\377\\000\\000\\000\\000\""], &[1], "; 1 entries"),
    field("access-list-tag", "default", &["path /attributes/acl-access", "write -d a.sfattr.list[1].value \"\\000\\000\\000\\006\\000\\000\\000\\011\\377\\377\\377\\377\\000\\006\\000\\000\\000\\000\\000\\002\\000\\000\\003\\350\\000\\004\\000\\000\\000\\000\\000\\004\\377\\377\\377\\377\\000\\004\\000\\000\\000\\000\\000\\010\\000\\000\\000\\144\\000\\007\\000\\000\\000\\000\\000\\020\\377\\377\\377\\377\\000\\006\\000\\000\\000\\000\\000\\040\\377\\377\\377\\377\\000\\000\\000\\000\""], &[1], "; 1 entries"),
    field("access-list-count", "default", &["path /attributes/acl-access", "write -d a.sfattr.list[1].value \"\\000\\000\\000\\004\\000\\000\\000\\001\\377\\377\\377\\377\\000\\006\\000\\000\\000\\000\\000\\002\\000\\000\\003\\350\\000\\004\\000\\000\\000\\000\\000\\004\\377\\377\\377\\377\\000\\004\\000\\000\\000\\000\\000\\010\\000\\000\\000\\144\\000\\007\\000\\000\\000\\000\\000\\020\\377\\377\\377\\377\\000\\006\\000\\000\\000\\000\\000\\040\\377\\377\\377\\377\\000\\000\\000\\000\""], &[1], "; 0 entries"),
    field("access-list-garbage", "default", &["path /attributes/acl-access", "write -d a.sfattr.list[1].value \"\\377\\377\\377\\377\\377\\377\\377\\377\\377\\377\\377\\377\\377\\377\\377\\377\\377\\377\\377\\377\\377\\377\\377\\377\\377\\377\\377\\377\\377\\377\\377\\377\\377\\377\\377\\377\\377\\377\\377\\377\\377\\377\\377\\377\\377\\377\\377\\377\\377\\377\\377\\377\\377\\377\\377\\377\\377\\377\\377\\377\\377\\377\\377\\377\\377\\377\\377\\377\\377\\377\\377\\377\\377\\377\\377\\377\""], &[1], "nothing is sound"),
    field("mode", "default", &[FILE, "write -d core.mode 0"], &[1], "from what is left of it"),
    field("mode-of-a-directory", "default", &["path /directories", "write -d core.mode 0"], &[1], "from what is left of it"),
    field("mode-of-the-root", "default", &["path /", "write -d core.mode 0"], &[1], "from what is left of it"),
    field("mode-of-a-link", "default", &["path /special/symlinks/of-30-bytes", "write -d core.mode 0"], &[1], "from what is left of it"),
    field("features-of-the-future", "default", &["sb 0", "write -d features_incompat 0x200eb"], &[3, 6], "superblock"),
    field("list-name-length", "default", &["path /special/fifo", "write -d a.sfattr.list[0].namelen 255"], &[1, 61], "correct a field"),
    field("list-size", "default", &["path /special/fifo", "write -d a.sfattr.hdr.totsize 7"], &[1, 61], "correct a field"),
    field("list-flags", "default", &["path /special/symlinks/up", "write -d a.sfattr.list[0].flags 0x13"], &[1, 61], "correct a field"),
    field("list-count", "default", &["path /attributes/acl-default/inherits", "write -d a.sfattr.hdr.count 9"], &[1], "correct a field"),
    field("extent-count", "no-parent", &["path /sparse-inodes/174", "write -d core.nextents 2018"], &[1], "neutral values"),
    field("link-offset", "default", &["path /special/symlinks/of-337-bytes", "dblock 0", "write -d offset 8"], &[1], "correct a field"),
    field("link-owner", "default", &["path /special/symlinks/of-337-bytes", "dblock 0", "write -d owner 8"], &[1], "correct a field"),
    field("link-checksum", "default", &["path /special/symlinks/of-337-bytes", "dblock 0", "write -c crc 8"], &[1], "whose checksum alone is wrong"),
    field("bitmap-beside-the-directory", "metadir", &["sb 3", "write -d rbmino 8"], &[78], "superblock in group 3"),
    field("realtime-groups-without-a-section", "metadir", &["sb 0", "write -d rgcount 8"], &[78], "superblock"),
    field("metadata-outside-the-directory", "metadir", &["path /special/symlinks/up", "write -d v3.metadata 1"], &[1], "neutral values"),
    field("first-hash-of-a-leaf", "default", &["path /attributes/node", "ablock 1", "write -d entries[0].hashval 0"], &[1], "correct a field"),
    field("length-of-an-extent", "no-rmapbt", &[FILE, "write -d u3.bmx[0].blockcount 2000000"], &[1], "extent map"),
    field("size-of-the-bitmap", "default", &["inode 129", "write -d core.size 4096"], &[41], "clear the size"),
    field("type-of-parent", "default", &["path /directories/block", "dblock 0", "write -d bu[1].filetype 1"], &[51], "directory"),
    field("shared-without-the-flag", "default", &["path /extents/shared/copy-0", "write -d v3.reflink 0"], &[44], "shares blocks with others"),
    field("quota-flags", "default", &["sb 0", "write -d qflags 0x10"], &[78], "superblock"),
];

/// As [`FIELDS`], and `xfs_repair -n` does not see them.
#[rustfmt::skip]
pub const UNSEEN: &[Damage] = &[
    field("log-numbers-of-inodes", "default", &[FILE, "write -d v3.lsn 0x20000000001", FREE, "write -d v3.lsn 0x20000000001"], &[45], "clear the log sequence number of inode 186"),
    field("size-of-a-directory", "default", &["path /directories/leaf", "write -d core.size 4096"], &[59], "set the size of directory"),
    field("attributes-twice", "default", &["path /attributes/shortform", "write -d a.sfattr.list[3].root 0", "path /attributes/leaf", "ablock 0", "write -d nvlist[2].name \"leaf0008\"", "write -d entries[2].hashval 0x66d58f36"], &[63], "make the attributes"),
    field("value-of-two-attributes", "default", &["path /attributes/remote", "ablock 0", "write -d nvlist[3].valueblk 0x6", "write -d nvlist[3].valuelen 8080"], &[64], "make the attributes"),
    field("length-of-a-value", "default", &["path /attributes/fragmented", "ablock 0", "write -d nvlist[37].valuelen 0xffffffff"], &[1], "correct a field"),
    field("length-of-a-remote-value", "default", &["path /attributes/remote", "ablock 0", "write -d nvlist[6].valuelen 3073"], &[1], "correct a field of the remote attribute value"),
    field("keys-of-btrees", "default", &["agf 2", "addr rmaproot", "write -d keys[2].startblock 900", "agf 2", "addr refcntroot", "write -d keys[1].startblock 0"], &[21], "allocation group 2 anew"),
    field("siblings-in-btrees", "default", &["agf 2", "addr rmaproot", "addr ptrs[2]", "write -d rightsib 5", "agf 2", "addr refcntroot", "addr ptrs[2]", "write -d leftsib 5", "agf 0", "addr bnoroot", "write -d leftsib 5"], &[1], "allocation group 2 anew"),
    field("neighbour-of-a-node", "default", &["path /directories/node", "dblock 8388608", "write -d nhdr.info.hdr.back 2"], &[1], "directory"),
    field("log-number-of-the-superblock", "default", &["sb 0", "write -d lsn 0x20000000001"], &[1], "new log"),
    field("fields-of-copies", "default", &["sb 1", "write -d uuid 0cd00d0b-6d9a-4a26-b7f7-d7a1e7b0c1e5", "sb 2", "write -d logsunit 65536", "sb 3", "write -d imax_pct 30"], &[10], "superblock in group 3"),
    field("inodes-in-copies", "default", &["sb 1", "write -d rootino 5", "sb 2", "write -d inprogress 2"], &[78], "superblock in group 1"),
];
